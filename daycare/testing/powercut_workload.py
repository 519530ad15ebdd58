"""A seeded crowd that uses a real store, and an independent ledger of what it was promised, and when.

"When" is an index into the record of the disk's operations: a power cut at or after it may not take the promise back.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import trio

from daycare.base.errors import NotFoundError
from daycare.base.messages import Envelope, Message, Origin, Text
from daycare.features import open_store
from daycare.store.records import Agent, Effects, NewAgent, NewTimer, Reply, Step, Turn, TurnEnd
from daycare.store.sqlite.store import Store
from daycare.testing.powercut_disk import Op, RecordingVFS

PATHS = ("/u1/telegram", "/u1/agent/a", "/u1/agent/b")
NEVER = 1 << 62  # the time of a promise that was not made


@dataclass
class WorkloadPost:
    """One message, by its key; `batch` names those that go together, of a `refused` one nothing may be kept."""

    path: str
    key: str
    sender: str
    number: int
    batch: int
    seq: int = 0
    acked: int = NEVER
    refused: bool = False


@dataclass
class Finish:
    """One turn and everything its end brings about."""

    turn: Turn
    path: str
    result: str
    reply: str
    post: str
    post_path: str
    timer: str
    acked: int = NEVER


@dataclass
class PromiseLedger:
    """What was asked for and promised; `acked` maps other promises to their times."""

    posts: dict[str, WorkloadPost] = field(default_factory=dict)
    finishes: list[Finish] = field(default_factory=list)
    turns: dict[int, int] = field(default_factory=dict)
    steps: dict[tuple[int, int], int] = field(default_factory=dict)
    timers: dict[str, int] = field(default_factory=dict)
    fired: dict[str, int] = field(default_factory=dict)
    sent: dict[int, int] = field(default_factory=dict)

    def promised(self, at: int) -> int:
        """Return how many things had been acknowledged before operation `at`."""
        acked = [post.acked for post in self.posts.values()] + [finish.acked for finish in self.finishes]
        others = (self.turns, self.steps, self.timers, self.fired, self.sent)
        return sum(time <= at for time in (*acked, *(time for each in others for time in each.values())))


@dataclass
class Recording:
    """A run: what the disk was told to do, and what the crowd was promised."""

    ops: list[Op]
    ledger: PromiseLedger

    @property
    def promises(self) -> list[int]:
        """Return the times at which something was promised."""
        acked = [post.acked for post in self.ledger.posts.values()] + [it.acked for it in self.ledger.finishes]
        return sorted({time for time in acked if time != NEVER})


def envelope(path: str, key: str, sender: str) -> Envelope:
    """Return the message that a sender writes under a key."""
    return Envelope(
        to=path,
        user="u1",
        origin=Origin.PERSON,
        sender=sender,
        key=key,
        text=f"text of {key} " + "x" * (len(key) * 37 % 900),
        trace=f"trace-{key}",
    )


def agent_at(path: str) -> NewAgent:
    """Return the agent that is to be created at a path."""
    return NewAgent(
        id="id-" + path.strip("/").replace("/", "-"),
        path=path,
        kind="agent",
        role="user",
        user="u1",
        origin=Origin.PERSON,
    )


async def record(folder: Path, seed: int, synchronous: str = "") -> Recording:
    """Let the crowd work on a new store in `folder` through a few openings; return what happened.

    The store is as the product opens it, unless `synchronous` is to show that the campaign would notice.
    """
    rng = random.Random(seed)
    ledger = PromiseLedger()
    with RecordingVFS(f"recording-{folder.name}", folder) as disk:
        for opening in range(rng.randint(1, 3)):
            async with open_store(str(folder / "daycare.db"), vfs=f"recording-{folder.name}") as store:
                if synchronous:
                    store._db.pragma("synchronous", synchronous)
                # Small enough for the log to be written back and begun again under way, or not at all.
                store._db.pragma("wal_autocheckpoint", rng.choice((10, 40, 150, 4000)))
                crowd = _Crowd(store, ledger, lambda: len(disk.ops), rng, opening)
                await crowd.run()
            del store, crowd  # closes the connections, which belong to the VFS
        return Recording(list(disk.ops), ledger)


class _Crowd:
    def __init__(
        self, store: Store, ledger: PromiseLedger, time: Callable[[], int], rng: random.Random, opening: int
    ) -> None:
        self._store = store
        self._ledger = ledger
        self._time = time
        self._rng = rng
        self._opening = opening
        self._batches = opening * 1_000_000

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            for number in range(self._rng.randint(2, 5)):
                nursery.start_soon(self._send, f"telegram:{self._opening}{number}", self._rng.randint(8, 20))
            for path in PATHS:
                nursery.start_soon(self._work, path, 20)
            nursery.start_soon(self._deliver, 25)
            nursery.start_soon(self._fire, 15)

    async def _next_commit(self) -> None:
        await self._store.ledger.record([])  # changes nothing, but takes its turn among the writes

    async def _send(self, sender: str, rounds: int) -> None:
        number = 0
        for _ in range(rounds):
            path = self._rng.choice(PATHS)
            self._batches += 1
            posts = []
            for _ in range(self._rng.choice((1, 1, 1, 3))):
                number += 1
                posts.append(WorkloadPost(path, f"{sender}-{number}", sender, number, self._batches))
            self._ledger.posts |= {post.key: post for post in posts}
            batch = [(envelope(path, post.key, sender), agent_at(path)) for post in posts]
            if len(batch) == 1 and self._rng.random() < 0.5:
                receipts = [await self._store.inbox.post(*batch[0])]
            else:
                receipts = await self._store.inbox.post_all(batch)
            for post, receipt in zip(posts, receipts, strict=True):
                post.acked, post.seq = self._time(), receipt.seq
            if self._rng.random() < 0.2:
                await self._refused(path, sender, number)
            if self._rng.random() < 0.1:
                again = await self._store.inbox.post(*batch[0])
                assert again.duplicate and again.seq == posts[0].seq

    async def _refused(self, path: str, sender: str, number: int) -> None:
        """Post a batch whose last message is for nobody; most share their commit with what others write."""
        self._batches += 1
        key = f"{sender}-{number}-refused"
        self._ledger.posts[key] = WorkloadPost(path, key, f"{sender}-refused", number, self._batches, refused=True)
        batch = [(envelope(path, key, sender), agent_at(path)), (envelope("/u1/agent/nobody", key, sender), None)]
        try:
            await self._store.inbox.post_all(batch)
        except NotFoundError:
            return
        raise AssertionError("a message for nobody was taken")

    async def _work(self, path: str, rounds: int) -> None:
        for _ in range(rounds):
            agent = await self._store.agents.at(path)
            rows = await self._store.inbox.waiting(agent.id, limit=self._rng.randint(1, 4)) if agent else []
            if agent is None or not rows:
                await self._next_commit()
                continue
            turn = await self._store.turns.open_turn(agent.id)
            if turn is None:
                turn = await self._store.turns.begin(agent, rows)
                self._ledger.turns[turn.turn] = self._time()
            for number in range(1, self._rng.randint(1, 4)):
                step = Step(turn=turn.turn, step=number, kind="tool", name="t", state="done")
                await self._store.turns.journal([step])
                self._ledger.steps[turn.turn, number] = self._time()
            if self._rng.random() < 0.9:
                await self._finish(agent, turn)

    async def _finish(self, agent: Agent, turn: Turn) -> None:
        it = Finish(
            turn=turn,
            path=agent.path,
            result=f"result {turn.turn}",
            reply=f"reply of {turn.turn} " + "y" * (turn.turn * 53 % 700),
            post=f"post-{turn.turn}",
            post_path=self._rng.choice(PATHS),
            timer=f"timer-{turn.turn}",
        )
        if await self._store.agents.at(it.post_path) is None:
            it.post_path = agent.path
        timer = NewTimer(
            agent_id=agent.id, key=it.timer, due_at=turn.turn, envelope=envelope(agent.path, it.timer, "timer")
        )
        end = TurnEnd(
            turn=turn.turn,
            state="done",
            seqs=turn.seqs,
            history=(Message("assistant", (Text(it.result),)),),
            result=it.result,
            replies=(Reply(connector="telegram", text=it.reply),),
            effects=Effects(posts=(envelope(it.post_path, it.post, agent.path),), timers=(timer,)),
        )
        self._ledger.finishes.append(it)
        await self._store.turns.finish(agent, turn, end)
        it.acked = self._ledger.timers[it.timer] = self._time()

    async def _deliver(self, rounds: int) -> None:
        for _ in range(rounds):
            rows = await self._store.outbox.waiting("telegram", limit=self._rng.randint(1, 3))
            if not rows:
                await self._next_commit()
                continue
            await self._store.outbox.start(rows[0].seq)
            await self._store.outbox.sent([row.seq for row in rows], "r")
            self._ledger.sent |= {row.seq: self._time() for row in rows}

    async def _fire(self, rounds: int) -> None:
        for _ in range(rounds):
            due = await self._store.timers.find(limit=2)
            if not due:
                await self._next_commit()
                continue
            # Other turns may set earlier timers meanwhile: what fired is certain only for what is gone afterwards.
            await self._store.timers.fire(due[-1].due_at, 2)
            left = {it.envelope.key for it in await self._store.timers.find(limit=10_000)}
            self._ledger.fired |= {it.envelope.key: self._time() for it in due if it.envelope.key not in left}
