"""A server that speaks S3's protocol over a real socket, for tests, as strict as the real one.

async with FakeS3.serve() as s3:
    ...  # endpoint=s3.origin, bucket=s3.bucket, the key f"{s3.key_id}:{s3.secret}"
    s3.faults.append(Fault(status=503, code="SlowDown"))
    assert s3.objects["daycare/..."].data == b"..."

It checks the signature of each request by itself, the hash of its body, its age, what an object's name and size may be,
and answers errors as XML. `objects` may be changed by hand.
"""

import base64
import hashlib
import hmac
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import formatdate
from typing import Final
from urllib.parse import parse_qsl, quote, unquote_plus
from xml.etree import ElementTree
from xml.sax.saxutils import escape

import trio

from daycare.testing.http_server import HttpRequest, HttpServer, ServerConnection

SKEW_MAX_S: Final = 900.0
PAGE_MAX: Final = 1_000
_XMLNS: Final = "http://s3.amazonaws.com/doc/2006-03-01/"
_NAME_MAX_BYTES: Final = 1_024


@dataclass
class StoredObject:
    """An object, with the headers `x-amz-meta-...` that came with it, and when (seconds of the server's clock)."""

    data: bytes
    at_s: float
    meta: dict[str, str] = field(default_factory=dict)


@dataclass
class Fault:
    """What happens to one request of `method`, any by default.

    It is refused with `status` and `code`; or nothing comes, `silent`; or the connection ends after so many bytes of
    the answer's body, `cut`, or before the answer, `lost`; `late` it was done before that.
    """

    status: int = 0
    code: str = "InternalError"
    method: str = ""
    silent: bool = False
    cut: int | None = None
    lost: bool = False
    late: bool = False


class _S3RefusedError(Exception):
    def __init__(self, status: int, code: str, message: str = "") -> None:
        super().__init__(code)
        self.status, self.code, self.message = status, code, message or code


class FakeS3(HttpServer):
    """The server. `asked` are the requests it got, method and target each.

    `hold` is called once an object is there, before the answer. `now_s` is its clock, `page_max` how many objects it
    lists at once. `token` is what an account of some hours has to send.
    """

    def __init__(self, port: int = 0, bucket: str = "files", now_s: Callable[[], float] = time.time) -> None:
        super().__init__(port)
        self.bucket = bucket
        self.region = "us-east-1"
        self.key_id, self.secret, self.token = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", ""
        self.objects: dict[str, StoredObject] = {}
        self.asked: list[tuple[str, str]] = []
        self.faults: list[Fault] = []
        self.hold: Callable[[HttpRequest], Awaitable[None]] | None = None
        self.refused_names: set[str] = set()  # of a multiple deletion
        self.now_s = now_s
        self.page_max = PAGE_MAX

    @property
    def key(self) -> str:
        """The account as daycare stores it."""
        return ":".join(filter(None, (self.key_id, self.secret, self.token)))

    async def _answer(self, connection: ServerConnection, request: HttpRequest) -> bool:
        self.asked.append((request.method, request.target))
        fault = self._fault(request)
        if fault is not None and not fault.late and (fault.silent or fault.lost):
            return await self._vanish(fault)
        try:
            if fault is not None and fault.status and not fault.late:
                raise _S3RefusedError(fault.status, fault.code)
            self._check(request)
            status, body, headers = self._done(request)
            if self.hold is not None:
                await self.hold(request)
        except _S3RefusedError as refused:
            said = f"<Code>{refused.code}</Code><Message>{escape(refused.message)}</Message>"
            said += f"<AWSAccessKeyId>{self.key_id}</AWSAccessKeyId><RequestId>1</RequestId>"
            status, body, headers = refused.status, _xml(f"<Error>{said}</Error>"), {"Content-Type": "application/xml"}
        if fault is not None and (fault.silent or fault.lost):
            return await self._vanish(fault)
        headers |= {"Date": formatdate(self.now_s(), usegmt=True), "Server": "FakeS3"}
        return await connection.answer(status, body, headers, None if fault is None else fault.cut)

    def _fault(self, request: HttpRequest) -> Fault | None:
        for place, each in enumerate(self.faults):
            if each.method in ("", request.method):
                return self.faults.pop(place)
        return None

    async def _vanish(self, fault: Fault) -> bool:
        if fault.silent:
            await trio.sleep_forever()
        return False

    # -- who asks ------------------------------------------------------------------------------------------------------

    def _check(self, request: HttpRequest) -> None:
        """Check the signature, by the words of the protocol's description. Raises for what is wrong with it."""
        kind, _, rest = request.headers.get("authorization", "").partition(" ")
        if not kind:
            raise _S3RefusedError(403, "AccessDenied")
        fields = dict(part.strip().partition("=")[::2] for part in rest.split(","))
        scope = fields.get("Credential", "").split("/")
        if kind != "AWS4-HMAC-SHA256" or len(scope) != 5 or "Signature" not in fields:
            raise _S3RefusedError(400, "AuthorizationHeaderMalformed")
        key_id, day, region, service, end = scope
        if key_id != self.key_id:
            raise _S3RefusedError(403, "InvalidAccessKeyId")
        if (region, service, end) != (self.region, "s3", "aws4_request"):
            raise _S3RefusedError(400, "AuthorizationHeaderMalformed", f"the region is not '{self.region}'")
        moment = request.headers.get("x-amz-date", "")
        at = datetime.strptime(moment, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        if abs(at.timestamp() - self.now_s()) > SKEW_MAX_S or moment[:8] != day:
            raise _S3RefusedError(403, "RequestTimeTooSkewed")
        if request.headers.get("x-amz-security-token", "") != self.token:
            raise _S3RefusedError(403, "InvalidToken")
        names = fields["SignedHeaders"].split(";")
        must = {"host", *(name for name in request.headers if name.startswith("x-amz-"))}
        if names != sorted(names) or not must <= set(names) or "x-amz-content-sha256" not in names:
            raise _S3RefusedError(403, "AccessDenied", "There were headers which were not signed")
        digest = request.headers["x-amz-content-sha256"]
        pairs = sorted(tuple(map(_again, each.partition("=")[::2])) for each in request.query.split("&") if each)
        canonical = [request.method, quote(request.path, safe="/-_.~"), "&".join(f"{a}={b}" for a, b in pairs)]
        canonical += [f"{name}:{' '.join(request.headers.get(name, '').split())}" for name in names]
        whole = "\n".join([*canonical, "", ";".join(names), digest])
        said = f"AWS4-HMAC-SHA256\n{moment}\n{'/'.join(scope[1:])}\n{hashlib.sha256(whole.encode()).hexdigest()}"
        key = ("AWS4" + self.secret).encode()
        for each in scope[1:]:
            key = hmac.new(key, each.encode(), hashlib.sha256).digest()
        if hmac.new(key, said.encode(), hashlib.sha256).hexdigest() != fields["Signature"]:
            raise _S3RefusedError(403, "SignatureDoesNotMatch", f"<{whole}>")
        if hashlib.sha256(request.body).hexdigest() != digest:
            raise _S3RefusedError(400, "XAmzContentSHA256Mismatch")
        md5 = base64.b64encode(hashlib.md5(request.body, usedforsecurity=False).digest()).decode()
        if request.headers.get("content-md5", md5) != md5:
            raise _S3RefusedError(400, "BadDigest")

    # -- what is asked for ---------------------------------------------------------------------------------------------

    def _done(self, request: HttpRequest) -> tuple[int, bytes, dict[str, str]]:
        path = request.path
        if request.headers["host"].startswith(f"{self.bucket}."):
            path = f"/{self.bucket}{path}"
        bucket, _, name = path.removeprefix("/").partition("/")
        query = dict(parse_qsl(request.query, keep_blank_values=True))
        if bucket != self.bucket:
            raise _S3RefusedError(404, "NoSuchBucket")
        if request.method == "GET" and not name and query.get("list-type") == "2":
            return 200, self._page(query), {"Content-Type": "application/xml"}
        if request.method == "POST" and not name and "delete" in query:
            return 200, self._delete(request), {"Content-Type": "application/xml"}
        if request.method == "PUT" and name and not query:
            return self._put(name, request)
        if request.method == "GET" and name and not query:
            return self._get(name, request)
        raise _S3RefusedError(405, "MethodNotAllowed")

    def _put(self, name: str, request: HttpRequest) -> tuple[int, bytes, dict[str, str]]:
        if len(name.encode()) > _NAME_MAX_BYTES:
            raise _S3RefusedError(400, "KeyTooLongError")
        if "content-length" not in request.headers:
            raise _S3RefusedError(411, "MissingContentLength")
        meta = {each: value for each, value in request.headers.items() if each.startswith("x-amz-meta-")}
        self.objects[name] = StoredObject(request.body, self.now_s(), meta)
        return 200, b"", {"ETag": _etag(request.body)}

    def _get(self, name: str, request: HttpRequest) -> tuple[int, bytes, dict[str, str]]:
        found = self.objects.get(name)
        if found is None:
            raise _S3RefusedError(404, "NoSuchKey", "The specified key does not exist.")
        headers = {"ETag": _etag(found.data), "Content-Type": "application/octet-stream", **found.meta}
        wanted = request.headers.get("range", "")
        if not wanted:
            return 200, found.data, headers
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        if int(first) >= len(found.data):
            raise _S3RefusedError(416, "InvalidRange")
        part = found.data[int(first) : int(last) + 1]
        headers["Content-Range"] = f"bytes {first}-{int(first) + len(part) - 1}/{len(found.data)}"
        return 206, part, headers

    def _page(self, query: dict[str, str]) -> bytes:
        prefix = query.get("prefix", "")
        after = query.get("continuation-token") or query.get("start-after", "")
        most = min(int(query.get("max-keys", PAGE_MAX)), self.page_max)
        names = sorted(name for name in self.objects if name.startswith(prefix) and name > after)
        shown = names[:most]
        lines = [f"<Name>{self.bucket}</Name><Prefix>{escape(prefix)}</Prefix><KeyCount>{len(shown)}</KeyCount>"]
        lines += [f"<MaxKeys>{most}</MaxKeys><IsTruncated>{str(len(names) > most).lower()}</IsTruncated>"]
        if len(names) > most:
            lines.append(f"<NextContinuationToken>{escape(shown[-1])}</NextContinuationToken>")
        for name in shown:
            it = self.objects[name]
            at = datetime.fromtimestamp(it.at_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
            lines.append(
                f"<Contents><Key>{escape(name)}</Key><LastModified>{at}</LastModified><ETag>{_etag(it.data)}</ETag>"
                f"<Size>{len(it.data)}</Size><StorageClass>STANDARD</StorageClass></Contents>"
            )
        return _xml(f'<ListBucketResult xmlns="{_XMLNS}">{"".join(lines)}</ListBucketResult>')

    def _delete(self, request: HttpRequest) -> bytes:
        if "content-md5" not in request.headers:
            raise _S3RefusedError(400, "InvalidRequest", "Missing required header for this request: Content-MD5")
        try:
            root = ElementTree.fromstring(request.body)
        except ElementTree.ParseError:
            raise _S3RefusedError(400, "MalformedXML") from None
        names = [each.text or "" for each in root.iter(f"{{{_XMLNS}}}Key")]
        if not 1 <= len(names) <= PAGE_MAX:
            raise _S3RefusedError(400, "MalformedXML")
        lines = []
        for name in names:
            if name in self.refused_names:
                lines.append(f"<Error><Key>{escape(name)}</Key><Code>AccessDenied</Code><Message>No</Message></Error>")
            else:
                self.objects.pop(name, None)
        return _xml(f'<DeleteResult xmlns="{_XMLNS}">{"".join(lines)}</DeleteResult>')


def _again(text: str) -> str:
    """Return a part of a query as it is signed."""
    return quote(unquote_plus(text), safe="-_.~")


def _etag(data: bytes) -> str:
    return f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'


def _xml(text: str) -> bytes:
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}'.encode()
