"""What nodes tell and ask each other beside the store: live events, calls; sealed, numbered, and lost without harm."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from daycare.actors.directory import Directory
from daycare.actors.dropping import Dropping
from daycare.actors.elsewhere import LivesElsewhere
from daycare.actors.lifecycle import Life
from daycare.base.errors import ConflictError, NotFoundError, UnavailableError
from daycare.base.events import (
    AgentSlept,
    AgentWoke,
    Event,
    Notice,
    ToolStarted,
    TurnDelta,
    TurnFailed,
    TurnFinished,
    TurnStarted,
)
from daycare.nodes.calls import NODE_CALL_S, NODE_CALLS_MAX, NodeCalls
from daycare.nodes.relay import EventRelay
from daycare.nodes.talk import NodeTalk
from daycare.observe.bus import Bus, Gap
from daycare.store.postgres.location import ServerLocation
from daycare.store.postgres.wake import TELL_MAX_S, TEXT_MAX_CHARS, TEXTS_MAX, WakeLine
from daycare.store.share import DividedShare, first_cursor
from tests.nodes.test_stores import DEADLINE_S, agent_of, message, someone, two

KEY = b"k" * 32


class Line:
    """A line between nodes that is there at once. `lose` is asked of each text whether it is lost."""

    def __init__(self, *names: str) -> None:
        self.shares = {name: DividedShare(name) for name in names}
        self.said: list[tuple[str, str]] = []
        self.lose: Callable[[str], bool] = lambda text: False
        for name, share in self.shares.items():
            share.members = len(names)
            share.teller = self._from(name)

    def _from(self, name: str) -> Callable[[str], Awaitable[bool]]:
        async def tell(text: str) -> bool:
            self.said.append((name, text))
            if not self.lose(text):
                for other, share in self.shares.items():
                    if other != name:
                        share.heard(text)
            await trio.lowlevel.checkpoint()
            return True

        return tell


def talk(line: Line, name: str, key: bytes = KEY, run: int = 1) -> NodeTalk:
    return NodeTalk(line.shares[name], name, key, run)


def delta(text: str, turn: int = 1, trace: str = "t") -> TurnDelta:
    return TurnDelta(at_ms=1, path="/u/direct", trace=trace, turn=turn, text=text)


def rest(bus: Bus, **wish: Any) -> list[Event | Gap]:
    events = bus.subscribe(after=bus.start, **wish)
    found = []
    while (item := events.take()) is not None:
        found.append(item[1])
    return found


async def test_what_happens_on_one_node_is_seen_by_who_watches_another_and_kept_by_nobody_there(
    autojump_clock: trio.testing.MockClock,
) -> None:
    line, buses = Line("a", "b"), {name: Bus() for name in "ab"}
    relays = {name: EventRelay(buses[name], talk(line, name)) for name in "ab"}
    counted: list[Event] = []
    buses["b"].tap(Notice, counted.append)
    heard: list[Event] = []
    relays["b"].heard.append(heard.append)
    async with trio.open_nursery() as nursery:
        for relay in relays.values():
            nursery.start_soon(relay.run)
        await trio.testing.wait_all_tasks_blocked()
        for text in ("It ", "is ", "late"):
            buses["a"].publish(delta(text))
        buses["a"].publish(ToolStarted(at_ms=2, turn=1, step=1, tool="clock"))
        buses["a"].publish(delta("!"))
        buses["a"].publish(delta("other", turn=2))
        buses["a"].publish(Notice(at_ms=3, text="done"))
        await trio.sleep(1)
        nursery.cancel_scope.cancel()
    seen = rest(buses["b"])
    assert [getattr(each, "text", "tool") for each in seen] == ["It is late", "tool", "!", "other", "done"]
    assert seen == heard
    assert not counted and not rest(buses["b"], here=True)
    assert len(line.said) == 1, "all in one word, and nothing of it goes back"


async def test_nothing_is_told_where_no_other_node_works(autojump_clock: trio.testing.MockClock) -> None:
    line, bus = Line("a"), Bus()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(EventRelay(bus, talk(line, "a")).run)
        await trio.testing.wait_all_tasks_blocked()
        bus.publish(delta("x"))
        await trio.sleep(1)
        nursery.cancel_scope.cancel()
    assert not line.said


async def test_a_word_that_is_lost_shows_as_a_gap_and_one_that_comes_twice_counts_once() -> None:
    line, bus = Line("a", "b"), Bus()
    EventRelay(bus, talk(line, "b"))
    teller = talk(line, "a")
    word = msgspec.json.encode(([delta("x")], False, []))
    assert await teller.tell("events", word)
    line.lose = lambda text: True
    await teller.tell("events", word)
    line.lose = lambda text: False
    await teller.tell("events", word)
    for name, text in list(line.said):
        line.shares["b" if name == "a" else "a"].heard(text)  # all of it again
    assert rest(bus) == [delta("x"), Gap(0), delta("x")]
    line.shares["b"].heard(None)
    assert rest(bus)[-1] == Gap(0), "the line was away"


async def test_a_node_that_starts_again_is_heard_from_its_first_word_on() -> None:
    line, bus = Line("a", "b"), Bus()
    EventRelay(bus, talk(line, "b"))
    word = msgspec.json.encode(([delta("x")], False, []))
    for run in (1, 2):
        assert await talk(line, "a", run=run).tell("events", word)
    assert rest(bus) == [delta("x"), delta("x")]


async def test_nobody_without_the_key_reads_a_word_or_says_one() -> None:
    line, bus = Line("a", "b"), Bus()
    EventRelay(bus, talk(line, "b"))
    await talk(line, "a", b"x" * 32).tell("events", msgspec.json.encode(([delta("forged")], False, [])))
    line.shares["b"].heard("no-token-at-all")
    assert not rest(bus)
    await talk(line, "a").tell("events", msgspec.json.encode(([delta("secret")], False, [])))
    assert len(rest(bus)) == 1 and all("secret" not in text for _, text in line.said)


async def test_an_event_that_only_a_newer_version_knows_keeps_no_other_back() -> None:
    line, bus = Line("a", "b"), Bus()
    EventRelay(bus, talk(line, "b"))
    newer = [{"event": "moon.rose", "at_ms": 1}, {"event": "notice", "at_ms": 1, "text": "x", "mood": "fine"}]
    await talk(line, "a").tell("events", msgspec.json.encode((newer, False, [])))
    await talk(line, "a", run=2).tell("poems", b"1")
    assert rest(bus) == [Notice(at_ms=1, text="x")]


async def test_what_is_forgotten_on_one_node_is_shown_on_none(autojump_clock: trio.testing.MockClock) -> None:
    line, buses = Line("a", "b"), {name: Bus() for name in "ab"}
    async with trio.open_nursery() as nursery:
        for name in "ab":
            nursery.start_soon(EventRelay(buses[name], talk(line, name)).run)
        await trio.testing.wait_all_tasks_blocked()
        buses["a"].publish(delta("my secret", trace="private"))
        await trio.sleep(1)
        assert len(rest(buses["b"])) == 1
        buses["b"].forget(["private"])
        buses["b"].publish(Notice(at_ms=1, text="forgotten"))
        await trio.sleep(1)
        nursery.cancel_scope.cancel()
    assert all("secret" not in repr(rest(bus)) for bus in buses.values())


async def test_what_is_forgotten_while_the_line_is_broken_goes_with_the_next_words(
    autojump_clock: trio.testing.MockClock,
) -> None:
    line, buses = Line("a", "b"), {name: Bus() for name in "ab"}
    works, broken = line.shares["b"].teller, [True]
    assert works is not None

    async def teller(text: str) -> bool:
        await trio.lowlevel.checkpoint()
        return False if broken and broken.pop() else await works(text)

    line.shares["b"].teller = teller
    async with trio.open_nursery() as nursery:
        for name in "ab":
            nursery.start_soon(EventRelay(buses[name], talk(line, name)).run)
        await trio.testing.wait_all_tasks_blocked()
        buses["a"].publish(delta("my secret", trace="private"))
        await trio.sleep(1)
        buses["b"].forget(["private"])
        for text in ("forgotten", "something else"):
            buses["b"].publish(Notice(at_ms=1, text=text))
            await trio.sleep(1)
        nursery.cancel_scope.cancel()
    assert not broken
    assert all("secret" not in repr(rest(bus)) for bus in buses.values())


def test_a_daemon_that_works_alone_keeps_nothing_of_what_it_forgets() -> None:
    bus = Bus()
    relay = EventRelay(bus, talk(Line("a"), "a"))
    bus.forget(["private"])
    assert not relay._forgotten


def test_a_cursor_of_one_node_is_none_of_anothers() -> None:
    a, b = Bus(start=1_764_000_000_000 + first_cursor("a")), Bus(start=1_764_000_000_000 + first_cursor("b"))
    a.publish(delta("x"))
    for bus, other in ((a, b), (b, a)):
        item = bus.subscribe(after=other.cursor).take()
        assert item is not None and isinstance(item[1], Gap), "who comes from the other node looks again"
    assert first_cursor("") == 0
    assert max(a.cursor, b.cursor) < 2**53


async def test_a_call_is_answered_by_the_node_that_can_with_what_it_raises(
    autojump_clock: trio.testing.MockClock,
) -> None:
    line = Line("a", "b", "c")
    calls = {name: NodeCalls(talk(line, name)) for name in "abc"}

    async def not_mine(arguments: bytes) -> bytes | None:
        return None

    async def mine(arguments: bytes) -> bytes | None:
        if arguments == b"0":
            raise ConflictError("TAKEN", "dividing 0: taken", hint="another", retry_after_s=3.0)
        return arguments + arguments

    calls["b"].serve("double", not_mine)
    calls["c"].serve("double", mine)
    async with trio.open_nursery() as nursery:
        for each in calls.values():
            nursery.start_soon(each.run)
        assert await calls["a"].ask("double", b"2", "doubling 2") == b"22"
        with pytest.raises(ConflictError) as refused:
            await calls["a"].ask("double", b"0", "doubling 0")
        assert (refused.value.code, refused.value.hint, refused.value.retry_after_s) == ("TAKEN", "another", 3.0)
        nursery.cancel_scope.cancel()


async def test_a_call_whose_node_dies_ends_in_time_and_says_to_ask_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    line = Line("a", "b")
    calls = NodeCalls(talk(line, "a"))
    began = trio.current_time()
    with pytest.raises(UnavailableError) as refused:
        await calls.ask("drop", b"1", "dropping message 1")
    assert refused.value.code == "NODE_SILENT" and refused.value.http_status == 503 and refused.value.retry_after_s
    assert trio.current_time() - began <= NODE_CALL_S


async def test_more_calls_than_a_node_serves_are_not_answered_and_take_no_room(
    autojump_clock: trio.testing.MockClock,
) -> None:
    line = Line("a", "b")
    asker, server = NodeCalls(talk(line, "a")), NodeCalls(talk(line, "b"))
    begun: list[bytes] = []

    async def slow(arguments: bytes) -> bytes | None:
        begun.append(arguments)
        await trio.sleep(NODE_CALL_S / 2)
        return arguments

    server.serve("slow", slow)
    answered, refused = [], []

    async def ask(number: int) -> None:
        try:
            answered.append(await asker.ask("slow", b"%d" % number, "waiting"))
        except UnavailableError:
            refused.append(number)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.run)
        async with trio.open_nursery() as asking:
            for number in range(3 * NODE_CALLS_MAX):
                asking.start_soon(ask, number)
        nursery.cancel_scope.cancel()
    assert len(answered) >= NODE_CALLS_MAX and len(begun) <= 2 * NODE_CALLS_MAX + 1
    assert len(answered) + len(refused) == 3 * NODE_CALLS_MAX


def test_what_agents_of_other_nodes_do_is_known_as_far_as_it_is_heard() -> None:
    lives = LivesElsewhere()
    common: dict[str, Any] = {"at_ms": 1_000, "path": "/u/direct", "agent_id": "x"}
    assert lives.life_of("x") is Life.ASLEEP
    lives.heard(AgentWoke(**common))
    assert lives.life_of("x") is Life.IDLE
    lives.heard(TurnStarted(**common, turn=7, attempt=1, messages=1, seqs=(3,)))
    assert lives.life_of("x") is Life.IN_TURN
    assert [(turn.turn, turn.since, turn.seqs) for turn in lives.turns()] == [(7, 1_000, (3,))]
    lives.heard(TurnFailed(**common, turn=7, attempt=1, code="X", reason="away", retry_in_s=2.0))
    trouble = lives.trouble_of("x")
    assert trouble is not None and (trouble.reason, trouble.next_at) == ("away", 3_000)
    lives.heard(TurnFinished(**common, turn=7, reply="", seqs=(3,)))
    assert lives.trouble_of("x") is None and lives.life_of("x") is Life.IDLE and not lives.turns()
    lives.heard(AgentSlept(**common))
    assert lives.life_of("x") is Life.ASLEEP


async def test_a_text_goes_over_the_server_whole_in_pieces_and_a_longer_one_not_at_all(tmp_path: Path) -> None:
    async with two(tmp_path) as (a, b):
        heard: list[str | None] = []
        something = trio.Event()

        def hear(text: str | None) -> None:
            heard.append(text)
            something.set()

        b.share.heard = hear
        texts = ["short", "x" * 100_000, "y" * TEXT_MAX_CHARS]
        with trio.fail_after(DEADLINE_S):
            while not a.share.others:
                await trio.sleep(0.02)
            for text in texts:
                assert await a.share.tell(text)
            while [each for each in heard if each is not None] != texts:
                something = trio.Event()
                await something.wait()
        assert not await a.share.tell("z" * (TEXT_MAX_CHARS + 1))


async def test_a_text_that_nobody_says_is_given_up_and_makes_room(autojump_clock: trio.testing.MockClock) -> None:
    line = WakeLine(ServerLocation("postgresql://nobody@127.0.0.1:1/nowhere"), "a")  # which does not speak
    took: list[float] = []

    async def tell() -> None:
        began = trio.current_time()
        assert not await line.tell("hello")
        took.append(round(trio.current_time() - began, 3))

    for most_s in (TELL_MAX_S, 1.0, TELL_MAX_S):  # who asks may give up before that
        async with trio.open_nursery() as nursery:
            nursery.cancel_scope.deadline = trio.current_time() + most_s + 0.001
            for _ in range(TEXTS_MAX + 1):
                nursery.start_soon(tell)
    assert sorted(took) == [0.0] * 3 + [TELL_MAX_S] * 2 * TEXTS_MAX


@pytest.mark.parametrize(
    "words",
    [
        ["text 2/2 b"],
        ["text 1/2 a", "text 1/2 a"],
        ["text 1/3 a", "text 3/3 c"],
        ["text 1/999 a"],
        ["text x"],
        ["text 1/1 \u00fc"],
        ["text 0/0 "],
    ],
)
def test_pieces_that_do_not_belong_together_are_no_text(words: list[str]) -> None:
    heard: list[str | None] = []
    line = WakeLine.__new__(WakeLine)
    line._pieces, line._from = [], ""
    line.heard = heard.append
    for each in words:
        line._heed("a", each)
    assert not heard
    for each in ("text 1/2 a", "text 2/2 b"):
        line._heed("b", each)
    assert heard == ["ab"]


async def test_a_message_is_dropped_by_the_node_of_its_user_whichever_is_asked(tmp_path: Path) -> None:
    async with two(tmp_path) as (a, b), trio.open_nursery() as nursery:
        user = someone(b)
        await agent_of(a, user)
        seq = (await a.inbox.post(message(user, "1"))).seq
        with trio.fail_after(DEADLINE_S):
            while not (a.share.others and b.share.others):
                await trio.sleep(0.02)
        dropping = {}
        for store in (a, b):
            calls = NodeCalls(NodeTalk(store.share, store.share.node, KEY, 1))
            dropping[store] = Dropping(store, Directory(store, ("direct",)), {})
            dropping[store].ask = calls.ask
            calls.serve("drop", dropping[store].asked)
            nursery.start_soon(calls.run)
        agent = await a.agents.at(f"/{user}/agent/x")
        assert agent is not None
        await dropping[a].drop(agent, seq, "not wanted")
        receipt = await a.inbox.receipt(seq)
        assert receipt is not None and receipt.state == "dead"
        with pytest.raises(NotFoundError) as refused:
            await dropping[a].drop(agent, seq, "not wanted")  # as somebody does whose first try was not answered
        assert refused.value.code == "INBOX_UNKNOWN"
        nursery.cancel_scope.cancel()
