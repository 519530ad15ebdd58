"""Live events of all nodes for who watches on any of them: an agent's words as they come, what a dashboard shows.

Never in a message's path, and nothing is kept of it: where events were lost, who watches is told that there is a gap.
"""

from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Final

import msgspec
from msgspec.structs import replace

from daycare.base.events import AnyEvent, Event, TurnDelta
from daycare.nodes.talk import NodeTalk
from daycare.observe.bus import Bus, Gap, Subscription

RELAY_PAUSE_S: Final = 0.04  # events that come within it go out together: 25 words a second at most, each a commit
RELAY_EVENTS_MAX: Final = 1_000  # of one word ...
RELAY_FORGOTTEN_MAX: Final = 1_000  # traces of one word
RELAY_BYTES_MAX: Final = 128 * 1024  # ... and so long; what is more goes with the next one

_EVENTS: Final = "events"


class NodeEvents(msgspec.Struct, array_like=True):
    """What happened on a node. `lost`: more than this. Of `forgotten` traces nothing may be shown any more."""

    events: list[msgspec.Raw]
    lost: bool
    forgotten: list[str]


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(NodeEvents).decode
_event: Final = msgspec.json.Decoder(AnyEvent).decode


class EventRelay:
    """Tells other nodes what the bus of this one has, and that bus what happens elsewhere."""

    def __init__(self, bus: Bus, talk: NodeTalk) -> None:
        self._bus, self._talk = bus, talk
        self._forgotten: set[str] = set()
        self.heard: list[Callable[[Event], None]] = []  # called with each event of another node
        bus.forgetting = self._forget
        talk.on(_EVENTS, self._hear)
        talk.missed.append(lambda: bus.hear(Gap(0)))

    async def run(self) -> None:
        """Tell, until the bus is closed."""
        async with self._bus.subscribe(here=True) as events:
            while await events.waited(RELAY_PAUSE_S):
                told = self._taken(events)
                if not self._talk.others or not (told.events or told.lost or told.forgotten):
                    continue
                if not await self._talk.tell(_EVENTS, _encode(told)):
                    self._forgotten.update(told.forgotten)  # those go with the next words

    def _taken(self, events: Subscription) -> NodeEvents:
        """Take what happened. Words of one turn that came in a row become one event, unless it did something else."""
        found: list[Event] = []
        last: dict[int, int] = {}  # by turn: where its last event is
        lost, size = False, 0
        while len(found) < RELAY_EVENTS_MAX and size < RELAY_BYTES_MAX and (item := events.take()) is not None:
            event = item[1]
            if isinstance(event, Gap):
                lost = True
                continue
            size += 200 + len(getattr(event, "text", "")) + len(getattr(event, "reply", ""))
            turn = getattr(event, "turn", 0)
            at = last.get(turn)
            before = found[at] if at is not None else None
            if at is not None and isinstance(event, TurnDelta) and isinstance(before, TurnDelta):
                found[at] = replace(before, text=before.text + event.text)
            else:
                last[turn] = len(found)
                found.append(event)
        kept = [event for event in found if event.trace not in self._forgotten or not event.trace]
        forgotten = sorted(self._forgotten)[:RELAY_FORGOTTEN_MAX]
        self._forgotten.difference_update(forgotten)
        return NodeEvents([msgspec.Raw(_encode(event)) for event in kept], lost, forgotten)

    def _forget(self, traces: Collection[str]) -> None:
        if self._talk.others:  # who joins later has seen nothing of it
            self._forgotten.update(traces)

    def _hear(self, node: str, words: bytes) -> None:
        told = _decode(words)
        events = [event for each in told.events if (event := _understood(each)) is not None]
        if told.forgotten:
            self._bus.forget_here(told.forgotten)
        if told.lost:
            self._bus.hear(Gap(0))
        for event in events:
            for heard in self.heard:
                heard(event)
            self._bus.hear(event)


def _understood(told: msgspec.Raw) -> Event | None:
    """Return an event, None for one that this version does not know: nodes of two versions work side by side."""
    with suppress(msgspec.MsgspecError):
        event: Event = _event(told)
        return event
    return None
