"""The product under test, one function per benchmark; nothing else here knows how it is built.

| benchmark | what it calls |
| --- | --- |
| inbox, latency | `mailroom`: send a message durably; wait until all are handled and acknowledged |
| wake | `mailroom` with a `Watch` that sees agents wake, handle and fall asleep |
| scale | `household`: the process with all its agents; wake some and keep them awake |
| start | `start_command`, `control_socket`, `database`: a real process and where it answers |
"""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

import trio
import trio.testing
from msgspec.structs import replace

from daycare import process
from daycare.actors.directory import Directory
from daycare.actors.lifecycle import Activation
from daycare.actors.ports import LanePorts
from daycare.actors.router import Router
from daycare.actors.supervisor import Supervisor
from daycare.base.clock import SystemClock
from daycare.base.errors import DaycareError
from daycare.base.events import AgentSlept, AgentWoke, Event
from daycare.base.ids import new_trace_id
from daycare.base.messages import Envelope, Message, Origin, Text
from daycare.features import open_store
from daycare.observe.bus import Bus
from daycare.observe.keeper import Keeper
from daycare.settings import Live
from daycare.store.records import Agent, Commit, InboxRow, Turn, TurnEnd
from daycare.store.sqlite.store import Store
from daycare.store.sqlite.writer import Tx

from . import population


class Watch:
    """What the product tells a benchmark about its agents, by their numbers; this one does not listen."""

    def awake(self, agent: int) -> None:
        """Take note that an agent's activation begins."""

    def handling(self, agent: int, message: int) -> None:
        """Take note that an agent got a message: its turn has begun durably."""

    def asleep(self, agent: int) -> None:
        """Take note that an agent's activation ended."""


class Mailroom(Protocol):
    """Agents 0 to n-1 that handle each message on its own and sleep as soon as they have none."""

    async def send(self, agent: int, message: int) -> None:
        """Return once the message is accepted durably. `message` is unique: it is the idempotency key."""
        ...

    async def settled(self) -> None:
        """Return once every accepted message is handled and acknowledged durably."""
        ...


@asynccontextmanager
async def mailroom(folder: Path, agents: int, text: str, watch: Watch | None = None) -> AsyncIterator[Mailroom]:
    """Run `agents` agents on a store in `folder`; every message says `text`."""
    location = folder / "product.db"
    population.build(location, agents)
    async with _actors(location, watch or Watch()) as actors, trio.open_nursery() as nursery:
        if watch is not None:
            nursery.start_soon(_lull, actors.supervisor)
        yield _Room(actors, text)
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def mailroom_of_many(location: str, agents: int, text: str) -> AsyncIterator["ManyRoom"]:
    """Run `agents` agents, each of a user of its own, on a new store at `location`, a file or a server's."""
    async with open_store(location) as store:

        def populate(tx: Tx) -> None:
            population.populate(tx.db, agents, tx.now, alone=True)

        await store._writer.write(populate)
    async with _actors(location, Watch()) as actors, trio.open_nursery() as nursery:
        yield ManyRoom(actors, text)
        nursery.cancel_scope.cancel()


class Household(Protocol):
    """A running installation."""

    async def wake(self, first: int, count: int) -> None:
        """Wake `count` agents from number `first` by a message each; return when all handled it and stay awake."""
        ...


@asynccontextmanager
async def household(home: Path) -> AsyncIterator[Household]:
    """Start on the database in `home`; entered when it would accept messages."""
    async with _actors(database(home), Watch()) as actors:
        yield _Household(actors)


def start_command(home: Path) -> list[str]:
    """Return the command that runs the daemon in the foreground."""
    return [sys.executable, "-m", "daycare", "run", "--home", str(home)]


def control_socket(home: Path) -> Path:
    """Return the Unix socket on which a running daemon answers."""
    return home / "daycare.sock"


def database(home: Path) -> Path:
    """Return the file that holds an installation's agents."""
    return home / "daycare.db"


class _Watched(Bus):
    """A bus that tells the benchmark who wakes and who sleeps."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self._watch = watch

    def publish(self, event: Event) -> None:
        """See `Bus`."""
        if isinstance(event, AgentWoke):
            self._watch.awake(population.number(event.agent_id))
        elif isinstance(event, AgentSlept):
            self._watch.asleep(population.number(event.agent_id))
        super().publish(event)


class _Actors:
    """The product between its borders: router, directory, supervisor and store, with a handler that answers at once.

    The handler takes each message in a turn of its own, journaled before and committed after, as the flow does; there
    is no model. A turn reads no history and writes one answer.
    """

    def __init__(self, store: Store, watch: Watch) -> None:
        clock = SystemClock()
        bus = _Watched(watch)
        self.store = store
        self.watch = watch
        self.directory = Directory(store, {"direct"})
        self.router = Router(store, self.directory, bus, clock)
        self.supervisor = Supervisor(
            store, self.directory, LanePorts(self, self, self), bus, clock, Keeper(bus, clock), Live()
        )
        self.waiting = 0
        self.quiet = trio.Event()
        store.subscribe(self._committed)

    def _committed(self, commit: Commit) -> None:
        self.directory.forget(commit.agents)
        self.supervisor.posted(commit.posted)
        self.router.committed(commit)
        self.waiting -= len(commit.completed)
        if not self.waiting:
            self.quiet.set()

    async def take_turn(self, agent: Agent, lane: Activation) -> None:
        """Take one turn; see `TurnPort`."""
        number = population.number(agent.id)
        if lane.turn is None:
            lane.begun = lane.claim()
            lane.turn = await self.store.turns.begin(agent, lane.begun)
        (row,) = lane.begun
        if row.envelope.key.startswith("bench:"):
            self.watch.handling(number, int(row.envelope.key.removeprefix("bench:")))
        heard = Message("user", (Text(row.envelope.text),), row.created_at, row.envelope.origin)
        end = TurnEnd(turn=lane.turn.turn, state="done", seqs=lane.turn.seqs, history=(heard, _ANSWER), result="ok")
        following = lane.claim_ahead()
        lane.turn = await self.store.turns.finish(agent, lane.turn, end, following)
        lane.begun = following

    async def stopped(self, agent: Agent, lane: Activation, reason: str) -> None:
        """Never called: nobody stops a turn here."""
        raise AssertionError(reason)

    async def postponed(self, agent: Agent, turn: Turn, error: DaycareError) -> None:
        """Fail the benchmark: nothing here can be away."""
        raise error

    async def unaffordable(self, agent: Agent, lane: Activation, error: DaycareError) -> None:
        """There is a budget for everything."""

    async def give_up(self, agent: Agent, lane: Activation, error: DaycareError) -> None:
        """Fail the benchmark."""
        raise error

    async def obey(self, agent: Agent, lane: Activation, row: InboxRow) -> bool:
        """Never called: there are no control messages here."""
        raise AssertionError(row)

    def may_overtake(self, row: InboxRow) -> bool:
        """Never called."""
        raise AssertionError(row)

    async def parked(self, agent: Agent, reason: str) -> None:
        """Never called."""
        raise AssertionError(reason)


@asynccontextmanager
async def _actors(location: Path | str, watch: Watch) -> AsyncIterator[_Actors]:
    process.tune()
    async with open_store(str(location)) as store, trio.open_nursery() as nursery:
        actors = _Actors(store, watch)
        nursery.start_soon(actors.supervisor.run)
        await trio.testing.wait_all_tasks_blocked()
        yield actors
        nursery.cancel_scope.cancel()


async def _lull(supervisor: Supervisor) -> None:
    """Send agents to sleep as soon as they have nothing to do, so that every message finds them asleep."""
    while True:
        supervisor.sleep_idle(0.0)
        await trio.sleep(_LULL_S)


class _Room:
    def __init__(self, actors: _Actors, text: str) -> None:
        self._actors = actors
        self._text = text

    async def send(self, agent: int, message: int) -> None:
        """See `Mailroom`."""
        self._actors.waiting += 1
        await self._actors.router.post(_envelope(agent, f"bench:{message}", self._text))

    async def settled(self) -> None:
        """See `Mailroom`."""
        while self._actors.waiting:
            self._actors.quiet = trio.Event()
            await self._actors.quiet.wait()


class ManyRoom(_Room):
    """A `Mailroom` whose agents have a user each, and which can be asked what it costs."""

    async def send(self, agent: int, message: int) -> None:
        """See `Mailroom`."""
        self._actors.waiting += 1
        user = population.user(agent)
        envelope = replace(_envelope(agent, f"bench:{message}", self._text), to=population.path(agent, user), user=user)
        await self._actors.router.post(envelope)

    @property
    def commits(self) -> int:
        """How many there were."""
        samples = self._actors.store._writer.commits.samples()
        return sum(int(value) for name, _, value in samples if name == "_count")

    @property
    def trips(self) -> int:
        """How often a server was asked by the connection that writes; 0 for a file."""
        return getattr(self._actors.store._db, "trips", 0)


class _Household:
    def __init__(self, actors: _Actors) -> None:
        self._actors = actors

    async def wake(self, first: int, count: int) -> None:
        """See `Household`."""
        self._actors.waiting += count
        async with trio.open_nursery() as nursery:
            for number in range(first, first + count):
                nursery.start_soon(self._actors.router.post, _envelope(number, f"bench:{number}", "hello"))
        while self._actors.waiting:
            self._actors.quiet = trio.Event()
            await self._actors.quiet.wait()
        await trio.testing.wait_all_tasks_blocked()


_LULL_S = 0.0005
_ANSWER = Message("assistant", (Text("ok"),))


def _envelope(agent: int, key: str, text: str) -> Envelope:
    return Envelope(
        to=population.path(agent),
        user=population.USER,
        origin=Origin.PERSON,
        sender=f"bench:{key}",  # everyone another person: nothing is merged into one turn
        key=key,
        text=text,
        trace=new_trace_id(),
    )
