"""What tests of actors share: slow tools, an agent that asks another, and configured policies."""

from typing import Annotated

import msgspec
import trio

from daycare.base.tool import STAYS
from daycare.config import AgentSection, Config, DaemonSection, ModelsSection, ProviderSection
from daycare.plugin import Plugin, StructTool, ToolContext
from daycare.store.records import Policy
from daycare.testing.daemon import TestDaemon
from daycare.testing.scripted import bare


class Wait(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Do nothing for some seconds."""

    seconds: Annotated[float, msgspec.Meta(ge=0)]


class Explode(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Raise what no tool should raise."""


async def _wait(context: ToolContext, arguments: Wait) -> str:
    await trio.sleep(arguments.seconds)
    return "waited"


async def _explode(context: ToolContext, arguments: Explode) -> str:
    raise ZeroDivisionError("a defect")


tools = Plugin(
    name="actors-tests",
    tools=(
        StructTool("wait", Wait, _wait, idempotent=True, **STAYS),
        StructTool("wait_once", Wait, _wait, idempotent=False, **STAYS),
        StructTool("explode", Explode, _explode, idempotent=True, **STAYS),
    ),
)


def config(policy: Policy = Policy.STEER, **daemon: float) -> Config:
    """Return a house's settings with another policy or other bounds."""
    return Config(
        agent=AgentSection(policy=policy.value),
        models=ModelsSection(default="scripted/model"),
        providers={"scripted": ProviderSection(kind="scripted")},
        daemon=DaemonSection(**daemon),  # type: ignore[arg-type]
    )


async def history(house: TestDaemon, path: str = "/ann/direct") -> list[tuple[str, str]]:
    """Return (role, words) of an agent's conversation in its current session."""
    agent = await house.daemon.directory.at(path)
    messages = await house.store.turns.history(agent.id, agent.session, 200)
    return [(message.role, message.text) for message in messages]


async def said_to(house: TestDaemon, path: str = "/ann/direct") -> list[str]:
    """Return what waits for the person to read, in order."""
    return [row.text for row in await house.store.outbox.unread(path, limit=200)]


def heard(house: TestDaemon) -> list[list[str]]:
    """Return the users' words in each prompt so far, without time stamps."""
    return [
        [bare(message.text.partition("] ")[2]) for message in request.messages if message.role == "user"]
        for request in house.model.history
    ]
