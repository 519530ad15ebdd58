"""The kernel of a running installation: what takes messages in, thinks about them and brings answers out.

It is built from the ground up: each part gets those that it stands on, and none waits for one that is made later. What
comes in (connectors, tools, commands, observers of messages) registers with a part that is there.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

import trio

from daycare.actors.directory import Directory
from daycare.actors.helpers import Helpers
from daycare.actors.linking import Linking
from daycare.actors.loop_guard import LoopGuard
from daycare.actors.permission_checks import PermissionChecks
from daycare.actors.ports import LanePorts
from daycare.actors.postbox import Postbox
from daycare.actors.router import Router
from daycare.actors.supervisor import Supervisor
from daycare.actors.timers import TimerService
from daycare.agent import tokens
from daycare.agent.admission import Admission
from daycare.agent.attachments import AttachedFiles, connector_of
from daycare.agent.behaviours import Behaviours
from daycare.agent.commands import Commands
from daycare.agent.context import Contexts
from daycare.agent.context_commands import ContextCommands
from daycare.agent.control import Control
from daycare.agent.deliveries import Deliveries
from daycare.agent.dispatch import TurnDispatch
from daycare.agent.endings import Endings
from daycare.agent.journal import TurnJournal
from daycare.agent.neighbours import Neighbours
from daycare.agent.notify import Notifier
from daycare.agent.personality import Personalities
from daycare.agent.prompting import Prompter
from daycare.agent.provenance import Provenance
from daycare.agent.rate_limit import SenderRateLimit
from daycare.agent.reactions import Reacting
from daycare.agent.record import EventRecord
from daycare.agent.sections import Prompts
from daycare.agent.sending import Sending
from daycare.agent.setting_commands import SettingCommands
from daycare.agent.steps import Thinker
from daycare.agent.wanted_files import WantedFiles
from daycare.base.clock import TimeLimit
from daycare.base.limits import OUTAGE_MAX_S
from daycare.config import Config
from daycare.connectors.courier import Courier
from daycare.connectors.host import Host
from daycare.connectors.typing_status import TypingStatus
from daycare.features.approvals.findings import findings_of
from daycare.features.approvals.gate import ApprovalGate
from daycare.features.approvals.rows import ApprovalRows
from daycare.features.approvals.service import ApprovalsService
from daycare.features.budgets.service import Budgets
from daycare.features.memory.documents.service import Documents
from daycare.features.memory.service import MemoryFeature, loader, redis_server
from daycare.flow import Delivery, Intake, Turns
from daycare.inference.configured import sources
from daycare.inference.model_events import ModelEvents
from daycare.inference.pool import Pool
from daycare.nodes.calls import NodeCalls
from daycare.nodes.relay import EventRelay
from daycare.nodes.talk import NodeTalk
from daycare.nodes.webhook_posts import WEBHOOK_POST, WebhookPosts
from daycare.observe.bus import Bus
from daycare.observe.keeper import Keeper
from daycare.ops.applying import Applying
from daycare.ops.commit_hooks import CommitHook
from daycare.ops.crash_breaker import CrashBreaker
from daycare.ops.crash_log import CrashLog, CrashVerdict
from daycare.ops.replugging import Replugging
from daycare.ops.run import Run
from daycare.plugin import Connector, Plugin
from daycare.plugins.context import Surroundings
from daycare.plugins.extensions import Extensions
from daycare.settings import Live
from daycare.store.retry import with_retry
from daycare.store.share import first_cursor
from daycare.store.sqlite.store import Store
from daycare.store.vault import Vault
from daycare.tools import builtin
from daycare.tools.catalogue import Catalogue
from daycare.tools.context import Reach
from daycare.tools.offer import ToolOffer
from daycare.tools.runner import Runner

Background = Mapping[str, Callable[[], Awaitable[object]]]


class Kernel:
    """The parts that are there whatever a daemon can do besides."""

    def __init__(self, run: Run, config: Config, store: Store, vault: Vault) -> None:
        self.this_run, self.store, self.vault, self.live = run, store, vault, Live(config)
        self.home, self.owner, self.clock, self.started_at = run.home, run.owner, run.clock, run.started_at
        self.stop = run.stop
        # Cursors go on growing over restarts, and those of another node are none of this one's.
        self.bus = Bus(start=self.started_at + first_cursor(store.share.node))
        self.keeper = Keeper(self.bus, self.clock)
        store.share.ended = partial(self.stop.ask, True)
        self._talk = NodeTalk(store.share, store.share.node, vault.derived("node talk"), self.started_at)
        self.relay, self.calls = EventRelay(self.bus, self._talk), NodeCalls(self._talk)
        self.linking = Linking(store.share)
        self.connectors: dict[str, Connector] = {}  # plugins register theirs
        self.commands = Commands()

    def build(self, plugins: Sequence[Plugin]) -> None:
        """Build all of it, from the mail upwards."""
        self._build_mail()
        self._build_plugins(plugins)
        self._build_memory()
        self._build_tools()
        self._build_turns()
        self._build_edges()

    def _build_mail(self) -> None:
        store, bus, clock, live = self.store, self.bus, self.clock, self.live
        self.directory = Directory(store, self.connectors)
        self.permissions = PermissionChecks(self.directory, live, bus, clock)
        self.notifier = Notifier(store, self.directory, bus, clock, self.connectors, live)
        self.loop_guard = LoopGuard(Postbox(store, bus, clock).post, self.notifier.notify, bus, clock)
        self.router = Router(store, self.directory, bus, clock, self.permissions.check, self.loop_guard.admit)
        self.helpers = Helpers(self.directory, self.permissions, self.loop_guard)
        self.budgets = Budgets(store, self.notifier.notify, bus, clock, live, self.owner)
        self.approvals = ApprovalsService(
            store, bus, clock, self.owner, self.notifier.reachable, self.notifier.notify, scan=findings_of
        )
        replied, known = self.approvals.pending_reply_to, self.commands.has
        admission = Admission(store, self.directory, SenderRateLimit(), clock, replied, live, known)
        self.intake = Intake(store, admission, self.router, bus, clock, role_of=lambda name: self.linking.role_of(name))

    def _build_plugins(self, plugins: Sequence[Plugin]) -> None:
        self._held: CrashBreaker | None = None
        store, clock, config = self.store, self.clock, self.live.now
        self.host = Host(store, self.bus, clock, self.intake.receive, self.commands.listed)
        folder = self.home.path / "plugins"
        posts = WebhookPosts(self.calls.ask if store.share.several else None)
        self.calls.serve(WEBHOOK_POST, posts.asked)
        around = Surroundings(
            *(folder, clock, store.secrets.get, self.vault.open, self.intake.accept, self.host),
            self.linking.while_had,
            posts,
        )
        self.extensions = Extensions(config, self.home.path, self.bus, around, self.connectors, plugins)
        self.intake.hearing.append(self.extensions.hooks.accepted)
        self.model_news = ModelEvents(self.bus, clock)
        self.pool = Pool(
            sources(config, self.extensions.plugins, store.secrets, self.vault),
            config.models.by_role(),
            config.models.fallbacks,
            self.model_news.outage,
            self.budgets,
            self.model_news.called,
        )
        self.files = AttachedFiles(store, self.connectors, self.linking)
        self.reacting = Reacting(store, self.connectors)
        self.catalogue = Catalogue(self.live, self.reacting.offered)
        self.extensions.hold(self._may_start)
        self.extensions.place(store.share.while_held)
        self.linking.role_of = self.extensions.role_of
        self.catalogue.add(tool for plugin in self.extensions.plugins for tool in plugin.tools)
        self.catalogue.own |= {tool.spec.name for tool in builtin.plugin.tools}
        self.offer = ToolOffer(self.live, self.catalogue.spec, tokens.of_tools)
        self.catalogue.add([self.offer.tool], own=True)
        neighbours = Neighbours(store, self.directory, self.router, self.permissions, self.helpers)
        self.catalogue.add(neighbours.tools(), own=True)

    def _build_memory(self) -> None:
        store, bus, clock, live = self.store, self.bus, self.clock, self.live
        plugins = self.extensions.plugins
        documents = Documents(store, self.directory.all_of, self.catalogue.specs)
        load = loader(self.home, live.now, plugins, store.secrets, self.vault)
        approved = store.of(ApprovalRows).calls
        outside = [plugin.name for plugin in plugins if plugin.hooks.message_before is not None]
        self.provenance = Provenance(store, documents, clock, approved, trusted=self.catalogue.own, outside=outside)
        self.memory = MemoryFeature(
            store=store,
            documents=documents,
            directory=self.directory,
            router=self.router,
            pool=self.pool,
            approvals=self.approvals,
            permissions=self.permissions,
            provenance=self.provenance,
            live=live,
            bus=bus,
            clock=clock,
            owner=self.owner,
            folder=self.home.memory,
            load=load,
            server=redis_server(live.now, store.secrets, self.vault, clock),
        )
        self.intake.hearing.append(self.memory.recaller.accepted)
        self.contexts = Contexts(store, self.files, self.pool, bus, clock, self.offer.of)
        self.personalities = Personalities(self.home.personalities)
        self.prompts = Prompts(
            store,
            self.memory.prompt_documents,
            self.personalities,
            live,
            self.contexts.room,
            self.vault.derived("prompt"),
            clock,
            lambda name: self.connectors[name].manner if name in self.connectors else "",
        )

    def _build_tools(self) -> None:
        store, clock = self.store, self.clock
        reach = Reach(
            self.router.admit,
            self.router.post,
            self.helpers.help,
            self.directory.all_of,
            self.files.get,
            self.files.read,
            store.files.put,
            self.memory.remembering.of,
            self.reacting.check,
            self.provenance.of_call,
        )
        self.gate = ApprovalGate(store, self.provenance, self.approvals, self.catalogue.specs, self.live)
        self.runner = Runner(self.catalogue, reach, clock, store.files.put, self.permissions.tool, self.gate)
        self.behaviours = Behaviours(store, clock, reach, dict(self.extensions.behaviours))

    def _build_turns(self) -> None:
        store, bus, clock, hooks = self.store, self.bus, self.clock, self.extensions.hooks
        self.deliveries = Deliveries(self.directory, self.notifier, self.connectors)
        thinker = Thinker(store, self.pool, self.runner, self.contexts, bus, clock)
        self.endings = Endings(
            *(store, self.notifier, bus, clock, self.connectors, hooks, self.deliveries, self.provenance),
            thinker.unanswered,
        )
        self.memory.begin(thinker, self.prompts.drop)
        self.turns = Turns(
            TurnJournal(store, bus, clock, self.connectors),
            self.loop_guard,
            TurnDispatch(self.memory, self.behaviours),
            Prompter(self.permissions, self.memory.recaller, self.prompts, hooks),
            thinker,
            self.endings,
        )
        self.control = Control(store, self.directory, self.router, self.commands, self.endings, self.connectors)
        work = LanePorts(self.turns, self.endings, self.control)
        self.supervisor = Supervisor(store, self.directory, work, bus, clock, self.keeper, self.live)
        self.supervisor.dropping.ask = self.calls.ask
        self.calls.serve("drop", self.supervisor.dropping.asked)
        self._talk.missed.append(self.supervisor.elsewhere.clear)
        self.relay.heard.append(self.supervisor.elsewhere.heard)
        self.timers = TimerService(store, clock)
        self.record = EventRecord(store, bus, self.notifier, self.owner, self.pool.is_for_memory_only)
        ContextCommands(self.contexts, self.prompts, self.catalogue.specs).add_to(self.commands)
        SettingCommands(store, self.directory, self.pool).add_to(self.commands)
        for word, command in self.extensions.commands.items():
            self.commands.add(word, command)

    def _build_edges(self) -> None:
        store, clock = self.store, self.clock
        outage = TimeLimit(clock, OUTAGE_MAX_S)
        self.sending = Sending(store, self.connectors, self.files, self.bus, clock, outage)
        self.delivery = Delivery(store, self.sending)
        self.courier = Courier(store, self.connectors, self.delivery.deliver, clock, self.keeper, self.linking)
        self.courier.gate = self._may_send
        self.typing_status = TypingStatus(
            self.bus,
            self.connectors,
            lambda path, user, connector: self.sending.address(user, connector),
            lambda *of: with_retry(partial(store.intake.remember, *of)),
            lambda *of: with_retry(partial(store.intake.recall_all, *of)),
            linking=self.linking,
        )
        self.replugging = Replugging(
            self.extensions,
            self.host,
            self.courier,
            [self.typing_status.connect],
            self.catalogue,
            self.commands,
            self.behaviours,
            self.provenance,
        )
        self.applying = Applying(
            self.home.config,
            self.live,
            self.extensions,
            self.replugging,
            self.pool,
            store.secrets,
            self.vault,
            self.supervisor.failures.changed,
        )

    @property
    def hearers(self) -> Sequence[CommitHook]:
        """Who keeps in memory what commits make true, in the order in which they hear of it."""
        known = (self.directory, self.prompts, self.budgets, self.contexts.conversations, self.provenance.readings)
        return (*known, self.supervisor, self.router, self.courier, self.timers)

    def hold(self, verdict: CrashVerdict, starts: CrashLog) -> CrashBreaker:
        """Keep down what a verdict on the crashes before this run says, until it is tried again."""
        tell = partial(self.notifier.notify, self.owner, topic="breaker")
        breaker = CrashBreaker(verdict, starts, self.extensions.pushing, self.connectors, self.host, self.clock, tell)
        self._held = breaker
        return breaker

    async def _may_start(self, plugin: str) -> None:
        """Return when a plugin may start."""
        if self._held is not None:
            await self._held.plugin(plugin)

    async def _may_send(self, connector: str) -> None:
        if self._held is not None:
            await self._held.connector(connector)

    def background(self) -> Background:
        """Return what runs beside the turns, by the name that people read when it crashes."""
        return {
            "timers": self.timers.worker.run,
            "delivery": self.courier.run,
            "typing and previews": self.typing_status.run,
            "notices": self.notifier.worker.run,
            "record of events": self.record.run,
            **(self._of_several_nodes() if self.store.share.several else {}),
        }

    def roles(self) -> Mapping[str, str]:
        """Return the roles of these parts where several nodes share the store; see `Feature`."""
        own = ("timers", "delivery", "typing and previews", "notices", "record of events")
        return dict.fromkeys((*own, "files for other nodes", "events of nodes", "calls of nodes"), "")

    def _of_several_nodes(self) -> Background:
        def is_here(remote: str) -> bool:
            return self.linking.has(connector_of(remote))

        return {
            "files for other nodes": WantedFiles(self.store, is_here, self.files.fetch).run,
            "events of nodes": self.relay.run,
            "calls of nodes": self.calls.run,
        }

    async def prepare(self) -> None:
        """Do what must be done before the first turn is taken."""

    async def work(self) -> None:
        """Take turns, fire timers, deliver replies, expire what is old; until the supervisor is stopped."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self.extensions.run)
            await self.prepare()
            roles = self.roles()
            for name, part in self.background().items():
                role = roles.get(name, name)
                run = partial(self.store.share.while_held, role, part) if role else part
                nursery.start_soon(self.keeper.keep, name, run)
            await self.supervisor.run()
            await self.extensions.stop()
            nursery.cancel_scope.cancel()
        await self.store.share.leave()
