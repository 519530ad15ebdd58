"""The product under test, one function per benchmark; nothing else here knows how it is built.

| benchmark | what it calls |
| --- | --- |
| inbox, latency | `mailroom`: send a message durably; wait until all are handled and acknowledged |
| wake | `mailroom` with a `Watch` that sees agents wake, handle and fall asleep |
| scale | `household`: the process with all its agents; wake some and keep them awake |
| start | `start_command`, `control_socket`, `database`: a real process and where it answers |
"""

import sys
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

import trio

from daycare.base.ids import new_trace_id
from daycare.base.messages import Envelope, Message, Origin, Text
from daycare.store.records import Agent, Commit, InboxRow, Turn, TurnEnd
from daycare.store.sqlite.store import SqliteStore, open_store

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
    async with open_store(str(location)) as store, trio.open_nursery() as nursery:
        rows = [await store.agents.get(population.agent_id(number)) for number in range(agents)]
        room = _StoreRoom(store, [row for row in rows if row is not None], text, watch or Watch(), nursery)
        store.subscribe(room.committed)
        yield room
        nursery.cancel_scope.cancel()


class Household(Protocol):
    """A running installation."""

    async def wake(self, first: int, count: int) -> None:
        """Wake `count` agents from number `first` by a message each; return when all handled it and stay awake."""
        ...


@asynccontextmanager
async def household(home: Path) -> AsyncIterator[Household]:
    """Start on the database in `home`; entered when it would accept messages."""
    async with open_store(str(database(home))) as store, trio.open_nursery() as nursery:
        held = _StoreHousehold(store, nursery)
        store.subscribe(held.committed)
        yield held
        nursery.cancel_scope.cancel()


def start_command(home: Path) -> list[str]:
    """Return the command that runs the daemon in the foreground."""
    return [sys.executable, "-m", "daycare", "run", "--home", str(home)]


def control_socket(home: Path) -> Path:
    """Return the Unix socket on which a running daemon answers."""
    return home / "daycare.sock"


def database(home: Path) -> Path:
    """Return the file that holds an installation's agents."""
    return home / "daycare.db"


class _StoreRoom:
    """The store with the least dispatcher that wakes an agent once and loses nothing."""

    def __init__(self, store: SqliteStore, agents: list[Agent], text: str, watch: Watch, nursery: trio.Nursery) -> None:
        self._store = store
        self._agents = agents
        self._numbers = {agent.id: number for number, agent in enumerate(agents)}
        self._text = text
        self._watch = watch
        self._nursery = nursery
        self._boxes: dict[int, deque[InboxRow]] = {}
        self._open = 0
        self._idle = trio.Event()

    async def send(self, agent: int, message: int) -> None:
        """See `Mailroom`."""
        self._open += 1
        await self._store.inbox.post(_envelope(agent, f"bench:{message}", self._text))

    async def settled(self) -> None:
        """See `Mailroom`."""
        while self._open:
            self._idle = trio.Event()
            await self._idle.wait()

    def committed(self, commit: Commit) -> None:
        """Take what became durable to its agent; called before the senders go on."""
        for row in commit.posted:
            number = self._numbers[row.agent_id]
            box = self._boxes.get(number)
            if box is None:
                self._boxes[number] = deque([row])
                self._nursery.start_soon(self._live, number)
            else:
                box.append(row)
        self._open -= len(commit.completed)
        if not self._open:
            self._idle.set()

    async def _live(self, number: int) -> None:
        agent, box = self._agents[number], self._boxes[number]
        self._watch.awake(number)
        while box:
            row = box.popleft()
            turn = await self._store.turns.begin(agent, [row])
            self._watch.handling(number, int(row.envelope.key.removeprefix("bench:")))
            await self._store.turns.finish(agent, turn, _end(turn, row))
        self._watch.asleep(number)
        del self._boxes[number]  # no await since the box was seen empty


class _StoreHousehold:
    """Agents as tasks that hold what a dispatcher needs: the row of the agent, a box, a bell."""

    def __init__(self, store: SqliteStore, nursery: trio.Nursery) -> None:
        self._store = store
        self._nursery = nursery
        self._awake = 0

    async def wake(self, first: int, count: int) -> None:
        """See `Household`."""
        target = self._awake + count
        async with trio.open_nursery() as nursery:
            for number in range(first, first + count):
                nursery.start_soon(self._store.inbox.post, _envelope(number, "wake", "hello"))
        while self._awake < target:
            await trio.sleep(0.005)

    def committed(self, commit: Commit) -> None:
        """Wake whom a commit concerns."""
        for row in commit.posted:
            self._nursery.start_soon(self._live, row)

    async def _live(self, row: InboxRow) -> None:
        agent = await self._store.agents.get(row.agent_id)
        assert agent is not None
        box, bell = deque([row]), trio.Event()
        turn = await self._store.turns.begin(agent, [row])
        await self._store.turns.finish(agent, turn, _end(turn, box.popleft()))
        self._awake += 1
        await bell.wait()


_ANSWER = Message("assistant", (Text("ok"),))


def _end(turn: Turn, row: InboxRow) -> TurnEnd:
    """Return what a handler leaves behind that answers at once: what was said moves from the inbox to the history."""
    heard = Message("user", (Text(row.envelope.text),), row.created_at, row.envelope.origin)
    return TurnEnd(turn=turn.turn, state="done", seqs=turn.seqs, history=(heard, _ANSWER), result="ok")


def _envelope(agent: int, key: str, text: str) -> Envelope:
    return Envelope(
        to=population.path(agent),
        user=population.USER,
        origin=Origin.PERSON,
        sender="bench:1",
        key=key,
        text=text,
        trace=new_trace_id(),
    )
