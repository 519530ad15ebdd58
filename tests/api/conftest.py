"""A small daemon with a real store, a real socket and agents that echo, for the tests of the API."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h11
import httpx
import pytest
import trio
import trio.testing

from daycare.actors.directory import Directory
from daycare.actors.lifecycle import Activation
from daycare.actors.linking import Linking
from daycare.actors.permission_checks import PermissionChecks
from daycare.actors.ports import LanePorts
from daycare.actors.router import Posted, Router
from daycare.actors.supervisor import Supervisor
from daycare.agent.attachments import AttachedFiles
from daycare.agent.behaviours import Behaviours
from daycare.agent.deliveries import Deliveries
from daycare.api.app import build
from daycare.api.server import serve
from daycare.api.services import Services
from daycare.base.clock import SystemClock
from daycare.base.errors import BudgetError, ConflictError, DaycareError, ForbiddenError
from daycare.base.events import AgentDied, TurnFinished
from daycare.base.health import Finding
from daycare.base.ids import new_trace_id
from daycare.base.messages import Envelope, EnvelopeKind, File, Lane, Message, Origin, Text
from daycare.base.path import FetchPolicy
from daycare.base.path import Path as Address
from daycare.feature import Core
from daycare.features import open_store
from daycare.features.approvals import Approving
from daycare.features.approvals.approval_messages import ApprovalMessages
from daycare.features.approvals.service import ApprovalsService
from daycare.features.backups import BackingUp
from daycare.features.backups.engine import Backups
from daycare.features.budgets import Budgeting
from daycare.features.budgets.service import Budgets
from daycare.features.credentials import CredentialsFeature
from daycare.features.cron import Cron
from daycare.features.exports import Exporting
from daycare.features.exports.engine import ExportEngine
from daycare.features.health import Watching
from daycare.features.health.service import HealthService
from daycare.features.memory.documents.service import Documents
from daycare.features.memory.service import MemoryFeature
from daycare.features.models import Models
from daycare.features.openai import OpenAIFeature
from daycare.features.pairing import PairingFeature
from daycare.features.panels import PanelsFeature
from daycare.features.people import PeopleFeature
from daycare.features.signals import Signals
from daycare.features.tasks import Tasks
from daycare.inference.pool import Pool
from daycare.inference.sources import ProviderSource
from daycare.observe.bus import Bus, Gap
from daycare.observe.keeper import Keeper
from daycare.ops.metrics import DaemonMetrics
from daycare.ops.observing import Observation
from daycare.ops.run import Run
from daycare.ops.steering import Steering
from daycare.plugin import Inbound
from daycare.settings import Live
from daycare.store.home import Home
from daycare.store.records import Agent, AgentConfig, Commit, InboxRow, Receipt, Reply, Turn, TurnEnd, User
from daycare.store.sqlite.store import Store
from daycare.store.vault import Vault, open_vault
from daycare_plugins.offline.plugin import OfflineProvider

Json = dict[str, Any]
ANN = "/ann/direct"
CONNECTORS = ("direct", "telegram")


@dataclass
class Echo:
    """Takes turns: answers what it read, waits while `hold` is set, gives up what says `poison`."""

    store: Store
    bus: Bus
    hold: trio.Event | None = None
    started: trio.Event = field(default_factory=trio.Event)

    async def take_turn(self, agent: Agent, lane: Activation) -> None:
        rows = lane.claim()
        lane.turn = turn = await self.store.turns.begin(agent, rows)
        self.started.set()
        if self.hold is not None:
            await self.hold.wait()
        said = " ".join(row.envelope.text for row in rows)
        if "poison" in said:
            await self.store.turns.park(agent, turn, code="POISON", reason="it was poison")
            lane.turn = None
            return
        reply = f"echo: {said}"
        connectors = dict.fromkeys(row.envelope.sender.partition(":")[0] for row in rows)
        end = TurnEnd(
            turn=turn.turn,
            state="done",
            seqs=tuple(row.seq for row in rows),
            history=(Message("user", (Text(said),)), Message("assistant", (Text(reply),))),
            result=reply,
            replies=tuple(Reply(connector=name, text=reply) for name in connectors),
        )
        await self.store.turns.finish(agent, turn, end)
        lane.turn = None
        self.bus.publish(
            TurnFinished(
                at_ms=1,
                path=agent.path,
                agent_id=agent.id,
                trace=turn.trace,
                turn=turn.turn,
                reply=reply,
                seqs=end.seqs,
            )
        )

    async def stopped(self, agent: Agent, lane: Activation, reason: str) -> None:
        assert lane.turn is not None
        turn, rows, _ = await self.store.turns.load(lane.turn.turn)
        end = TurnEnd(turn=turn.turn, state="stopped", seqs=turn.seqs, history=(), result=f"[{reason}]")
        await self.store.turns.finish(agent, turn, end)
        lane.drop({row.seq for row in rows})
        lane.turn = None

    async def postponed(self, agent: Agent, turn: Turn, error: DaycareError) -> None:
        raise AssertionError(f"{agent.path}: {error}")

    async def unaffordable(self, agent: Agent, lane: Activation, error: BudgetError) -> None:
        """There is a budget for everything."""

    async def give_up(self, agent: Agent, lane: Activation, error: DaycareError) -> None:
        raise AssertionError(f"{agent.path}: {error}")

    async def obey(self, agent: Agent, lane: Activation, row: InboxRow) -> bool:
        if row.envelope.kind is EnvelopeKind.DISMISS:
            await self.store.inbox.conclude(agent, row, "dismissed")
            await self.store.agents.set_state(agent.id, "dead", row.envelope.text)
            self.bus.publish(AgentDied(at_ms=1, path=agent.path, agent_id=agent.id, reason=row.envelope.text))
            return False
        await self.store.inbox.conclude(agent, row, f"did {row.envelope.text}")
        return True

    def may_overtake(self, row: InboxRow) -> bool:
        return False

    async def parked(self, agent: Agent, reason: str) -> None:
        pass


@dataclass
class Api:
    """The running API: a client, and the parts behind it."""

    client: httpx.AsyncClient
    socket: Path
    services: Services
    service: ApprovalsService
    memory: MemoryFeature
    vault: Vault
    store: Store
    bus: Bus
    echo: Echo
    nursery: trio.Nursery
    shutdown: trio.Event
    ended: trio.Event
    stops: list[tuple[bool, str]]

    async def call(self, method: str, route: str, body: Any = None, *, status: int = 200, **query: Any) -> Json:
        """Make one call and return its document, after looking at its status."""
        answer = await self.client.request(method, route, json=body, params=query)
        assert answer.status_code == status, f"{method} {route}: {answer.status_code} {answer.text}"
        document: Json = answer.json()
        return document

    async def refused(self, status: int, code: str, method: str, route: str, body: Any = None, **query: Any) -> Json:
        """Make a call that must be refused, and return its error."""
        error: Json = (await self.call(method, route, body, status=status, **query))["error"]
        assert error["code"] == code, error
        assert error["message"]
        assert set(error) == {"code", "message", "hint", "retry_after_s"}
        return error

    async def ask(self, text: str, **more: Any) -> Json:
        """Send a message and wait for its answer."""
        return await self.call("POST", "/v1/messages", {"text": text, "wait_s": 10} | more)

    async def letter(self) -> int:
        """Let a message die; return the number of its dead letter."""
        await self.call("POST", "/v1/messages", {"text": "poison", "wait_s": 10}, status=409)
        found = await self.call("GET", "/v1/dead")
        return int(found["dead"][0]["no"])


class EventReader:
    """A client of the event stream; `httpx` leaves its generators to the garbage collector when one is left early."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._http = h11.Connection(h11.CLIENT)
        self._text = ""

    async def open(self, headers: dict[str, str], query: Json) -> None:
        """Ask, and return once the stream has begun."""
        target = str(httpx.URL("/v1/events", params=query))
        await self.stream.send_all(
            self._http.send(h11.Request(method="GET", target=target, headers=[("Host", "x"), *headers.items()]))
            + self._http.send(h11.EndOfMessage())
        )
        answer = await self._event()
        assert isinstance(answer, h11.Response) and answer.status_code == 200, answer
        assert (b"content-type", b"text/event-stream") in [(n, v.partition(b";")[0]) for n, v in answer.headers]
        await self._event()  # the first comment

    async def next(self) -> tuple[str, str, Json]:
        """Return (id, event, data) of the next event."""
        while "\n\n" not in self._text:
            part = await self._event()
            if isinstance(part, h11.EndOfMessage):
                raise EOFError
            assert isinstance(part, h11.Data)
            self._text += part.data.decode()
        block, _, self._text = self._text.partition("\n\n")
        fields = dict(line.split(": ", 1) for line in block.splitlines())
        return fields["id"], fields["event"], json.loads(fields["data"])

    async def _event(self) -> Any:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(await self.stream.receive_some())
        return event


@asynccontextmanager
async def watch(api: Api, headers: dict[str, str] | None = None, **query: Any) -> AsyncIterator[EventReader]:
    """Read the event stream for the length of the block."""
    async with await trio.open_unix_socket(str(api.socket)) as stream:
        reader = EventReader(stream)
        await reader.open(headers or {}, query)
        with trio.fail_after(10):
            yield reader


@asynccontextmanager
async def open_api(
    folder: Path, *, mode: str = "run", bus: Bus | None = None, work: bool = True, pool: Pool | None = None
) -> AsyncIterator[Api]:
    """Serve the API on a socket in `folder`; with `work`, agents take turns."""
    clock, live = SystemClock(), Live()
    bus = bus or Bus(1_000)
    socket = folder / "daycare.sock"
    async with open_store(str(folder / "daycare.db"), clock) as store, trio.open_nursery() as nursery:
        await store.people.add(User(id="ann", name="Ann", operator=True, keys=("direct:ann",)))
        directory = Directory(store, CONNECTORS)
        router = Router(store, directory, bus, clock)
        echo = Echo(store, bus)
        supervisor = Supervisor(store, directory, LanePorts(echo, echo, echo), bus, clock, Keeper(bus, clock), live)

        async def envelope_of(inbound: Inbound) -> tuple[Envelope, Address]:
            user = await store.people.by_key(inbound.sender)
            if user is None:
                raise ForbiddenError("STRANGER", f"accepting a message from {inbound.sender}: nobody has that address")
            path = directory.parse(inbound.path) if inbound.path else Address.connector(user.id, inbound.connector)
            command = inbound.text.startswith("/")
            envelope = Envelope(
                to=str(path),
                user=user.id,
                origin=inbound.origin,
                sender=inbound.sender,
                key=inbound.key,
                text=inbound.text,
                trace=inbound.trace or new_trace_id(),
                files=tuple(file for file in inbound.files if isinstance(file, File)),
                kind=EnvelopeKind.COMMAND if command else EnvelopeKind.TEXT,
                lane=Lane.CONTROL if command else Lane.MESSAGES,
            )
            return envelope, path

        async def accept(inbound: Inbound) -> Receipt:
            envelope, path = await envelope_of(inbound)
            return await router.post(
                envelope, directory.new(path, origin=inbound.origin) if path.is_foreground else None
            )

        async def accept_all(inbound: Inbound) -> list[Posted]:
            return await router.post_to_user_agents(FetchPolicy.ALL_OF_USER, (await envelope_of(inbound))[0])

        async def status() -> Mapping[str, Any]:
            return {"version": "test", "user": "ann", "memory": {"embedder": "none"}}

        async def well(*, whole: bool) -> list[Finding]:
            return [Finding(name="disk", ok=True, text="10 GB are free")]

        async def quiet_operator(text: str, *, topic: str) -> None:
            """Nobody is there."""

        async def reload() -> object:
            raise ConflictError("RELOAD_STOPPING", "reloading config.toml: nobody goes by it")

        async def nobody(user: str, preferred: Agent | None) -> None:
            return None

        async def tell(user: str, text: str, **about: str) -> None:
            """Nobody is there."""

        async def target(user: str, connector: str) -> str | None:
            return None

        async def quiet(user: str, text: str, topic: str, path: str) -> None:
            """Nobody is there."""

        reach: Any = None  # nobody acts here
        stops: list[tuple[bool, str]] = []
        run = Run(Home(folder), mode, "ann", clock)
        run.stop.ask = lambda restart, reason: stops.append((restart, reason))  # type: ignore[method-assign]
        service = ApprovalsService(store, bus, clock, "ann", nobody, tell)
        outcomes = ApprovalMessages(store, service, bus, clock, {}, target)
        health = HealthService(store, directory, router, well, quiet_operator)
        pool = pool or Pool({"offline": ProviderSource("offline", OfflineProvider())}, {"default": "offline/rules"})
        permissions = PermissionChecks(directory, live, bus, clock)
        memory = MemoryFeature(
            store=store,
            documents=Documents(store, directory.all_of, lambda agent: ()),
            directory=directory,
            router=router,
            pool=pool,
            approvals=service,
            permissions=permissions,
            provenance=reach,
            live=live,
            bus=bus,
            clock=clock,
            owner="ann",
            folder=folder / "memory",
            load=None,
        )
        vault = open_vault(folder / "daycare.key")
        people = PeopleFeature(store, vault, permissions, "ann", lambda name, value: "")
        budgets = Budgets(store, tell, bus, clock, live, "ann")

        def committed(commit: Commit) -> None:
            directory.forget(commit.agents)
            supervisor.posted(commit.posted)
            router.committed(commit)
            budgets.committed(commit)

        store.subscribe(committed)

        core = Core(store, directory, router, bus, clock, live, permissions.check, "ann")
        signals = Signals(core, budgets, memory.documents)
        metrics = DaemonMetrics(Home(folder), store, supervisor, pool, bus, clock, {}, ())

        async def create(path: Address, config: AgentConfig, documents: Mapping[str, str], *, by: str) -> Agent:
            return await directory.create(path, origin=Origin.PERSON, config=config)

        services = Services(
            store=store,
            create=create,
            directory=directory,
            router=router,
            supervisor=supervisor,
            bus=bus,
            clock=clock,
            behaviours=Behaviours(store, clock, reach, {}),
            accept=accept,
            accept_all=accept_all,
            owner="ann",
            live=live,
            features=[
                Cron(core, quiet, folder / "cron"),
                memory,
                Tasks(core, Deliveries(directory, reach, {})),
                signals,
                Approving(store, directory, service, outcomes, bus, live, clock, "ann"),
                Budgeting(store, directory, budgets, clock, "ann"),
                PairingFeature(store, directory, clock, "ann"),
                Models(pool, "ann"),
                OpenAIFeature(store, router, bus, clock, live, accept, None, "ann"),
                people,
                CredentialsFeature(people.keyring, live),
                PanelsFeature(memory, accept),
                BackingUp(Backups(Home(folder), live, store, clock)),
                Exporting(
                    lambda: ExportEngine(store, directory, lambda config: None, clock, folder, "direct:ann", live)
                ),
                Watching(store, router, accept, health, "ann"),
                Observation(live, bus, metrics, store.commits, "api"),
                Steering(store, bus, run, status, reload),
            ],
            heartbeats=signals.heartbeats,
            files=AttachedFiles(store, {}, Linking(store.share)),
        )
        shutdown, ended = trio.Event(), trio.Event()

        async def serving(task_status: trio.TaskStatus[None]) -> None:
            await serve(build(services), socket, shutdown, task_status)
            ended.set()

        async def watch() -> None:
            async with bus.subscribe(types=frozenset({"lane.broke", "turn.failed"})) as defects:
                async for _, event in defects:
                    assert isinstance(event, Gap), event

        nursery.start_soon(watch)
        await nursery.start(serving)
        if work:
            nursery.start_soon(supervisor.run)
            await trio.testing.wait_all_tasks_blocked()
        transport = httpx.AsyncHTTPTransport(uds=str(socket), verify=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://daycare", timeout=15) as client:
            with trio.fail_after(20):
                parts = services, service, memory, vault, store, bus, echo
                yield Api(client, socket, *parts, nursery, shutdown, ended, stops)
        shutdown.set()
        with trio.fail_after(5):
            await ended.wait()
        nursery.cancel_scope.cancel()


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with open_api(tmp_path) as api:
        yield api
