"""Live events as a stream: `id:` is the cursor to resume behind, `event:` the name, `data:` the event as JSON."""

from collections.abc import Iterable
from typing import Final

import msgspec
import trio
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from daycare.api.callers import Caller, caller_of
from daycare.api.documents import Number, RequestDocument, query
from daycare.api.wanted import while_wanted
from daycare.base.errors import InvalidError
from daycare.base.events import AnyEvent, Event
from daycare.base.path import Pattern
from daycare.observe.bus import Bus, Gap, Subscription

EVENTS_KEEPALIVE_S: Final = 15.0

NAMES = frozenset(kind.__struct_config__.tag for kind in AnyEvent.__args__)

_encode = msgspec.json.Encoder().encode


class EventsQuery(RequestDocument, frozen=True, kw_only=True):
    """Which events, and from where on."""

    path: str | None = None
    after: Number | None = None
    types: str | None = None


def event_stream(request: Request, bus: Bus, closing: trio.Event) -> "EventStream":
    """Return the stream that a request asks for. Raises `InvalidError` for a pattern or name that matches nothing."""
    wish, caller = query(request, EventsQuery), caller_of(request)
    if caller.own_only:
        wish = replace(wish, path=wish.path or caller.paths or f"/{caller.user}/**")
    if wish.path is not None:
        check_watched(caller, wish.path)
    types = check_types(filter(None, (wish.types or "").split(",")))
    after = wish.after
    last_seen = request.headers.get("last-event-id", "")  # what a browser sends when it connects again
    if after is None and last_seen.isdecimal():
        after = int(last_seen)
    return EventStream(bus, bus.subscribe(after, wish.path, types or None), closing)


def check_watched(caller: Caller, path: str) -> None:
    """Raise `InvalidError` for a pattern that is not a path or `<path>/**`, `NotFoundError` for another person's."""
    caller.check_path(path)
    Pattern(path, None)
    if path.endswith("/*"):
        raise InvalidError("PATH_INVALID", f"watching {path}: expected a path or <path>/**", hint=f"{path}*")


def check_types(names: Iterable[str]) -> frozenset[str]:
    """Return the names of events as a set. Raises `InvalidError` for one that there is not."""
    types = frozenset(names)
    if unknown := types - NAMES:
        raise InvalidError(
            "EVENT_UNKNOWN",
            f"watching {', '.join(sorted(unknown))}: no event has that name",
            hint="doc/extend/events.md",
        )
    return types


class EventStream(Response):
    """Sends events until the client goes away or the daemon stops, with a sign of life in silence."""

    def __init__(
        self, bus: Bus, events: Subscription, closing: trio.Event, keepalive_s: float = EVENTS_KEEPALIVE_S
    ) -> None:
        super().__init__(media_type="text/event-stream", headers={"Cache-Control": "no-store"})
        del self.headers["content-length"]
        self._events = events
        self._closing = closing
        self._keepalive_s = keepalive_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the stream."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        if scope["method"] != "HEAD":
            async with self._events, while_wanted(self._closing, receive):
                await self._pump(send)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _pump(self, send: Send) -> None:
        chunk = b": daycare\n\n"  # the headers go out with the first bytes
        while chunk:
            with trio.CancelScope(shield=True):  # a chunk is sent whole; a reader that hangs is cut by the server
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            chunk = await self._next()

    async def _next(self) -> bytes:
        with trio.move_on_after(self._keepalive_s):
            try:
                return frame(*await anext(self._events))
            except StopAsyncIteration:
                return b""
        return b": still here\n\n"


def frame(cursor: int, event: Event | Gap) -> bytes:
    """Return one event in the stream's format."""
    name = "gap" if isinstance(event, Gap) else event.__struct_config__.tag
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (cursor, str(name).encode(), _encode(event))
