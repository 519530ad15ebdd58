"""HTTP/1.1 as it is taken here: what two programs may read differently is refused, and HTTP/2 is not spoken.

h11 forgives lines that end without CR, headers that are folded, and a length beside chunks. A proxy in front of it may
read them otherwise; then what is a body for one of them is a request for the other, with the rights of somebody else.
"""

from typing import Any, Final

import h11
import msgspec

from daycare.api.errors import error_view
from daycare.base.errors import InvalidError

HEAD_MAX_BYTES: Final = 16 * 1024  # of the request line and all headers
HEADERS_MAX: Final = 100

_VERSIONS: Final = (b"1.0", b"1.1")
_BAD_REQUEST: Final = 400
_HEAD_TOO_LARGE: Final = 431
_VERSION_UNKNOWN: Final = 505


class HeadRefused(h11.RemoteProtocolError):
    """A request that h11 would take. Unlike h11's own errors it quotes nothing of the request."""


class StrictConnection(h11.Connection):
    """The server's side of a connection. `next_event` raises `h11.RemoteProtocolError` for what is refused."""

    def __init__(self) -> None:
        super().__init__(h11.SERVER, max_incomplete_event_size=HEAD_MAX_BYTES)
        self._refused = ""  # why
        self._without_body = False

    @property
    def head_begun(self) -> bool:
        """Whether a part of a request's head has come, and not all of it."""
        return self.their_state is h11.IDLE and bool(self.trailing_data[0])

    def next_event(self) -> Any:
        """Return what came next, as h11 does."""
        try:
            if self.their_state is h11.IDLE:
                _check_head(self.trailing_data[0].partition(b"\r\n\r\n")[0])
            event = super().next_event()
            if not isinstance(event, h11.Request):
                return event
            self._without_body = event.method == b"HEAD"
            return _checked(event)
        except h11.RemoteProtocolError as error:
            self._refused = (
                str(error) if isinstance(error, HeadRefused) else "its head, or a part of its body, is malformed"
            )
            raise

    def send(self, event: Any) -> Any:
        """Return an event as bytes; what refuses a request says why."""
        if not self._refused or self._without_body or not isinstance(event, h11.Response):
            return super().send(event)
        error = InvalidError("REQUEST_UNREADABLE", f"reading a request: {self._refused}", hint="doc/extend/network.md")
        body = msgspec.json.encode({"error": error_view(error)})
        kept = [each for each in event.headers if each[0] != b"content-length"]
        headers = [*kept, (b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        head = super().send(h11.Response(status_code=event.status_code, headers=headers)) or b""
        return head + (super().send(h11.Data(data=body)) or b"")


def _check_head(head: bytes) -> None:
    if len(head) > HEAD_MAX_BYTES:
        raise HeadRefused("the head is too long", error_status_hint=_HEAD_TOO_LARGE)
    if head.count(b"\n") != head.count(b"\r\n"):
        raise HeadRefused("a line ends without CR", error_status_hint=_BAD_REQUEST)
    if b"\n " in head or b"\n\t" in head:
        raise HeadRefused("a header is folded", error_status_hint=_BAD_REQUEST)


def _checked(request: h11.Request) -> h11.Request:
    """Return a request without the wish to go on in HTTP/2, which may be ignored."""
    headers = list(request.headers)
    names = {name for name, _ in headers}
    if request.http_version not in _VERSIONS:
        raise HeadRefused("an unknown version", error_status_hint=_VERSION_UNKNOWN)
    if len(headers) > HEADERS_MAX:
        raise HeadRefused("too many headers", error_status_hint=_HEAD_TOO_LARGE)
    if b"transfer-encoding" in names and (b"content-length" in names or request.http_version == _VERSIONS[0]):
        raise HeadRefused("chunks and a length", error_status_hint=_BAD_REQUEST)
    kept = [(name, value) for name, value in headers if name != b"upgrade" or value.strip().lower() == b"websocket"]
    if len(kept) == len(headers):
        return request
    return h11.Request(method=request.method, target=request.target, headers=kept, http_version=request.http_version)
