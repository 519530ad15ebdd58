"""Live events: order, resuming, gaps for the slow, and a page that names every event."""

import math
import random
import re
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
import trio
import trio.testing

from daycare.base import events
from daycare.base.events import AgentWoke, AnyEvent, Event, Notice, TurnDelta
from daycare.observe.bus import Bus, Gap
from tests.cost import costs_at_most

PAGE = Path(__file__).parent.parent / "doc/extend/events.md"
ALL: tuple[type[Event], ...] = get_args(AnyEvent)


def notice(n: int, path: str = "/ann/direct") -> Notice:
    return Notice(at_ms=n, path=path, text=str(n))


async def rest(bus: Bus, **wish: object) -> list[tuple[int, Event | Gap]]:
    """What a subscriber gets that reads to the end."""
    bus.close()
    async with bus.subscribe(**wish) as found:  # type: ignore[arg-type]
        return [item async for item in found]


async def test_subscriber_sees_from_now_on_in_order(autojump_clock: trio.testing.MockClock) -> None:
    bus = Bus()
    bus.publish(notice(0))
    seen: list[tuple[int, Event | Gap]] = []

    async def read() -> None:
        async with bus.subscribe() as found:
            async for item in found:
                seen.append(item)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await trio.testing.wait_all_tasks_blocked()
        for n in (1, 2, 3):
            bus.publish(notice(n))
        await trio.testing.wait_all_tasks_blocked()
        bus.publish(notice(4))
        bus.close()
    assert seen == [(n + 1, notice(n)) for n in (1, 2, 3, 4)]
    assert bus.subscribers == 0


async def test_cursor_resumes_behind_what_was_seen() -> None:
    bus = Bus(start=1_000)
    for n in range(4):
        bus.publish(notice(n))
    assert [cursor for cursor, _ in await rest(bus, after=1_002)] == [1_003, 1_004]


async def test_slow_subscriber_gets_one_gap_and_goes_on() -> None:
    bus = Bus(size=4)
    async with bus.subscribe() as slow:
        for n in range(10):
            bus.publish(notice(n))
        bus.close()
        seen = [item async for item in slow]
    assert seen == [(6, Gap(6)), *((n + 1, notice(n)) for n in (6, 7, 8, 9))]
    assert bus.dropped == 6


async def test_publishing_never_waits_for_a_subscriber_that_stopped() -> None:
    bus = Bus(size=4)
    async with bus.subscribe() as stopped:
        for n in range(10_000):
            bus.publish(notice(n))
        assert await anext(stopped) == (9_996, Gap(9_996))


async def test_exactly_full_ring_loses_nothing() -> None:
    bus = Bus(size=4)
    for n in range(4):
        bus.publish(notice(n))
    assert [cursor for cursor, _ in await rest(bus, after=0)] == [1, 2, 3, 4]


async def test_cursor_of_an_earlier_daemon_is_a_gap_then_all_there_is() -> None:
    bus = Bus(start=1_000)
    bus.publish(notice(1))
    assert await rest(bus, after=7) == [(1_000, Gap(0)), (1_001, notice(1))]


async def test_cursor_of_the_future_is_a_gap_then_what_comes() -> None:
    bus = Bus(start=1_000)
    bus.publish(notice(1))
    async with bus.subscribe(after=5_000) as found:
        assert await anext(found) == (1_001, Gap(0))
        bus.publish(notice(2))
        assert await anext(found) == (1_002, notice(2))
    assert bus.dropped == 0


async def test_filters_by_path_and_type() -> None:
    bus = Bus()
    paths = ("/ann/direct", "/ann/direct/sub/0", "/ann/direct2", "/bob/direct")
    for n, path in enumerate(paths):
        bus.publish(notice(n, path))
        bus.publish(AgentWoke(at_ms=n, path=path))

    async def seen(**wish: object) -> list[tuple[str, str]]:
        found = [event for _, event in await rest(bus, after=0, **wish) if isinstance(event, Event)]
        return [(type(event).__name__, event.path) for event in found]

    assert await seen(path="/ann/direct") == [("Notice", paths[0]), ("AgentWoke", paths[0])]
    assert await seen(path="/ann/direct/**", types=frozenset({"notice"})) == [("Notice", p) for p in paths[:2]]
    assert await seen(path="/ann/**", types=frozenset({"agent.woke"})) == [("AgentWoke", p) for p in paths[:3]]
    assert await seen(types=frozenset()) == []


async def test_closed_bus_ends_subscribers_and_takes_nothing() -> None:
    bus = Bus()
    bus.publish(notice(0))
    bus.close()
    bus.publish(notice(1))
    assert await rest(bus, after=0) == [(1, notice(0))]


async def test_cancelled_reader_leaves_and_others_go_on(autojump_clock: trio.testing.MockClock) -> None:
    bus = Bus()
    async with bus.subscribe() as kept:
        with trio.move_on_after(1):
            async with bus.subscribe() as left:
                await anext(left)
        assert bus.subscribers == 1
        bus.publish(notice(0))
        assert await anext(kept) == (1, notice(0))


@pytest.mark.parametrize("seed", range(20))
async def test_any_interleaving_delivers_each_event_once_or_counts_it(seed: int) -> None:
    print("seed", seed)
    chance = random.Random(seed)
    bus = Bus(size=8)
    total = 500
    heard: list[int] = []

    async def read(pause: float) -> None:
        count, last = 0, 0
        async with bus.subscribe(after=0) as found:
            async for cursor, event in found:
                count += event.missed if isinstance(event, Gap) else 1
                assert cursor > last
                last = cursor
                if isinstance(event, Notice):
                    assert event.at_ms == cursor - 1
                if chance.random() < pause:
                    for _ in range(chance.randrange(20)):
                        await trio.lowlevel.checkpoint()
        heard.append(count)

    async with trio.open_nursery() as nursery:
        for pause in (0.0, 0.1, 0.9):
            nursery.start_soon(read, pause)
        for n in range(total):
            bus.publish(notice(n))
            if chance.random() < 0.5:
                await trio.lowlevel.checkpoint()
        bus.close()
    assert heard == [total] * 3


async def test_publishing_is_cheap_with_a_waiting_reader() -> None:
    """It costs about what it costs to put the event into a channel of trio."""
    bus = Bus()
    event = TurnDelta(at_ms=0, turn=1, text="word")
    send, receive = trio.open_memory_channel[TurnDelta](math.inf)

    def publish() -> None:
        for _ in range(5_000):
            bus.publish(event)

    def put() -> None:
        for _ in range(5_000):
            send.send_nowait(event)

    async with bus.subscribe():
        assert costs_at_most(5, publish, put)
    receive.close()


# -- the page ----------------------------------------------------------------------------------------------------------


def sections() -> dict[str, str]:
    parts = re.split(r"(?m)^## `(.+)`$", PAGE.read_text())
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def fields(text: str) -> dict[str, str]:
    found = re.findall(r"(?m)^\| `(\w+)` \| `([^`]+)` \|", text)
    return {name: kind.replace("\\|", "|") for name, kind in found}


def shown(event: type[Event], names: list[str]) -> dict[str, str]:
    hints = get_type_hints(event)
    return {name: kind.__name__ if type(kind := hints[name]) is type else str(kind) for name in names}


def test_every_event_is_in_the_union() -> None:
    classes = {kind for kind in vars(events).values() if isinstance(kind, type) and issubclass(kind, Event)}
    assert classes - {Event} == set(ALL)


def test_page_has_a_heading_for_each_event_and_for_nothing_else() -> None:
    assert list(sections()) == [event.__struct_config__.tag for event in ALL]


@pytest.mark.parametrize("event", ALL, ids=lambda event: event.__name__)
def test_page_shows_each_field_with_its_type(event: type[Event]) -> None:
    own = [name for name in event.__struct_fields__ if name not in Event.__struct_fields__]
    assert fields(sections()[str(event.__struct_config__.tag)]) == shown(event, own)


def test_page_shows_the_fields_that_all_events_have() -> None:
    head = PAGE.read_text().partition("\n## ")[0]
    assert fields(head) == shown(Event, list(Event.__struct_fields__))
