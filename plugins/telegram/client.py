"""python-telegram-bot's client under trio, and its errors as ours.

`telegram.Bot` needs asyncio in two places only, where it starts and ends its two HTTP pools; here they are started and
ended one after the other. That, `_request` and `_post` are private to the library, whose version is therefore pinned
exactly. Its Updater is not used: it confirms updates before anybody has stored them.
"""

import logging
import os
import socket
import ssl
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Self

import httpx
import telegram
import trio
from telegram.error import (
    BadRequest,
    ChatMigrated,
    Conflict,
    EndPointNotFound,
    Forbidden,
    InvalidToken,
    NetworkError,
    RetryAfter,
    TelegramError,
    TimedOut,
)
from telegram.request import HTTPXRequest

from daycare.base.connector import Attachment, Identity
from daycare.base.errors import (
    AwayError,
    BusyError,
    ConflictError,
    DaycareError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    UnavailableError,
)

CONNECT_S: Final = 10.0
ANSWER_S: Final = 20.0  # for a call that is no poll
UPLOAD_S: Final = 50.0  # the host gives a delivery 60 s
POOL_S: Final = 5.0
POLL_SLACK_S: Final = 10.0  # a poll's answer may come so much later than asked for
CONNECTIONS_MAX: Final = 24  # more than the courier's 16 sends: previews and buttons go beside them
FILE_MAX_BYTES: Final = 20_000_000  # what the public server gives out

# The library logs every answer it cannot read, and httpx every address, in which the token stands.
logging.getLogger("httpx").setLevel(logging.WARNING)
logging.getLogger("telegram").setLevel(logging.CRITICAL)
os.environ.setdefault("PTB_TIMEDELTA", "1")  # else the library warns each time that it is told to wait


class ChatMovedError(ConflictError):
    """A group became a supergroup; `new` is its id now."""

    def __init__(self, new: int) -> None:
        super().__init__("CHAT_MIGRATED", f"the group has become a supergroup with the id {new}")
        self.new = new


class Client(telegram.Bot):
    """One bot's client: two pools of connections, one of them for polls alone.

    `transport` replaces the network, for tests on virtual time. Every method raises errors of ours; none shows the
    token.
    """

    def __init__(
        self,
        token: str,
        *,
        base_url: str,
        base_file_url: str,
        local_mode: bool = False,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        more: dict[str, Any] = {"transport": transport} if transport is not None else {}
        polls, calls = (
            HTTPXRequest(
                connection_pool_size=size,
                connect_timeout=CONNECT_S,
                read_timeout=ANSWER_S,
                write_timeout=ANSWER_S,
                media_write_timeout=UPLOAD_S,
                pool_timeout=POOL_S,
                httpx_kwargs=more,
            )
            for size in (2, CONNECTIONS_MAX)
        )
        try:
            super().__init__(
                token,
                base_url=base_url,
                base_file_url=base_file_url,
                request=calls,
                get_updates_request=polls,
                local_mode=local_mode,
            )
        except TelegramError as error:  # an empty token, or one with a line break in it
            raise mapped(error, "using the token") from None
        self._downloads = httpx.AsyncClient(timeout=httpx.Timeout(ANSWER_S, connect=CONNECT_S), **more)
        self._answered = False  # the token was taken once, so that a 404 is about a method

    async def initialize(self) -> None:
        """Open the pools."""
        for request in self._request:
            await request.initialize()
        self._initialized = True

    async def shutdown(self) -> None:
        """Close the pools."""
        for request in self._request:
            await request.shutdown()
        await self._downloads.aclose()
        self._initialized = False

    async def __aenter__(self) -> Self:
        await self.initialize()
        return self

    async def __aexit__(self, *_: object) -> None:
        with trio.CancelScope(shield=True):
            await self.shutdown()

    async def poll(
        self, offset: int | None, timeout_s: int, limit: int, allowed: Sequence[str]
    ) -> list[dict[str, Any]]:
        """Return updates as they came; `offset` confirms all below it. Waits `timeout_s` for the first."""
        params: dict[str, Any] = {"timeout": timeout_s, "limit": limit, "allowed_updates": list(allowed)}
        if offset is not None:
            params["offset"] = offset
        found = await self._send("getUpdates", params, read_timeout=timeout_s + POLL_SLACK_S)
        if not isinstance(found, list):
            raise UnavailableError("TELEGRAM_DOWN", "receiving: the server's answer is no list of updates")
        return found

    async def call(self, method: str, **params: Any) -> Any:
        """Call a method of the Bot API and return its result as JSON. An `Attachment` among the parameters is sent."""
        filled = {
            name: telegram.InputFile(value.data, filename=value.name, attach=False, read_file_handle=False)
            if isinstance(value, Attachment)
            else value
            for name, value in params.items()
            if value is not None
        }
        upload = any(isinstance(value, Attachment) for value in params.values())
        return await self._send(method, filled, read_timeout=UPLOAD_S if upload else ANSWER_S)

    async def identify(self) -> Identity:
        """Return who the bot is."""
        me = await self.call("getMe")
        if not isinstance(me, dict) or not isinstance(me.get("id"), int):
            raise UnavailableError("TELEGRAM_DOWN", "asking who the bot is: the server answered something else")
        return Identity(str(me["id"]), f"@{me.get('username', '')}")

    async def download(self, file_id: str, max_bytes: int) -> bytes:
        """Return a file's bytes. Raises `InvalidError` FILE_TOO_LARGE, as soon as that is known."""
        file = await self.call("getFile", file_id=file_id)
        path = str(file.get("file_path") or "") if isinstance(file, dict) else ""
        if not path:
            raise NotFoundError("FILE_GONE", "fetching a file: Telegram does not have it any longer")
        if int(file.get("file_size") or 0) > max_bytes:
            raise _too_large(max_bytes)
        if Path(path).is_absolute():
            if not self.local_mode:
                raise InvalidError(
                    "LOCAL_MODE",
                    "fetching a file: the server names a path on its own disk",
                    hint="set local_mode = true in [plugins.telegram] if it is this machine's",
                )
            return await _read(path, max_bytes)
        return await self._fetch(f"{self.base_file_url}/{path}", max_bytes)

    async def _fetch(self, url: str, max_bytes: int) -> bytes:
        found = bytearray()
        try:
            async with self._downloads.stream("GET", url) as answer:
                if answer.status_code == 404:
                    raise NotFoundError("FILE_GONE", "fetching a file: Telegram does not have it any longer")
                if not answer.is_success:
                    raise UnavailableError("TELEGRAM_DOWN", f"fetching a file: status {answer.status_code}")
                async for piece in answer.aiter_bytes():
                    found += piece
                    if len(found) > max_bytes:
                        raise _too_large(max_bytes)
        except httpx.HTTPError as error:
            raise _network(error, "fetching a file") from None
        return bytes(found)

    async def _send(self, method: str, params: dict[str, Any], *, read_timeout: float) -> Any:
        try:
            found = await self._post(method, api_kwargs=params, read_timeout=read_timeout)
        except InvalidToken as error:
            if self._answered and "Not Found" in error.message:
                raise InvalidError(
                    "TELEGRAM_METHOD", f"calling {method}: this server does not know it", hint="use a newer one"
                ) from None
            raise mapped(error, f"calling {method}") from None
        except (TelegramError, KeyError, TypeError) as error:  # the latter for JSON that is no answer
            raise mapped(error, f"calling {method}") from None
        self._answered = True
        return found


def mapped(error: Exception, doing: str) -> DaycareError:
    """Return an error of python-telegram-bot as one of ours; the class says what can be done about it."""
    if isinstance(error, RetryAfter):
        wait = error.retry_after
        seconds = wait.total_seconds() if isinstance(wait, timedelta) else float(wait)
        return BusyError("TELEGRAM_FLOOD", f"{doing}: Telegram wants a pause of {seconds:g} s", retry_after_s=seconds)
    if isinstance(error, ChatMigrated):
        return ChatMovedError(error.new_chat_id)
    if isinstance(error, InvalidToken | EndPointNotFound):
        return ForbiddenError(
            "TELEGRAM_TOKEN", f"{doing}: Telegram does not take the token", hint="copy it from @BotFather once more"
        )
    if isinstance(error, Conflict):
        return ConflictError("TELEGRAM_CONFLICT", f"{doing}: {error.message}")
    if isinstance(error, Forbidden):
        return ForbiddenError("RECIPIENT_GONE", f"{doing}: {error.message}")
    if isinstance(error, BadRequest):
        return _refused(error.message, doing)
    if isinstance(error, TimedOut | NetworkError):
        return _network(error.__cause__, doing, error.message)
    return UnavailableError("TELEGRAM_DOWN", f"{doing}: the server's answer cannot be read")


_REFUSALS: Final[tuple[tuple[str, type[DaycareError], str], ...]] = (
    ("chat not found", NotFoundError, "CHAT_GONE"),
    ("user not found", NotFoundError, "CHAT_GONE"),
    ("peer_id_invalid", NotFoundError, "CHAT_GONE"),
    ("group chat was deactivated", ForbiddenError, "RECIPIENT_GONE"),
    ("not enough rights", ForbiddenError, "RECIPIENT_GONE"),
    ("have no rights to send", ForbiddenError, "RECIPIENT_GONE"),
    ("need administrator rights", ForbiddenError, "RECIPIENT_GONE"),
    ("can't parse", InvalidError, "TELEGRAM_MARKUP"),
    ("entity", InvalidError, "TELEGRAM_MARKUP"),
    ("message is not modified", InvalidError, "NOT_MODIFIED"),
    ("message to be replied not found", NotFoundError, "QUESTION_GONE"),
    ("message to reply not found", NotFoundError, "QUESTION_GONE"),
    ("replied message not found", NotFoundError, "QUESTION_GONE"),
    ("message thread not found", NotFoundError, "TOPIC_GONE"),
    ("topic_closed", ForbiddenError, "TOPIC_CLOSED"),
    ("message to edit not found", NotFoundError, "MESSAGE_GONE"),
    ("message to delete not found", NotFoundError, "MESSAGE_GONE"),
    ("message can't be", NotFoundError, "MESSAGE_GONE"),
    ("message_id_invalid", NotFoundError, "MESSAGE_GONE"),
    ("message is too long", InvalidError, "MESSAGE_TOO_LONG"),
    ("caption is too long", InvalidError, "MESSAGE_TOO_LONG"),
    ("text is empty", InvalidError, "MESSAGE_EMPTY"),
    ("text must be non-empty", InvalidError, "MESSAGE_EMPTY"),
    ("file is too big", InvalidError, "FILE_TOO_LARGE"),
    ("request entity too large", InvalidError, "FILE_TOO_LARGE"),
    ("effect", InvalidError, "TELEGRAM_EFFECT"),
    ("query is too old", NotFoundError, "BUTTON_GONE"),
    ("query id is invalid", NotFoundError, "BUTTON_GONE"),
)


def _refused(description: str, doing: str) -> DaycareError:
    low = description.lower()
    for words, kind, code in _REFUSALS:
        if words in low:
            return kind(code, f"{doing}: {description}")
    return InvalidError("TELEGRAM_REFUSED", f"{doing}: {description}")


def _network(cause: BaseException | None, doing: str, message: str = "") -> DaycareError:
    """Return what a broken connection means: whether the call surely did not arrive, and what to look at."""
    if isinstance(cause, httpx.PoolTimeout):
        return AwayError("NOT_SENT", f"{doing}: too many calls at the same time", retry_after_s=POOL_S)
    if isinstance(cause, httpx.ConnectTimeout):
        return AwayError("TELEGRAM_UNREACHABLE", f"{doing}: the server takes no connection within {CONNECT_S:g} s")
    if isinstance(cause, httpx.ConnectError | httpx.ProxyError):
        return _unconnected(cause, doing)
    if isinstance(cause, httpx.TimeoutException):
        return UnavailableError("TELEGRAM_TIMEOUT", f"{doing}: no answer in time")
    if isinstance(cause, httpx.InvalidURL | httpx.UnsupportedProtocol):
        return InvalidError("TELEGRAM_URL", f"{doing}: the server's address is wrong", hint="daycare config check")
    if isinstance(cause, httpx.HTTPError):
        return UnavailableError("TELEGRAM_BROKEN", f"{doing}: the connection broke ({type(cause).__name__})")
    status = message.rpartition("(")[2].partition(")")[0]
    what = f"status {status}" if status.isdecimal() else "an error of its own"
    return UnavailableError("TELEGRAM_DOWN", f"{doing}: the server answered with {what}")


def _unconnected(error: BaseException, doing: str) -> AwayError:
    why: BaseException | None = error
    while why is not None:
        if isinstance(why, socket.gaierror):
            return AwayError(
                "TELEGRAM_DNS", f"{doing}: the server's name cannot be looked up", hint="check the network"
            )
        if isinstance(why, ssl.SSLError):
            reason = why.reason or "the connection is not secure"
            return AwayError("TELEGRAM_TLS", f"{doing}: {reason}", hint="check the clock and what stands in between")
        why = why.__cause__ or why.__context__
    return AwayError("TELEGRAM_UNREACHABLE", f"{doing}: the server cannot be reached", hint="check the network")


async def _read(path: str, max_bytes: int) -> bytes:
    try:
        async with await trio.open_file(path, "rb") as file:
            data: bytes = await file.read(max_bytes + 1)
    except OSError as error:
        raise NotFoundError("FILE_GONE", f"fetching a file from the local server: {error.strerror}") from error
    if len(data) > max_bytes:
        raise _too_large(max_bytes)
    return data


def _too_large(max_bytes: int) -> InvalidError:
    return InvalidError("FILE_TOO_LARGE", f"fetching a file: it has more than {max_bytes} bytes")
