"""The control lane: /stop and /reset get through whatever else is going on."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from daycare.agent.commands import Command, CommandAnswer
from daycare.base.errors import BusyError, UnavailableError
from daycare.base.limits import INBOX_MAX_MESSAGES
from daycare.base.messages import Envelope, EnvelopeKind, Lane, Origin
from daycare.base.path import Kind
from daycare.store.records import Policy, Receipt, Step, Turn
from daycare.store.records_prompts import ShownPrompt
from daycare.store.retry import with_retry
from daycare.testing.daemon import OWNER, open_daemon
from daycare.testing.scripted import Scripted, call, say
from tests.actors.helpers import config, heard, history, said_to, tools


async def test_stop_aborts_a_long_turn_and_what_it_did_stays_in_the_history(
    tmp_path: Path, autojump_clock: object
) -> None:
    model = Scripted()
    model.enqueue(call(("note", {"word": "milk"}), text="I note it."), 500.0, say("never said"))
    async with open_daemon(tmp_path, model) as house:
        first = await house.say("remember milk")
        await trio.sleep(5)
        assert await house.talk("/stop") == "Stopped."
        assert trio.current_time() < 10, "the turn was not waited for"
        assert await house.hear(first) == ""
        assert await history(house) == [
            ("user", "remember milk"),
            ("assistant", "I note it."),
            ("tool", ""),
            ("assistant", "[stopped]"),
        ]
        model._script.clear()
        assert await house.talk("and now?") == "echo: and now?"
        assert heard(house)[-1] == ["remember milk", "and now?"], "the model knows what was done"
        assert await said_to(house) == ["Stopped.", "echo: and now?"]


async def test_stop_with_nothing_running_says_so(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        assert await house.talk("/stop") == "Nothing is running."


async def test_stop_reaches_a_turn_that_waits_to_be_tried_again(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    model.enqueue(*[BusyError("REQUEST_REFUSED", "the model refuses the request")] * 3)
    async with open_daemon(tmp_path, model) as house:
        first = await house.say("hello")
        await trio.sleep(10)  # in the backoff of 16 s after the third failure
        assert await house.talk("/stop") == "Stopped."
        assert trio.current_time() < 11
        assert await house.hear(first) == ""
        assert await house.talk("again") == "echo: again"
        assert trio.current_time() < 12, "the next turn inherits no backoff"


async def test_another_command_does_not_shorten_a_backoff(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    model.enqueue(*[BusyError("REQUEST_REFUSED", "the model refuses the request")] * 3)
    async with open_daemon(tmp_path, model) as house:
        first = await house.say("hello")
        await trio.sleep(10)
        assert "whoami" in await house.talk("/help")
        assert await house.hear(first) == "echo: hello"
        assert trio.current_time() == pytest.approx(1 + 4 + 16, abs=0.1)


async def test_stop_passes_a_full_inbox(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    model.enqueue(500.0)
    async with open_daemon(tmp_path, model) as house:
        await house.say("first")
        await trio.testing.wait_all_tasks_blocked()
        for n in range(INBOX_MAX_MESSAGES - 1):
            await house.say(f"m{n}")
        with pytest.raises(BusyError, match="inbox full"):
            await house.say("one too many")
        model._script.clear()
        assert await house.talk("/stop") == "Stopped."
        last = await house.say("last")
        await house.hear(last)
        assert (await house.store.inbox.counts())["waiting"] == 0, "all that waited was answered"
        taken = [seq for event in house.events("turn.finished") for seq in event["seqs"]]  # type: ignore[attr-defined]
        assert taken == sorted(taken), "in order"


async def test_stop_is_obeyed_once_though_the_mailbox_is_read_again(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    model.enqueue(500.0)
    async with open_daemon(tmp_path, model) as house:
        await house.say("first")
        await trio.testing.wait_all_tasks_blocked()
        for n in range(100):
            await house.post("/ann/direct", f"m{n}", sender="/ann/agent/other", key=f"k{n}")
        model._script.clear()
        stops = [await house.say("/stop"), await house.say("/stop")]
        assert [await house.hear(stop) for stop in stops] == ["Stopped.", "Nothing is running."]
        await trio.sleep(5)
        said = await said_to(house)
        assert said.count("Stopped.") == said.count("Nothing is running.") == 1
        assert sum("m99" in text for text in said) == 1 and len(said) == 102


async def test_a_command_addressed_to_a_bot_stops_its_turn(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    model.enqueue(500.0)
    async with open_daemon(tmp_path, model) as house:
        await house.say("think")
        await trio.sleep(1)
        assert await house.talk("/stop@daycare_bot now") == "Stopped."
        assert trio.current_time() < 5


async def test_stop_is_obeyed_before_a_turn_that_waits_for_room(tmp_path: Path, autojump_clock: object) -> None:
    """While a lane waits for one of the running turns to end, its person may change their mind."""
    model = Scripted()
    model.enqueue(50.0)
    async with open_daemon(tmp_path, model, config=config(turns_max_running=1)) as house:
        await house.agent("/ann/agent/busy")
        await house.post("/ann/agent/busy", "think", sender="/ann/agent/other", key="k")
        await trio.testing.wait_all_tasks_blocked()
        first = await house.say("hello")
        await trio.testing.wait_all_tasks_blocked()
        stop = await house.say("/stop")
        await trio.testing.wait_all_tasks_blocked()
        model.enqueue(500.0)  # for the turn of "hello", if it were to begin before /stop
        assert await house.hear(stop) == "Nothing is running."
        assert trio.current_time() < 100
        assert await house.hear(first) == "echo: hello"


async def test_stop_cuts_the_quiet_window_of_collect_short(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    async with open_daemon(tmp_path, model, config=config(Policy.COLLECT)) as house:
        await house.say("hello")
        await trio.sleep(0.5)
        model.enqueue(500.0)
        assert await house.talk("/stop") == "Nothing is running."
        assert trio.current_time() < 5, "no turn began in between"


async def test_a_message_taken_by_a_step_is_not_lost_when_stop_comes_then(
    tmp_path: Path, autojump_clock: object
) -> None:
    """A steered message leaves the mailbox before its step is journaled; here the disk refuses it and /stop comes."""
    model = Scripted()
    model.enqueue(call(("wait", {"seconds": 10})))
    async with open_daemon(tmp_path, model, plugins=[tools]) as house:
        journal = house.store.turns.journal

        async def refusing(steps: Sequence[Step], shown: ShownPrompt | None = None) -> None:
            if any(step.kind == "steer" for step in steps):
                raise UnavailableError("DISK_FULL", "the disk is full")
            await journal(steps, shown)

        house.store.turns.journal = refusing  # type: ignore[method-assign]
        await house.say("go")
        await trio.sleep(5)
        added = await house.say("one more thing")
        await trio.sleep(10)
        assert await house.talk("/stop") == "Stopped."
        assert await house.hear(added, 60) == "echo: one more thing"


async def test_a_turn_that_cannot_be_committed_can_be_cancelled(tmp_path: Path, autojump_clock: object) -> None:
    """A full disk must not keep the daemon from ending: the turn goes on at the next start."""
    async with open_daemon(tmp_path) as house:

        async def refusing(*_: object) -> None:
            raise UnavailableError("DISK_FULL", "the disk is full")

        house.store.turns.finish = refusing  # type: ignore[method-assign,assignment]
        await house.say("hello")
        await trio.sleep(30)
        with trio.fail_after(60):
            await house.daemon.supervisor.stop(10)


async def test_reset_begins_a_new_conversation(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        await house.talk("old")
        assert "new conversation" in await house.talk("/reset")
        assert await house.talk("new") == "echo: new"
        assert heard(house)[-1] == ["new"], "nothing of the old one is in the prompt"
        agent = await house.daemon.directory.at("/ann/direct")
        assert agent.session == 2
        assert [m.text for m in await house.store.turns.history(agent.id, 2, 10)] == ["new", "echo: new"]


async def test_reset_aborts_a_running_turn(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    model.enqueue(500.0)
    async with open_daemon(tmp_path, model) as house:
        first = await house.say("think")
        await trio.sleep(1)
        assert "new conversation" in await house.talk("/new")
        assert trio.current_time() < 5
        assert await house.hear(first) == ""
        model._script.clear()
        assert await house.talk("fresh") == "echo: fresh"
        assert heard(house)[-1] == ["fresh"]


async def test_an_unknown_command_is_answered(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        assert await house.talk("/frobnicate now") == "I do not know /frobnicate. /help shows what I know."
        assert "Did you mean /stop? " in await house.talk("/stpo"), "a slip of the finger"
        assert house.model.history == []


async def test_a_path_at_the_start_is_no_command(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        assert await house.talk("/usr/bin is where?") == "echo: /usr/bin is where?"


async def test_a_command_that_fails_says_so_and_holds_up_nothing(tmp_path: Path, autojump_clock: object) -> None:
    async def broken(*_: object) -> CommandAnswer:
        raise ZeroDivisionError("a defect")

    async def away(*_: object) -> CommandAnswer:
        raise UnavailableError("AWAY", "listing models: the server is away")

    async with open_daemon(tmp_path) as house:
        house.daemon.commands.add("broken", Command("break", broken))
        house.daemon.commands.add("models", Command("list models", away))
        assert await house.talk("/broken") == "/broken failed: ZeroDivisionError: a defect"
        assert await house.talk("/models") == "listing models: the server is away"
        assert await house.talk("hello") == "echo: hello"
        assert house.events("lane.broke") == []


async def test_a_stopped_tool_that_may_have_run_is_told_to_the_person(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    model.enqueue(call(("wait_once", {"seconds": 60})))
    async with open_daemon(tmp_path, model, plugins=[tools]) as house:
        await house.say("go")
        await trio.sleep(5)
        await house.talk("/stop")
        said = await said_to(house)
        assert said[0].startswith("Note: I was interrupted while `wait_once` ran") and said[1] == "Stopped."


async def test_dismissal_ends_an_agent_with_a_last_word_to_its_parent(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        parent = await house.agent("/ann/direct")
        child = await house.daemon.directory.spawn(parent, Kind.SUB, origin=Origin.AGENT)
        envelope = Envelope(
            to=child.path,
            user=OWNER,
            origin=Origin.SYSTEM,
            sender="/system/idle",
            key="bye",
            text="idle",
            trace="t",
            kind=EnvelopeKind.DISMISS,
            lane=Lane.CONTROL,
        )
        await house.daemon.router.post(envelope)
        await trio.sleep(1)
        assert (await house.daemon.directory.get(child.id)).state == "dead"
        assert child.id not in house.daemon.supervisor.awake
        assert heard(house)[-1][-1].endswith(f"{child.path} has ended: idle")
        assert [event["path"] for event in house.events("agent.died")] == [child.path]


async def test_stop_at_the_moment_a_turn_ends_does_not_swallow_the_next(tmp_path: Path, autojump_clock: object) -> None:
    """The next turn is journaled with the end of the one before: a /stop in between meant the one that ended."""
    model = Scripted()
    model.enqueue(5.0)
    async with open_daemon(tmp_path, model) as house:
        await house.agent("/ann/agent/desk")
        await house.post("/ann/agent/desk", "one", sender="/ann/agent/other", key="k1")
        await trio.testing.wait_all_tasks_blocked()
        second = await house.post("/ann/agent/desk", "two", sender="/ann/agent/other", key="k2")
        finish = house.store.turns.finish
        stops: list[Receipt] = []

        async def finishing(*arguments: Any) -> Turn | None:
            if not stops:
                stops.append(await house.say("/stop", path="/ann/agent/desk"))
            return await finish(*arguments)

        house.store.turns.finish = finishing  # type: ignore[method-assign,assignment]
        assert (await house.hear(second)).endswith("two")
        assert await house.hear(stops[0]) == "Stopped."
        assert [event["attempt"] for event in house.events("turn.started")] == [1, 1]


async def test_a_command_that_waits_behind_a_stopped_turn_runs_once(tmp_path: Path, autojump_clock: object) -> None:
    runs = []

    async def count(*_: object) -> CommandAnswer:
        runs.append(trio.current_time())
        return CommandAnswer("counted")

    model = Scripted()
    model.enqueue(500.0)
    async with open_daemon(tmp_path, model) as house:
        house.daemon.commands.add("count", Command("count", count))
        await house.say("think")
        await trio.sleep(1)
        counted, stopped = await house.say("/count"), await house.say("/stop")
        assert [await house.hear(counted), await house.hear(stopped)] == ["counted", "Stopped."]
        await trio.sleep(60)
        assert len(runs) == 1


async def test_a_cancelled_write_is_carried_out_and_a_refused_one_can_be_cancelled(autojump_clock: object) -> None:
    written = []

    async def slow() -> None:
        await trio.sleep(1)
        written.append("slow")

    async def refused() -> None:
        raise UnavailableError("DISK_FULL", "the disk is full")

    with trio.move_on_after(0.5):
        await with_retry(slow)
    assert written == ["slow"]
    with trio.move_on_after(10) as scope:
        await with_retry(refused)
    assert scope.cancelled_caught
