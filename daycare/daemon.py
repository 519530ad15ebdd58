"""The composition root: builds the kernel, the features on it and the faces that show both, and runs them."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from daycare.agent.status_commands import StatusCommands
from daycare.api.services import Services
from daycare.config import Config
from daycare.feature import Core, Feature
from daycare.features.agents import PermanentAgentsFeature
from daycare.features.agents.rights import AgentGranting
from daycare.features.approvals import Approving
from daycare.features.approvals.approval_messages import ApprovalMessages
from daycare.features.backups import BackingUp
from daycare.features.backups.engine import Backups
from daycare.features.budgets import Budgeting
from daycare.features.builder import BuilderFeature
from daycare.features.configuration import ConfigurationFeature
from daycare.features.credentials import CredentialsFeature
from daycare.features.cron import Cron
from daycare.features.dashboard import Dashboard
from daycare.features.exports import Exporting
from daycare.features.files.service import FilesFeature
from daycare.features.health import Watching
from daycare.features.health.service import HealthService
from daycare.features.history import HistoryFeature
from daycare.features.history.prompts import PromptHistory
from daycare.features.hooks import WebhooksFeature
from daycare.features.logs import LogsFeature
from daycare.features.mcp import McpFeature
from daycare.features.models import Models
from daycare.features.openai import OpenAIFeature
from daycare.features.pairing import PairingFeature
from daycare.features.panels import PanelsFeature
from daycare.features.people import PeopleFeature
from daycare.features.roster import RosterFeature
from daycare.features.shell import ShellFeature
from daycare.features.signals import Signals
from daycare.features.skills import SkillsFeature
from daycare.features.tasks import Tasks
from daycare.features.tokens import TokensFeature
from daycare.features.traffic import TrafficFeature
from daycare.features.upkeep.service import Upkeep
from daycare.features.voice.service import VoiceFeature
from daycare.features.workspaces import WorkspacesFeature
from daycare.kernel import Background, Kernel
from daycare.observe import log
from daycare.observe.keeper import SetAside
from daycare.ops.alarm import Alarm
from daycare.ops.commit_hooks import CommitHooks
from daycare.ops.connections import Connections
from daycare.ops.first_steps import FirstSteps
from daycare.ops.health import HealthChecks
from daycare.ops.metrics import DaemonMetrics
from daycare.ops.observing import Observation
from daycare.ops.overview import Overview
from daycare.ops.reloading import Reloading
from daycare.ops.run import Run
from daycare.ops.standing import DaemonStanding
from daycare.ops.steering import Steering
from daycare.plugin import Plugin
from daycare.store.records import AgentConfig
from daycare.store.sqlite.store import Store
from daycare.store.vault import Vault

if TYPE_CHECKING:
    from daycare.features.exports.engine import ExportEngine


class Daemon(Kernel):
    """A running installation: the kernel, with what it can do and how it is seen."""

    def __init__(self, run: Run, config: Config, store: Store, vault: Vault, plugins: Sequence[Plugin]) -> None:
        super().__init__(run, config, store, vault)
        self.build(plugins)
        self._build_features()
        self._build_faces()

    @cached_property
    def exports(self) -> "ExportEngine":
        """What makes exports and brings them in: made for who first asks, as few ever do."""
        from daycare.features.exports.engine import ExportEngine

        owner = f"direct:{self.owner}"
        return ExportEngine(
            self.store, self.directory, self.prompts.check, self.clock, self.home.path, owner, self.live
        )

    def _build_features(self) -> None:
        """Build what agents and people can do, and what looks after the daemon."""
        store, bus, clock, live, owner = self.store, self.bus, self.clock, self.live, self.owner
        directory, router, address = self.directory, self.router, self.sending.address
        core = Core(store, directory, router, bus, clock, live, self.permissions.check, owner)
        warn = partial(self.notifier.notify, owner)
        tell = lambda user, text, topic, path: self.notifier.notify(user, text, topic=topic, path=path)  # noqa: E731
        granting = AgentGranting(store.people, self.permissions, self.budgets, self.pool, self.prompts.check)
        has = lambda agent: {spec.name for spec in self.catalogue.specs(agent)}  # noqa: E731
        self.permanent = PermanentAgentsFeature(core, granting, self.supervisor, has)
        self.cron = Cron(core, tell, self.home.cron)
        self.tasks = Tasks(core, self.deliveries)
        self.signals = Signals(core, self.budgets, self.memory.documents)
        outcomes = ApprovalMessages(store, self.approvals, bus, clock, self.connectors, address, self.linking)
        self.approving = Approving(store, directory, self.approvals, outcomes, bus, live, clock, owner)
        self.budgeting = Budgeting(store, directory, self.budgets, clock, owner)
        able = [self.permanent, self.cron, self.tasks, self.signals, self.approving, self.memory, self.budgeting]
        able += [PairingFeature(store, directory, clock, owner), Models(self.pool, owner)]
        able.append(Exporting(lambda: self.exports))
        self.tokens = TokensFeature(store, clock, live, owner)
        people = PeopleFeature(store, self.vault, self.permissions, owner, partial(_try_key, self.home.path))
        able += [people, CredentialsFeature(people.keyring, live), self.tokens, FilesFeature(core, self.vault)]
        seen = PromptHistory(store, self.contexts, self.memory.recalled_again, self.prompts.base_mark)
        accept = self.intake.accept
        able += [HistoryFeature(store, directory, seen), PanelsFeature(self.memory, accept)]
        able.append(OpenAIFeature(store, router, bus, clock, live, accept, self.memory.embedding, owner))
        able += [
            WebhooksFeature(core, self.vault),
            RosterFeature(
                *(store, directory, self.supervisor, self.catalogue, self.permissions),
                *(self.behaviours, self.personalities),
            ),
        ]
        self.workspaces = WorkspacesFeature(core, self.home.path, self.gate)
        places, scan = self.workspaces.places, self.approvals.scan
        self.skills = SkillsFeature(
            core, self.home.path, self.memory.documents, places, scan, self.catalogue.offers, self.gate
        )
        self.prompts.skills = self.skills.asked
        self.runner.asked.append(self.skills.asked.calls)
        self.intake.admission.meant = self.skills.asked.are_meant
        able += [
            self.workspaces,
            self.skills,
            ShellFeature(core, self.workspaces, self.skills.skills),
            TrafficFeature(store, clock, self.supervisor.failures.trouble_of),
        ]
        parts = core, self.intake.admission, self.files, self.pool, self.vault, self.connectors
        self.voice = VoiceFeature(*parts, self.home.path / "voice")
        self.turns.speaking.append(self.voice.spoken)
        self.mcp = McpFeature(core, self.approvals, self.catalogue, self.home.path / "mcp", people.keyring, warn)
        able += [self.voice, self.mcp, Dashboard(), LogsFeature(self.home.log_file), self._builder()]
        self.alarm = Alarm(store, self.connectors, owner, bus, clock, partial(warn, topic="lost"))
        self.replugging.connect.append(outcomes.connect)
        self.reloading = Reloading(self.home, self.applying, live, self.stop, bus, clock, partial(warn, topic="config"))
        self.connections = Connections(self.host, self.extensions, self.reloading.reload, self.linking.has)
        configuration = ConfigurationFeature(self.home, self.reloading.reload)
        self.backups = BackingUp(Backups(self.home, live, store, clock))
        sweeps = {what: sweep for feature in able for what, sweep in feature.sweeps().items()}
        upkeep = Upkeep(store, directory, router, clock, live, sweeps)
        able += [self.alarm, self.connections, self.backups, self.reloading, configuration, upkeep]
        checks = HealthChecks(self.home, store, self.keeper, self.pool, clock, tuple(able))
        self.health = HealthService(store, directory, router, checks.look, warn)
        self.features: Sequence[Feature] = (*able, Watching(store, router, accept, self.health, owner))
        for feature in self.features:
            self.catalogue.add(feature.tools(), own=True, offered=feature.offers)
            self.behaviours.parts.update(feature.behaviours())
            feature.add_to(self.commands)

    def _builder(self) -> BuilderFeature:
        from daycare.features.builder.checking import ProposalChecks

        checks = ProposalChecks(
            *(self.store.people, self.directory, self.permissions, self.catalogue, self.budgets, self.pool),
            *(self.cron.controls, self.skills.skills, self.prompts.check),
        )
        return BuilderFeature(self.store, checks, self.prompts, self.gate, self.owner)

    def _build_faces(self) -> None:
        """Build what shows it all: chat commands, routes, and whoever hears of commits."""
        store, bus, clock, live = self.store, self.bus, self.clock, self.live
        directory, pool, supervisor = self.directory, self.pool, self.supervisor
        self.relay.heard.append(self.connections.heard)
        overview = Overview(self.this_run, store, live, supervisor, pool, self.extensions, self.features)
        self.status = overview.status
        self.standing = DaemonStanding(
            self.this_run, store, supervisor, pool, self.connections, self.reloading, self.alarm
        )
        StatusCommands(
            *(store, directory, pool, live, clock, overview.status),
            *(supervisor.life_of, supervisor.failures.trouble_of),
        ).add_to(self.commands)
        metrics = DaemonMetrics(self.home, store, supervisor, pool, bus, clock, self.connectors, self.features)
        self.observation = Observation(live, bus, metrics, store.commits, self.home.path.name)
        steering = Steering(store, bus, self.this_run, overview.status, self.reloading.reload)
        self.services = Services(
            store=store,
            directory=directory,
            router=self.router,
            supervisor=supervisor,
            bus=bus,
            clock=clock,
            accept=self.intake.accept,
            accept_all=self.intake.accept_all,
            owner=self.owner,
            live=live,
            heartbeats=self.signals.heartbeats,
            create=self.permanent.controls.create,
            behaviours=self.behaviours,
            files=self.files,
            features=(*self.features, self.observation, steering, FirstSteps(self.home.path)),
            check=self._check_settings,
            join=self.observation.join,
        )
        self.commit_hooks = CommitHooks(self.keeper, bus, clock, self.hearers, self.features)
        store.subscribe(self.commit_hooks.committed, self.alarm.troubled)

    def _check_settings(self, config: AgentConfig) -> None:
        self.prompts.check(config)
        self.workspaces.places.check(config)

    async def run(self, started: Callable[[], None], *, work: bool) -> None:
        """Serve until asked to stop; `started` is called once the API answers. Without `work` no turn is taken."""
        from daycare.api.app import build  # late: the web server costs 10 MB that a daemon in a test does not need
        from daycare.api.listening import NetworkListening
        from daycare.api.server import serve

        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.keeper.keep, "log", partial(log.follow, self.bus))
            closed = trio.Event()
            nursery.start_soon(self.keeper.keep, "metrics and spans", partial(self.observation.run, closed))
            self.tokens.reached = work
            app = build(self.services, late=True)
            if self.live.now.api.addresses:
                await app.state.late.complete()  # so that these are open as soon as it is ready
            network = NetworkListening(app, self.tokens.tokens, self.live) if work else None
            await nursery.start(partial(serve, app, self.home.socket, closed, network=network))
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

    async def prepare(self) -> None:
        """Let what agents can do be there before they do it; what fails of it is told, and ends nothing."""
        for feature in self.features:
            with SetAside(self.bus, self.clock, feature.name, "what it does before the first turn"):
                await feature.prepare()

    def background(self) -> Background:
        """Return what runs beside the turns, by the name that people read when it crashes."""
        features = {name: run for feature in self.features for name, run in feature.background().items()}
        return {**super().background(), **features}

    def roles(self) -> Mapping[str, str]:
        """Return the roles of these parts where several nodes share the store; see `Feature`."""
        features = {name: role for feature in self.features for name, role in feature.roles.items()}
        return {**super().roles(), **features}


def _try_key(home: Path, name: str, value: str | None) -> str:
    from daycare.ops.trials import try_key  # late: it brings in what calls models

    return try_key(home, name, value)


_CLOSE_S = 5.0  # for open connections, after which they are cut
