"""A small client of the Graph API: messages out, files both ways. It makes each call once; retries are the host's.

The token stands in a header alone, is read for each call, and is sent to no host but the API's and those of files.
"""

import hashlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final, Self
from urllib.parse import quote, urlsplit

import httpx
import msgspec
import trio

from daycare.base.connector import Attachment
from daycare.base.errors import AwayError, InvalidError, NotFoundError, UnavailableError
from daycare.messenger.http import LOOPBACK, body_of, of_http, too_large
from daycare_plugins.whatsapp_cloud.failures import META, NOT_SENT, REFUSED, TOKEN_HINT, of_answer, surely_not_sent
from daycare_plugins.whatsapp_cloud.settings import CloudSettings

CONNECT_S: Final = 5.0
CALL_S: Final = 12.0  # for an answer; with a wait for the receipt and an upload before it this stays below 60 s
UPLOAD_S: Final = 15.0  # beside the time that its bytes take
DOWNLOAD_S: Final = 110.0  # a file of 20 MB over 2 Mbit/s
CLOSE_S: Final = 2.0
CONNECTIONS_MAX: Final = 16  # as many as replies of one connector go out at the same time
ANSWER_MAX_BYTES: Final = 256 * 1024  # real ones have some hundred


class Graph:
    """One phone number's side of the API. Use it as `async with Graph(...) as graph`; it makes no call by itself."""

    def __init__(
        self, settings: CloudSettings, token: Callable[[], str], transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self._settings = settings
        self._token = token
        host = urlsplit(settings.base_url).hostname
        self._http = httpx.AsyncClient(
            timeout=httpx.Timeout(CALL_S, connect=CONNECT_S, pool=CONNECT_S),
            limits=httpx.Limits(max_connections=CONNECTIONS_MAX),
            trust_env=transport is None and host not in LOOPBACK,
            transport=transport,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        with trio.move_on_after(CLOSE_S, shield=True):
            await self._http.aclose()

    # == calls =========================================================================================================

    async def number(self) -> dict[str, Any]:
        """Return what Meta knows of our number: that the token may use it."""
        fields = {"fields": "display_phone_number,verified_name"}
        return await self._call("asking for our number", "GET", self._settings.phone_number_id, params=fields)

    async def message(self, payload: dict[str, Any]) -> str:
        """Send a message; return its id. An error that is no `AwayError` and not NOT_SENT may have gone through."""
        doing = f"sending a message ({payload.get('type') or payload.get('status')})"
        answer = await self._post(doing, payload)
        messages = answer.get("messages")
        found = (
            messages[0].get("id") if isinstance(messages, list) and messages and isinstance(messages[0], dict) else ""
        )
        if not isinstance(found, str) or not found:
            raise UnavailableError("GRAPH_DOWN", f"{doing}: the answer names no message")
        return found

    async def mark(self, payload: dict[str, Any]) -> None:
        """Show that a message was read, and that an answer is being written."""
        await self._post("marking a message as read", payload)

    async def upload(self, file: Attachment, media_type: str) -> str:
        """Upload a file; return its id. Nobody sees it before it is sent, so each failure may be repeated."""
        doing = "uploading a file"
        data = {"messaging_product": "whatsapp", "type": media_type}
        path = f"{self._settings.phone_number_id}/media"
        files = {"file": (file.name, file.data, media_type)}
        try:
            answer = await self._call(doing, "POST", path, data=data, files=files, seconds=UPLOAD_S + file.travel_s)
        except UnavailableError as error:
            if surely_not_sent(error):
                raise
            raise UnavailableError(NOT_SENT, error.message, retry_after_s=error.retry_after_s) from None
        found = answer.get("id")
        if not isinstance(found, str) or not found:
            raise UnavailableError(NOT_SENT, f"{doing}: the answer names no file")
        return found

    async def media(self, media_id: str, max_bytes: int) -> bytes:
        """Return a file that somebody sent. Raises `InvalidError` FILE_TOO_LARGE, `NotFoundError` FILE_GONE."""
        doing = "downloading a file"
        with _in_time(doing, DOWNLOAD_S):
            try:
                about = await self._call(
                    doing, "GET", quote(media_id, safe=""), params={"phone_number_id": self._settings.phone_number_id}
                )
            except (InvalidError, NotFoundError) as error:
                raise NotFoundError("FILE_GONE", error.message) from None
            size, url, digest = about.get("file_size"), about.get("url"), about.get("sha256")
            if isinstance(size, int) and size > max_bytes:
                raise too_large(max_bytes)
            if not isinstance(url, str) or not self._may_ask(url):
                raise NotFoundError(
                    "FILE_ELSEWHERE",
                    f"{doing}: it is on a host that is not listed",
                    hint="media_hosts in [plugins.whatsapp_cloud]",
                )
            async with self._stream(doing, "GET", url) as response:
                if response.status_code in (404, 410):
                    raise NotFoundError("FILE_GONE", f"{doing}: it is kept no longer")
                if response.status_code != 200:
                    raise of_answer(response.status_code, None, doing)
                body = await body_of(response, max_bytes)
        if body is None:
            raise too_large(max_bytes)
        if isinstance(digest, str) and len(digest) == 64:
            summed = await trio.to_thread.run_sync(hashlib.sha256, body)
            if summed.hexdigest() != digest.lower():
                raise UnavailableError("FILE_BROKEN", f"{doing}: what came is not what was sent")
        return body

    async def probe(self, url: str, body: bytes, headers: dict[str, str]) -> int:
        """Post to our own webhook by its public address; return the status. No token goes with it."""
        with _in_time("calling our own webhook", CALL_S):
            try:
                async with self._http.stream("POST", url, content=body, headers=headers) as response:
                    return response.status_code
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                raise of_http(error, "calling our own webhook", META) from None

    # == inside ========================================================================================================

    async def _post(self, doing: str, payload: dict[str, Any]) -> dict[str, Any]:
        content = msgspec.json.encode({"messaging_product": "whatsapp"} | payload)
        headers = {"Content-Type": "application/json"}
        path = f"{self._settings.phone_number_id}/messages"
        return await self._call(doing, "POST", path, content=content, headers=headers)

    async def _call(
        self, doing: str, method: str, path: str, *, seconds: float = CALL_S, **options: Any
    ) -> dict[str, Any]:
        url = f"{self._settings.api_url}/{path}"
        with _in_time(doing, seconds + CONNECT_S):
            async with self._stream(doing, method, url, **options) as response:
                body = await body_of(response, ANSWER_MAX_BYTES)
                status, wait = response.status_code, response.headers.get("retry-after", "")
        try:
            tree = msgspec.json.decode(body) if body else None
        except (msgspec.DecodeError, UnicodeDecodeError):
            tree = None
        if status == 200 and isinstance(tree, dict) and "error" not in tree:
            return tree
        if status == 200 and not isinstance(tree, dict):
            raise UnavailableError("GRAPH_DOWN", f"{doing}: the answer cannot be read")
        raise of_answer(status, tree, doing, wait)

    @asynccontextmanager
    async def _stream(self, doing: str, method: str, url: str, **options: Any) -> AsyncIterator[httpx.Response]:
        token = self._token()
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise AwayError(REFUSED, f"{doing}: no usable token is stored", hint=TOKEN_HINT)
        headers = options.pop("headers", {}) | {"Authorization": f"Bearer {token}"}
        try:
            async with self._http.stream(method, url, headers=headers, **options) as response:
                yield response
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise of_http(error, doing, META) from None  # its cause holds the request with its header

    def _may_ask(self, url: str) -> bool:
        """Whether the token may be shown there."""
        asked, ours = urlsplit(url), urlsplit(self._settings.base_url)
        if (asked.scheme, asked.netloc) == (ours.scheme, ours.netloc):
            return True
        return asked.scheme == "https" and asked.port in (None, 443) and asked.hostname in self._settings.media_hosts


@contextmanager
def _in_time(doing: str, seconds: float) -> Iterator[None]:
    try:
        with trio.fail_after(seconds):
            yield
    except trio.TooSlowError:
        raise UnavailableError("GRAPH_TIMEOUT", f"{doing}: Meta's server did not answer in time") from None
