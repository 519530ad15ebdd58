"""Events on a socket: subscriptions, each with its own place among the live events, from which it can be resumed."""

from typing import Annotated, Final

import msgspec
import trio

from daycare.api.callers import persons
from daycare.api.documents import Number
from daycare.api.events import check_types, check_watched
from daycare.api.sockets import (
    ClientMessage,
    CloseCode,
    Heard,
    MessageId,
    Ok,
    ServerMessage,
    Socket,
    SocketPart,
)
from daycare.base.errors import BusyError, ConflictError, NotFoundError
from daycare.observe.bus import Bus, Gap, Subscription

WS_SUBSCRIPTIONS_MAX: Final = 16  # of one socket
WS_PATHS_MAX: Final = 32  # of one subscription
WS_PAUSE_S: Final = 0.05  # events that come within it are sent together
WS_EVENTS_BYTES: Final = 64 * 1024  # after so many a message is sent; the last event is whole

_encode = msgspec.json.Encoder().encode

_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]


class Subscribe(ClientMessage, frozen=True, kw_only=True, tag="subscribe"):
    """Send events of these paths (`/ann/direct`, `/ann/**`) and types, those behind the cursor `after` first.

    Without paths or types all that the caller may see, without `after` those from now on. `id` names the subscription.
    """

    id: _Name
    paths: Annotated[tuple[str, ...], msgspec.Meta(max_length=WS_PATHS_MAX)] = ()
    types: Annotated[tuple[str, ...], msgspec.Meta(max_length=100)] = ()
    after: Number | None = None


class Unsubscribe(ClientMessage, frozen=True, kw_only=True, tag="unsubscribe"):
    """End the subscription of this name."""

    id: _Name


class LiveEvent(msgspec.Struct, frozen=True):
    """An event, and the cursor behind which the next one is."""

    cursor: int
    event: msgspec.Raw


class LiveEvents(ServerMessage, frozen=True, kw_only=True, tag="events"):
    """Events of a subscription, in order; `cursor` is that of the last."""

    id: MessageId
    cursor: int
    events: list[LiveEvent]


class EventGap(ServerMessage, frozen=True, kw_only=True, tag="gap"):
    """Events of a subscription were lost before this cursor: so many, wanted or not; 0 if of an earlier run."""

    id: MessageId
    cursor: int
    missed: int


class LiveSubscriptions(SocketPart):
    """The subscriptions of one socket."""

    def __init__(self, socket: Socket, bus: Bus) -> None:
        self._socket = socket
        self._bus = bus
        self._open: dict[str, trio.CancelScope] = {}

    def messages(self) -> list[Heard]:
        """Return what it takes."""
        return [
            Heard(Subscribe, self.subscribe, changes=False),
            Heard(Unsubscribe, self.unsubscribe, changes=False),
        ]

    @persons
    async def subscribe(self, wish: Subscribe) -> None:
        """Begin to send events."""
        if wish.id in self._open:
            raise ConflictError("SUBSCRIPTION_TAKEN", f"subscribing as {wish.id}: there is one", hint="unsubscribe it")
        if len(self._open) >= WS_SUBSCRIPTIONS_MAX:
            raise BusyError(
                "SUBSCRIPTIONS_FULL",
                f"subscribing as {wish.id}: a socket has at most {WS_SUBSCRIPTIONS_MAX}",
                hint="give one several paths",
            )
        caller = self._socket.caller
        paths = wish.paths or ((caller.paths or f"/{caller.user}/**",) if caller.own_only else ())
        for path in paths:
            check_watched(caller, path)
        types = check_types(wish.types)
        cursor = self._bus.cursor if wish.after is None else wish.after
        events = self._bus.subscribe(cursor, paths or None, types or None)
        scope = self._open[wish.id] = trio.CancelScope()
        await self._socket.send(Ok(id=wish.id, cursor=cursor))
        self._socket.start(self._pump, wish.id, events, scope)

    @persons
    async def unsubscribe(self, wish: Unsubscribe) -> None:
        """Send no more events of a subscription."""
        scope = self._open.pop(wish.id, None)
        if scope is None:
            raise NotFoundError("SUBSCRIPTION_UNKNOWN", f"unsubscribing {wish.id}: there is no such subscription")
        scope.cancel()
        await self._socket.send(Ok(id=wish.id))

    async def _pump(self, name: str, events: Subscription, scope: trio.CancelScope) -> None:
        begun = False
        with scope:
            async with events:
                while await events.waited(WS_PAUSE_S):
                    while found := _next(name, events):
                        for message in found:
                            await self._socket.send(message)
                            if isinstance(message, EventGap) and message.missed and begun:
                                why = f"events were missed: subscribe after {message.cursor}"
                                self._socket.end(CloseCode.SLOW, why)
                            begun = True


def _next(name: str, events: Subscription) -> list[LiveEvents | EventGap]:
    """Return the next messages: as many events as are there and fit, and where some are missing."""
    found: list[LiveEvent] = []
    gap: EventGap | None = None
    size = 0
    while size < WS_EVENTS_BYTES and (item := events.take()) is not None:
        cursor, event = item
        if isinstance(event, Gap):
            gap = EventGap(id=name, cursor=cursor, missed=event.missed)
            break
        found.append(LiveEvent(cursor, msgspec.Raw(_encode(event))))
        size += len(found[-1].event)
    messages: list[LiveEvents | EventGap] = []
    if found:
        messages.append(LiveEvents(id=name, cursor=found[-1].cursor, events=found))
    return [*messages, gap] if gap is not None else messages
