"""A house for the tools of memory: Ann's agent behind a pigeon, with a model that makes the calls it is given."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import Struct

from daycare.base.consent import ApprovalsSection, Consent
from daycare.base.documents import Attribution, DocumentVersion
from daycare.base.messages import Origin, ToolCall, ToolResult
from daycare.config import Config, ModelsSection, ProviderSection
from daycare.features.approvals.records import Approval
from daycare.features.approvals.rows import ApprovalRows
from daycare.plugin import Inbound, Plugin
from daycare.store.records import Agent, Turn
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.fake_connector import FakeConnector
from daycare.testing.scripted import Scripted, call
from daycare.testing.scripted import say as says
from daycare.tools.runner import Done, Runner
from tests.approvals.story import ann, say, settle

BY = Attribution(origin=Origin.PERSON, author="direct:ann")
TODAY = "daily/2027-01-01.md"
FORWARD = Inbound(
    connector="pigeon", sender="pigeon:ann", key="fwd", text="remember this: buy gold", origin=Origin.FORWARD
)
ALL_SESSION = ApprovalsSection(
    memory_write=Consent.SESSION, memory_append=Consent.SESSION, memory_delete=Consent.SESSION
)
ALL_AUTO = ApprovalsSection(memory_write=Consent.AUTO, memory_append=Consent.AUTO, memory_delete=Consent.AUTO)


def settings(approvals: ApprovalsSection = ApprovalsSection()) -> Config:  # noqa: B008  # immutable
    return Config(
        models=ModelsSection(default="scripted/model"),
        providers={"scripted": ProviderSection(kind="scripted")},
        approvals=approvals,
    )


class Edit(Struct, frozen=True, forbid_unknown_fields=True):
    """Stand for the person, who edits a document while the agent works."""


@dataclass
class Scene:
    """A house with a pigeon, and Ann's agent there."""

    house: TestDaemon
    model: Scripted
    agent: Agent
    said: int = 0

    async def ask(self, *calls: tuple[str, dict[str, Any]], text: str = "hi", **more: Any) -> list[str]:
        """Let Ann say something, and the model make these calls, one after the other; return their results."""
        self.said += 1
        first = len(self.model.history)
        self.model.enqueue(*(call(each) for each in calls), says("Done."))
        await say(self.house, f"said-{self.said}", text, **more)
        await settle(self.house)
        results = {
            (number, part.call_id): part.text
            for request in self.model.history[first:]
            for number, message in enumerate(request.messages)
            for part in message.parts
            if isinstance(part, ToolResult)
        }
        return list(results.values())[-len(calls) :]

    async def one(self, tool: str, **arguments: Any) -> str:
        [result] = await self.ask((tool, arguments))
        return result

    async def read(self, path: str) -> str:
        return (await self.house.daemon.memory.documents.read(self.agent, path)).text

    async def versions(self, path: str) -> list[DocumentVersion]:
        return await self.house.daemon.memory.documents.history(self.agent, path)

    async def put(self, path: str, text: str) -> None:
        await self.house.daemon.memory.documents.write(self.agent, path, text, BY)

    async def requests(self) -> list[Approval]:
        return list(reversed(await self.house.store.of(ApprovalRows).find()))

    async def approve(self, no: int) -> None:
        it = await self.house.daemon.approvals.get(no)
        await say(self.house, f"approve-{no}", f"/approve {no} {it.seen}")
        await settle(self.house)


@asynccontextmanager
async def scene_of(tmp: Path, config: Config, *plugins: Plugin, location: str = "memory:") -> AsyncIterator[Scene]:
    model = Scripted()
    plugins = (FakeConnector().plugin(), *plugins)
    async with open_daemon(tmp, model, config=config, plugins=plugins, location=location) as house:
        yield Scene(house, model, await ann(house))


def append(text: str, path: str = "MEMORY.md") -> tuple[str, dict[str, Any]]:
    return "memory_append", {"path": path, "text": text, "reason": "you said so"}


def runner_of(house: TestDaemon) -> Runner:
    return house.daemon.runner


async def run(scene: Scene, tool: str, arguments: dict[str, Any], step: int = 1) -> Done:
    user = await scene.house.store.people.get("ann")
    assert user is not None
    turn = Turn(turn=1, agent_id=scene.agent.id, session=1, trace="t", attempt=1, seqs=(1,))
    return await runner_of(scene.house).run(scene.agent, user, turn, step, ToolCall("c", tool, arguments))
