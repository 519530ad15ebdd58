"""The client: python-telegram-bot's requests under trio, with a pool of connections for polling and one for the rest.

`BaseRequest` is the library's place for a network backend of one's own: it tells the kinds of refusals apart. Its `Bot`
is left out, as it needs asyncio to start.
"""

import json
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import quote, urlsplit

import httpx
import trio
from telegram import InputFile
from telegram import error as library
from telegram.request import BaseRequest

from daycare.base.errors import (
    BrokenError,
    ForbiddenError,
    NotFoundError,
    UnavailableError,
)
from daycare.messenger.http import LOOPBACK, body_of, too_large
from daycare_plugins.telegram.failures import BOTFATHER, ChatMigratedError, FloodError, described, mapped

__all__ = ["API_URL", "FILE_URL", "ChatMigratedError", "TelegramClient", "described", "mapped"]

API_URL: Final = "https://api.telegram.org/bot"
FILE_URL: Final = "https://api.telegram.org/file/bot"
CONNECT_S: Final = 10.0  # a server that takes longer to accept a connection is away
POOL_S: Final = 5.0  # for a free connection; more callers than connections wait no longer
CALL_S: Final = 30.0  # for an answer; with all before it less than the 60 s that a delivery has
UPLOAD_S: Final = 180.0  # a file of 50 MB over 3 Mbit/s
DOWNLOAD_S: Final = 120.0  # a file of 20 MB over 2 Mbit/s
POLL_SLACK_S: Final = 15.0  # beyond the time that the server was asked to hold a poll
CLOSE_S: Final = 2.0  # a plugin has 5 s to go
CONNECTIONS_MAX: Final = 32  # at 30 calls a second, of which each takes less than a second
POLL_CONNECTIONS_MAX: Final = 2  # a cancelled poll may still hold one for a moment

_TOKEN: Final = re.compile(r"\d+:[A-Za-z0-9_-]+")
_SURELY_METHODS: Final = frozenset(("getMe", "getUpdates", "sendMessage", "getWebhookInfo", "deleteWebhook"))

# Below a warning this library logs the token and what people wrote.
logging.getLogger("telegram").setLevel(logging.WARNING)


class _Pool(BaseRequest):
    """Connections under trio. Answers that are no answers of Telegram are one kind of error, and are not logged."""

    def __init__(self, size: int, transport: httpx.AsyncBaseTransport | None, *, verify: Any, proxies: bool) -> None:
        self.http = httpx.AsyncClient(
            timeout=httpx.Timeout(CALL_S, connect=CONNECT_S, pool=POOL_S),
            limits=httpx.Limits(max_connections=size, max_keepalive_connections=size),
            verify=verify,
            trust_env=proxies,
            transport=transport,
            event_hooks={"request": [_in_one_piece]},
        )

    @property
    def read_timeout(self) -> float:
        return CALL_S

    async def initialize(self) -> None:
        pass

    async def shutdown(self) -> None:
        await self.http.aclose()

    async def do_request(
        self, url: str, method: str, request_data: Any = None, read_timeout: Any = CALL_S, *_: Any, **__: Any
    ) -> tuple[int, bytes]:
        data: _Call = request_data
        write_s = UPLOAD_S if data.files else CALL_S
        timeout = httpx.Timeout(read_timeout, connect=CONNECT_S, write=write_s, pool=POOL_S)
        headers = {"User-Agent": self.USER_AGENT}
        response = await self.http.request(
            method, url, headers=headers, timeout=timeout, data=data.fields, files=data.files or None
        )
        return response.status_code, response.content

    @staticmethod
    def parse_json_payload(payload: bytes) -> dict[str, Any]:
        try:
            answer = json.loads(payload.decode("utf-8", "replace"))
        except (ValueError, RecursionError) as error:
            raise library.TelegramError("Invalid server response") from error
        if not isinstance(answer, dict) or not ("result" in answer or answer.get("ok") is False):
            raise library.TelegramError("Invalid server response")
        parameters = answer.pop("parameters", None)
        if isinstance(parameters, dict):
            numbers = {name: value for name, value in parameters.items() if isinstance(value, (int, float))}
            if "retry_after" in numbers:
                raise FloodError(float(numbers["retry_after"]))
            if "migrate_to_chat_id" in numbers:
                answer["parameters"] = {"migrate_to_chat_id": int(numbers["migrate_to_chat_id"])}
        if not isinstance(answer.get("description", ""), str):
            del answer["description"]
        return answer

    async def fetch(self, url: str, max_bytes: int) -> bytes:
        """Return the body at a URL. Raises httpx's errors, `InvalidToken`, and ours."""
        async with self.http.stream("GET", url, headers={"Accept-Encoding": "identity"}) as response:
            if response.status_code == httpx.codes.UNAUTHORIZED:
                raise library.InvalidToken
            if response.is_server_error:
                raise library.NetworkError("server error")
            if response.status_code != httpx.codes.OK:
                raise NotFoundError("FILE_GONE", "downloading a file: the server has it no longer")
            body = await body_of(response, max_bytes)
        if body is None:
            raise too_large(max_bytes)
        return body


class _Call:
    """The parameters of a call: fields of a form, and files."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        given = {name: value for name, value in params.items() if value is not None}
        self.files = {name: value.field_tuple for name, value in given.items() if isinstance(value, InputFile)}
        self.fields = {
            name: value if isinstance(value, str) else json.dumps(value)
            for name, value in given.items()
            if name not in self.files
        }


class _Body(httpx.AsyncByteStream):
    """A body that leaves nothing open when sending it is cancelled, as the generator of httpx does."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._left: list[bytes] = []

    def __aiter__(self) -> "_Body":
        self._left = [self._content]
        return self

    async def __anext__(self) -> bytes:
        if not self._left:
            raise StopAsyncIteration
        return self._left.pop()


async def _in_one_piece(request: httpx.Request) -> None:
    request.stream = _Body(await request.aread())


class TelegramClient:
    """One bot's connection. Use it as `async with Client(token) as client`; it makes no call by itself.

    `base_url` and `base_file_url` are what stands before the token. With `local_mode` files are read from the paths
    that a local server names. `transport` is for tests.
    """

    def __init__(
        self,
        token: str,
        *,
        base_url: str = API_URL,
        base_file_url: str = FILE_URL,
        local_mode: bool = False,
        transport: Callable[[], httpx.AsyncBaseTransport] | None = None,
    ) -> None:
        self._usable = _TOKEN.fullmatch(token) is not None
        self._proven = False  # a call has succeeded: the token is right
        self._url, self._file_url = f"{base_url}{token}", f"{base_file_url}{token}"
        self._local_mode = local_mode
        secure = base_url.startswith("https:") or base_file_url.startswith("https:")
        verify = httpx.create_ssl_context() if secure and transport is None else False
        proxies = transport is None and urlsplit(base_url).hostname not in LOOPBACK

        def pool(size: int) -> _Pool:
            return _Pool(size, transport() if transport is not None else None, verify=verify, proxies=proxies)

        self._polls, self._calls = pool(POLL_CONNECTIONS_MAX), pool(CONNECTIONS_MAX)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the pools, also when cancelled."""
        with trio.move_on_after(CLOSE_S, shield=True):
            await self._polls.shutdown()
            await self._calls.shutdown()

    async def call(self, method: str, **params: Any) -> Any:
        """Call any method and return its result as JSON; None is left out, files are `telegram.InputFile`.

        Raises `DaycareError` as `mapped` says.
        """
        with_file = "media" in params or any(isinstance(value, InputFile) for value in params.values())
        deadline_s = POOL_S + CONNECT_S + CALL_S + (UPLOAD_S if with_file else 0)
        return await self._within(f"calling {method}", deadline_s, partial(self._post_raw, method, params))

    async def poll(self, offset: int | None, timeout_s: int, limit: int, allowed: Sequence[str]) -> list[Any]:
        """Wait for updates and return them raw, so that one that cannot be read costs no other. Raises as `call`."""
        params = {"offset": offset, "timeout": timeout_s, "limit": limit, "allowed_updates": list(allowed)}
        post = partial(self._post_raw, "getUpdates", params, read_timeout_s=timeout_s + POLL_SLACK_S)
        updates = await self._within("waiting for messages", timeout_s + POLL_SLACK_S + CONNECT_S, post)
        if not isinstance(updates, list):
            raise UnavailableError("TELEGRAM_DOWN", "waiting for messages: the answer is no list of updates")
        return updates

    async def identity(self) -> tuple[int, str]:
        """Return the bot's id and name. Raises as `call`."""
        me = await self.call("getMe")
        if not isinstance(me, dict) or not isinstance(me.get("id"), int):
            raise UnavailableError("TELEGRAM_DOWN", "calling getMe: the answer is no bot")
        return me["id"], str(me.get("username") or "")

    async def download(self, file_id: str, max_bytes: int) -> bytes:
        """Return a file. Raises `InvalidError` FILE_TOO_LARGE, `NotFoundError` FILE_GONE, and as `call`."""
        found = await self.call("getFile", file_id=file_id)
        path = found.get("file_path") if isinstance(found, dict) else None
        if not isinstance(path, str) or not path:
            raise NotFoundError("FILE_GONE", "downloading a file: the server has it no longer")
        size = found.get("file_size")
        if isinstance(size, int) and size > max_bytes:
            raise too_large(max_bytes)
        if path.startswith("/"):
            return await self._read(Path(path), max_bytes)
        url = f"{self._file_url}/{quote(path)}"
        body: bytes = await self._within("downloading a file", DOWNLOAD_S, partial(self._calls.fetch, url, max_bytes))
        return body

    # == inside ========================================================================================================

    async def _post_raw(self, method: str, params: dict[str, Any], read_timeout_s: float = CALL_S) -> Any:
        try:
            result = await self._post(method, params, read_timeout_s)
        except library.InvalidToken as error:
            if "method not found" not in error.message.lower() and (
                error.message != "Not Found" or not await self._is_proven(method)
            ):
                raise
            raise library.EndPointNotFound(method) from None
        except KeyError as error:  # what the library raises for a success without a result
            raise library.TelegramError("Invalid server response") from error
        self._proven = True
        return result

    async def _post(self, method: str, params: Mapping[str, Any], read_timeout_s: float = CALL_S) -> Any:
        pool = self._polls if method == "getUpdates" else self._calls
        form: Any = _Call(params)
        return await pool.post(f"{self._url}/{method}", form, read_timeout=read_timeout_s)

    async def _is_proven(self, method: str) -> bool:
        """Whether the token is right, after a bare 404: some servers answer so to a malformed one, and to a method."""
        if self._proven or method in _SURELY_METHODS:
            return self._proven
        try:
            await self._post("getMe", {})
        except library.InvalidToken:
            return False
        self._proven = True
        return True

    async def _within(self, doing: str, seconds: float, work: Callable[[], Any]) -> Any:
        """Do the work in time, and raise only our errors."""
        if not self._usable:
            raise ForbiddenError("TELEGRAM_TOKEN", f"{doing}: this is no bot's token", hint=BOTFATHER)
        try:
            with trio.fail_after(seconds):
                return await work()
        except (library.TelegramError, FloodError, httpx.HTTPError, httpx.InvalidURL, trio.TooSlowError) as error:
            problem = mapped(error, doing)
        raise problem  # out here, since the error that it comes from has URLs with the token in them

    async def _read(self, path: Path, max_bytes: int) -> bytes:
        """Return a file that a local server has put on our disk."""
        if not self._local_mode:
            raise BrokenError(
                "TELEGRAM_LOCAL_FILE",
                "downloading a file: the server is a local one and keeps its files on disk",
                hint="local_mode = true in [plugins.telegram]",
            )

        def read() -> bytes:
            with path.open("rb") as file:
                return file.read(max_bytes + 1)

        try:
            body = await trio.to_thread.run_sync(read)
        except OSError as error:
            raise NotFoundError("FILE_GONE", f"reading a file of the local server: {error.strerror}") from None
        if len(body) > max_bytes:
            raise too_large(max_bytes)
        return body
