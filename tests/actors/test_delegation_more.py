"""Asking and helping at bad moments: crashes, stops, interruptions and idleness in between."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from daycare.actors.turn_room import TurnRoom
from daycare.agent.sections import Prompts
from daycare.base.errors import BudgetError, DaycareError, UnavailableError
from daycare.base.limits import CHILD_IDLE_S
from daycare.base.messages import Message
from daycare.plugin import Completion, InferRequest
from daycare.store.records import Agent, AgentConfig, Policy
from daycare.testing.crash import Doom, live
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.scripted import Scripted, bare, call, echo, say
from daycare.tools.runner import Runner
from tests.actors.helpers import history, said_to, tools

SUB = "/ann/direct/sub/0"


def _is_helper(request: InferRequest) -> bool:
    return "/sub/" in request.system.rsplit("Your address is", 1)[-1]


class Slow(Scripted):
    """The main agent spawns when told to `go`; its helpers think for `think_s`, then say `done`."""

    def __init__(self, *calls: tuple[str, dict[str, Any]], think_s: float = 100.0) -> None:
        super().__init__(self._main)
        self.calls = calls or (("spawn", {"task": "x"}),)
        self.think_s = think_s

    def _main(self, request: InferRequest) -> Completion:
        last = request.messages[-1]
        if _is_helper(request):
            return say("done")
        if last.role == "tool":
            return say("read " + " | ".join(part.text for part in last.parts))  # type: ignore[union-attr]
        return call(*self.calls) if last.text.endswith("] go") else echo(request)

    async def infer(self, request: InferRequest):  # type: ignore[no-untyped-def]
        if _is_helper(request):
            await trio.sleep(self.think_s)
        elif request.messages[-1].text.endswith("slow"):
            await trio.sleep(10)
        async for event in super().infer(request):
            yield event


async def test_a_stop_that_a_crash_interrupts_ends_the_helpers_all_the_same(
    tmp_path: Path, autojump_clock: object
) -> None:
    model = Slow(think_s=100)

    async def story(house: TestDaemon) -> None:
        await house.say("go")
        await trio.sleep(5)
        await house.talk("/stop", key="stop")

    stopped = "SELECT 1 FROM history WHERE state = 'stopped'"
    assert await live(tmp_path, model, Doom(when=stopped), story)

    async with open_daemon(tmp_path, model, location="daycare.db") as house:
        await trio.sleep(1_000)
        assert await house.daemon.directory.find(SUB) is None, "a helper works on what was stopped"
        assert not any("done" in text for text in await said_to(house))


async def test_an_answer_that_waits_unread_at_a_reset_is_not_read_in_the_new_conversation(
    tmp_path: Path, autojump_clock: object
) -> None:
    """The parent is busy with its turn when its helper's answer comes, and is reset before it can read it."""
    model = Slow(("spawn", {"task": "x", "wait": False}), think_s=0)
    async with open_daemon(tmp_path, model) as house:
        main, model.default = model.default, model.default

        def busy(request: InferRequest) -> Completion:
            if not _is_helper(request) and request.messages[-1].role == "tool":
                raise UnavailableError("MODEL_BUSY", "later", retry_after_s=30)
            return main(request)

        model.default = busy
        await house.say("go")
        await trio.sleep(5)
        await house.talk("/reset")
        await trio.sleep(600)
        assert await history(house) == []


async def test_an_answer_in_hand_is_not_lost_when_its_turn_is_interrupted(
    tmp_path: Path, autojump_clock: object
) -> None:
    """The answer of the first helper has come, the turn waits for the second, and the person says something else."""
    calls = [("spawn", {"task": "one"}), ("spawn", {"task": "two"})]
    async with open_daemon(tmp_path, Slow(*calls, think_s=5)) as house:
        await house.agent("/ann/direct", AgentConfig(policy=Policy.INTERRUPT))
        await house.say("go")
        await trio.sleep(2)
        assert await house.talk("hello") == "echo: hello"
        await trio.sleep(100)
        assert any("done" in text for text in await said_to(house))


async def _then(house: TestDaemon, ending: str) -> None:
    if ending in ("/stop", "hello"):
        await house.talk(ending)
    await trio.sleep(600)


@pytest.mark.parametrize(
    ("ending", "error"),
    [
        ("/stop", None),
        ("hello", None),  # the policy is to interrupt
        ("given up", UnavailableError("AWAY", "the disk is away")),
        ("no budget", BudgetError("BUDGET_SPENT", "nothing is left")),
    ],
)
async def test_an_answer_that_came_is_in_the_history_of_a_turn_that_ends_before_reading_it(
    tmp_path: Path, autojump_clock: object, monkeypatch: pytest.MonkeyPatch, ending: str, error: DaycareError | None
) -> None:
    """The turn goes on with its helper's answer, and ends while its prompt is made: before it journals the answer."""
    of = Prompts.of
    goes_on = False

    async def trouble(self: Prompts, agent: Agent, *rest: Any) -> Any:
        if goes_on and agent.path == "/ann/direct":
            if error is not None:
                raise error
            await trio.sleep(10)
        return await of(self, agent, *rest)

    monkeypatch.setattr(Prompts, "of", trouble)
    async with open_daemon(tmp_path, Slow(think_s=5)) as house:
        await house.agent("/ann/direct", AgentConfig(policy=Policy.INTERRUPT))
        await house.say("go")
        await trio.sleep(2)
        goes_on = True
        await trio.sleep(4)
        await _then(house, ending)
        agent = await house.daemon.directory.at("/ann/direct")
        messages = await house.store.turns.history(agent.id, agent.session, 200)
        results = [part.text for message in messages if message.role == "tool" for part in message.parts]  # type: ignore[union-attr]
        assert results == [f"{SUB}: done"], ending


@pytest.mark.parametrize("session", ["the same", "a scheduled run's"])
@pytest.mark.parametrize(
    ("ending", "error"),
    [
        ("/stop", None),
        ("hello", None),  # the policy is to interrupt
        ("given up", UnavailableError("AWAY", "the sandbox is away")),
        ("no budget", BudgetError("BUDGET_SPENT", "nothing is left")),
    ],
)
async def test_an_answer_in_the_mailbox_of_a_turn_that_still_runs_is_in_its_history_when_it_is_ended(
    tmp_path: Path,
    autojump_clock: object,
    monkeypatch: pytest.MonkeyPatch,
    ending: str,
    error: DaycareError | None,
    session: str,
) -> None:
    """The helper answers while the turn that has asked runs another tool; nobody has read that when the turn ends."""
    run = Runner.run

    async def trouble(self: Runner, *rest: Any) -> Any:
        done = await run(self, *rest)
        if error is not None and done.text == "waited":
            raise error
        return done

    monkeypatch.setattr(Runner, "run", trouble)
    calls: list[tuple[str, dict[str, Any]]] = [("spawn", {"task": "x"}), ("wait", {"seconds": 10})]
    async with open_daemon(tmp_path, Slow(*calls, think_s=2), plugins=[tools]) as house:
        agent = await house.agent("/ann/direct", AgentConfig(policy=Policy.INTERRUPT))
        await house.say("go")
        await trio.sleep(5)
        if session != "the same":
            await house.store.agents.new_session(agent.id, session)
        await _then(house, ending)
        messages = _all_said(house)
        results = [part.text for message in messages if message.role == "tool" for part in message.parts]  # type: ignore[union-attr]
        assert results[0] == f"{SUB}: done", results
        assert not any("done" in message.text for message in messages if message.role == "user"), "once"
        assert await house.store.inbox.waiting(agent.id) == []
        buried = [letter.source for letter in await house.store.dead.find()]
        assert buried == (["inbox"] if ending == "given up" else []), "the question alone"


def _all_said(house: TestDaemon) -> list[Message]:
    """Return the messages of the main agent, of all its sessions."""
    rows = house.store._db.execute(
        "SELECT unpacked(messages) FROM history JOIN agents ON agents.id = agent_id"
        " WHERE path = '/ann/direct' ORDER BY turn"
    )
    return [message for (text,) in rows.fetchall() for message in msgspec.json.decode(str(text), type=list[Message])]


async def test_a_helper_that_waits_for_another_is_not_idle(tmp_path: Path, autojump_clock: object) -> None:
    """It has ended a later turn meanwhile, so that its newest turn has ended long ago."""

    def brain(request: InferRequest) -> Completion:
        path = request.system.rsplit("Your address is ", 1)[-1].split(". ")[0]
        last = request.messages[-1]
        if path.count("/sub/") == 2:
            raise UnavailableError("AWAY", "not yet")
        if last.role == "tool":
            return say("read " + last.parts[0].text)  # type: ignore[union-attr]
        if path == SUB and "x" in bare(last.text.partition("] ")[2]).splitlines()[-1]:
            return call(("spawn", {"task": "y", "deadline_s": 3_000.0}))
        return call(("spawn", {"task": "x", "deadline_s": 3_500.0})) if last.text.endswith("] go") else echo(request)

    model = Scripted(brain)
    async with open_daemon(tmp_path, model) as house:
        await house.say("go")
        await trio.sleep(10)
        await house.post(SUB, "by the way", sender="/ann/direct", key="aside")
        await trio.sleep(2 * CHILD_IDLE_S + 200)
        assert await house.daemon.directory.find(SUB) is not None, await said_to(house)


async def test_a_stop_ends_helpers_that_nobody_waits_for(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, Slow(("spawn", {"task": "x", "wait": False}), think_s=100)) as house:
        assert "works on it" in await house.talk("go")
        await trio.sleep(5)
        assert await house.talk("/stop") == "Stopped."
        await trio.sleep(1)
        assert await house.daemon.directory.find(SUB) is None
        await trio.sleep(600)
        assert not any("done" in text for text in await said_to(house))


async def test_a_reset_ends_a_turn_that_was_about_to_go_on(tmp_path: Path, autojump_clock: object) -> None:
    """Its answer has come, and it was begun with the end of another turn, but waits for room among running turns."""
    model = Slow(think_s=5)
    async with open_daemon(tmp_path, model) as house:
        room = house.daemon.supervisor.room = TurnRoom(2)
        first = await house.say("go")
        await trio.sleep(1)
        second = await house.say("something slow")
        await trio.sleep(7)  # the helper has answered
        for _ in range(2):
            if not room.enter():
                await room.wait()  # the slow turn has ended, and the one that goes on has no room
        assert await house.hear(second) == "echo: something slow"
        assert (await house.store.turns.aside((await house.daemon.directory.at("/ann/direct")).id)) == []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(house.say, "/reset")
            await trio.sleep(1)
            room.leave()
            room.leave()
        await trio.sleep(60)
        assert await history(house) == []
        assert not any("done" in text for text in await said_to(house)), await said_to(house)
        assert await house.hear(first, 5) == ""


async def test_who_asked_a_helper_of_another_agent_hears_that_it_was_dismissed(
    tmp_path: Path, autojump_clock: object
) -> None:
    """Its parent has dismissed it, and so wants to hear nothing; but another agent waits for its answer, too."""
    other = "/ann/agent/b"

    def brain(request: InferRequest) -> Completion:
        last = request.messages[-1]
        if last.role == "tool":
            return say("read " + last.parts[0].text)  # type: ignore[union-attr]
        if f"Your address is {other}." in request.system:
            return call(("ask", {"to": SUB, "text": "well?", "deadline_s": 3_000.0}))
        return call(("spawn", {"task": "x"})) if last.text.endswith("] go") else echo(request)

    class Away(Scripted):
        async def infer(self, request: InferRequest):  # type: ignore[no-untyped-def]
            if _is_helper(request):
                await trio.sleep(100)
            async for event in super().infer(request):
                yield event

    async with open_daemon(tmp_path, Away(brain)) as house:
        await house.agent(other)
        await house.say("go")
        await trio.sleep(5)
        asked = await house.say("go", path=other)
        await trio.sleep(5)
        await house.talk("/stop")
        assert "no answer" in await house.hear(asked, 60)
