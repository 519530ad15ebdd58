"""What a message does that arrives while its agent is in a turn, by policy; and what is merged into one turn."""

from pathlib import Path

import trio
import trio.testing

from daycare.actors.supervisor import COLLECT_MAX_S, COLLECT_QUIET_S
from daycare.base.limits import MERGE_MAX_MESSAGES
from daycare.features.history.rows import HistoryRows
from daycare.plugin import Inbound
from daycare.store.records import AgentConfig, Policy, User
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.scripted import Scripted, call, say
from tests.actors.helpers import config, heard, said_to, tools


async def _turns(house: TestDaemon) -> list[tuple[int, ...]]:
    await trio.testing.wait_all_tasks_blocked()  # an answer is heard before its turn is announced
    return [tuple(event["seqs"]) for event in house.events("turn.finished")]  # type: ignore[arg-type]


async def test_steer_shows_a_message_to_the_running_turn(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    model.enqueue(call(("wait", {"seconds": 10})), say("both answered"))
    async with open_daemon(tmp_path, model, plugins=[tools]) as house:
        first = await house.say("find a train")
        await trio.sleep(5)
        second = await house.say("to Bonn, I mean")
        assert await house.hear(first) == await house.hear(second) == "both answered"
        assert heard(house) == [["find a train"], ["find a train", "to Bonn, I mean"]]
        assert [message.role for message in model.history[1].messages] == ["user", "assistant", "tool", "user"]
        assert await _turns(house) == [(first.seq, second.seq)], "acknowledged with the turn that saw it"
        history = await house.store.of(HistoryRows).page(first.agent_id, before=2**62, limit=1)
        assert history.turns[0].seqs == (first.seq, second.seq)
        assert await said_to(house) == ["both answered"]


async def test_what_comes_during_the_last_answer_is_the_next_turn(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    model.enqueue(10.0)
    async with open_daemon(tmp_path, model) as house:
        first = await house.say("one")
        await trio.sleep(5)
        second = await house.say("two")
        assert await house.hear(second) == "echo: two"
        assert await _turns(house) == [(first.seq,), (second.seq,)]


async def test_nobody_else_steers_a_persons_turn(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    model.enqueue(call(("wait", {"seconds": 10})), say("first"))
    async with open_daemon(tmp_path, model, plugins=[tools]) as house:
        first = await house.say("go")
        await trio.sleep(5)
        other = await house.post("/ann/direct", "psst", sender="/ann/agent/other", key="k")
        third = await house.say("and?")
        await house.hear(third)
        assert await _turns(house) == [(first.seq,), (other.seq,), (third.seq,)], "nor does anyone overtake"


async def test_followup_leaves_a_message_for_the_next_turn(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    model.enqueue(call(("wait", {"seconds": 10})), say("first answered"))
    async with open_daemon(tmp_path, model, config=config(Policy.FOLLOWUP), plugins=[tools]) as house:
        first = await house.say("one")
        await trio.sleep(5)
        second, third = await house.say("two"), await house.say("three")
        assert await house.hear(first) == "first answered"
        assert await house.hear(third) == "echo: three"
        assert await _turns(house) == [(first.seq,), (second.seq, third.seq)]


async def test_collect_merges_what_comes_before_a_silence(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, config=config(Policy.COLLECT)) as house:
        receipts = []
        for word in ("buy", "milk", "please"):
            receipts.append(await house.say(word))
            await trio.sleep(COLLECT_QUIET_S * 0.8)
        await house.hear(receipts[-1])
        assert await _turns(house) == [tuple(receipt.seq for receipt in receipts)]
        assert COLLECT_QUIET_S * 2 < trio.current_time() < COLLECT_QUIET_S * 5


async def test_collect_does_not_wait_for_a_talker_for_ever(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, config=config(Policy.COLLECT)) as house:
        first = await house.say("word")
        async with trio.open_nursery() as nursery:

            async def talk() -> None:
                while True:
                    await trio.sleep(1)
                    await house.say("more")

            nursery.start_soon(talk)
            await house.hear(first)
            nursery.cancel_scope.cancel()
        assert trio.current_time() <= COLLECT_MAX_S + COLLECT_QUIET_S


async def test_interrupt_ends_the_running_turn(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    async with open_daemon(tmp_path, model, config=config(Policy.INTERRUPT)) as house:
        model.enqueue(500.0)
        first = await house.say("long story")
        await trio.sleep(5)
        model._script.clear()
        assert await house.talk("short story") == "echo: short story"
        assert trio.current_time() < 10
        assert await house.hear(first) == ""
        assert heard(house)[-1] == ["long story", "short story"]


async def test_an_agents_own_policy_goes_before_the_installations(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    model.enqueue(call(("wait", {"seconds": 10})), say("first"))
    async with open_daemon(tmp_path, model, plugins=[tools]) as house:
        await house.agent("/ann/agent/desk", AgentConfig(policy=Policy.FOLLOWUP))
        first = await house.say("one", path="/ann/agent/desk")
        await trio.sleep(5)
        second = await house.say("two", path="/ann/agent/desk")
        await house.hear(second)
        assert await _turns(house) == [(first.seq,), (second.seq,)]


async def test_queued_messages_of_one_person_are_one_turn(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    model.enqueue(10.0)
    async with open_daemon(tmp_path, model) as house:
        first = await house.say("one")
        await trio.sleep(1)
        more = [await house.say(f"more {n}") for n in range(MERGE_MAX_MESSAGES + 3)]
        assert await house.hear(more[-1]) == f"echo: more {MERGE_MAX_MESSAGES + 2}"
        seqs = tuple(receipt.seq for receipt in more)
        assert await _turns(house) == [(first.seq,), seqs[:MERGE_MAX_MESSAGES], seqs[MERGE_MAX_MESSAGES:]]
        assert await house.hear(more[0]) == await house.hear(more[5]), "each is answered by the turn it was part of"


async def test_messages_of_two_people_are_two_turns(tmp_path: Path, autojump_clock: object) -> None:
    """Two of the user's addresses count as two people: an answer goes where its question came from."""
    model = Scripted()
    async with open_daemon(tmp_path, model) as house:
        await house.store.people.link("direct:laptop", "ann")
        await house.store.people.add(User(id="bob", name="Bob", keys=("direct:bob",)))
        model.enqueue(10.0)
        first = await house.say("wait")
        await trio.sleep(1)
        mine = await house.say("mine", path="/ann/direct")
        other = await house.daemon.intake.accept(
            Inbound(connector="direct", sender="direct:laptop", key="l1", text="also mine")
        )
        assert await house.hear(other) == "echo: also mine"
        assert await _turns(house) == [(first.seq,), (mine.seq,), (other.seq,)]
