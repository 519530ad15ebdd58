"""Commands are obeyed while a turn runs, but for those that need a pause between two turns."""

from pathlib import Path

import pytest
import trio
import trio.testing

from daycare.agent.commands import Command, CommandAnswer
from daycare.base.errors import UnavailableError
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.scripted import Scripted


async def busy(house: TestDaemon, model: Scripted, seconds: float = 100.0) -> object:
    """Let a turn begin that takes long."""
    asked = len(model.history)
    model.enqueue(seconds)
    receipt = await house.say("think hard")
    while len(model.history) == asked:  # that a task is blocked says nothing where it waits for a server
        await trio.sleep(0.001)
    return receipt


@pytest.mark.parametrize("command", ["/status", "/help", "/whoami", "/agents", "/model", "/context", "/nonsense"])
async def test_a_command_does_not_wait_for_the_running_turn(
    tmp_path: Path, autojump_clock: object, command: str
) -> None:
    model = Scripted()
    async with open_daemon(tmp_path, model) as house:
        first = await house.say("warm up")
        await house.hear(first)
        await busy(house, model)
        began = trio.current_time()
        assert await house.talk(command)
        assert trio.current_time() - began < 1
        await trio.sleep(200)
        assert await house.talk("and?") == "echo: and?", "the turn went on and ended"
        assert house.events("lane.broke") == []


async def test_a_burst_of_commands_is_obeyed_in_order_and_each_once(tmp_path: Path, autojump_clock: object) -> None:
    model, ran = Scripted(), []

    async def count(agent: object, lane: object, row: object, rest: str) -> CommandAnswer:
        ran.append(rest)
        await trio.sleep(1)
        return CommandAnswer(f"did {rest}")

    async with open_daemon(tmp_path, model) as house:
        house.daemon.commands.add("count", Command("count", count))
        await busy(house, model)
        receipts = [await house.say(f"/count {number}") for number in range(20)]
        assert [await house.hear(receipt) for receipt in receipts] == [f"did {number}" for number in range(20)]
        assert ran == [str(number) for number in range(20)]
        assert trio.current_time() < 30


async def test_a_command_that_outlives_its_turn_runs_once(tmp_path: Path, autojump_clock: object) -> None:
    model, ran = Scripted(), []

    async def slow(agent: object, lane: object, row: object, rest: str) -> CommandAnswer:
        ran.append(rest)
        await trio.sleep(200)
        return CommandAnswer("done")

    async with open_daemon(tmp_path, model) as house:
        house.daemon.commands.add("slow", Command("be slow", slow))
        await busy(house, model, 10.0)
        receipt = await house.say("/slow")
        await trio.sleep(1)
        await house.say("/stop")  # lets the lane read its inbox again
        assert await house.hear(receipt) == "done"
        assert ran == [""]
        await trio.sleep(100)
        assert house.daemon.supervisor.awake == {}, "the agent sleeps"


@pytest.mark.parametrize("command", ["/stop", "/new"])
async def test_stop_passes_a_command_that_hangs(tmp_path: Path, autojump_clock: object, command: str) -> None:
    model = Scripted()

    async def hang(agent: object, lane: object, row: object, rest: str) -> CommandAnswer:
        await trio.sleep_forever()
        raise AssertionError

    async with open_daemon(tmp_path, model) as house:
        house.daemon.commands.add("hang", Command("hang", hang))
        await busy(house, model)
        await house.say("/hang")
        await house.say("/help")
        await trio.testing.wait_all_tasks_blocked()
        began = trio.current_time()
        assert await house.talk(command)
        assert trio.current_time() - began < 1


async def test_compact_waits_for_the_turn(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    async with open_daemon(tmp_path, model) as house:
        await busy(house, model, 50.0)
        await house.talk("/compact")
        assert trio.current_time() >= 50


async def test_a_disk_that_refuses_costs_no_answer(tmp_path: Path, autojump_clock: object) -> None:
    model, tries = Scripted(), []
    async with open_daemon(tmp_path, model) as house:
        conclude = house.store.inbox.conclude

        async def refuse(*arguments: object, **more: object) -> None:
            tries.append(1)
            if len(tries) < 4:
                raise UnavailableError("DISK", "full")
            await conclude(*arguments, **more)  # type: ignore[arg-type]

        house.store.inbox.conclude = refuse  # type: ignore[method-assign]
        await busy(house, model)
        assert "whoami" in await house.talk("/help")
        assert trio.current_time() < 10


async def test_a_command_is_answered_after_a_crash_in_the_middle_of_it(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()

    async def hang(agent: object, lane: object, row: object, rest: str) -> CommandAnswer:
        await trio.sleep_forever()
        raise AssertionError

    async with open_daemon(tmp_path, model, location="file.db") as house:
        house.daemon.commands.add("count", Command("hang", hang))
        await busy(house, model)
        receipt = await house.say("/count")
        await trio.testing.wait_all_tasks_blocked()
    async with open_daemon(tmp_path, Scripted(), location="file.db") as house:
        assert "I do not know /count" in await house.hear(receipt)
