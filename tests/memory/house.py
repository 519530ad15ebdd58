"""A store with two people and their agents, and the documents over it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from daycare.base.clock import Clock
from daycare.base.documents import Attribution
from daycare.base.messages import Origin
from daycare.features import open_store
from daycare.features.memory.documents.service import Documents
from daycare.plugin import ToolSpec
from daycare.store.records import Agent, AgentConfig, User
from daycare.store.sqlite.store import Store
from tests.store.samples import HandClock, new_agent

ANN = "/ann/telegram"
SCRIBE = "/ann/agent/scribe"
BEN = "/ben/telegram"
EVIL = "/ann-evil/telegram"
BY = Attribution(origin=Origin.PERSON, author="direct:ann", approver="direct:ann", reason="because")
TOOL = ToolSpec(name="ask", description="Ask another agent.", schema={"type": "object", "properties": {}})


class Memory:
    """The documents, and the agents that have some."""

    def __init__(self, store: Store, agents: dict[str, Agent]) -> None:
        self.store = store
        self.agents = agents
        self.ann, self.scribe, self.ben, self.evil = (agents[path] for path in (ANN, SCRIBE, BEN, EVIL))

        async def of_user(user: str) -> Sequence[Agent]:
            return await store.agents.find(user=user)

        self.documents = Documents(store, of_user, lambda agent: (TOOL,))

    async def put(self, path: str, text: str, agent: Agent | None = None, **more: Any) -> str:
        """Write a document and return its hash."""
        return (await self.documents.write(agent or self.ann, path, text, BY, **more)).hash

    async def text(self, path: str, agent: Agent | None = None) -> str:
        """Return a document's text."""
        return (await self.documents.read(agent or self.ann, path)).text


@asynccontextmanager
async def open_memory(location: str = "memory:", clock: Clock | None = None) -> AsyncIterator[Memory]:
    async with open_store(location, clock or HandClock(), inline=True) as store:
        yield await furnished(store)


async def furnished(store: Store) -> Memory:
    """Return the documents over a store, with people and agents in it."""
    agents = {}
    for path in (ANN, SCRIBE, BEN, EVIL):
        user = path.split("/")[1]
        if await store.people.get(user) is None:
            await store.people.add(User(id=user, name=user.title(), operator=user == "ann"))
        agents[path] = await store.agents.create(new_agent(path, user=user))
    config = AgentConfig(name="Scribe", description="Takes notes.", system_prompt="Write down what is said.")
    agents[SCRIBE] = await store.agents.configure(agents[SCRIBE].id, config)
    return Memory(store, agents)


def below(folder: Path) -> dict[str, str]:
    """Return the texts of all files below a folder, but for the hidden ones."""
    files = (file for file in sorted(folder.rglob("*")) if file.is_file() and not file.name.startswith("."))
    return {str(file.relative_to(folder)): file.read_text() for file in files}
