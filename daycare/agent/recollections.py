"""All that is remembered of conversations, wired: written behind the turns, curated, embedded, searched, recalled."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import trio
from msgspec.structs import replace

from daycare.actors.directory import Directory
from daycare.agent.curator import Curator
from daycare.agent.lookup import Lookup
from daycare.agent.passages import Passages
from daycare.agent.recall import Recaller
from daycare.agent.scribe import Scribe
from daycare.agent.searcher import Searcher, is_search
from daycare.agent.sections import Shelf
from daycare.agent.steps import Aside, Thinker, Thought
from daycare.base.clock import Clock
from daycare.base.errors import DaycareError, NotFoundError
from daycare.base.events import EmbedderAway
from daycare.base.limits import EMBED_QUESTION_S
from daycare.base.path import Kind
from daycare.base.recollection import FOLDER_EMBEDDER, LOCAL_EMBEDDER, NO_EMBEDDER
from daycare.config import Config
from daycare.inference.configured import embedder
from daycare.inference.pool import Pool
from daycare.memory.chunking import Chunking
from daycare.memory.documents import Documents
from daycare.memory.embedding import Embedding, Model, load_local
from daycare.memory.forgetting import Forgetting
from daycare.memory.queries import Hit, Query
from daycare.memory.search import Search
from daycare.observe.bus import Bus
from daycare.observe.keeper import SetAside
from daycare.plugin import Plugin
from daycare.settings import Live
from daycare.store.contract import SecretStore, Store
from daycare.store.home import Home
from daycare.store.records import Agent, InboxRow, Step, Turn, User
from daycare.store.records_memories import Tier
from daycare.store.vault import Vault


class Recollections:
    """What the daemon remembers. `load` makes the embedder of the settings ready; None: there is none."""

    def __init__(
        self,
        store: Store,
        directory: Directory,
        pool: Pool,
        live: Live,
        load: Callable[[], Awaitable[Model]] | None,
        documents: Documents,
        shelf: Shelf,
        thinker: Thinker,
        bus: Bus,
        clock: Clock,
    ) -> None:
        self._store = store
        self._bus = bus
        self._clock = clock
        self._live = live
        self._embedder = live.now.memory.embedder  # the one that there is until the next start
        self.embedding = Embedding(store.memories, self._embedder, load, self._trouble) if load is not None else None
        self.search = Search(store, live, self.embedding)
        if self.embedding is not None:
            self.embedding.on_made = self.search.embedded
        aside = partial(SetAside, bus, clock)
        at_once = self.embedding.at_once if self.embedding is not None else None
        self.scribe = Scribe(store, directory, live, partial(aside, "conversation log"), at_once)
        self.chunking = Chunking(store, directory.get, partial(aside, "document chunks"))
        self.curator = Curator(store, directory, pool, live, bus, clock)
        self.passages = Passages(store, documents, shelf, self.chunking, self.embedding, live)
        ask = self.embedding.question if self.embedding is not None else None
        self.recaller = Recaller(store, self.search.find, ask, live, bus, clock, self.passages)
        self.lookup = Lookup(store, self.find, clock)
        self.searcher = Searcher(store, directory, thinker, self.lookup, clock)
        self.forgetting = Forgetting(store, self._forgotten)
        self.on_forgotten: Callable[[], None] = lambda: None

    def background(self) -> Mapping[str, Callable[[], Awaitable[None]]]:
        """Return what works until cancelled, by name."""
        parts: dict[str, Callable[[], Awaitable[None]]] = {
            "conversation log": self.scribe.worker.run,
            "document chunks": self.chunking.worker.run,
            "recall": self.recaller.run,
        }
        if self.embedding is not None:
            parts["embedding"] = self.embedding.worker.run
        return parts

    async def take(
        self, agent: Agent, user: User, turn: Turn, rows: Sequence[InboxRow], steps: Sequence[Step]
    ) -> Thought | Aside | None:
        """Take the turns of memory workers and of searches; None: it is somebody else's."""
        if agent.kind == Kind.MEMORY:
            return await self.curator.work(agent, turn, rows)
        if is_search(agent, rows):
            return await self.searcher.take(agent, user, turn, rows, steps)
        return None

    def committed(self, *, turns: bool, memories: bool, documents: bool) -> None:
        """Look again: a commit ended turns, changed memories, or wrote documents."""
        if turns:
            self.scribe.worker.wake()
        if documents:
            self.chunking.worker.wake()
        if memories and self.embedding is not None:
            self.embedding.worker.wake()

    async def find(self, query: Query) -> list[Hit]:
        """Return what fits a question best, by its vector, too, if that comes in time."""
        if not self._live.now.memory.ingestion.daily_logs:
            query = replace(query, tiers=tuple(tier for tier in query.tiers if tier is not Tier.LOG))
        if query.vector is None and self.embedding is not None:
            with suppress(DaycareError), trio.move_on_after(EMBED_QUESTION_S):
                query = replace(query, vector=await self.embedding.question(query.text))
        return await self.search.find(query)

    async def reembed(self) -> None:
        """Make all vectors anew. Raises `NotFoundError` where there is no embedder."""
        if self.embedding is None:
            raise NotFoundError(
                "EMBEDDER_NONE", "making vectors anew: memory is searched by words alone", hint="doc/recollection.md"
            )
        await self.embedding.renew()
        for scope in await self._scopes():
            self.search.drop(scope)

    async def status(self) -> Mapping[str, Any]:
        """Return what `GET /v1/status` shows of it."""
        shown: dict[str, Any] = {"embedder": self._embedder}
        if self.embedding is not None:
            state = await self.embedding.state()
            shown |= {
                "model": state.model,
                "dimensions": state.dimensions,
                "trouble": state.trouble,
                "embedded": state.done,
                "memories": state.total,
                "before": {each.model: each.vectors for each in state.before},
            }
        return shown

    async def _scopes(self) -> list[str]:
        found = await self._store.memories.scopes()
        while page := await self._store.memories.scopes(after=found[-1]) if found else []:
            found += page
        return found

    def _trouble(self, error: DaycareError | None) -> None:
        reason = error.message if error is not None else ""
        self._bus.publish(
            EmbedderAway(at_ms=self._clock.now_ms(), embedder=self._embedder, reason=reason, cleared=error is None)
        )

    def _forgotten(self, scope: str, traces: Sequence[str]) -> None:
        """Drop what caches have of it."""
        self.search.drop(scope)
        self.recaller.forget()
        self._bus.forget(traces)
        self.on_forgotten()


def loader(
    home: Home, config: Config, plugins: Sequence[Plugin], secrets: SecretStore, vault: Vault
) -> Callable[[], Awaitable[Model]] | None:
    """Return what makes the embedder of the settings ready, None for none. Raises `BrokenError`."""
    name = config.memory.embedder
    if name == NO_EMBEDDER:
        return None
    if name in (LOCAL_EMBEDDER, FOLDER_EMBEDDER):
        return partial(load_local, name, home.path / config.memory.model_dir)
    made, model = embedder(config, plugins, secrets, vault)

    async def load() -> Model:
        return Model(name, partial(made.embed, model))

    return load
