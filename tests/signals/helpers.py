"""Short ways to say what the tests of signals are about."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import trio

from daycare.base.messages import Origin
from daycare.features.signals.records import Signal
from daycare.features.signals.rows import SignalRows
from daycare.plugin import InferRequest, StreamEvent
from daycare.store.records import AgentConfig, User
from daycare.testing.daemon import OWNER, TestDaemon
from daycare.testing.scripted import Scripted, say

IDA = f"/{OWNER}/agent/ida"
TOM = f"/{OWNER}/agent/tom"
ANN = f"/{OWNER}/direct"


class Several(Scripted):
    """A model with an own script for each agent, told apart by a word of its system prompt."""

    def __init__(self) -> None:
        super().__init__()
        self.of: dict[str, Scripted] = {}

    def script(self, path: str) -> Scripted:
        """Return the script of an agent; without entries it says `NO_REPLY`."""
        return self.of.setdefault(path, Scripted(lambda _: say("NO_REPLY")))

    async def infer(self, request: InferRequest) -> AsyncGenerator[StreamEvent, None]:
        """Play the next entry of the script of the agent that asks."""
        mine = next((script for path, script in self.of.items() if f"agent {path}" in request.system), None)
        if mine is not None:
            self.history.append(request)
        async with aclosing(mine.infer(request) if mine else super().infer(request)) as events:
            async for event in events:
                yield event


async def living(house: TestDaemon, *paths: str) -> None:
    """Let agents be there."""
    for path in paths:
        await house.agent(path, AgentConfig(system_prompt=f"You are the agent {path}."))


async def person(house: TestDaemon, name: str, parent: str | None = None) -> None:
    """Let another person be there, and talk once."""
    await house.store.people.add(User(id=name, name=name, parent=parent, keys=(f"direct:{name}",)))


async def subscribe(house: TestDaemon, path: str, pattern: str, *, silent: bool = False) -> None:
    """Subscribe an agent."""
    await house.daemon.signals.controls.subscribe(path, pattern, silent=silent)


async def send(house: TestDaemon, type_: str, data: str = "", **more: Any) -> Signal:
    """Send a signal as somebody at the command line would."""
    more = {"user": OWNER, "call": f"test:{trio.current_time()}:{type_}:{data}"} | more
    return await house.daemon.signals.controls.send(more.pop("user"), type_, data, **more)


async def history(house: TestDaemon) -> list[Signal]:
    """Return all signals, oldest first."""
    return list(reversed(await house.store.of(SignalRows).find(limit=1_000)))


async def heard(house: TestDaemon, path: str) -> list[str]:
    """Return the signals that an agent has read, as its history has them."""
    agent = await house.daemon.directory.at(path)
    messages = await house.store.turns.history(agent.id, agent.session, 1_000)
    found = [message for message in messages if message.role == "user" and message.text.startswith("Signal ")]
    assert all(message.origin in (Origin.AGENT, Origin.SYSTEM) for message in found)
    return [message.text.removeprefix("Signal ").partition(", ")[0] for message in found]
