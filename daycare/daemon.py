"""The composition root: builds the parts, hands them to each other, and runs them until told to stop."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

import trio

from daycare.actors.directory import Directory
from daycare.actors.permits import Permits
from daycare.actors.router import Router
from daycare.actors.storms import Storms
from daycare.actors.supervisor import Supervisor
from daycare.agent.approval_commands import ApprovalCommands
from daycare.agent.arrivals import Arrivals
from daycare.agent.attachments import Files
from daycare.agent.behaviours import Behaviours
from daycare.agent.budget_commands import BudgetCommands
from daycare.agent.budget_controls import BudgetControls
from daycare.agent.budgets import Budgets
from daycare.agent.commands import Commands
from daycare.agent.context import Contexts
from daycare.agent.context_commands import ContextCommands
from daycare.agent.control import Control
from daycare.agent.deliveries import Deliveries
from daycare.agent.endings import Endings
from daycare.agent.gate import Gate
from daycare.agent.lasting import Lasting
from daycare.agent.neighbours import Neighbours
from daycare.agent.newcomer_commands import NewcomerCommands
from daycare.agent.newcomers import Newcomers
from daycare.agent.notify import Notifier
from daycare.agent.pace import Pace
from daycare.agent.personality import Personalities
from daycare.agent.provenance import Provenance
from daycare.agent.reactions import Reacting
from daycare.agent.record import Record
from daycare.agent.sections import Prompts
from daycare.agent.setting_commands import SettingCommands
from daycare.agent.status_commands import StatusCommands
from daycare.agent.steps import Thinker
from daycare.agent.takers import Takers
from daycare.approvals.desk import Desk as ApprovalDesk
from daycare.backups.engine import Backups
from daycare.base.clock import Clock, TimeLimit
from daycare.base.health import Finding
from daycare.base.limits import OUTAGE_MAX_S
from daycare.base.messages import File
from daycare.config import Config
from daycare.connectors.courier import Courier
from daycare.connectors.host import Host
from daycare.connectors.outcomes import Outcomes
from daycare.connectors.presence import Presence
from daycare.feature import Feature
from daycare.features.cron import Cron
from daycare.features.memory.service import MemoryFeature, loader
from daycare.features.signals import Signals
from daycare.features.tasks import Tasks
from daycare.flow import Flow
from daycare.inference.configured import sources
from daycare.inference.pool import Pool
from daycare.observe import log
from daycare.observe.bus import Bus
from daycare.observe.keeper import Keeper
from daycare.ops.alarm import Alarm
from daycare.ops.announcing import Announcer
from daycare.ops.checks import findings
from daycare.ops.observing import Observation
from daycare.ops.overview import overview
from daycare.ops.reloading import Reloading
from daycare.ops.serving import services
from daycare.ops.stop import Stop
from daycare.plugin import Plugin
from daycare.plugins.extensions import Extensions
from daycare.rules.findings import findings_of
from daycare.schedule.timers import TimerService
from daycare.schedule.upkeep import Upkeep
from daycare.settings import Live
from daycare.store.home import Home
from daycare.store.retry import with_retry
from daycare.store.sqlite.store import SqliteStore
from daycare.store.vault import Vault
from daycare.tools import builtin
from daycare.tools.context import Reach
from daycare.tools.runner import Runner


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
        self.live = live = Live(config)
        self.store = store
        self.clock = clock
        self.vault = vault
        self.owner = owner
        self.mode = mode
        self.stop = Stop()
        self.started_at = clock.now_ms()
        self.bus = Bus(start=self.started_at)  # cursors go on growing over restarts
        self.keeper = Keeper(self.bus, clock)
        self.announcer = Announcer(self)
        self.observation = Observation(self)
        self.reloading = Reloading(self)
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
        self.directory = Directory(store, self.connectors, lambda *of: self.permits.check(*of))
        self.notifier = Notifier(store, self.directory, self.bus, clock, self.connectors, live)
        self.budgets = Budgets(store, self.notifier.notify, self.bus, clock, live, owner)
        self.pool = Pool(
            sources(config, plugins, store.secrets, vault),
            config.models.by_role(),
            config.models.fallbacks,
            self.announcer.outage,
            self.budgets,
            self.announcer.called,
        )
        self.permits = Permits(self.directory, live, self.bus, clock)
        self.files = Files(store, self.connectors)
        self.router = Router(
            store, self.directory, self.bus, clock, self.permits.check, lambda message: self.storms.admit(message)
        )
        self.storms = Storms(self.router.post, self.notifier.notify, self.bus, clock)
        self.approvals = ApprovalDesk(
            store, self.bus, clock, owner, self.notifier.reachable, self.notifier.notify, scan=findings_of
        )
        neighbours = Neighbours(store, self.directory, self.router, self.permits)
        self.cron = Cron(
            store,
            self.directory,
            self.router,
            self.bus,
            clock,
            self.permits.check,
            lambda user, text, topic, path: self.notifier.notify(user, text, topic=topic, path=path),
            folder=home.cron,
            live=live,
            owner=owner,
        )
        deliveries = Deliveries(self.directory, self.notifier, self.connectors)
        self.tasks = Tasks(store, deliveries, self.router, self.permits.check, self.bus, clock, live, owner)
        may = self.permits.check
        self.signals = Signals(
            store,
            self.directory,
            self.router,
            may,
            self.budgets,
            lambda: self.memory.documents,
            self.bus,
            clock,
            live,
            owner,
        )
        self.lasting = Lasting(
            store, self.directory, self.router, self.permits, self.budgets, self.pool, self.bus, clock, live
        )
        self.memory = MemoryFeature(
            store=store,
            directory=self.directory,
            router=self.router,
            pool=self.pool,
            approvals=self.approvals,
            permits=self.permits,
            live=live,
            bus=self.bus,
            clock=clock,
            owner=owner,
            folder=home.memory,
            load=loader(home, config, plugins, store.secrets, vault),
            specs=lambda agent: self.runner.specs(agent),
            thinker=lambda: self.thinker,
            provenance=lambda: self.provenance,
            on_forgotten=lambda: self.prompts.drop(),
        )
        self.features: Sequence[Feature] = (self.cron, self.tasks, self.signals, self.memory)
        ours = [*neighbours.tools(), *self.lasting.tools()]
        ours += [tool for feature in self.features for tool in feature.tools()]
        reacting = Reacting(store, self.connectors)
        reach = Reach(
            self.router.admit,
            self.router.post,
            lambda *of: self.storms.spawning(of[3], lambda: self.directory.help(*of)),
            self.directory.all_of,
            self.files.get,
            self.files.read,
            store.files.put,
            self.memory.remembering.of,
            reacting.check,
            reacting.offered,
            lambda *call: self.provenance.of_call(*call),
        )
        self.runner = runner = Runner(
            [*(tool for plugin in plugins for tool in plugin.tools), *ours],
            reach,
            clock,
            store.files.put,
            live,
            self.permits.tool,
            lambda *of: self.gate.ask(*of),
        )
        self.endings = Endings(
            store,
            self.notifier,
            self.bus,
            clock,
            self.connectors,
            self.extensions.hooks,
            deliveries,
            lambda: self.provenance,
        )
        self.commands = Commands()
        self.contexts = contexts = Contexts(store, self.files, self.pool, self.bus, clock)
        StatusCommands(
            store,
            self.directory,
            self.pool,
            live,
            clock,
            self.status,
            lambda agent: self.supervisor.life_of(agent),
            lambda agent_id: self.supervisor.failures.trouble_of(agent_id),
        ).add_to(self.commands)
        self.provenance = provenance = Provenance(
            store,
            self.memory.documents,
            clock,
            trusted=[tool.spec.name for tool in (*builtin.plugin.tools, *ours)],
            outside=[plugin.name for plugin in plugins if plugin.hooks.message_before is not None],
        )
        self.gate = Gate(store, provenance, self.approvals)
        self.prompts = Prompts(
            store,
            self.memory.shelf,
            Personalities(home.personalities),
            live,
            contexts.room,
            vault.derived("prompt"),
            clock,
            lambda name: self.connectors[name].manner if name in self.connectors else "",
        )
        self.thinker = Thinker(store, self.pool, runner, contexts, self.bus, clock)
        ContextCommands(contexts, self.prompts, runner.specs).add_to(self.commands)
        self.newcomers = Newcomers(store, self.directory, owner)
        NewcomerCommands(self.newcomers, store.people).add_to(self.commands)
        SettingCommands(store, self.directory, self.pool).add_to(self.commands)
        for feature in self.features:
            feature.add_to(self.commands)
        self.approving = ApprovalCommands(self.approvals, store, live, clock)
        self.approving.add_to(self.commands)
        for word, command in self.extensions.commands.items():
            self.commands.add(word, command)
        self.control = Control(
            store, self.directory, self.router, self.commands, self.endings, self.bus, clock, self.connectors
        )
        sweeps = {
            "requests that nobody decided": lambda _: self.approvals.expire(),
            **{what: sweep for feature in self.features for what, sweep in feature.sweeps().items()},
        }  # what is kept no longer: each ends a bounded number, and returns how many
        tell, backups = partial(self.notifier.notify, owner), Backups(home, live, store, clock)
        self.upkeep = Upkeep(store, self.directory, self.router, clock, live, sweeps, self._look, tell, backups)
        self.alarm = Alarm(store, self.connectors, owner, self.bus, clock, partial(tell, topic="lost"))
        self.behaviours = Behaviours(store, clock, reach, self.extensions.behaviours | self.upkeep.parts)
        self.flow = Flow(
            store=store,
            directory=self.directory,
            router=self.router,
            thinker=self.thinker,
            endings=self.endings,
            prompts=self.prompts,
            bus=self.bus,
            clock=clock,
            connectors=self.connectors,
            hooks=self.extensions.hooks,
            permits=self.permits,
            storms=self.storms,
            arrivals=Arrivals(store, self.directory, Pace(), clock, self.approvals, live),
            files=self.files,
            recaller=self.memory.recaller,
            takers=Takers(self.memory, self.behaviours),
            outage=TimeLimit(clock, OUTAGE_MAX_S),
        )
        self.supervisor = Supervisor(
            store,
            self.directory,
            self.flow,
            self.endings,
            self.control,
            self.bus,
            clock,
            self.keeper,
            live,
        )
        self.lasting.add_to(self.commands, self.supervisor, self.prompts.check)
        self.record = Record(store, self.bus, self.notifier, owner, self.pool.is_for_memory_only)
        self.timers = TimerService(store, clock)
        self.spending = BudgetControls(store, self.directory, self.budgets, clock, owner)
        BudgetCommands(self.spending, store.people).add_to(self.commands)
        self.courier = Courier(store, self.connectors, self.flow.deliver, clock, self.keeper)
        self.presence = Presence(
            self.bus,
            self.connectors,
            lambda path, user, connector: self.flow.address(user, connector),
            lambda *of: with_retry(lambda: store.intake.remember(*of)),
            lambda *of: with_retry(lambda: store.intake.recall_all(*of)),
        )
        self.outcomes = Outcomes(store, self.approvals, self.bus, clock, self.connectors, self.flow.address)
        self.services = services(self)
        store.subscribe(self.announcer.committed, self.announcer.troubled)

    async def run(self, started: Callable[[], None], *, work: bool) -> None:
        """Serve until asked to stop; `started` is called once the API answers. Without `work` no turn is taken."""
        from daycare.api.app import build  # late: the web server costs 10 MB that a house in a test does not need
        from daycare.api.server import serve

        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.keeper.keep, "log", partial(log.follow, self.bus))
            closed = trio.Event()
            nursery.start_soon(self.keeper.keep, "metrics and spans", partial(self.observation.run, closed))
            await nursery.start(serve, build(self.services), self.home.socket, closed)
            if work:
                nursery.start_soon(self.work)
                nursery.start_soon(self.keeper.keep, "configuration", self.reloading.run)
            started()
            await self.stop.event.wait()
            if work:
                await self.supervisor.stop(self.live.now.daemon.shutdown_grace_s)
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
            for name, part in self._background().items():
                nursery.start_soon(self.keeper.keep, name, part)
            await self.supervisor.run()
            await self.extensions.stop()
            nursery.cancel_scope.cancel()

    def _background(self) -> dict[str, Callable[[], Awaitable[object]]]:
        """Return what runs beside the turns, by the name that people read when it crashes."""
        return {
            "alarm": self.alarm.run,
            "timers": self.timers.worker.run,
            "delivery": self.courier.run,
            "typing and previews": self.presence.run,
            "approval messages": self.outcomes.run,
            "notices": self.notifier.worker.run,
            "record of events": self.record.run,
            **{name: run for feature in self.features for name, run in feature.background().items()},
            **self.upkeep.background(),
        }

    async def file(self, file_id: int, user: str) -> tuple[File, bytes] | None:
        """Return a file of a user with what is in it, or None."""
        file, data = await self.files.get(file_id, user), await self.files.read(file_id, user)
        return None if file is None or data is None else (file, data)

    async def status(self) -> Mapping[str, Any]:
        """Return what `GET /v1/status` shows."""
        return await overview(self, stopping=self.stop.event.is_set())

    async def _look(self, *, whole: bool) -> list[Finding]:
        return await findings(self, whole=whole)


_CLOSE_S = 5.0  # for open connections, after which they are cut
