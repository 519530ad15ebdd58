"""A house with a builder, whose model says what a test wants."""

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from daycare.base.messages import ToolResult
from daycare.base.permission import Rule
from daycare.config import Config, ModelsSection, ProviderSection
from daycare.features.approvals.records import Approval
from daycare.features.approvals.rows import ApprovalRows
from daycare.features.approvals.service import Approver
from daycare.features.builder import BuilderFeature
from daycare.features.builder.records import BuiltAgent
from daycare.store.records import User
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.scripted import call, say

PATH = "/ann/agent/builder"
SCRIBE: dict[str, Any] = {
    "name": "scribe",
    "reason": "Ann wants minutes of her meetings",
    "description": "writes minutes",
    "soul": "You write minutes. You add nothing.",
    "style": "Short lines.",
    "tools": ["remind", "memory_append", "skill"],
    "skills": [{"name": "minutes", "description": "How minutes look", "instructions": "Who, what, until when."}],
    "schedule": [{"name": "weekly", "cron": "0 17 * * FRI", "text": "Send the minutes of this week."}],
    "connector": "direct",
    "budget": ["1usd a day"],
}


def settings(*rules: Rule, **more: Any) -> Config:
    return Config(
        models=ModelsSection(default="scripted/model"),
        providers={"scripted": ProviderSection(kind="scripted")},
        rules=rules,
        **more,
    )


@asynccontextmanager
async def built(tmp: Path, *rules: Rule, location: str = "memory:") -> AsyncIterator[TestDaemon]:
    """Open a house in which Ann, an operator, and Ben, who is none, have a builder each."""
    async with open_daemon(tmp, config=settings(*rules), location=location) as house:
        if await house.store.people.get("ben") is None:
            await house.store.people.add(User(id="ben", name="Ben", keys=("direct:ben",)))
        for user in ("ann", "ben"):
            await house.talk("hello", user=user)
            await builder(house).builder.open(user)
        yield house


def builder(house: TestDaemon) -> BuilderFeature:
    return next(each for each in house.daemon.features if isinstance(each, BuilderFeature))


async def told(house: TestDaemon, tool: str, arguments: dict[str, Any], user: str = "ann") -> str:
    """Let a person's builder call a tool; return what the model is told of it."""
    house.model.enqueue(call((tool, arguments)), say("done"))
    await house.talk("go", path=f"/{user}/agent/builder", user=user)
    return (await results(house, user))[-1]


async def results(house: TestDaemon, user: str = "ann") -> list[str]:
    agent = await house.daemon.directory.at(f"/{user}/agent/builder")
    history = await house.store.turns.history(agent.id, agent.session, 200)
    return [part.text for message in history for part in message.parts if isinstance(part, ToolResult)]


async def requests(house: TestDaemon) -> Sequence[Approval]:
    return await house.store.of(ApprovalRows).find()


async def approve(house: TestDaemon, text: str, user: str = "ann") -> str:
    """Let a person say yes to the request that a result tells of; return what the builder was told then."""
    found = re.search(r"request (\d+)", text)
    assert found, text
    it = await house.store.of(ApprovalRows).get(int(found[1]))
    assert it is not None
    house.model.enqueue(say("made"))
    path = f"/{user}/agent/builder"
    async with house.daemon.bus.subscribe(path=path, types=frozenset({"turn.finished"})) as turns:
        by = Approver(user=user, key=f"direct:{user}")
        before = len(await results(house, user))
        await house.daemon.approvals.decide(it.no, "approve", by, it.content_hash)
        async for _ in turns:  # the first may be the end of the one before
            if len(after := await results(house, user)) > before:
                return after[-1]
    raise AssertionError("the daemon is gone")


async def as_it_is(house: TestDaemon, name: str, user: str = "ann") -> BuiltAgent | None:
    agent, now = await builder(house).builder.at(user, name)
    return now if agent else None
