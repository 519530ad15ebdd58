"""Short ways to say what the tests of tasks are about."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import trio

from daycare.base.messages import TASKED
from daycare.features.tasks.records import Task, TaskSpec
from daycare.features.tasks.rows import TaskRows
from daycare.plugin import InferRequest, StreamEvent
from daycare.testing.daemon import OWNER, TestDaemon
from daycare.testing.scripted import Scripted


async def start(house: TestDaemon, prompt: str = "sum it up", *, name: str = "sum", **fields: Any) -> Task:
    """Start a task as somebody at the command line would."""
    where = {key: fields.pop(key) for key in ("deliver", "user", "key") if key in fields}
    user, key = where.pop("user", OWNER), where.pop("key", f"test:{name}")
    spec = TaskSpec(prompt=prompt, **fields)
    return await house.daemon.tasks.controls.start(user, spec, key=key, name=name, **where)


async def task(house: TestDaemon, name: str = "sum") -> Task:
    """Return a task as it is now."""
    return await house.daemon.tasks.controls.at(f"/{OWNER}/task/{name}")


async def ended(house: TestDaemon, name: str = "sum", wait_s: float = 86_400.0) -> Task:
    """Return a task when it has ended and whoever asked was told."""
    found = await house.daemon.tasks.controls.wait(await task(house, name), wait_s)
    await trio.sleep(0.1)
    return await house.store.of(TaskRows).get(found.no) or found


async def delivered(house: TestDaemon, path: str = f"/{OWNER}/direct") -> list[str]:
    """Return what a terminal would show of a conversation."""
    return [row.text for row in await house.store.outbox.unread(path)]


async def lives(house: TestDaemon, name: str = "sum") -> bool:
    """Return whether a task's agent lives."""
    return await house.store.agents.at(f"/{OWNER}/task/{name}") is not None


class Working(Scripted):
    """A model whose answers to tasks are the script of `task`, and all others its own."""

    def __init__(self) -> None:
        super().__init__()
        self.task = Scripted()

    async def infer(self, request: InferRequest) -> AsyncGenerator[StreamEvent, None]:
        """Play the next entry of the script that is meant."""
        meant = self.task.infer if TASKED in request.messages[0].text else super().infer
        async with aclosing(meant(request)) as events:
            async for event in events:
                yield event
