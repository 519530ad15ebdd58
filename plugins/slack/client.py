"""A small client of Slack's Web API: calls, files both ways. It makes each call once; retries are the host's.

Tokens stand in a header alone, are read for each call, and are sent to no host but the API's and those of files.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final, Self
from urllib.parse import urlsplit

import httpx
import msgspec
import trio

from daycare.base.connector import Attachment
from daycare.base.errors import AwayError, BusyError, InvalidError, NotFoundError, UnavailableError
from daycare.messenger.http import LOOPBACK, body_of, of_http, too_large
from daycare.messenger.json_paths import at, text_at
from daycare_plugins.slack.failures import PACE_S, REFUSED, SLACK, TOKEN_HINT, of_name
from daycare_plugins.slack.settings import SlackWorkspaceSettings

CONNECT_S: Final = 5.0
CALL_S: Final = 15.0  # for an answer
UPLOAD_S: Final = 15.0  # besides the time that its bytes take
FILES_READ: Final = "does the app have the scope files:read?"
HOSTS: Final = "file_hosts in [plugins.slack]"
DOWNLOAD_S: Final = 110.0  # a file of 20 MB over 2 Mbit/s
CLOSE_S: Final = 2.0
CONNECTIONS_MAX: Final = 16  # as many as replies of one connector go out at the same time
ANSWER_MAX_BYTES: Final = 4 * 1024 * 1024  # a page of a thousand channels has about one


class SlackApi:
    """One workspace's Web API. Use it as `async with SlackApi(...) as api`; it makes no call by itself.

    `token` and `app_token` are asked for each call. `transport` is httpx's, for tests.
    """

    def __init__(
        self,
        settings: SlackWorkspaceSettings,
        token: Callable[[], str],
        app_token: Callable[[], str] = str,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._settings = settings
        self._url = settings.base_url.rstrip("/")
        self._token = token
        self._app_token = app_token
        self._http = httpx.AsyncClient(
            timeout=httpx.Timeout(CALL_S, connect=CONNECT_S, pool=CONNECT_S),
            limits=httpx.Limits(max_connections=CONNECTIONS_MAX),
            trust_env=transport is None and urlsplit(self._url).hostname not in LOOPBACK,
            transport=transport,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        with trio.move_on_after(CLOSE_S, shield=True):
            await self._http.aclose()

    # == calls =========================================================================================================

    async def call(self, method: str, /, **params: Any) -> dict[str, Any]:
        """Call any method and return its answer; None is left out. Raises `DaycareError` as `failures` says."""
        return await self._post(method, params, self._token)

    async def open_link(self) -> str:
        """Return the address of a new Socket Mode connection, which is good for one connection, for a short time."""
        answer = await self._post("apps.connections.open", {}, self._app_token)
        url = text_at(answer, "url")
        if urlsplit(url).scheme not in ("ws", "wss"):
            raise UnavailableError("SLACK_DOWN", "calling apps.connections.open: the answer has no address")
        return url

    async def upload(self, file: Attachment) -> str:
        """Upload a file; return its id. Nobody sees it before it is shared, so each failure may be repeated."""
        doing = "uploading a file"
        begun = await self.call("files.getUploadURLExternal", filename=file.name, length=file.size)
        url, number = text_at(begun, "upload_url"), text_at(begun, "file_id")
        if not number or not self._may_ask(url):
            raise InvalidError("SLACK_UPLOAD", f"{doing}: Slack names a host that is not listed", hint=HOSTS)
        with _in_time(doing, UPLOAD_S + file.travel_s):
            try:
                sent = {"file": (file.name, file.data, file.media_type or "application/octet-stream")}
                response = await self._http.post(url, files=sent, timeout=UPLOAD_S + file.travel_s)
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                problem = of_http(error, doing, SLACK)
                raise UnavailableError("NOT_SENT", problem.message, retry_after_s=problem.retry_after_s) from None
        if response.status_code != httpx.codes.OK:
            raise UnavailableError("NOT_SENT", f"{doing}: HTTP {response.status_code}")
        return number

    async def download(self, number: str, max_bytes: int) -> bytes:
        """Return a file that somebody sent. Raises `InvalidError` FILE_TOO_LARGE, `NotFoundError` FILE_GONE."""
        doing = "downloading a file"
        about = at(await self.call("files.info", file=number), "file")
        size, url = at(about, "size"), text_at(about, "url_private_download") or text_at(about, "url_private")
        if type(size) is int and size > max_bytes:
            raise too_large(max_bytes)
        if not self._may_ask(url):
            raise NotFoundError("FILE_ELSEWHERE", f"{doing}: it is on a host that is not listed", hint=HOSTS)
        with _in_time(doing, DOWNLOAD_S):
            async with self._stream(doing, "GET", url, self._token) as response:
                kind = response.headers.get("content-type", "")
                if response.status_code in (401, 403, 404, 410) or response.is_redirect:
                    raise NotFoundError(
                        "FILE_GONE",
                        f"{doing}: Slack does not hand it out",
                        hint=FILES_READ,
                    )
                if response.status_code != httpx.codes.OK:
                    raise UnavailableError("SLACK_DOWN", f"{doing}: HTTP {response.status_code}")
                body = await body_of(response, max_bytes)
        if body is None:
            raise too_large(max_bytes)
        if kind.startswith("text/html") and not text_at(about, "mimetype").startswith("text/html"):
            raise NotFoundError(
                "FILE_GONE",
                f"{doing}: Slack answers with a page to log in",
                hint=FILES_READ,
            )
        return body

    # == inside ========================================================================================================

    async def _post(self, method: str, params: dict[str, Any], token: Callable[[], str]) -> dict[str, Any]:
        doing = f"calling {method}"
        fields = {name: _field(value) for name, value in params.items() if value is not None}
        with _in_time(doing, CALL_S + CONNECT_S):
            async with self._stream(doing, "POST", f"{self._url}/{method}", token, data=fields) as response:
                body = await body_of(response, ANSWER_MAX_BYTES)
                status, wait = response.status_code, response.headers.get("retry-after", "")
        wait_s = float(wait) if wait.isdecimal() and len(wait) < 6 else None
        if status == httpx.codes.TOO_MANY_REQUESTS:
            wait_s = max(wait_s or PACE_S, 1.0)
            raise BusyError("SLACK_PACE", f"{doing}: Slack asks to wait for {wait_s:g} s", retry_after_s=wait_s)
        try:
            answer = msgspec.json.decode(body) if body else None
        except (msgspec.DecodeError, UnicodeDecodeError):
            answer = None
        if status >= 500 or not isinstance(answer, dict):
            raise UnavailableError(
                "SLACK_DOWN", f"{doing}: Slack's server is out of order (HTTP {status})", retry_after_s=wait_s
            )
        if answer.get("ok") is not True:
            raise of_name(answer.get("error"), doing, needed=answer.get("needed"), retry_after_s=wait_s)
        return answer

    @asynccontextmanager
    async def _stream(
        self, doing: str, method: str, url: str, token: Callable[[], str], **options: Any
    ) -> AsyncIterator[httpx.Response]:
        value = token()
        if not value or not value.isascii() or not value.isprintable() or " " in value:
            raise AwayError(REFUSED, f"{doing}: no usable token is stored", hint=TOKEN_HINT)
        try:
            async with self._http.stream(
                method, url, headers={"Authorization": f"Bearer {value}"}, **options
            ) as response:
                yield response
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise of_http(error, doing, SLACK) from None  # its cause holds the request with its header

    def _may_ask(self, url: str) -> bool:
        """Whether the token, or a file of ours, may be shown there."""
        asked, ours = urlsplit(url), urlsplit(self._url)
        if (asked.scheme, asked.netloc) == (ours.scheme, ours.netloc):
            return True
        return asked.scheme == "https" and asked.port in (None, 443) and asked.hostname in self._settings.file_hosts


def _field(value: Any) -> str:
    """Return a parameter as a form has it: some methods take no JSON, and all take this."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


@contextmanager
def _in_time(doing: str, seconds: float) -> Iterator[None]:
    try:
        with trio.fail_after(seconds):
            yield
    except trio.TooSlowError:
        raise UnavailableError("SLACK_TIMEOUT", f"{doing}: Slack did not answer in time") from None
