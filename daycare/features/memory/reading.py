"""What an agent reads of its memory: documents whole, memories by number, and what a search finds of both.

A search agent reads what the agent may that asked it, and only so often.
"""

from typing import Final

from daycare.actors.permission_checks import PermissionChecks
from daycare.agent.blocks import block
from daycare.base.documents import Layer
from daycare.base.errors import BusyError, InvalidError
from daycare.base.limits import LOOKUP_MAX, SEARCH_CALLS_MAX
from daycare.base.memories import Tier
from daycare.base.messages import Told, ToldDocument
from daycare.base.path import Kind
from daycare.base.permission import READ_MEMORY
from daycare.features.memory.documents.service import Documents
from daycare.features.memory.search.lookup import (
    Filters,
    Lookup,
    day_ms,
    label_in,
    missing,
    telling,
    told,
    told_whole,
    where,
)
from daycare.rules.document_paths import parse, spell
from daycare.store.records import Agent, Turn, User
from daycare.store.sqlite.store import Store
from daycare.tools.context import SEARCHES_WITH

LOOKUP_DOCUMENTS_MAX: Final = 5  # found by their words beside memories: daily logs, and what was written just now


class TurnReading:
    """The half of `daycare.plugin.Memory` that changes nothing, for one call of a tool."""

    def __init__(
        self,
        permissions: PermissionChecks,
        store: Store,
        documents: Documents,
        lookup: Lookup,
        agent: Agent,
        user: User,
        turn: Turn,
        step: int,
    ) -> None:
        self._permissions = permissions
        self._store = store
        self._documents = documents
        self._lookup = lookup
        self._agent = agent
        self._user = user
        self._turn = turn
        self._step = step
        self.told: Told | None = None

    def _tell(self, told: Told) -> None:
        self.told = told if self.told is None else self.told + told

    async def read(self, path: str) -> str:
        """Return a document, or a memory by its number, for the model, between marks."""
        reader = await self._reader()
        if (wanted := label_in(path)) != "":
            memories = await self._lookup.get(reader, [wanted])
            if not memories:
                raise missing(wanted)
            sources = await self._lookup.sources(reader, memories[0])
            self._tell(telling([*memories, *sources]))
            return told_whole(memories[0], sources, self._user.zone)
        found = await self._documents.read(reader, path)
        self._tell(Told(documents=(ToldDocument(found.path, found.layer, found.version),)))
        return f"{found.path}: {found.layer}, version {found.version}\n{block('memory', found.text)}"

    async def listing(self, prefix: str = "") -> str:
        """Return what there is below a folder, a line each."""
        found = await self._documents.listing(await self._reader(), prefix)
        lines = [f"{entry.path} ({entry.layer}, {entry.size} bytes)" for entry in found]
        return "\n".join(lines) or "there is nothing yet"

    async def search(
        self,
        query: str,
        *,
        tier: str = "",
        since: str = "",
        until: str = "",
        entity: str = "",
        path: str = "",
        limit: int = 10,
    ) -> str:
        """Return the memories that fit a query, a line each, and documents that have its words, all between marks."""
        reader, zone = await self._reader(), self._user.zone
        filters = Filters(
            tier=_tier(tier),
            since_ms=day_ms(since, zone),
            until_ms=day_ms(until, zone),
            entity=entity.strip(),
            path=path.strip(),
            limit=max(1, min(limit, LOOKUP_MAX)),
        )
        hits = await self._lookup.find(reader, query, filters)
        parts = [told(hits, zone)] if hits else []
        self._tell(telling([hit.memory for hit in hits]))
        if filters == Filters(limit=filters.limit):
            there = {where(hit.memory) for hit in hits if hit.memory.place is not None}
            found = await self._documents.search(reader, query)
            beside = [hit for hit in found if spell(Layer(hit.layer), parse(hit.path).name) not in there]
            beside = beside[:LOOKUP_DOCUMENTS_MAX]
            self._tell(Told(documents=tuple(ToldDocument(hit.path, hit.layer, hit.version) for hit in beside)))
            parts += [
                f"{hit.path}: {hit.layer}, version {hit.version}\n{block('memory', hit.passage)}" for hit in beside
            ]
        return "\n\n".join(parts) or told((), zone)

    async def _reader(self) -> Agent:
        """Return whose memory is read, if it may be: a search may what the agent may that asked it."""
        reader = await self._whose()
        await self._permissions.check(reader.path, READ_MEMORY, reader.path)
        return reader

    async def _whose(self) -> Agent:
        """Return whose memory is read: a search looks for the agent that asked it, and so often at most."""
        if self._agent.kind != Kind.SEARCH or self._agent.parent is None:
            return self._agent
        _, _, steps = await self._store.turns.load(self._turn.turn)
        if sum(step.name in SEARCHES_WITH and step.step < self._step for step in steps) >= SEARCH_CALLS_MAX:
            raise BusyError(
                "SEARCH_CALLS_MAX",
                f"looking again: {SEARCH_CALLS_MAX} times is the most for one question",
                hint="answer with what was found",
            )
        return await self._store.agents.get(self._agent.parent) or self._agent


def _tier(name: str) -> Tier | None:
    if name and name not in tuple(Tier):
        raise InvalidError("TIER_UNKNOWN", f"searching in {name[:40]!a}: expected one of {', '.join(Tier)}")
    return Tier(name) if name else None
