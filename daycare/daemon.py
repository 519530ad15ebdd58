"""The composition root: builds the parts, hands them to each other, and runs them until told to stop."""

import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trio

from daycare import __version__
from daycare.actors.directory import Directory
from daycare.actors.lifecycle import Life
from daycare.actors.router import Router
from daycare.actors.supervisor import Supervisor
from daycare.agent.approval_commands import ApprovalCommands
from daycare.agent.arrivals import Arrivals
from daycare.agent.attachments import Files
from daycare.agent.commands import Commands
from daycare.agent.context import Contexts
from daycare.agent.context_commands import ContextCommands
from daycare.agent.control import Control
from daycare.agent.endings import Endings
from daycare.agent.memory_commands import MemoryCommands
from daycare.agent.memory_controls import MemoryControls
from daycare.agent.notify import Notifier
from daycare.agent.pace import Pace
from daycare.agent.personality import Personalities
from daycare.agent.prompt import Persona
from daycare.agent.recollections import Recollections, loader
from daycare.agent.record import Record
from daycare.agent.remembering import Remembering
from daycare.agent.sections import DocumentShelf, Prompts, introduce
from daycare.agent.setting_commands import SettingCommands
from daycare.agent.status_commands import StatusCommands
from daycare.agent.steps import Thinker
from daycare.api.services import Services
from daycare.approvals.desk import Desk as ApprovalDesk
from daycare.base.clock import Clock, SystemClock
from daycare.base.errors import BrokenError, DaycareError
from daycare.base.events import DeadLettered, DiskTrouble, ProviderAway
from daycare.base.limits import STRANGERS_MAX
from daycare.base.messages import File
from daycare.base.pairing import is_out
from daycare.config import Config
from daycare.connectors.courier import Courier
from daycare.connectors.host import Host
from daycare.connectors.outcomes import Outcomes
from daycare.connectors.presence import Presence
from daycare.flow import Flow
from daycare.inference.configured import sources
from daycare.inference.pool import Pool
from daycare.memory.documents import Documents
from daycare.memory.sharing import Sharing
from daycare.observe import log
from daycare.observe.bus import Bus
from daycare.plugin import Plugin
from daycare.plugins.extensions import Extensions
from daycare.rules.findings import findings_of
from daycare.schedule.curation import Curation
from daycare.schedule.timers import TimerService
from daycare.schedule.upkeep import Upkeep
from daycare.store.home import Home
from daycare.store.records import Commit, Policy, User
from daycare.store.sqlite.database import refuse_damage
from daycare.store.sqlite.store import SqliteStore, open_store
from daycare.store.vault import Vault, open_vault
from daycare.tools import builtin
from daycare.tools.context import Reach
from daycare.tools.runner import Runner


@dataclass
class Stop:
    """How the daemon is asked to end: set `event`; `restart` asks for a fresh start of the program afterwards."""

    event: trio.Event = field(default_factory=trio.Event)
    restart: bool = False
    reason: str = ""

    def ask(self, restart: bool, reason: str) -> None:
        """Ask for an orderly end. Safe to repeat."""
        self.restart = self.restart or restart
        self.reason = self.reason or reason
        self.event.set()


class Daemon:
    """The parts of one running installation, wired."""

    def __init__(
        self,
        home: Home,
        config: Config,
        store: SqliteStore,
        vault: Vault,
        *,
        owner: str,
        mode: str,
        clock: Clock,
        plugins: Sequence[Plugin] = (),
    ) -> None:
        self.home = home
        self.config = config
        self.store = store
        self.clock = clock
        self.mode = mode
        self.stop = Stop()
        self.started_at = clock.now_ms()
        self.bus = Bus(start=self.started_at)  # cursors go on growing over restarts
        self.trouble: str | None = None
        self.working = False
        self.host = Host(
            store,
            self.bus,
            clock,
            lambda connector, batch, cursor: self.flow.receive(connector, batch, cursor),
            lambda: self.commands.listed(),
        )
        self.extensions = Extensions(
            config,
            home.path,
            self.bus,
            clock,
            store.secrets.get,
            vault.open,
            lambda inbound: self.flow.accept(inbound),
            self.host,
            plugins,
        )
        plugins = self.extensions.plugins
        self.connectors = self.extensions.connectors
        self.pool = Pool(
            sources(config, plugins, store.secrets, vault),
            config.models.by_role(),
            config.models.fallbacks,
            self._outage,
        )
        self.directory = Directory(store, self.connectors)
        self.files = Files(store, self.connectors)
        self.router = Router(store, self.directory, self.bus, clock)
        self.notifier = Notifier(store, self.directory, self.bus, clock, self.connectors, config.notify.quiet)
        self.approvals = ApprovalDesk(
            store, self.bus, clock, owner, self.notifier.reachable, self.notifier.notify, scan=findings_of
        )
        runner = Runner(
            [tool for plugin in plugins for tool in plugin.tools],
            Reach(
                self.directory.of_user,
                self.router.post,
                self.directory.help,
                self.directory.all_of,
                self._file,
                store.files.put,
                lambda *call: self.remembering.of(*call),
            ),
            clock,
            store.files.put,
            config.tools.by_role(),
        )
        self.endings = Endings(store, self.notifier, self.bus, clock, self.connectors, self.extensions.hooks)
        self.commands = Commands()
        contexts = Contexts(store, self.files, self.pool, self.bus, clock)
        persona = Persona(config.agent.name, config.agent.tone)
        StatusCommands(
            store, self.directory, self.pool, persona, clock, self.status, lambda agent: self.supervisor.life_of(agent)
        ).add_to(self.commands)
        self.documents = Documents(store, self.directory.all_of, runner.specs)
        self.remembering = Remembering(
            store,
            self.documents,
            self.approvals,
            findings_of,
            config.approvals,
            clock,
            trusted=[tool.spec.name for tool in builtin.plugin.tools],
            outside=[plugin.name for plugin in plugins if plugin.hooks.message_before is not None],
        )
        self.prompts = Prompts(
            store,
            DocumentShelf(store.documents, self.documents, self.bus, clock),
            persona,
            Personalities(home.personalities),
            config.agent.personality,
            contexts.room,
            vault.derived("prompt"),
            clock,
        )
        load = loader(home, config, plugins, store.secrets, vault)
        self.recollections = Recollections(store, self.directory, self.pool, config.memory, load, self.bus, clock)
        self.recollections.on_forgotten = self.prompts.drop
        ContextCommands(contexts, self.prompts, runner.specs).add_to(self.commands)
        SettingCommands(store, self.directory, self.pool).add_to(self.commands)
        ApprovalCommands(self.approvals, store, config.approvals, clock).add_to(self.commands)
        for word, command in self.extensions.commands.items():
            self.commands.add(word, command)
        self.control = Control(
            store, self.directory, self.router, self.commands, self.endings, self.bus, clock, self.connectors
        )
        self.flow = Flow(
            store=store,
            directory=self.directory,
            router=self.router,
            thinker=Thinker(store, self.pool, runner, contexts, self.bus, clock),
            endings=self.endings,
            prompts=self.prompts,
            bus=self.bus,
            clock=clock,
            connectors=self.connectors,
            hooks=self.extensions.hooks,
            arrivals=Arrivals(store, self.directory, Pace(), clock, self.approvals),
            files=self.files,
            recaller=self.recollections.recaller,
            curator=self.recollections.curator,
        )
        self.supervisor = Supervisor(
            store,
            self.directory,
            self.flow,
            self.endings,
            self.control,
            self.bus,
            clock,
            turns_max=config.daemon.turns_max_running,
            idle_s=config.daemon.idle_s,
            policy=Policy(config.agent.policy),
        )
        self.record = Record(store, self.bus, self.notifier, owner)
        self.timers = TimerService(store, clock)
        self.upkeep = Upkeep(store, self.directory, self.router, clock, config.store.keep_days, self.approvals.expire)
        self.curation = Curation(
            store, self.directory, self.router, clock, config.memory.ingestion, config.memory.keep_days
        )
        self.memories = MemoryControls(
            store,
            self.recollections.search,
            self.recollections.forgetting,
            self.recollections.scribe.catch_up,
            self.curation.look,
            self.bus,
            clock,
        )
        MemoryCommands(self.memories, store.people).add_to(self.commands)
        self.courier = Courier(store, self.connectors, self.flow.deliver, clock)
        self.presence = Presence(
            self.bus,
            self.connectors,
            lambda path, user, connector: self.flow.address(user, connector),
            store.intake.remember,
            store.intake.recall_all,
        )
        self.outcomes = Outcomes(store, self.approvals, self.bus, clock, self.connectors, self.flow.address)
        self.owner = owner
        self.services = Services(
            store=store,
            directory=self.directory,
            router=self.router,
            supervisor=self.supervisor,
            bus=self.bus,
            pool=self.pool,
            clock=clock,
            vault=vault,
            desk=self.approvals,
            accept=self.flow.accept,
            status=self.status,
            stop=self.stop.ask,
            documents=self.documents,
            sharing=Sharing(store, home.memory),
            memories=self.memories,
            read_file=self._file,
            plugins=self.extensions.report,
            check=self.prompts.check,
            owner=owner,
            mode=mode,
        )
        store.subscribe(self._committed, self._troubled)

    async def run(self, started: Callable[[], None], *, work: bool) -> None:
        """Serve until asked to stop; `started` is called once the API answers. Without `work` no turn is taken."""
        from daycare.api.app import build  # late: the web server costs 10 MB that a house in a test does not need
        from daycare.api.server import serve

        async with trio.open_nursery() as nursery:
            nursery.start_soon(log.follow, self.bus)
            closed = trio.Event()
            await nursery.start(serve, build(self.services), self.home.socket, closed)
            if work:
                nursery.start_soon(self.work)
            started()
            await self.stop.event.wait()
            if work:
                await self.supervisor.stop(self.config.daemon.shutdown_grace_s)
                await self.extensions.ended.wait()
            closed.set()
            self.bus.close()
            await self.pool.aclose()
            nursery.cancel_scope.deadline = trio.current_time() + _CLOSE_S

    async def work(self) -> None:
        """Take turns, fire timers, deliver replies, expire what is old; until the supervisor is stopped."""
        self.working = True
        async with trio.open_nursery() as nursery:
            await nursery.start(self.extensions.run)
            for part in (
                self.timers.run,
                self.courier.run,
                self.presence.run,
                self.outcomes.run,
                self.notifier.run,
                self.record.run,
                self.upkeep.run,
                self.recollections.run,
                self.curation.run,
            ):
                nursery.start_soon(part)
            await self.supervisor.run()
            await self.extensions.stop(leave=self.mode == "run")
            nursery.cancel_scope.cancel()

    async def _file(self, file_id: int, user: str) -> tuple[File, bytes] | None:
        file, data = await self.store.files.get(file_id, user), await self.files.read(file_id, user)
        return None if file is None or data is None else (file, data)

    async def status(self) -> Mapping[str, Any]:
        """Return what `GET /v1/status` shows."""
        lives = [lane.life for lane in self.supervisor.awake.values()]
        counts = await self.store.agents.count()
        return {
            "version": __version__,
            "pid": os.getpid(),
            "home": str(self.home.path),
            "mode": self.mode,
            "working": self.working,
            "started_at": self.started_at,
            "user": self.owner,
            "stopping": self.stop.event.is_set(),
            "agents": {
                "living": counts.get("living", 0),
                "parked": counts.get("parked", 0),
                "dead": counts.get("dead", 0),
                "awake": len(lives),
                "in_turn": lives.count(Life.IN_TURN),
            },
            "inbox_waiting": (await self.store.inbox.counts())["waiting"],
            "outbox_waiting": await self.store.outbox.count(),
            "dead_letters": await self.store.dead.count(),
            "store": {
                "location": self.store.location,
                "bytes": await self.store.ledger.size_bytes(),
                "trouble": self.trouble,
            },
            "models": self.config.models.by_role(),
            "providers": self.pool.configured,
            "connectors": self.host.status(self.connectors),
            "strangers": sum(
                not each.denied and is_out(each.code_until, each.tries, self.clock.now_ms())
                for each in await self.store.strangers.find(STRANGERS_MAX)
            ),
            "memory": await self.recollections.status(),
            "spent": await self.store.ledger.spent(),
        }

    def _committed(self, commit: Commit) -> None:
        """Tell everyone what a commit made true: the one place where durable facts enter memory."""
        if commit.agents:
            self.directory.forget(commit.agents)
            self.prompts.forget()
        if commit.posted:
            self.supervisor.posted(commit.posted)
        if commit.completed:
            self.router.completed(commit.completed)
        if commit.connectors:
            self.courier.wake(commit.connectors)
        if commit.timers:
            self.timers.changed()
        if commit.memories or commit.agents:
            self.curation.wake()
        self.recollections.committed(turns=bool(commit.completed), memories=commit.memories, documents=commit.documents)
        for letter in commit.dead:
            self.bus.publish(
                DeadLettered(
                    at_ms=letter.created_at,
                    path=letter.path,
                    user=letter.user,
                    agent_id=letter.agent_id,
                    trace=letter.trace,
                    no=letter.no,
                    source=letter.source,
                    code=letter.code,
                    reason=letter.reason,
                )
            )

    def _troubled(self, error: DaycareError | None) -> None:
        before, self.trouble = self.trouble, str(error) if error else None
        if before == self.trouble:
            return  # still the same: said once
        self.bus.publish(
            DiskTrouble(at_ms=self.clock.now_ms(), reason=error.message if error else "", cleared=error is None)
        )

    def _outage(self, provider: str, error: DaycareError | None) -> None:
        reason = error.message if error else ""
        self.bus.publish(
            ProviderAway(at_ms=self.clock.now_ms(), provider=provider, reason=reason, cleared=error is None)
        )


_CLOSE_S = 5.0  # for open connections, after which they are cut


@asynccontextmanager
async def open_daemon(
    home: Home, config: Config, *, mode: str, clock: Clock | None = None, inline: bool = False
) -> AsyncIterator[Daemon]:
    """Open a home's store and wire a daemon over it; the caller holds the home's lock. `inline` is for virtual time."""
    clock = clock or SystemClock()
    vault = open_vault(home.key_file)
    refuse_damage(home.database(config.store.location))
    async with open_store(home.database(config.store.location), clock, inline=inline) as store:
        owner = await _owner(store, config)
        operator = await store.people.get(owner) or User(id=owner, name=owner)
        await introduce(store.documents, Persona(config.agent.name, config.agent.tone), operator)
        yield Daemon(home, config, store, vault, owner=owner, mode=mode, clock=clock)


async def _owner(store: SqliteStore, config: Config) -> str:
    users = await store.people.find()
    operators = [user.id for user in users if user.operator]
    if config.agent.operator:
        if config.agent.operator not in operators:
            raise BrokenError(
                "OPERATOR_UNKNOWN",
                f"config.toml: agent.operator: {config.agent.operator} is no operator of this installation",
                hint=f"use one of: {', '.join(operators) or 'none yet, run daycare init'}",
            )
        return config.agent.operator
    if not operators:
        raise BrokenError("NO_OPERATOR", "this home has no operator yet", hint="daycare init")
    return operators[0]


def database_file(home: Home, config: Config) -> Path:
    """Return where the store's file is; meaningless for `memory:`."""
    return Path(home.database(config.store.location))
