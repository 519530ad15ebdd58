"""Memory, wired: what was said is written down, learned from, embedded, searched, recalled and forgotten."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import trio
from msgspec.structs import replace

from daycare.actors.directory import Directory
from daycare.actors.permission_checks import PermissionChecks
from daycare.actors.router import Router
from daycare.agent.commands import Commands
from daycare.agent.provenance import Provenance
from daycare.agent.steps import Aside, Thinker, Thought
from daycare.base.clock import Clock
from daycare.base.errors import DaycareError, NotFoundError
from daycare.base.events import EmbedderAway, MemoryAway
from daycare.base.health import Finding
from daycare.base.limits import EMBED_QUESTION_S
from daycare.base.memories import Tier
from daycare.base.memory_settings import FOLDER_EMBEDDER, LOCAL_EMBEDDER, NO_EMBEDDER
from daycare.base.path import Kind
from daycare.config import Config
from daycare.feature import Feature
from daycare.features.approvals.service import ApprovalsService
from daycare.features.memory.commands import MemoryCommands
from daycare.features.memory.controls import MemoryControls
from daycare.features.memory.conversation_log import ConversationLog
from daycare.features.memory.documents.chunking import Chunking
from daycare.features.memory.documents.passages import Passages
from daycare.features.memory.documents.prompt_documents import PromptDocuments
from daycare.features.memory.documents.rows import DocumentRows
from daycare.features.memory.documents.service import Documents
from daycare.features.memory.documents.sharing import Sharing
from daycare.features.memory.embed.service import Embedding, Model, load_local
from daycare.features.memory.facts.extraction_schedule import ExtractionSchedule
from daycare.features.memory.facts.extraction_worker import ExtractionWorker
from daycare.features.memory.forgetting import Forgetting
from daycare.features.memory.recall import Recaller
from daycare.features.memory.search.lookup import Lookup, label
from daycare.features.memory.search.queries import MemoryHit, MemoryQuery
from daycare.features.memory.search.searcher import Searcher, is_search
from daycare.features.memory.search.service import Search
from daycare.features.memory.store.rows import MemoryRows
from daycare.features.memory.tools import TOOLS
from daycare.features.memory.writing import Remembering
from daycare.inference.configured import embedder
from daycare.inference.pool import Pool
from daycare.observe.bus import Bus
from daycare.observe.keeper import SetAside
from daycare.observe.metrics import Family, Gauge
from daycare.plugin import Plugin, StructTool
from daycare.settings import Live
from daycare.store.home import Home
from daycare.store.records import Agent, Commit, InboxRow, Step, Turn, User
from daycare.store.sqlite.people import Secrets
from daycare.store.sqlite.store import Store
from daycare.store.vault import Vault

if TYPE_CHECKING:
    from starlette.routing import Route

    from daycare.features.memory.redis.server import RedisServer
    from daycare.features.memory.redis.upkeep import RedisMemory


@dataclass(kw_only=True, eq=False)
class MemoryFeature(Feature):
    """What the daemon remembers of conversations, and the documents that agents and people keep.

    `load` makes the embedder of the settings ready, None: there is none. `folder` is where documents lie as files.
    `server` is asked by searches in the place of the store, None: there is none.
    """

    name = "memory"
    roles: ClassVar = {"recall": ""}

    store: Store
    documents: Documents
    directory: Directory
    router: Router
    pool: Pool
    approvals: ApprovalsService
    permissions: PermissionChecks
    provenance: Provenance
    live: Live
    bus: Bus
    clock: Clock
    owner: str
    folder: Path
    load: Callable[[], Awaitable[Model]] | None
    server: "RedisServer | None" = None

    def __post_init__(self) -> None:
        """Make the parts, in the order in which words pass through them."""
        store, live, bus, clock = self.store, self.live, self.bus, self.clock
        aside = partial(SetAside, bus, clock)
        self._on_forgotten: Callable[[], None] = lambda: None
        self._embedder = live.now.memory.embedder  # the one that there is until the next start
        embedding = None
        if self.load is not None:
            meter = self.pool.embeds if "/" in self._embedder else None  # this machine's are free
            embedding = Embedding(store.of(MemoryRows), self._embedder, self.load, self._trouble, meter)
        self.embedding = embedding
        self.prompt_documents = PromptDocuments(store.of(DocumentRows), self.documents, bus, clock)
        self.sharing = Sharing(store, self.folder)
        self.chunking = Chunking(store, self.directory.get, partial(aside, "document chunks"))
        self.passages = Passages(store, self.documents, self.prompt_documents, self.chunking, embedding, live)
        at_once = embedding.at_once if embedding is not None else None
        self.extraction_schedule = ExtractionSchedule(store, self.directory, self.router, clock, live)
        self.extraction_worker = ExtractionWorker(store, self.directory, self.pool, live, bus, clock)
        self.copy = self._copy()
        self.search = Search(store, live, embedding, self.copy.index if self.copy is not None else None)
        self.conversation_log = ConversationLog(
            store, self.directory, live, partial(aside, "conversation log"), at_once, self.search.alike
        )
        if embedding is not None:
            embedding.on_made = self.search.embedded
        ask = embedding.question if embedding is not None else None
        self.recaller = Recaller(store, self.search.find, self.search.prepare, ask, live, bus, clock, self.passages)
        self.lookup = Lookup(store, self.find, clock)
        self.remembering = Remembering(
            store,
            self.documents,
            self.approvals,
            live,
            clock,
            self.lookup,
            permissions=self.permissions,
            provenance=self.provenance,
        )
        self.forgetting = Forgetting(store, self._forgotten)
        self.controls = MemoryControls(
            store,
            self.lookup,
            self.router.post,
            self.forgetting,
            self.conversation_log.catch_up,
            self.extraction_schedule.look,
            bus,
            clock,
        )

    def _copy(self) -> "RedisMemory | None":
        if self.server is None:
            return None
        from daycare.features.memory.redis.upkeep import RedisMemory

        return RedisMemory(self.server, self.store.of(MemoryRows), self._model, self._away)

    async def _model(self) -> str:
        return await self.embedding.ready() if self.embedding is not None else ""

    def begin(self, thinker: Thinker, on_forgotten: Callable[[], None]) -> None:
        """Take turns from now on. `thinker` thinks for searches, `on_forgotten` drops what the kernel keeps of it."""
        self._searcher = Searcher(self.store, self.directory, thinker, self.lookup, self.clock)
        self._on_forgotten = on_forgotten

    # -- what a feature brings -----------------------------------------------------------------------------------------

    def tools(self) -> Sequence[StructTool[Any]]:
        """Return the tools by which agents search, read and change their memory."""
        return TOOLS

    def add_to(self, commands: Commands) -> None:
        """Register the chat command."""
        MemoryCommands(self.controls, self.store.people).add_to(commands)

    def routes(self, closing: trio.Event) -> "Sequence[Route]":
        """Return `/v1/memory` and `/v1/memories`."""
        from daycare.features.memory.documents.routes import DocumentRoutes
        from daycare.features.memory.routes import MemoryRoutes

        return (*DocumentRoutes(self).routes(), *MemoryRoutes(self, closing).routes())

    def background(self) -> Mapping[str, Callable[[], Awaitable[None]]]:
        """Return what writes, cuts, hands off, reads, embeds and asks ahead."""
        parts: dict[str, Callable[[], Awaitable[None]]] = {
            "conversation log": self.conversation_log.worker.run,
            "document chunks": self.chunking.worker.run,
            "memory workers": self.extraction_schedule.worker.run,
            "search of memories": self.search.worker.run,
            "recall": self.recaller.run,
        }
        if self.embedding is not None:
            parts["embedding"] = self.embedding.worker.run
        if self.copy is not None:
            parts["copy of memories"] = self.copy.run
        return parts

    def sweeps(self) -> Mapping[str, Callable[[int], Awaitable[int]]]:
        """Return what ends old entries of the log, and old versions of documents."""
        versions = self.store.of(DocumentRows)
        return {
            "entries of logs": self.extraction_schedule.expire,
            "old versions of documents": lambda now_ms: versions.thin(),
        }

    def committed(self, commit: Commit) -> None:
        """Look again: a commit may have ended turns, changed memories or agents, or written documents."""
        if commit.memories or commit.agents:
            self.extraction_schedule.worker.wake()
        if commit.completed:
            self.conversation_log.worker.wake()
        if commit.documents:
            self.chunking.worker.wake()
        if commit.memories or commit.forgotten or commit.shards:
            self.store.of(MemoryRows).forget_states()
            self.search.worker.wake()
        if commit.memories and self.embedding is not None:
            self.embedding.worker.wake()
        if commit.memories and self.copy is not None:
            self.copy.worker.wake()

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
        return shown | ({"redis": self.copy.status()} if self.copy is not None else {})

    async def findings(self) -> Sequence[Finding]:
        """Return how what is searched elsewhere is."""
        return [self.copy.finding()] if self.copy is not None else []

    async def metric_families(self) -> Sequence[Family]:
        """Return what is measured of it."""
        status = await self.status()
        if "memories" not in status:
            return ()
        missing = status["memories"] - status["embedded"]
        return (Gauge("daycare_embedding_backlog", "Memories that have no vector yet").set(value=missing),)

    # -- what it does for the kernel and for people --------------------------------------------------------------------

    async def take(
        self, agent: Agent, user: User, turn: Turn, rows: Sequence[InboxRow], steps: Sequence[Step]
    ) -> Thought | Aside | None:
        """Take the turns of memory workers and of searches; None: it is somebody else's."""
        if agent.kind == Kind.MEMORY:
            return await self.extraction_worker.work(agent, turn, rows)
        if is_search(agent, rows):
            return await self._searcher.take(agent, user, turn, rows, steps)
        return None

    async def find(self, query: MemoryQuery) -> list[MemoryHit]:
        """Return what fits a question best, by its vector, too, if that comes in time."""
        if not self.live.now.memory.ingestion.daily_logs:
            query = replace(query, tiers=tuple(tier for tier in query.tiers if tier is not Tier.LOG))
        if query.vector is None and self.embedding is not None:
            with suppress(DaycareError), trio.move_on_after(EMBED_QUESTION_S):
                query = replace(query, vector=await self.embedding.question(query.text))
        return await self.search.find(query)

    async def recalled_again(
        self, path: str, zone: str, numbers: Sequence[int]
    ) -> tuple[tuple[tuple[str, str], ...], list[tuple[str, str, str]]]:
        """Return blocks of memories as a prompt of the agent at a path has them, and (label, tier, text) of each."""
        blocks, memories = await self.recaller.again(path, zone, numbers)
        return blocks, [(label(each), str(each.tier), each.text) for each in memories]

    async def reembed(self) -> None:
        """Make all vectors anew. Raises `NotFoundError` where there is no embedder."""
        if self.embedding is None:
            raise NotFoundError(
                "EMBEDDER_NONE", "recomputing vectors: memory is searched by words alone", hint="doc/use/memory.md"
            )
        await self.embedding.renew()
        for scope in await self._scopes():
            self.search.drop(scope)

    async def _scopes(self) -> list[str]:
        found = await self.store.of(MemoryRows).scopes()
        while page := await self.store.of(MemoryRows).scopes(after=found[-1]) if found else []:
            found += page
        return found

    def _trouble(self, error: DaycareError | None) -> None:
        reason = error.message if error is not None else ""
        self.bus.publish(
            EmbedderAway(at_ms=self.clock.now_ms(), embedder=self._embedder, reason=reason, cleared=error is None)
        )

    def _away(self, error: DaycareError | None) -> None:
        assert self.server is not None, "only it can be away"
        reason = error.message if error is not None else ""
        at_ms = self.clock.now_ms()
        self.bus.publish(MemoryAway(at_ms=at_ms, server=self.server.shown, reason=reason, cleared=error is None))

    def _forgotten(self, scope: str, traces: Sequence[str]) -> None:
        """Drop what caches have of it."""
        self.search.drop(scope)
        self.recaller.forget()
        self.bus.forget(traces)
        self._on_forgotten()


def loader(
    home: Home, config: Config, plugins: Sequence[Plugin], secrets: Secrets, vault: Vault
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


def redis_server(config: Config, secrets: Secrets, vault: Vault, clock: Clock) -> "RedisServer | None":
    """Return the server that searches ask by these settings, None where they ask the store. Raises `BrokenError`."""
    if config.memory.backend == "store":
        return None
    from daycare.features.memory.redis.server import RedisServer

    def stored() -> str | None:
        token = secrets.get(config.memory.redis.key)
        return vault.open(token) if token is not None else None

    def password() -> str | None:
        return trio.from_thread.run_sync(stored)  # who connects is in a thread; keys are read in the loop's

    return RedisServer(config.memory.redis, password, clock)
