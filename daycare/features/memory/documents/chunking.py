"""Chunks of documents, made again whenever a document changes: behind the writing of it, which waits for nobody."""

from collections.abc import Awaitable, Callable
from typing import Final

from daycare.base.documents import DAILY, Layer, Place
from daycare.base.memories import NewMemory, Tier
from daycare.base.scope import scope_of
from daycare.features.memory.documents.records import Document
from daycare.features.memory.documents.rows import DocumentRows
from daycare.features.memory.loading import WORDS, loaded
from daycare.features.memory.store.records import EVERYBODY
from daycare.features.memory.store.rows import MemoryRows
from daycare.observe.keeper import SetAside
from daycare.rules.chunks import cut
from daycare.store.records import Agent
from daycare.store.sqlite.store import Store
from daycare.store.worker import IDLE_S, Worker

CHUNK_PAGE: Final = 16  # documents cut in one go: 1.6 MB at most
CHUNK_PAUSE_S: Final = 0.2  # before changed documents are cut: who writes them goes first


class Chunking:
    """Keeps the chunks of documents. `agent` returns the agent with an id, `worker` is woken after a commit.

    `aside` is what a document that cannot be cut is set aside with: it has no chunks, and no other waits for it.
    """

    def __init__(
        self, store: Store, agent: Callable[[str], Awaitable[Agent]], aside: Callable[[str], SetAside]
    ) -> None:
        self._aside = aside
        self._store = store
        self._agent = agent
        self.worker = Worker(self._catch_up, gather_s=CHUNK_PAUSE_S)

    async def _catch_up(self) -> float:
        """Cut a bounded number of documents."""
        changed = await self._store.of(MemoryRows).unchunked(CHUNK_PAGE)
        for place, version in changed:
            with self._aside(f"{place.name} of {place.owner or place.layer}") as tried:
                await self.again(place, version)
            if tried.failed:
                await self._store.of(MemoryRows).chunk(place, version, [])
        return 0.0 if len(changed) == CHUNK_PAGE else IDLE_S

    async def again(self, place: Place, version: int) -> str:
        """Cut a document once more, unless it has another version by now; return whose its chunks are."""
        await self._store.of(MemoryRows).chunk(place, version, await self._cut(place, await self._of(place, version)))
        return (await self._whose(place))[0]

    async def _of(self, place: Place, version: int) -> Document | None:
        return await self._store.of(DocumentRows).at(place, version) if version else None

    async def _cut(self, place: Place, document: Document | None) -> list[NewMemory]:
        """Return a document's chunks; none of one that is gone, or of a daily log, which only repeats what was said."""
        if document is None or not document.text or place.name.startswith(DAILY):
            return []
        await loaded(WORDS)
        from daycare.features.memory.language.analysis import indexed

        scope, path = await self._whose(place)
        agent_id = place.owner if place.layer is Layer.AGENT else ""
        return [
            NewMemory(
                tier=Tier.CHUNK,
                scope=scope,
                user=document.version.user,
                agent_id=agent_id,
                path=path,
                origin=document.version.by.origin,
                text=chunk.text,
                index=indexed(chunk.told),
                at_ms=document.version.created_at,
                turn=number,
                place=place,
                version=document.version.version,
            )
            for number, chunk in enumerate(await cut(document.text), 1)
        ]

    async def _whose(self, place: Place) -> tuple[str, str]:
        """Return the scope of a document, and the path of the agent that alone reads it, if one does."""
        if place.layer is Layer.AGENT:
            agent = await self._agent(place.owner)
            return scope_of(agent.path), agent.path
        return (EVERYBODY if place.layer is Layer.GLOBAL else place.owner), ""
