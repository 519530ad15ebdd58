"""HTTP/1.1 as it is taken here: what two programs may read differently is refused, and HTTP/2 is not spoken.

h11 forgives lines that end without CR, headers that are folded, and a length beside chunks. A proxy in front of it may
read them otherwise; then what is a body for one of them is a request for the other, with the rights of somebody else.
"""

from typing import Any, Final

import h11

HEAD_MAX_BYTES: Final = 16 * 1024  # of the request line and all headers
HEADERS_MAX: Final = 100

_VERSIONS: Final = (b"1.0", b"1.1")
_BAD_REQUEST: Final = 400
_HEAD_TOO_LARGE: Final = 431
_VERSION_UNKNOWN: Final = 505


class StrictConnection(h11.Connection):
    """The server's side of a connection. `next_event` raises `h11.RemoteProtocolError` for what is refused."""

    def __init__(self) -> None:
        super().__init__(h11.SERVER, max_incomplete_event_size=HEAD_MAX_BYTES)

    @property
    def head_begun(self) -> bool:
        """Whether a part of a request's head has come, and not all of it."""
        return self.their_state is h11.IDLE and bool(self.trailing_data[0])

    def next_event(self) -> Any:
        """Return what came next, as h11 does."""
        if self.their_state is h11.IDLE:
            _check_head(self.trailing_data[0].partition(b"\r\n\r\n")[0])
        event = super().next_event()
        return _checked(event) if isinstance(event, h11.Request) else event


def _check_head(head: bytes) -> None:
    if len(head) > HEAD_MAX_BYTES:
        raise h11.RemoteProtocolError("the head is too long", error_status_hint=_HEAD_TOO_LARGE)
    if head.count(b"\n") != head.count(b"\r\n"):
        raise h11.RemoteProtocolError("a line ends without CR", error_status_hint=_BAD_REQUEST)
    if b"\n " in head or b"\n\t" in head:
        raise h11.RemoteProtocolError("a header is folded", error_status_hint=_BAD_REQUEST)


def _checked(request: h11.Request) -> h11.Request:
    """Return a request without the wish to go on in HTTP/2, which may be ignored."""
    headers = list(request.headers)
    names = {name for name, _ in headers}
    if request.http_version not in _VERSIONS:
        raise h11.RemoteProtocolError("an unknown version", error_status_hint=_VERSION_UNKNOWN)
    if len(headers) > HEADERS_MAX:
        raise h11.RemoteProtocolError("too many headers", error_status_hint=_HEAD_TOO_LARGE)
    if b"transfer-encoding" in names and (b"content-length" in names or request.http_version == _VERSIONS[0]):
        raise h11.RemoteProtocolError("chunks and a length", error_status_hint=_BAD_REQUEST)
    kept = [(name, value) for name, value in headers if name != b"upgrade" or value.strip().lower() == b"websocket"]
    if len(kept) == len(headers):
        return request
    return h11.Request(method=request.method, target=request.target, headers=kept, http_version=request.http_version)
