"""Asking other agents and making helpers: the answer always comes, once, and nobody waits in memory for it."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from daycare.base.errors import BusyError
from daycare.base.fence import fence
from daycare.base.limits import ATTEMPTS_MAX, HELPER_LEVELS_MAX, HELPERS_MAX
from daycare.plugin import Completion, InferRequest
from daycare.store.records import Agent, AgentConfig
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.scripted import Scripted, call, echo, say
from tests.actors.helpers import history, said_to

A, B = "/ann/agent/a", "/ann/agent/b"
SUB = "/ann/direct/sub/0"


def _results(request: InferRequest) -> list[str]:
    """Return what the tools called last have answered."""
    found: list[str] = []
    for message in reversed(request.messages):
        if message.role != "tool":
            break
        found[:0] = [part.text for part in message.parts]  # type: ignore[union-attr]
    return found


def _delegating(*calls: tuple[str, dict[str, Any]], helper: object = "done") -> Scripted:
    """Return a model whose main agent makes calls when told to `go`, and whose helpers say `helper`."""

    def brain(request: InferRequest) -> Completion:
        if "/sub/" in request.system.rsplit("Your address is", 1)[-1]:
            return helper(request) if callable(helper) else say(str(helper))
        if results := _results(request):
            return say(" | ".join(results))
        if request.messages[-1].text.endswith("] go"):
            return call(*calls)
        return echo(request)

    return Scripted(brain)


async def _settled(house: TestDaemon) -> None:
    await trio.sleep(1)
    assert (await house.store.inbox.counts())["waiting"] == 0
    assert await house.store.timers.find() == []


async def test_a_helper_s_answer_is_the_result_of_the_call(tmp_path: Path, autojump_clock: object) -> None:
    model = _delegating(("spawn", {"task": "count", "prompt": "You count."}), helper="42")
    async with open_daemon(tmp_path, model) as house:
        assert await house.talk("go") == f"{SUB}: 42"
        helper = model.history[1]
        assert "You count." in helper.system and helper.messages[-1].text.endswith(fence("message", "count"))
        assert await history(house) == [
            ("user", "go"),
            ("assistant", ""),
            ("tool", ""),
            ("assistant", f"{SUB}: 42"),
        ]
        assert await said_to(house) == [f"{SUB}: 42"], "the person reads one answer"
        await _settled(house)


async def test_while_a_turn_waits_its_agent_answers_others_and_holds_no_task(
    tmp_path: Path, autojump_clock: object
) -> None:
    model = _delegating(("spawn", {"task": "think"}))
    async with open_daemon(tmp_path, model) as house:
        first = await house.say("go")
        model.enqueue()  # the script is empty: the brain answers
        parent = await house.daemon.directory.at("/ann/direct")
        model.default, brain = _slow_helper(model), model.default
        await trio.sleep(5)
        assert [event["answers"] for event in house.events("turn.waiting")] == [1]
        house.daemon.supervisor.sleep_idle(0.0)
        await trio.testing.wait_all_tasks_blocked()
        assert parent.id not in house.daemon.supervisor.awake, "no task is held for it"
        assert await house.talk("hello") == "echo: hello", "the lane is free"
        assert (await house.store.inbox.receipt(first.seq)).state == "waiting"  # type: ignore[union-attr]
        model.default = brain
        assert await house.hear(first) == f"{SUB}: done"
        assert [words for role, words in await history(house) if role == "user"] == ["hello", "go"]
        await _settled(house)


def _slow_helper(model: Scripted) -> Any:
    brain = model.default

    def slow(request: InferRequest) -> Completion:
        if "/sub/" in request.system.rsplit("Your address is", 1)[-1]:
            raise BusyError("NOT_YET", "not yet")  # tried again for more than a minute
        return brain(request)

    return slow


async def test_parallel_calls_wait_together_and_keep_their_order(tmp_path: Path, autojump_clock: object) -> None:
    def helper(request: InferRequest) -> Completion:
        return say("did " + request.messages[-1].text.splitlines()[-2])

    calls = [("spawn", {"task": "one"}), ("now", {"zone": "UTC"}), ("spawn", {"task": "two"})]
    async with open_daemon(tmp_path, _delegating(*calls, helper=helper)) as house:
        first, now, second = (await house.talk("go")).split(" | ")
        assert first == f"{SUB}: did one" and second == "/ann/direct/sub/1: did two"
        assert now.endswith("UTC")
        await _settled(house)
        assert len(house.events("turn.finished")) == 3


async def test_without_waiting_the_answer_comes_as_a_message(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, _delegating(("spawn", {"task": "think", "wait": False}))) as house:
        assert await house.talk("go") == f"{SUB} works on it; its answer will come as a message"
        await _settled(house)
        assert (await said_to(house))[1].endswith(f"Message from {SUB} (not from the user):\ndone")


@pytest.mark.parametrize("wait", [True, False])
async def test_the_failure_of_a_helper_reaches_its_parent(tmp_path: Path, autojump_clock: object, wait: bool) -> None:
    def helper(request: InferRequest) -> Completion:
        raise BusyError("REQUEST_REFUSED", "the model of helpers refuses")

    async with open_daemon(tmp_path, _delegating(("spawn", {"task": "x", "wait": wait}), helper=helper)) as house:
        answer = await house.talk("go")
        await trio.sleep(600)
        heard = answer if wait else (await said_to(house))[-1]
        assert "no answer: the model of helpers refuses" in heard
        failed = [event for event in house.events("turn.failed") if event["path"] == SUB]
        assert len(failed) == ATTEMPTS_MAX


async def test_the_death_of_a_helper_reaches_its_parent(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, _delegating(("spawn", {"task": "x"}))) as house:
        house.model.default, _ = _slow_helper(house.model), None
        receipt = await house.say("go")
        await trio.sleep(2)
        child = await house.daemon.directory.at(SUB)
        await house.store.agents.set_state(child.id, "dead", "struck by lightning")
        assert await house.hear(receipt) == f"{SUB}: no answer: struck by lightning"


async def test_an_answer_that_does_not_come_in_time_is_said_and_still_read_later(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with open_daemon(tmp_path, _delegating(("spawn", {"task": "x", "deadline_s": 3}))) as house:
        brain = house.model.default
        house.model.default = _slow_helper(house.model)
        receipt = await house.say("go")
        assert "no answer came to spawn in time" in await house.hear(receipt, 10)
        house.model.default = brain
        await trio.sleep(600)
        assert (await said_to(house))[-1].endswith("(not from the user):\ndone")
        await _settled(house)


async def test_stop_ends_a_turn_that_waits_and_its_helpers(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, _delegating(("spawn", {"task": "x"}))) as house:
        house.model.default = _slow_helper(house.model)
        receipt = await house.say("go")
        await trio.sleep(2)
        assert await house.talk("/stop") == "Stopped."
        assert await house.hear(receipt, 5) == ""
        await trio.sleep(60)
        assert await house.daemon.directory.find(SUB) is None
        assert [words for role, words in await history(house) if role == "assistant"] == ["", "[stopped]"]
        assert await house.talk("/stop") == "Nothing is running."
        begun = Counter(event["path"] for event in house.events("turn.started"))
        assert begun["/ann/direct"] == 1
        await _settled(house)


async def test_a_parent_that_was_reset_hears_nothing_of_the_old_task(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, _delegating(("spawn", {"task": "x"}))) as house:
        house.model.default = _slow_helper(house.model)
        await house.say("go")
        await trio.sleep(2)
        await house.talk("/reset")
        await trio.sleep(600)
        assert await history(house) == []
        await _settled(house)


async def test_the_death_of_a_parent_ends_its_helpers(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, _delegating(("spawn", {"task": "x"}))) as house:
        house.model.default = _slow_helper(house.model)
        receipt = await house.say("go")
        await trio.sleep(2)
        parent = await house.daemon.directory.at("/ann/direct")
        house.daemon.supervisor.sleep_idle(0.0)
        await trio.testing.wait_all_tasks_blocked()
        await house.store.agents.set_state(parent.id, "dead", "gone")
        await trio.sleep(60)
        assert await house.daemon.directory.find(SUB) is None
        assert (await house.store.inbox.receipt(receipt.seq)).state == "dead"  # type: ignore[union-attr]
        await _settled(house)


async def test_helpers_go_some_levels_deep_and_no_deeper(tmp_path: Path, autojump_clock: object) -> None:
    def helper(request: InferRequest) -> Completion:
        results = _results(request)
        return say(results[0]) if results else call(("spawn", {"task": "deeper"}))

    async with open_daemon(tmp_path, _delegating(("spawn", {"task": "deep"}), helper=helper)) as house:
        answer = await house.talk("go")
        assert f"{HELPER_LEVELS_MAX} levels deep" in answer
        assert len(await house.store.agents.find(kinds=["sub"], include_dead=True)) == HELPER_LEVELS_MAX


async def test_helpers_at_work_are_bounded(tmp_path: Path, autojump_clock: object) -> None:
    calls = [("spawn", {"task": f"task {number}", "wait": False}) for number in range(HELPERS_MAX + 1)]
    async with open_daemon(tmp_path, _delegating(*calls)) as house:
        house.model.default = _slow_helper(house.model)
        answers = (await house.talk("go")).split(" | ")
        assert [f"{HELPERS_MAX} are at work" in answer for answer in answers] == [False] * HELPERS_MAX + [True]


async def test_a_helper_may_use_no_more_than_its_parent(tmp_path: Path, autojump_clock: object) -> None:
    calls = [("spawn", {"task": "x", "tools": ["now", "remind"]})]
    async with open_daemon(tmp_path, _delegating(*calls)) as house:
        await house.agent("/ann/direct", AgentConfig(tools=("spawn", "now")))
        await house.talk("go")
        assert [tool.name for tool in house.model.history[1].tools] == ["now"]


async def test_a_cycle_of_questions_is_refused_at_once(tmp_path: Path, autojump_clock: object) -> None:
    """A asks B, whose turn asks A back: B is told at once, and A gets its answer."""

    def brain(request: InferRequest) -> Completion:
        last = request.messages[-1]
        if last.role == "tool":
            return say(f"it said: {last.parts[0].text}")  # type: ignore[union-attr]
        return call(("ask", {"to": A if f"Your address is {B}." in request.system else B, "text": "back?"}))

    async with open_daemon(tmp_path, Scripted(brain)) as house:
        await house.agent(A)
        await house.agent(B)
        answer = await house.talk("go", path=A)
        assert trio.current_time() < 5, "nobody waited for a deadline"
        assert "it waits for this answer itself" in answer


async def test_two_agents_may_ask_each_other_about_different_things(tmp_path: Path, autojump_clock: object) -> None:
    def brain(request: InferRequest) -> Completion:
        last = request.messages[-1]
        if last.role == "tool":
            return say(f"heard {last.parts[0].text}")  # type: ignore[union-attr]
        if last.text.endswith("] go"):
            return call(("ask", {"to": A if f"Your address is {B}." in request.system else B, "text": "well?"}))
        return say("well")

    async with open_daemon(tmp_path, Scripted(brain)) as house:
        await house.agent(A)
        await house.agent(B)
        receipts = [await house.say("go", path=A), await house.say("go", path=B)]
        assert [await house.hear(receipt, 60) for receipt in receipts] == [f"heard {B}: well", f"heard {A}: well"]


async def test_a_result_comes_in_although_the_inbox_is_full(
    tmp_path: Path, autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daycare.store.sqlite.inbox.INBOX_MAX_MESSAGES", 60)
    async with open_daemon(tmp_path, _delegating(("spawn", {"task": "x"}))) as house:
        brain = house.model.default
        house.model.default = _slow_helper(house.model)
        receipt = await house.say("go")
        await trio.sleep(2)
        agent: Agent = await house.daemon.directory.at("/ann/direct")
        await house.store.agents.set_state(agent.id, "parked", "for the test")
        for number in range(60):
            await house.post("/ann/direct", f"message {number}", sender=A, key=f"m{number}")
        with pytest.raises(BusyError):
            await house.post("/ann/direct", "one too many", sender=A, key="m60")
        house.model.default = brain
        await trio.sleep(300)
        await house.store.agents.set_state(agent.id, "living")
        house.daemon.supervisor.posted(await house.store.inbox.waiting(agent.id, limit=1))
        assert await house.hear(receipt) == f"{SUB}: done"
        assert await house.store.dead.count() == 0
