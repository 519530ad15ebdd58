"""Live events: publishing costs the same with no reader, many readers, or one that stopped reading.

The bus keeps the last events in a ring. A reader is a position in it and nothing else; one that is too slow loses
what the ring overwrote, is told how much, and goes on. Each event has a cursor, a number that grows by one; cursors
start at `start`, so a daemon that hands in the wall time never gives a number twice, even over restarts. Where
several nodes share a store, watchers see what happens on all of them; who counts and keeps hears of its own node only.
"""

from collections.abc import Callable, Collection
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import msgspec
import trio

from daycare.base.events import Event, MemoryForgotten, Notice, ToolProgress
from daycare.base.secrecy import without_secrets
from daycare.base.wellformed import well_formed

EVENTS_RING: Final = 4_096  # live events kept for resuming observers

E = TypeVar("E", bound=Event)
# What events say in the words of platforms, libraries and plugins. What people and agents say is theirs.
_WORDS: Final = ("reason", "hint")
_TEXTS: Final = (Notice, ToolProgress)


class Gap(msgspec.Struct, frozen=True):
    """Stands where events were lost. `missed` counts all of them, wanted or not.

    0: of an earlier run, or of another node, and nobody has counted them.
    """

    missed: int


class Bus:
    """The ring of live events. All of it belongs to trio's thread.

    `dropped` counts what subscribers lost, summed over them.
    """

    def __init__(self, start: int = 0, size: int = EVENTS_RING) -> None:
        self.start = start
        self.cursor = start
        self.closed = False
        self.dropped = 0
        self.subscribers = 0
        self._size = size
        self._ring: list[Event | Gap | None] = [None] * size
        self._elsewhere = bytearray(size)  # beside the ring: what other nodes have told
        self._news: trio.Event | None = None  # made by whoever waits first, so that nobody waiting costs nothing
        self._taps: dict[type[Event], list[Callable[[Any], None]]] = {}
        self.forgetting: Callable[[Collection[str]], None] | None = None  # told of traces that are forgotten here

    def tap(self, kind: type[E], heard: Callable[[E], None]) -> None:
        """Call `heard` at each event of a kind, which must be quick and never fail: for what counts."""
        self._taps.setdefault(kind, []).append(heard)

    @property
    def oldest(self) -> int:
        """The cursor after which all events are still here."""
        return max(self.start, self.cursor - self._size)

    def publish(self, event: Event) -> None:
        """Add an event. Never waits, never fails; after `close` it is lost."""
        if self.closed:
            return
        event = _redacted(event)
        for tap in self._taps.get(type(event), ()):
            tap(event)
        self._add(event, elsewhere=False)

    def hear(self, found: "Event | Gap") -> None:
        """Add what another node has told, for who watches: taps and who reads what is `here` do not get it."""
        if not self.closed:
            self._add(found, elsewhere=True)

    def _add(self, found: "Event | Gap", *, elsewhere: bool) -> None:
        at = self.cursor % self._size
        self._ring[at], self._elsewhere[at] = found, elsewhere
        self.cursor += 1
        if self._news is not None:
            self._news.set()
            self._news = None

    def forget(self, traces: Collection[str]) -> None:
        """Replace what is still here of these traces, so that nobody reads it any more."""
        self.forget_here(traces)
        if self.forgetting is not None:
            self.forgetting(traces)

    def forget_here(self, traces: Collection[str]) -> None:
        """Replace what this node has of these traces."""
        for at in range(self.oldest, self.cursor):
            event = self.at(at)
            if not isinstance(event, Gap) and event.trace in traces:
                self._ring[at % self._size] = MemoryForgotten(at_ms=event.at_ms, memories=0, turns=0, versions=0)

    def subscribe(
        self,
        after: int | None = None,
        path: str | Collection[str] | None = None,
        types: frozenset[str] | None = None,
        *,
        here: bool = False,
    ) -> "Subscription":
        """Read events from the one that follows the cursor `after`, or, without it, from now on.

        `path` is one path, or `<path>/**` for it and all below, or several of these. `types` are names such as
        `turn.finished`. With `here` only what happens on this node.
        Use it as `async with bus.subscribe() as events: async for cursor, event in events: ...`.
        """
        return Subscription(self, after, path, types, here=here)

    def close(self) -> None:
        """Let each subscriber end after what it has not read yet."""
        self.closed = True
        if self._news is not None:
            self._news.set()
            self._news = None

    def is_here(self, position: int) -> bool:
        """Whether what follows the cursor `position` happened on this node."""
        return not self._elsewhere[position % self._size]

    def at(self, position: int) -> "Event | Gap":
        """Return what follows the cursor `position`, which must lie within the ring."""
        event = self._ring[position % self._size]
        assert event is not None and self.oldest <= position < self.cursor
        return event

    async def news(self) -> None:
        """Wait for the next event or the end."""
        if self._news is None:
            self._news = trio.Event()
        await self._news.wait()


class Subscription:
    """A reader's place in the ring: an async iterator of (cursor, event or `Gap`)."""

    def __init__(
        self,
        bus: Bus,
        after: int | None,
        path: str | Collection[str] | None,
        types: frozenset[str] | None,
        *,
        here: bool,
    ) -> None:
        self._bus = bus
        self._position = bus.cursor if after is None else after
        paths = (path,) if isinstance(path, str) else path
        self._paths = None if paths is None else frozenset(each.removesuffix("/**") for each in paths)
        self._below = tuple(each.removesuffix("**") for each in paths or () if each.endswith("/**"))
        self._types = types
        self._here = here

    async def __aenter__(self) -> Self:
        self._bus.subscribers += 1
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bus.subscribers -= 1

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> tuple[int, Event | Gap]:
        """Return the next wanted event and its cursor, from which reading can be resumed (`after`)."""
        await trio.lowlevel.checkpoint()
        while True:
            item = self.take()
            if item is not None:
                return item
            if self._bus.closed:
                raise StopAsyncIteration
            await self._bus.news()

    async def waited(self, pause_s: float) -> bool:
        """Wait until there may be something to `take`, and the pause for what comes with it; False at the end.

        For who sends on what it takes: many readers that woke for each single event would keep the loop to themselves.
        """
        bus = self._bus
        if self._position == bus.cursor and not bus.closed:
            await bus.news()
        await trio.sleep(pause_s)
        return self._position != bus.cursor or not bus.closed

    def take(self) -> tuple[int, Event | Gap] | None:
        """Return the next wanted event and its cursor, None if there is none yet."""
        bus = self._bus
        if not bus.oldest <= self._position <= bus.cursor:
            return self._resume()
        while self._position < bus.cursor:
            event, is_here = bus.at(self._position), bus.is_here(self._position)
            self._position += 1
            if (is_here or not self._here) and (isinstance(event, Gap) or self._wants(event)):
                return self._position, event
        return None

    def _resume(self) -> tuple[int, Gap]:
        """Go to the oldest event left, or, with a cursor that was never given out, to now."""
        bus = self._bus
        ahead = self._position > bus.cursor
        missed = 0 if ahead else bus.oldest - max(self._position, bus.start)
        bus.dropped += missed
        self._position = bus.cursor if ahead else bus.oldest
        return self._position, Gap(missed)

    def _wants(self, event: Event) -> bool:
        if self._types is not None and event.__struct_config__.tag not in self._types:
            return False
        return self._paths is None or event.path in self._paths or event.path.startswith(self._below)


def _redacted(event: Event) -> Event:
    """Return an event without secrets in the words that say why."""
    names = _FIELDS.get(type(event))
    if names is None:
        texts = ("text",) if issubclass(type(event), _TEXTS) else ()
        names = tuple(name for name in type(event).__struct_fields__ if name in (*_WORDS, *texts))
        _FIELDS[type(event)] = names
    for name in names:
        said = getattr(event, name)
        if said and (clean := without_secrets(well_formed(said))) != said:
            event = msgspec.structs.replace(event, **{name: clean})
    return event


_FIELDS: Final[dict[type[Event], tuple[str, ...]]] = {}
