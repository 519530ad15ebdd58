"""What is used of Hypercorn, without its HTTP/2, which nobody is offered here: fifty modules and 1.5 MB less."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Final

_ABSENT: Final = ("h2", "h2.events", "hypercorn.protocol.h2")


@contextmanager
def _without_http2() -> Iterator[None]:
    """Let Hypercorn be imported without the library `h2`; who imports that later gets the real one.

    Nothing asks for it: `StrictConnection` refuses the beginning of HTTP/2, and the wish to go on in it.
    """
    if not sys.modules.keys().isdisjoint((*_ABSENT, "hypercorn.protocol")):
        yield  # somebody uses them anyway
        return
    library, events, protocol = absent = [ModuleType(name) for name in _ABSENT]
    library.__dict__["events"] = events
    protocol.__dict__["H2Protocol"] = None
    sys.modules.update(zip(_ABSENT, absent, strict=True))
    try:
        yield
    finally:
        for module in (library, events):
            del sys.modules[module.__name__]


with _without_http2():
    from hypercorn.app_wrappers import ASGIWrapper
    from hypercorn.config import Config
    from hypercorn.events import Closed, Event, RawData, Updated
    from hypercorn.protocol.h11 import H11Protocol
    from hypercorn.protocol.ws_stream import WSStream
    from hypercorn.trio.tcp_server import MAX_RECV, TCPServer
    from hypercorn.trio.worker_context import WorkerContext
    from hypercorn.typing import AppWrapper, ConnectionState

__all__ = (
    "MAX_RECV",
    "ASGIWrapper",
    "AppWrapper",
    "Closed",
    "Config",
    "ConnectionState",
    "Event",
    "H11Protocol",
    "RawData",
    "TCPServer",
    "Updated",
    "WSStream",
    "WorkerContext",
)
