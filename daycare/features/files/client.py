"""One S3-compatible server: requests with their signatures, its answers, and its refusals as errors of ours.

A request that failed in a way that passes is tried again, some times; one that was late is not. The account is read at
each request and stands in no error and no log.
"""

import base64
import hashlib
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Final, NamedTuple
from urllib.parse import urlsplit
from xml.sax.saxutils import escape

import trio

from daycare.agent.blocks import one_line
from daycare.base.clock import Clock
from daycare.base.errors import BrokenError, DaycareError, SetupError, UnavailableError
from daycare.base.files_settings import S3Section
from daycare.features.files.answers import ObjectPage, S3Error, read_deleted, read_error, read_page
from daycare.features.files.signing import S3Credentials, S3Request, signed
from daycare.inference.http_client import ConnectError, HttpAnswer, HttpClient

S3_TRIES: Final = 3
S3_RETRY_S: Final = 0.2  # before the second try, twice that before the third
S3_DELETED_MAX: Final = 1_000  # at once: so many the protocol takes

_BYTES_PER_S: Final = 1_000_000  # over a slow line, on top of `timeout_s`
_XML_MAX_BYTES: Final = 4 * 1024 * 1024  # a page of 1,000 names of 1,024 bytes, each with as much around it
_WORDS_MAX_CHARS: Final = 300
_HASH: Final = "x-amz-meta-sha256"
_BODY_TYPE: Final = "application/octet-stream"


class S3Bytes(NamedTuple):
    """Bytes of an object, how many it has in all, and the SHA-256 that stands beside it, empty for none."""

    data: bytes
    size: int
    sha256: str


class BadObjectError(BrokenError):
    """An object is not there (OBJECT_LOST), or not what was put there (OBJECT_CHANGED)."""


class _PassingError(UnavailableError):
    """What another try may not meet."""


class S3Client:
    """The bucket of `[files.s3]`. `account` returns who asks; it raises where nobody is stored."""

    def __init__(self, section: S3Section, account: Callable[[], S3Credentials], clock: Clock) -> None:
        url = urlsplit(section.endpoint)
        host = url.netloc if section.path_style else f"{section.bucket}.{url.netloc}"
        self._root = f"/{section.bucket}/" if section.path_style else "/"
        self._http = HttpClient(f"{url.scheme}://{host}")
        self._host = host
        self._section = section
        self._account = account
        self._clock = clock
        self.shown = f"{section.bucket} at {url.hostname}"

    async def put(self, name: str, data: bytes, sha256: str) -> None:
        """Put an object there, or in the place of the one that has its name."""
        headers = {"content-type": _BODY_TYPE, _HASH: sha256}
        request = S3Request("PUT", f"{self._root}{name}", (), headers, data, sha256)
        await self._ask(request, f"putting {name}", len(data))

    async def get(self, name: str, offset: int, length: int, size: int) -> S3Bytes:
        """Return bytes of an object that has `size` of them. Raises `BadObjectError`."""
        whole = offset == 0 and length >= size
        headers = {} if whole else {"range": f"bytes={offset}-{offset + length - 1}"}
        what = f"reading {name}"
        answer, data = await self._ask(S3Request("GET", f"{self._root}{name}", (), headers), what, min(length, size))
        total = len(data)
        if not whole:
            span, _, all_ = answer.headers.get("content-range", "").removeprefix("bytes ").partition("/")
            if not (all_.isdecimal() and span == f"{offset}-{offset + len(data) - 1}"):
                raise self._garbled(what, "it did not send the part that was asked for")
            total = int(all_)
        return S3Bytes(data, total, answer.headers.get(_HASH, ""))

    async def delete(self, names: Sequence[str]) -> dict[str, str]:
        """Delete objects, at most `S3_DELETED_MAX`; what is not there counts. Return those that remain, with why."""
        listed = "".join(f"<Object><Key>{escape(name)}</Key></Object>" for name in names)
        body = f'<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Quiet>true</Quiet>{listed}</Delete>'.encode()
        headers = {"content-type": "application/xml", "content-md5": _md5(body)}
        what = "deleting objects"
        _, data = await self._ask(S3Request("POST", self._root, (("delete", ""),), headers, body), what, _XML_MAX_BYTES)
        try:
            left = read_deleted(data)
        except ValueError as error:
            raise self._garbled(what, str(error)) from None
        return {name: _said(error) for name, error in left if error.code != "NoSuchKey"}

    async def page(self, prefix: str, after: str = "", most: int = 1_000) -> tuple[ObjectPage, int]:
        """Return some objects below a prefix, behind a name, and what time it is there (wall ms)."""
        query = [("list-type", "2"), ("prefix", prefix), ("max-keys", str(most))]
        query += [("start-after", after)] if after else []
        what = "listing objects"
        answer, data = await self._ask(S3Request("GET", self._root, tuple(query)), what, _XML_MAX_BYTES)
        try:
            return read_page(data), _date(answer.headers.get("date", ""))
        except ValueError as error:
            raise self._garbled(what, str(error)) from None

    async def aclose(self) -> None:
        """Close what is idle."""
        await self._http.aclose()

    # -- one request -------------------------------------------------------------------------------------------------

    async def _ask(self, request: S3Request, what: str, size: int) -> tuple[HttpAnswer, bytes]:
        """Send a request, again where that may help, and return the answer with its body, of at most `size` bytes."""
        for tried in range(1, S3_TRIES + 1):
            try:
                return await self._once(request, what, size)
            except _PassingError:
                if tried == S3_TRIES:
                    raise
            await trio.sleep(S3_RETRY_S * 2 ** (tried - 1))
        raise AssertionError("the last try returns or raises")

    async def _once(self, request: S3Request, what: str, size: int) -> tuple[HttpAnswer, bytes]:
        account = self._account()
        headers = {
            name.title(): value
            for name, value in signed(request, self._host, account, self._section.region, self._clock.now_ms()).items()
        }
        body = request.body if request.method in ("PUT", "POST") else None
        limit_s = self._section.timeout_s + max(len(request.body), size) / _BYTES_PER_S
        try:
            with trio.fail_after(limit_s):
                answer = await self._http.ask(request.method, request.target, headers, body)
                try:
                    data = await _read(answer, size if answer.status < HTTPStatus.MULTIPLE_CHOICES else _XML_MAX_BYTES)
                finally:
                    await answer.aclose()
        except trio.TooSlowError:
            raise UnavailableError(
                "BUCKET_AWAY", self._failed(what, f"it took longer than {limit_s:.0f} s"), hint="daycare doctor"
            ) from None
        except ConnectError as error:
            raise _PassingError(
                "BUCKET_AWAY", self._failed(what, f"the connection failed: {error}"), hint="[files.s3] endpoint"
            ) from None
        except trio.BrokenResourceError as error:
            why = f"the connection broke: {error or 'the server closed it'}"
            raise _PassingError("BUCKET_AWAY", self._failed(what, why), hint="daycare doctor") from None
        if data is None or answer.status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise BadObjectError("OBJECT_CHANGED", self._failed(what, "it has another size"), hint="daycare health")
        if answer.status not in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT, HTTPStatus.NO_CONTENT):
            raise self._refusal(what, answer, data)
        return answer, data

    def _refusal(self, what: str, answer: HttpAnswer, data: bytes) -> DaycareError:
        try:
            error = read_error(data)
        except ValueError:
            error = S3Error("", "")
        why = f"status {answer.status}: {_said(error)}" if error.code else f"status {answer.status}"
        if answer.status == HTTPStatus.NOT_FOUND and error.code == "NoSuchKey":
            return BadObjectError("OBJECT_LOST", self._failed(what, "it is not there"), hint="daycare health")
        if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR or answer.status in (
            HTTPStatus.TOO_MANY_REQUESTS,
            HTTPStatus.REQUEST_TIMEOUT,
        ):
            return _PassingError("BUCKET_AWAY", self._failed(what, why), hint="daycare doctor")
        if error.code in ("RequestTimeout", "BadDigest", "XAmzContentSHA256Mismatch"):  # it came otherwise than sent
            return _PassingError("BUCKET_AWAY", self._failed(what, why), hint="daycare doctor")
        hint = "[files.s3] in config.toml; daycare keys add s3"
        if error.code == "RequestTimeTooSkewed":
            hint = "set the clock of this machine: daycare doctor"
        elif answer.status in (HTTPStatus.MOVED_PERMANENTLY, HTTPStatus.TEMPORARY_REDIRECT):
            hint = "[files.s3] endpoint and region are those of another region"
        return SetupError("BUCKET_REFUSED", self._failed(what, why), hint=hint)

    def _garbled(self, what: str, why: str) -> DaycareError:
        return UnavailableError("BUCKET_GARBLED", self._failed(what, why), hint="[files.s3] endpoint: is it S3?")

    def _failed(self, what: str, why: str) -> str:
        return f"{what} in the bucket {self.shown}: {why}"


async def _read(answer: HttpAnswer, most: int) -> bytes | None:
    """Return the body of an answer, None for one that is larger."""
    data = bytearray()
    while piece := await answer.read():
        data += piece
        if len(data) > most:
            return None
    return bytes(data)


def _md5(data: bytes) -> str:
    return base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()


def _date(text: str) -> int:
    """Return the time that a header says. Raises `ValueError`."""
    from email.utils import parsedate_to_datetime

    return round(parsedate_to_datetime(text).timestamp() * 1000)


def _said(error: S3Error) -> str:
    return one_line(": ".join(filter(None, error)), _WORDS_MAX_CHARS)
