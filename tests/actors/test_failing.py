"""Failures: retried with backoff, then parked with a reason, and never at the cost of anybody else."""

from collections.abc import AsyncGenerator
from pathlib import Path

import msgspec
import pytest
import trio
import trio.testing

from daycare.actors.failures import CRASHES_MAX
from daycare.actors.supervisor import LANE_RESTART_S
from daycare.base.errors import BrokenError, BusyError, ConflictError, StoreAwayError, UnavailableError
from daycare.base.limits import ATTEMPTS_MAX, TURN_DEADLINE_S
from daycare.base.messages import Envelope
from daycare.daemon import Daemon
from daycare.plugin import Completion, InferRequest, StreamEvent
from daycare.testing.clock import VirtualClock
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.scripted import Scripted, call, echo, say
from tests.actors.helpers import heard, history, said_to, tools

REFUSED = BusyError("REQUEST_REFUSED", "asking the model: it refuses")


async def test_a_failing_turn_is_retried_with_backoff_and_then_parked(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    model.enqueue(*[REFUSED] * ATTEMPTS_MAX)
    async with open_daemon(tmp_path, model) as house:
        begun = house.daemon.clock.now_ms()
        first = await house.say("hello")
        with pytest.raises(ConflictError) as caught:
            await house.hear(first)
        assert caught.value.code == "MESSAGE_DEAD"
        failed = house.events("turn.failed")
        assert [event["attempt"] for event in failed] == [1, 2, 3, 4, 5]
        assert [event.get("retry_in_s") for event in failed] == [1.0, 4.0, 16.0, 64.0, None]
        assert [int(str(event["at_ms"])) - begun for event in failed] == [0, 1_000, 5_000, 21_000, 85_000]
        [letter] = await house.store.dead.find()
        assert (letter.code, letter.reason, letter.attempts) == ("REQUEST_REFUSED", REFUSED.message, ATTEMPTS_MAX)
        assert msgspec.json.decode(letter.body, type=Envelope).text == "hello"
        [told] = await said_to(house)
        assert told.startswith("I could not answer this: asking the model: it refuses.") and "dead list" in told
        assert await house.talk("next") == "echo: next", "the lane moves on"
        assert (await history(house))[:2] == [("user", "hello"), ("assistant", "[failed: REQUEST_REFUSED]")]


async def test_messages_to_a_broken_lane_wait_for_its_restart_together(
    tmp_path: Path, autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_daemon(tmp_path, Scripted()) as house:
        await house.talk("hello")
        await trio.testing.wait_all_tasks_blocked()
        house.daemon.supervisor.sleep_idle(0.0)
        await trio.testing.wait_all_tasks_blocked()
        assert not house.daemon.supervisor.awake

        async def broken(agent_id: str) -> None:
            raise BrokenError("STORE_ERROR", "reading turns: a row makes no sense")

        with monkeypatch.context() as patch:
            patch.setattr(house.store.turns, "open_turn", broken)
            receipts = [await house.say(f"message {number}") for number in range(20)]
            await trio.sleep(LANE_RESTART_S / 2)
            assert len(house.events("lane.broke")) == 1
            await trio.sleep(LANE_RESTART_S)
            assert len(house.events("lane.broke")) == 2
        for receipt in receipts:
            await house.hear(receipt)
        words = [text for role, text in await history(house) if role == "user"]
        assert words == ["hello", *(f"message {number}" for number in range(20))]


async def test_a_lane_waits_for_a_store_that_cannot_be_read(
    tmp_path: Path, autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_daemon(tmp_path, Scripted()) as house:

        async def away(*_: object, **__: object) -> None:
            raise StoreAwayError("STORE_IO", "using the database: disk I/O error")

        with monkeypatch.context() as patch:
            patch.setattr(house.store.turns, "open_turn", away)
            patch.setattr(house.store.inbox, "waiting", away)
            receipt = await house.say("hello")
            await trio.sleep(100.0)
        assert await house.hear(receipt, 10.0) == "echo: hello"
        assert house.events("lane.broke") == []


async def test_a_store_that_cannot_be_read_costs_a_turn_no_try(
    tmp_path: Path, autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_daemon(tmp_path, Scripted()) as house:

        async def away(*_: object, **__: object) -> None:
            raise StoreAwayError("STORE_IO", "using the database: disk I/O error")

        with monkeypatch.context() as patch:
            patch.setattr(house.store.summaries, "latest", away)
            receipt = await house.say("hello")
            await trio.sleep(1_000.0)
        [failed] = house.events("turn.failed")
        assert (failed["code"], failed["attempt"]) == ("STORE_IO", 1), "it is told once"
        assert await house.hear(receipt, 10.0) == "echo: hello"
        assert await house.store.dead.count() == 0
        assert await said_to(house) == ["echo: hello"], "nobody is bothered with it"


async def test_a_provider_says_how_long_to_wait(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    model.enqueue(UnavailableError("MODEL_BUSY", "too many requests", retry_after_s=30.0))
    async with open_daemon(tmp_path, model) as house:
        assert await house.talk("hello") == "echo: hello"
        assert trio.current_time() == pytest.approx(30.0, abs=0.1)


async def test_a_retried_turn_keeps_its_finished_steps(
    tmp_path: Path, autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = tmp_path / "ledger"
    monkeypatch.setenv("DAYCARE_TEST_LEDGER", str(ledger))
    model = Scripted()
    model.enqueue(call(("charge", {"account": "ann"})), REFUSED, REFUSED, say("charged"))
    async with open_daemon(tmp_path, model) as house:
        assert await house.talk("pay") == "charged"
        assert ledger.read_text() == "charge ann\n"
        assert len(model.history) == 4, "the first model call is not repeated"
        assert model.history[1].messages == model.history[3].messages


async def test_backoff_goes_on_where_it_was_after_a_restart(tmp_path: Path, autojump_clock: object) -> None:
    clock = VirtualClock()
    model = Scripted()
    model.enqueue(REFUSED, REFUSED, REFUSED)
    async with open_daemon(tmp_path, model, location="daycare.db", clock=clock) as house:
        receipt = await house.say("hello")
        await trio.sleep(10)  # the fourth try is due at 21 s
    async with open_daemon(tmp_path, model, location="daycare.db", clock=clock) as house:
        assert await house.hear(receipt) == "echo: hello"
        assert trio.current_time() == pytest.approx(21.0, abs=0.1)


async def test_a_defect_in_a_tool_is_words_for_the_model(tmp_path: Path, autojump_clock: object) -> None:
    def brain(request: InferRequest) -> Completion:
        last = request.messages[-1]
        if last.role == "tool":
            return say(last.parts[0].text)  # type: ignore[union-attr]
        return call(("explode", {})) if "bang" in last.text else echo(request)

    async with open_daemon(tmp_path, Scripted(brain), plugins=[tools]) as house:
        assert await house.talk("bang") == "explode crashed: ZeroDivisionError: a defect"
        assert await house.talk("still there?") == "echo: still there?"
        assert house.events("turn.failed") == []


async def test_a_turn_that_takes_too_long_is_a_failed_one(tmp_path: Path, autojump_clock: object) -> None:
    wait = ("wait", {"seconds": 119})  # each call within its own deadline, for ever
    model = Scripted(lambda _: call(wait, wait))
    async with open_daemon(tmp_path, model, plugins=[tools]) as house:
        await house.say("hello")
        await trio.sleep(TURN_DEADLINE_S + 60)
        assert [event["code"] for event in house.events("turn.failed")] == ["TURN_LATE"]


async def test_the_sender_agent_is_told_of_a_failure_once(tmp_path: Path, autojump_clock: object) -> None:
    def answer(request: InferRequest) -> Completion:
        if "doomed" in request.messages[-1].text and "could not" not in request.messages[-1].text:
            raise REFUSED
        return say("noted")

    async with open_daemon(tmp_path, Scripted(answer)) as house:
        await house.agent("/ann/agent/boss")
        await house.agent("/ann/agent/worker")
        await house.post("/ann/agent/worker", "doomed", sender="/ann/agent/boss", key="k")
        await trio.sleep(200)
        said = [text for role, text in await history(house, "/ann/agent/boss") if role == "user"]
        assert len(said) == 1 and "I could not answer this: asking the model: it refuses" in said[0]


async def _park(house: TestDaemon, pause_s: float = 0.0) -> None:
    for n in range(CRASHES_MAX):
        receipt = await house.say(f"bad {n}")
        with pytest.raises(ConflictError):
            await house.hear(receipt)
        await trio.sleep(pause_s)


@pytest.mark.parametrize("pause_s", [0.0, 45.0], ids=["at once", "sleeping in between"])
async def test_an_agent_whose_turns_are_given_up_again_and_again_is_parked(
    tmp_path: Path, autojump_clock: object, pause_s: float
) -> None:
    model = Scripted()
    model.enqueue(*[BusyError("BAD", "no")] * (ATTEMPTS_MAX * CRASHES_MAX))
    async with open_daemon(tmp_path, model) as house:
        await _park(house, pause_s)
        await trio.sleep(1)
        agent = await house.daemon.directory.at("/ann/direct")
        assert agent.state == "parked" and agent.reason and "5 turns given up" in agent.reason
        assert [event["path"] for event in house.events("agent.parked")] == ["/ann/direct"]
        assert "daycare agents unpark /ann/direct" in str(house.events("notice")[-1]["text"])
        waiting = await house.say("are you there?")
        await trio.sleep(600)
        assert len(model.history) == ATTEMPTS_MAX * CRASHES_MAX, "it takes no turns"
        assert await house.talk("/whoami"), "but it obeys"
        await unpark(house.daemon, agent.id)
        assert await house.hear(waiting) == "echo: are you there?"


async def unpark(daemon: Daemon, agent_id: str) -> None:
    await daemon.store.agents.set_state(agent_id, "living")
    daemon.supervisor.wake(agent_id)


async def test_failures_far_apart_park_nobody(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    model.enqueue(*[BusyError("BAD", "no")] * (ATTEMPTS_MAX * CRASHES_MAX))
    async with open_daemon(tmp_path, model) as house:
        await _park(house, pause_s=200.0)
        assert (await house.daemon.directory.at("/ann/direct")).state == "living"


async def test_a_dead_letter_is_replayed_once(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    model.enqueue(*[REFUSED] * ATTEMPTS_MAX)
    async with open_daemon(tmp_path, model) as house:
        first = await house.say("hello")
        with pytest.raises(ConflictError):
            await house.hear(first)
        [letter] = await house.store.dead.find()
        seq = await house.store.dead.replay(letter.no)
        await trio.sleep(1)
        receipt = await house.store.inbox.receipt(seq)
        assert receipt is not None and receipt.result == "echo: hello"
        assert (await said_to(house))[-1] == "echo: hello", "the answer goes where the question came from"
        with pytest.raises(ConflictError):
            await house.store.dead.replay(letter.no)


async def test_a_message_that_kills_the_daemon_is_parked_at_last(tmp_path: Path, autojump_clock: object) -> None:
    """Each house is left in the middle of the turn, as if the process had died of it."""
    clock = VirtualClock()
    model = Scripted()
    model.default = lambda request: say("fine")
    poison = Scripted()
    poison.enqueue(*[1_000.0] * 20)
    async with open_daemon(tmp_path, poison, location="daycare.db", clock=clock) as house:
        receipt = await house.say("poison")
        await trio.sleep(1)
    crashes = 1
    while len(poison.history) == crashes and crashes < 20:
        async with open_daemon(tmp_path, poison, location="daycare.db", clock=clock) as house:
            await trio.sleep(1)
            crashes = min(crashes + 1, 20)
            letters = await house.store.dead.find()
    assert len(poison.history) == ATTEMPTS_MAX
    assert [letter.code for letter in letters] == ["TURN_POISON"]
    async with open_daemon(tmp_path, model, location="daycare.db", clock=clock) as house:
        done = await house.store.inbox.receipt(receipt.seq)
        assert done is not None and done.state == "dead"
        assert "the daemon died each time that turn 1 of /ann/direct alone was at work" in (await said_to(house))[0]
        assert await house.talk("hello", key="other") == "fine"


async def test_messages_merged_with_a_deadly_one_survive_it(tmp_path: Path, autojump_clock: object) -> None:
    clock = VirtualClock()
    model = Deadly()
    async with open_daemon(tmp_path, model, location="daycare.db", clock=clock, work=False) as house:
        receipts = [await house.say(text) for text in ("one", "poison", "three")]
    model.died = True
    while model.died and len(model.history) < 20:
        model.died = False
        async with open_daemon(tmp_path, model, location="daycare.db", clock=clock) as house:
            await trio.sleep(2)
            ends = [await house.store.inbox.receipt(receipt.seq) for receipt in receipts]
            letters = await house.store.dead.find()
    assert [(end.state, end.result) for end in ends if end][::2] == [("done", "echo: one"), ("done", "echo: three")]
    assert [(letter.code, letter.seq) for letter in letters] == [("TURN_POISON", receipts[1].seq)]


class Deadly(Scripted):
    """A model whose house does not survive the word poison: it hangs until the block is left."""

    died = False

    async def infer(self, request: InferRequest) -> AsyncGenerator[StreamEvent, None]:
        """Answer, or hang."""
        self.history.append(request)
        if any("poison" in message.text for message in request.messages[_after_answer(request) :]):
            self.died = True
            await trio.sleep_forever()
        yield echo(request)


def _after_answer(request: InferRequest) -> int:
    answers = [n for n, message in enumerate(request.messages) if message.role == "assistant"]
    return answers[-1] + 1 if answers else 0


async def test_an_orderly_stop_costs_no_attempt(tmp_path: Path, autojump_clock: object) -> None:
    clock = VirtualClock()
    model = Scripted()
    receipt = None
    for n in range(ATTEMPTS_MAX + 2):
        model.enqueue(1_000.0)
        async with open_daemon(tmp_path, model, location="daycare.db", clock=clock) as house:
            if n == 0:
                receipt = await house.say("think")
            await trio.sleep(1)
            await house.daemon.supervisor.stop(5.0)
            await trio.testing.wait_all_tasks_blocked()
            assert not house.daemon.supervisor.awake
        model._script.clear()
    async with open_daemon(tmp_path, model, location="daycare.db", clock=clock) as house:
        assert receipt is not None
        assert await house.hear(receipt) == "echo: think"
        assert [event["attempt"] for event in house.events("turn.started")] == [1]


async def test_a_turn_may_finish_within_the_grace_of_a_stop(tmp_path: Path, autojump_clock: object) -> None:
    clock = VirtualClock()
    model = Scripted()
    model.enqueue(3.0)
    async with open_daemon(tmp_path, model, location="daycare.db", clock=clock) as house:
        first = await house.say("think")
        await trio.sleep(1)
        second = await house.say("more")
        await house.daemon.supervisor.stop(10.0)
        assert trio.current_time() < 5, "no longer than needed"
        done = [await house.store.inbox.receipt(receipt.seq) for receipt in (first, second)]
        assert [receipt.state for receipt in done if receipt] == ["done", "waiting"], "no new turn begins"
    async with open_daemon(tmp_path, model, location="daycare.db", clock=clock) as house:
        assert await house.hear(second) == "echo: more"
        assert heard(house)[-1] == ["think", "more"]
