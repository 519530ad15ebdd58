"""A crash at each commit of a task's life neither loses nor doubles it."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio

from daycare.features.tasks.records import ENDED, Task
from daycare.features.tasks.rows import TaskRows
from daycare.plugin import Completion, InferRequest
from daycare.testing.clock import VirtualClock
from daycare.testing.crash import Doom, live
from daycare.testing.daemon import TestDaemon
from daycare.testing.scripted import call, echo, say
from tests.chance import sliced
from tests.tasks.helpers import Working, delivered, start

Story = Callable[[TestDaemon], Awaitable[None]]


def delegating(request: InferRequest) -> Completion:
    """Start a task for what is asked, and wait for it."""
    if "look it up" not in request.messages[-1].text and request.messages[-1].role != "tool":
        return echo(request)
    if request.messages[-1].role == "tool":
        return say("It is found.")
    return call(("task_start", {"prompt": "look", "wait": True}))


async def asks_by_command(house: TestDaemon) -> None:
    await house.talk("/task look", key="ask")
    await _until_settled(house)


async def asks_by_agent(house: TestDaemon) -> None:
    receipt = await house.say("look it up", key="ask")
    await house.hear(receipt, 86_400.0)
    await _until_settled(house)


async def lets_it_expire(house: TestDaemon) -> None:
    await house.talk("hello", key="hello")
    await start(house, name="1", deadline_s=60.0)
    await _until_settled(house)


async def cancels_it(house: TestDaemon) -> None:
    await house.talk("/task look", key="ask")
    await trio.sleep(10)
    await house.talk("/task cancel 1", key="cancel")
    await _until_settled(house)


async def _until_settled(house: TestDaemon) -> None:
    while await house.store.agents.at("/ann/task/1") is not None or not await house.store.of(TaskRows).find():
        await trio.sleep(60)
    await trio.sleep(60)


@pytest.mark.parametrize(
    ("story", "state", "told"),
    [
        (asks_by_command, "done", "found"),
        (asks_by_agent, "done", "It is found."),
        (lets_it_expire, "expired", "The task 1 was stopped, its deadline has passed."),
        (cancels_it, "cancelled", "The task 1 was cancelled. What it had:\n"),
    ],
    ids=["command", "agent", "deadline", "cancel"],
)
async def test_a_task_that_a_crash_interrupts_anywhere_ends_once(
    tmp_path: Path, autojump_clock: object, story: Story, state: str, told: str
) -> None:
    doom = Doom()
    (tmp_path / "whole").mkdir()
    clock = VirtualClock()
    whole: list[Task] = []

    async def first(house: TestDaemon) -> None:
        await story(house)
        whole.extend(await house.store.of(TaskRows).find())

    assert not await live(tmp_path / "whole", _model(story), doom, first, clock=clock)
    assert [task.state for task in whole] == [state]
    assert doom.commits > 5
    for commit in sliced(range(1, doom.commits + 1), 7):
        folder = tmp_path / f"{commit}"
        folder.mkdir()
        await live(folder, _model(story), Doom(commit), story, clock=clock)
        found: list[Task] = []
        replies: list[str] = []

        async def again(house: TestDaemon, found: list[Task] = found, replies: list[str] = replies) -> None:
            await story(house)
            found += await house.store.of(TaskRows).find()
            replies += await delivered(house)
            assert await house.store.agents.at("/ann/task/1") is None
            assert await house.store.timers.find() == []

        assert not await live(folder, _model(story), Doom(), again, clock=clock)
        assert [task.state for task in found] == [state], f"after a crash at commit {commit}"
        assert sum(reply.startswith(told) for reply in replies) == 1, f"after a crash at commit {commit}: {replies}"
        assert found[0].state in ENDED


def _model(story: Story) -> Working:
    model = Working()
    model.default = delegating if story is asks_by_agent else echo
    model.task.default = lambda _: say("found")
    if story is lets_it_expire:
        model.task.enqueue(100.0)
    if story is cancels_it:
        model.task.enqueue(call(("task_progress", {"text": "half"})), 100.0)
    return model
