"""Storms: agents that keep each other busy are stopped, their owner is told once, and nobody else notices."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from daycare.actors.loop_guard import PAIR_PER_MINUTE, STORM_QUIET_S
from daycare.base.errors import BusyError, ConflictError
from daycare.base.limits import HELPER_LEVELS_MAX, HELPERS_MAX, HOPS_MAX, SUBAGENTS_DAILY_MAX, SUBAGENTS_LIVING_MAX
from daycare.base.messages import Envelope, EnvelopeKind, Origin
from daycare.base.path import Kind
from daycare.plugin import Completion, InferRequest
from daycare.store.records import Agent
from daycare.store.sqlite.agents import SUBAGENTS_DAY_S
from daycare.testing.clock import VirtualClock
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.scripted import Scripted, bare, call, echo, say
from tests.actors.helpers import history, said_to

A, B, C = "/ann/agent/a", "/ann/agent/b", "/ann/agent/c"
Reads = Callable[[str, str], Completion | None]


def writing(reads: Reads) -> Scripted:
    """Return a model that decides by its own address and what it has read; None: an echo. Then it says what it did."""

    def brain(request: InferRequest) -> Completion:
        if request.messages[-1].role == "tool":
            return say("done: " + request.messages[-1].parts[-1].text)  # type: ignore[union-attr]
        me = next(path for path in (A, B, C, "/ann/direct") if f"Your address is {path}" in request.system)
        return reads(me, bare(request.messages[-1].text.partition("] ")[2])) or echo(request)

    return Scripted(brain)


def to(*paths: str) -> Completion:
    return call(*(("send_message", {"to": path, "text": "ping"}) for path in paths))


def ping_pong() -> Scripted:
    """Return a model whose agents A and B answer each message by a message, and so on for ever."""

    def reads(me: str, text: str) -> Completion | None:
        if me == A and text.endswith("go"):
            return to(B)
        return to(B if me == A else A) if text.endswith("ping") else None

    return writing(reads)


async def agents(house: TestDaemon, *paths: str) -> None:
    for path in paths:
        await house.agent(path)


async def sent(house: TestDaemon, *among: str) -> int:
    """Return how many messages of agents the agents have got and read, or were not to read."""
    read = [text for path in among for _, text in await history(house, path)]
    letters = await house.store.dead.find(limit=1000)
    return sum(text.startswith("Message from /ann/") for text in read) + len(letters)


async def test_a_loop_of_two_is_stopped_within_its_limit_and_told_once(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, ping_pong()) as house:
        await agents(house, A, B, C)
        await house.talk("hello")
        await house.talk("go", path=A)
        await trio.sleep(900)
        assert 10 < await sent(house, A, B) <= HOPS_MAX
        [storm] = house.events("storm.stopped")
        assert (storm["path"], storm["user"]) == (A, "ann")
        told = [text for text in await said_to(house) if "was stopped" in text]
        assert len(told) == 1, "the owner is told once, where they talk"
        notes = [text for role, text in await history(house, A) if "/system/storms" in text]
        assert len(notes) == 1, "and the agent with which it began"
        for nobody in (B, C, "/ann/direct"):
            assert not any("was stopped:" in text and "storms" in text for _, text in await history(house, nobody))
        assert (await house.store.inbox.counts())["waiting"] == 0
        assert await house.talk("hello", path=A) == "echo: hello", "people are answered as before"
        assert await house.talk("hello", path=B) == "echo: hello"


async def test_a_slow_loop_ends_by_its_hops_also_over_a_restart(tmp_path: Path, autojump_clock: object) -> None:
    clock = VirtualClock()
    async with open_daemon(tmp_path, slowly(ping_pong()), location="daycare.db", clock=clock) as house:
        await agents(house, A, B)
        await house.say("go", path=A)
        await trio.sleep(60)
        first = await sent(house, A, B)
        assert 3 < first < HOPS_MAX
    async with open_daemon(tmp_path, slowly(ping_pong()), location="daycare.db", clock=clock) as house:
        await trio.sleep(900)
        [storm] = house.events("storm.stopped")
        assert storm["hops"] == HOPS_MAX + 1 and "without a person" in str(storm["reason"])
        assert first < await sent(house, A, B) <= HOPS_MAX


def slowly(model: Scripted) -> Scripted:
    """Let a model think for three seconds before each answer."""
    infer = model.infer

    async def after_a_while(request: InferRequest) -> Any:
        await trio.sleep(3)
        async for event in infer(request):
            yield event

    model.infer = after_a_while  # type: ignore[method-assign]
    return model


async def test_an_avalanche_is_stopped_and_what_waits_of_it_costs_no_model(
    tmp_path: Path, autojump_clock: object
) -> None:
    def reads(me: str, text: str) -> Completion | None:
        if text.endswith(("go", "ping")):
            others = [path for path in (A, B, C) if path != me]
            return to(*others, *others)  # each message begets four
        return None

    async with open_daemon(tmp_path, writing(reads)) as house:
        await agents(house, A, B, C)
        await house.say("go", path=A)
        await trio.sleep(900)
        assert len(house.events("storm.stopped")) == 1
        assert 20 < await sent(house, A, B, C) <= 3 * PAIR_PER_MINUTE
        letters = await house.store.dead.find(limit=1000)
        assert letters and {letter.code for letter in letters} == {"STORM_STOPPED"}
        assert (await house.store.inbox.counts())["waiting"] == 0
        assert len([text for text in await said_to(house, A) if "was stopped" in text]) <= 1
        assert await house.talk("hello", path=B) == "echo: hello"


async def test_a_stopped_exchange_can_begin_anew_and_others_never_stopped(
    tmp_path: Path, autojump_clock: object
) -> None:
    def reads(me: str, text: str) -> Completion | None:
        if text.endswith("write to c"):
            return to(C)
        if me == A and text.endswith("go"):
            return to(B)
        return to(B if me == A else A) if text.endswith("ping") and me != C else None

    async with open_daemon(tmp_path, writing(reads)) as house:
        await agents(house, A, B, C)
        await house.talk("go", path=A)
        await trio.sleep(200)
        assert len(house.events("storm.stopped")) == 1
        assert "will be sent" in await house.talk("write to c", path=A), "another exchange of the same agent goes on"
        assert "will be sent" in await house.talk("write to c", path=B)
        await trio.sleep(STORM_QUIET_S)
        assert "will be sent" in await house.talk("go", path=A)


async def test_questions_in_one_turn_are_no_long_chain(tmp_path: Path, autojump_clock: object) -> None:
    """What is asked and answered within a turn leads nowhere: it may be repeated in turn after turn."""

    def reads(me: str, text: str) -> Completion | None:
        return call(("ask", {"to": B, "text": "how are you?"})) if text.endswith("go") else None

    async with open_daemon(tmp_path, writing(reads)) as house:
        await agents(house, A, B)
        for _ in range(HOPS_MAX + 3):
            assert (await house.talk("go", path=A)).endswith("how are you?")
            await trio.sleep(10)
        assert house.events("storm.stopped") == []


async def test_a_reminder_begins_anew(tmp_path: Path, autojump_clock: object) -> None:
    """An agent that is woken again and again and writes to another is no storm, however long it goes on."""

    def reads(me: str, text: str) -> Completion | None:
        if me == A and text.endswith(("go", "again")):
            return call(("remind", {"after_s": 60, "text": "again"}), ("send_message", {"to": B, "text": "hello"}))
        return None

    async with open_daemon(tmp_path, writing(reads)) as house:
        await agents(house, A, B)
        await house.talk("go", path=A)
        await trio.sleep(61 * (HOPS_MAX + 8))
        assert await sent(house, B) > HOPS_MAX
        assert house.events("storm.stopped") == []


async def test_too_many_messages_of_a_pair_are_refused_in_both_directions(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with open_daemon(tmp_path, work=False) as house:
        await agents(house, A, B, C)

        def message(sender: str, recipient: str, number: int) -> Envelope:
            return Envelope(
                to=recipient,
                user="ann",
                origin=Origin.AGENT,
                sender=sender,
                key=f"k{sender}{number}",
                text="hi",
                trace=f"t{number}",
                kind=EnvelopeKind.TEXT,
                via=(sender,),
            )

        post = house.daemon.router.post
        for number in range(PAIR_PER_MINUTE):
            await post(message(*((A, B) if number % 2 else (B, A)), number))
        for pair in ((A, B), (B, A)):
            with pytest.raises(BusyError, match="messages a minute"):
                await post(message(*pair, 99 if pair == (A, B) else 98))
        await post(message(A, C, 97))
        await trio.sleep(61)
        await post(message(A, B, 96))
        with pytest.raises(ConflictError, match="was stopped"):
            await post(message(C, B, 99))


async def test_fifty_spawns_at_once_get_distinct_consecutive_indexes(tmp_path: Path, autojump_clock: object) -> None:
    made: list[Agent] = []
    async with open_daemon(tmp_path) as house:
        parent = await house.agent(A)

        async def spawn() -> None:
            made.append(await house.daemon.directory.spawn(parent, Kind.SUB, origin=Origin.AGENT))

        async with trio.open_nursery() as nursery:
            for _ in range(50):
                nursery.start_soon(spawn)
        assert sorted(int(agent.path.rsplit("/", 1)[1]) for agent in made) == list(range(50))
        assert {agent.parent for agent in made} == {parent.id}


async def test_fifty_spawns_by_agents_get_distinct_consecutive_indexes(tmp_path: Path, autojump_clock: object) -> None:
    """By tool in four waves, as one agent has so many helpers at work at a time; each wave at once."""
    waves = [HELPERS_MAX, HELPERS_MAX, HELPERS_MAX, 50 - 3 * HELPERS_MAX]

    def brain(request: InferRequest) -> Completion:
        if "/sub/" in request.system.rsplit("Your address is", 1)[-1]:
            return say("done")
        if request.messages[-1].role == "tool":
            return say("all done")
        return call(*(("spawn", {"task": f"task {n}"}) for n in range(waves.pop(0))))

    async with open_daemon(tmp_path, Scripted(brain)) as house:
        while waves:
            assert await house.talk("go") == "all done"
        subs = await house.store.agents.find(kinds=["sub"], include_dead=True, limit=200)
        assert sorted(int(agent.path.rsplit("/", 1)[1]) for agent in subs) == list(range(50))


async def test_helpers_of_helpers_go_five_levels_deep_and_the_sixth_is_refused(
    tmp_path: Path, autojump_clock: object
) -> None:
    assert HELPER_LEVELS_MAX == 5

    def brain(request: InferRequest) -> Completion:
        if request.messages[-1].role == "tool":
            return say(request.messages[-1].parts[-1].text)  # type: ignore[union-attr]
        return call(("spawn", {"task": "go deeper"}))

    async with open_daemon(tmp_path, Scripted(brain)) as house:
        answer = await house.talk("go")
        assert "helpers of helpers go 5 levels deep" in answer
        subs = await house.store.agents.find(kinds=["sub"], include_dead=True)
        assert [agent.path for agent in subs] == [f"/ann/direct{'/sub/0' * level}" for level in range(1, 6)]
        deepest = await house.daemon.directory.at("/ann/direct" + "/sub/0" * 5)
        with pytest.raises(ConflictError, match="5 levels deep"):
            await house.daemon.directory.spawn(deepest, Kind.SUB, origin=Origin.AGENT)


async def test_words_in_addresses_are_no_levels(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        parent = await house.agent("/ann/agent/sub")
        for _ in range(HELPER_LEVELS_MAX):
            parent = await house.daemon.directory.spawn(parent, Kind.SUB, origin=Origin.AGENT)
        with pytest.raises(ConflictError, match="levels deep"):
            await house.daemon.directory.spawn(parent, Kind.SUB, origin=Origin.AGENT)


async def test_helpers_that_live_below_one_root_are_bounded_and_others_have_their_own_room(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with open_daemon(tmp_path, work=False) as house:
        spawn = house.daemon.directory.spawn
        root, other = await house.agent(A), await house.agent(B)
        child = await spawn(root, Kind.SUB, origin=Origin.AGENT)
        for number in range(SUBAGENTS_LIVING_MAX - 1):
            last = await spawn(child if number % 2 else root, Kind.SUB, origin=Origin.AGENT)
        for parent in (root, child):
            with pytest.raises(BusyError, match=f"{SUBAGENTS_LIVING_MAX} live there already"):
                await spawn(parent, Kind.SUB, origin=Origin.AGENT)
        await spawn(root, Kind.SEARCH, origin=Origin.AGENT)
        await spawn(other, Kind.SUB, origin=Origin.AGENT)
        await house.store.agents.set_state(last.id, "dead", "not needed")
        await spawn(root, Kind.SUB, origin=Origin.AGENT)


async def test_helpers_made_in_a_day_are_bounded_and_past_it_the_owner_is_told_once(
    tmp_path: Path, autojump_clock: object
) -> None:
    def brain(request: InferRequest) -> Completion:
        if request.messages[-1].role == "tool":
            return say(request.messages[-1].parts[-1].text)  # type: ignore[union-attr]
        return call(("spawn", {"task": "more"}))

    async with open_daemon(tmp_path, Scripted(brain)) as house:
        root = await house.agent("/ann/direct")
        for _ in range(SUBAGENTS_DAILY_MAX):
            child = await house.daemon.directory.spawn(root, Kind.SUB, origin=Origin.AGENT)
            await house.store.agents.set_state(child.id, "dead", "done")
        for _ in range(2):
            assert f"{SUBAGENTS_DAILY_MAX} were made within 24 hours" in await house.talk("go")
        assert len([text for text in await said_to(house) if "was stopped:" in text]) == 1


async def test_tomorrow_helpers_can_be_made_again(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, work=False) as house:
        root = await house.agent(A)
        for _ in range(SUBAGENTS_DAILY_MAX):
            child = await house.daemon.directory.spawn(root, Kind.SUB, origin=Origin.AGENT)
            await house.store.agents.set_state(child.id, "dead", "done")
        with pytest.raises(BusyError, match="within 24 hours"):
            await house.daemon.directory.spawn(root, Kind.SUB, origin=Origin.AGENT)
        await trio.sleep(SUBAGENTS_DAY_S)
        await house.daemon.directory.spawn(root, Kind.SUB, origin=Origin.AGENT)
