"""Behaviours for tests, and short ways to say what these tests are about."""

from collections.abc import Sequence
from typing import Any

import trio

from daycare.plugin import BehaviourContext, BehaviourMessage, Plugin
from daycare.store.records import AgentConfig
from daycare.testing.daemon import OWNER, TestDaemon

APP = f"/{OWNER}/app/it"


class Counting:
    """Counts what it is told, tells another agent and reminds itself; all of it once."""

    name = "counting"
    description = "Counts what it is told"

    def __init__(self) -> None:
        self.calls = 0

    async def act(self, context: BehaviourContext, messages: Sequence[BehaviourMessage]) -> str | None:
        self.calls += 1
        context.state = (context.state or 0) + sum(message.sort == "message" for message in messages)
        lines = []
        for message in messages:
            if message.sort == "reminder":
                lines.append(f"reminded: {message.text}")
            elif message.text.startswith("tell "):
                await context.send(message.text.split()[1], f"counted {context.state}")
            elif message.text == "remind":
                context.remind(60, "it is time")
        return "\n".join([str(context.state), *lines])


class Breaking:
    """Breaks in the way that its message names."""

    name = "breaking"
    description = "Breaks"

    async def act(self, context: BehaviourContext, messages: Sequence[BehaviourMessage]) -> str | None:
        context.state = {"calls": 1}
        found: Any = None
        match messages[0].text:
            case "raise":
                raise ValueError("out of ideas")
            case "hang":
                await trio.sleep_forever()
            case "nonsense":
                found = 42
            case "odd state":
                context.state = object()
            case "large state":
                context.state = "x" * 100_000
            case "leave":
                raise SystemExit(3)
        return found  # type: ignore[no-any-return]


def plugin(*behaviours: Any) -> Plugin:
    """Return a plugin with these behaviours."""
    return Plugin(name="trial", behaviours=behaviours)


async def app(house: TestDaemon, behaviour: str, path: str = APP) -> str:
    """Create an app and return its path."""
    await house.agent(path, AgentConfig(behaviour=f"trial/{behaviour}"))
    return path


async def kept(house: TestDaemon, path: str = APP) -> Any:
    """Return what an agent keeps."""
    agent = await house.store.agents.at(path)
    assert agent is not None
    found = await house.store.behaviours.kept(agent.id)
    return None if found is None else found.value()
