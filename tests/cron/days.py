"""A year of scheduled jobs, on a clock that jumps, with a daemon that dies and is away; then the ledger is judged.

The schedule, the store and the ledger are the real ones; agents are played here: they take some time, and fail now and
then. What should have happened is known from `tests.cron.oracle` and from the policies, never from the product.
"""

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from unittest.mock import patch

import trio
import trio.testing

from daycare.actors.directory import Directory
from daycare.actors.router import Router
from daycare.base.cron import CronSpec
from daycare.base.limits import CRON_LOOK_S, CRON_ON_TIME_S
from daycare.base.messages import Message, Text
from daycare.features import open_store
from daycare.features.cron.model import CronRun, NewCronJob
from daycare.features.cron.rows import CronRows
from daycare.features.cron.service import Schedule
from daycare.observe.bus import Bus
from daycare.settings import Config, Live, StoreSection
from daycare.store.records import Agent, Commit, TurnEnd, User
from daycare.store.sqlite.store import Store
from daycare.testing.clock import patient_clock
from daycare.testing.faults import Killed, Switch
from tests.cron import oracle
from tests.cron.oracle import ZONES

BEGIN = datetime(2027, 1, 1, tzinfo=UTC)
JUMPS_S = (-7_200.0, 3_600.0, 864_000.0)  # and back again after the last, a day later
JOBS = (  # expression, misfire, overlap
    ("30 2 * * *", "skip", "skip"),
    ("0 0 * * *", "run_once", "skip"),
    ("15 0,1,2,3 * * *", "within 60", "skip"),
    ("0 */2 * * *", "within 600", "queue"),
    ("20 8 1,15 * FRI", "run_once", "skip"),
)
_LIVE = Live(Config(store=StoreSection(keep_days=400)))
STORM_PER_MINUTE = 12 + len(JOBS) * len(ZONES)  # late runs, and all that can be due in one minute


@dataclass
class Figures:
    """What a simulation came to."""

    seed: int
    days: float
    due: int = 0
    handled: Counter[str] = field(default_factory=Counter)
    posted: int = 0
    twice: int = 0
    lost: int = 0
    wrong: list[str] = field(default_factory=list)
    storms: int = 0
    most_a_minute: int = 0
    lives: int = 0
    kills: int = 0
    jumps: int = 0
    away_s: float = 0.0

    def as_json(self) -> dict[str, object]:
        """Return it as a document."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__} | {"handled": dict(self.handled)}


class Wall:
    """A wall clock that is set by hand, and knows how long time has really run."""

    def __init__(self, begin: datetime) -> None:
        self.ms = int(begin.timestamp() * 1000)
        self.real_s = 0.0

    def now_ms(self) -> int:
        return self.ms

    def steady_s(self) -> float:
        return self.real_s

    def run(self, seconds: float) -> None:
        """Let time pass."""
        self.real_s += seconds
        self.ms += round(seconds * 1000)


class Year:
    """One simulation."""

    def __init__(self, seed: int, days: float, folder: Path, *, begin: datetime = BEGIN) -> None:
        self._begin = begin
        self.figures = Figures(seed, days)
        self._rng = Random(f"cron/{seed}")
        self._file = str(folder / "daycare.db")
        self._wall = Wall(begin)
        self._end_s = days * 86_400.0
        self._posts: list[tuple[float, str, int]] = []  # (real time, path, due time) of what reached an inbox
        self._jumps = self._plan_jumps(days)

    def _plan_jumps(self, days: float) -> list[tuple[float, float]]:
        """Return (real time, seconds) of each, in order."""
        found = []
        for number in range(max(1, int(days // 60))):
            at = self._rng.uniform(number, number + 0.9) * 60 * 86_400.0 if days >= 60 else days * 86_400.0 / 2
            jump = JUMPS_S[number % len(JUMPS_S)] if days >= 60 else self._rng.choice(JUMPS_S)
            found.append((at, jump))
            if jump > 86_400:
                found.append((at + 86_400.0, -jump))
        return sorted(found)

    async def run(self) -> Figures:
        """Live, die, and be judged."""
        async with open_store(self._file, self._wall, inline=True) as store:
            await self._found(store)
        while self._wall.real_s < self._end_s:
            self.figures.lives += 1
            await self._life()
            if self._rng.random() < 0.5:
                self._pass(self._rng.uniform(1, 40))  # it is started again
            else:
                self._pass(self._rng.choice((600.0, 7_200.0, 90_000.0, 400_000.0)) * self._rng.random())
        self._jumps.clear()
        self._end_s = self._wall.real_s + 4 * 3_600.0
        await self._life(kills=False)  # whatever was missed is recorded, and what is late runs
        async with open_store(self._file, self._wall, inline=True) as store:
            await self._judge(store)
        return self.figures

    async def _found(self, store: Store) -> None:
        for number, zone in enumerate(ZONES):
            user = f"u{number}"
            await store.people.add(User(id=user, name=user, zone=zone))
            for job, (expression, misfire, overlap) in enumerate(JOBS):
                spec = CronSpec(cron=expression, prompt="look", misfire=misfire, overlap=overlap)  # type: ignore[arg-type]
                new = NewCronJob(
                    path=f"/{user}/cron/j{job}",
                    user=user,
                    source="cli",
                    source_ref="",
                    spec=spec,
                    next_at=spec.first(zone, self._wall.ms),
                )
                await store.of(CronRows).add(new)

    def _pass(self, seconds: float) -> None:
        """Let time pass while nobody is there, jumps of the clock included."""
        end_s = self._wall.real_s + seconds
        self.figures.away_s += seconds
        while self._jumps and self._jumps[0][0] <= end_s:
            self._wall.run(max(self._jumps[0][0] - self._wall.real_s, 0.0))
            self._jump()
        self._wall.run(max(end_s - self._wall.real_s, 0.0))

    def _jump(self) -> None:
        self._wall.ms += round(self._jumps.pop(0)[1] * 1000)
        self.figures.jumps += 1

    # -- a life ------------------------------------------------------------------------------------------------------

    async def _life(self, *, kills: bool = True) -> None:
        end_s = min(self._wall.real_s + self._rng.expovariate(1 / (4 * 86_400.0)) + 60, self._end_s)
        end_s = end_s if kills else self._end_s
        async with open_store(self._file, self._wall, inline=True) as store:
            switch = Switch(store, lambda: None)
            if kills and self._rng.random() < 0.6:
                moment = self._rng.choice(("before", "after"))
                switch.kill_at(self._rng.randint(1, 400), moment)  # type: ignore[arg-type]
            store.subscribe(self._committed)
            try:
                await self._work(store, end_s)
            except Killed:
                self.figures.kills += 1
            switch.dead = False
            store._db.exec_trace = None
            if store._db.in_transaction:
                store._db.execute("ROLLBACK")

    async def _work(self, store: Store, end_s: float) -> None:
        bus = Bus(16)
        directory = Directory(store, ())
        schedule = Schedule(
            store, directory, Router(store, directory, bus, self._wall), bus, self._wall, _LIVE, _nothing, _tell
        )
        working: list[tuple[float, Agent]] = []
        for agent_id in await store.inbox.agents_with_work():  # what a life before began
            agent = await store.agents.get(agent_id)
            assert agent is not None
            working.append((self._wall.real_s + 5.0, agent))
        while self._wall.real_s < end_s:
            self._new: list[str] = []
            began = self._wall.ms
            wait_s = await schedule.look()
            for agent_id in self._new:
                agent = await store.agents.get(agent_id)
                assert agent is not None
                working.append((self._wall.real_s + self._takes_s(), agent))
            working.sort(key=lambda each: each[0])
            while working and working[0][0] <= self._wall.real_s:
                await self._finish(store, working.pop(0)[1])
            if wait_s == 0.0 and began == self._wall.ms:
                continue
            await self._rest(wait_s, working[0][0] if working else end_s, end_s, store)

    async def _rest(self, wait_s: float, next_end_s: float, end_s: float, store: Store) -> None:
        """Wait as long as the schedule would, or until somebody is ready; the clock may be set meanwhile.

        Where nothing can happen before, looks at the clock are passed over: they would find nothing.
        """
        if wait_s >= CRON_LOOK_S:
            nearest = min(
                filter(None, (await store.of(CronRows).next_due(), await store.of(CronRows).next_post())), default=0
            )
            wait_s = max(wait_s, (nearest - self._wall.ms) / 1000 - CRON_LOOK_S)
        until_s = min(self._wall.real_s + max(wait_s, 0.001), max(next_end_s, self._wall.real_s + 0.001), end_s)
        if self._jumps and self._jumps[0][0] <= until_s:
            self._wall.run(max(self._jumps[0][0] - self._wall.real_s, 0.0))
            self._jump()
            self._wall.run(self._rng.uniform(0, CRON_LOOK_S))  # until the next look at the clock
            return
        seconds = until_s - self._wall.real_s
        self._wall.run(seconds)
        await trio.sleep(seconds)  # the pace of late runs goes by trio's clock

    def _takes_s(self) -> float:
        return self._rng.choice((2.0, 2.0, 2.0, 30.0, 5_000.0))

    def _committed(self, commit: Commit) -> None:
        for row in commit.posted:
            self._new.append(row.agent_id)
            due_at = int(row.envelope.key.split(":")[2])
            self._posts.append((self._wall.real_s, row.envelope.to, due_at))

    async def _finish(self, store: Store, agent: Agent) -> None:
        rows = await store.inbox.waiting(agent.id, limit=1)
        if not rows:
            return
        open_turn = await store.turns.open_turn(agent.id)
        turn = open_turn or await store.turns.begin(agent, rows)
        if self._rng.random() < 0.01:
            await store.turns.park(agent, turn, code="BAD", reason="it broke")
            return
        history = (Message("assistant", (Text("done"),)),)
        await store.turns.finish(
            agent, turn, TurnEnd(turn=turn.turn, state="done", seqs=turn.seqs, history=history, result="done")
        )

    # -- the judge ---------------------------------------------------------------------------------------------------

    async def _judge(self, store: Store) -> None:
        figures = self.figures
        figures.posted = len(self._posts)
        times = Counter((path, due_at) for _, path, due_at in self._posts)
        figures.twice = sum(count - 1 for count in times.values())
        self._storms()
        end = datetime.fromtimestamp(self._wall.ms / 1000, UTC)
        for number, zone in enumerate(ZONES):
            for job, (expression, misfire, _) in enumerate(JOBS):
                path = f"/u{number}/cron/j{job}"
                runs = await _ledger(store, path)
                expected = [
                    int(at.timestamp() * 1000)
                    for at in oracle.due(expression, zone, self._begin + timedelta(minutes=1), end)
                ]
                self._compare(path, expected, runs, misfire, times)

    def _compare(
        self, path: str, expected: list[int], runs: list[CronRun], misfire: str, times: Counter[tuple[str, int]]
    ) -> None:
        figures = self.figures
        figures.due += len(expected)
        last_ms = self._wall.ms - int(CRON_ON_TIME_S * 1000)
        covered: Counter[int] = Counter()
        for run in runs:
            if run.until_at > self._wall.ms:
                continue  # of a future that the clock has shown once
            first, behind = bisect_left(expected, run.due_at), bisect_left(expected, run.until_at + 1)
            inside = expected[first:behind]
            if len(inside) != run.count:
                figures.wrong.append(f"{path}: an entry of {run.count} times covers {len(inside)}: {run.due_at}")
            covered.update(inside)
            figures.handled[run.state] += run.count
            if run.state in ("ran", "late", "failed", "due") and times[path, run.due_at] != 1:
                figures.wrong.append(f"{path}: {run.state}, and posted {times[path, run.due_at]} times: {run.due_at}")
            if run.state in ("missed", "skipped") and not run.reason:
                figures.wrong.append(f"{path}: {run.state} without a reason: {run.due_at}")
            if run.state == "missed" and misfire not in run.reason:
                figures.wrong.append(f"{path}: missed, and not by its policy: {run.reason}")
        figures.lost += sum(at <= last_ms and not covered[at] for at in expected)
        for at in expected:
            if at <= last_ms and not covered[at]:
                figures.wrong.append(f"{path}: nothing is known of {datetime.fromtimestamp(at / 1000, UTC)}")
            elif covered[at] > 1:
                figures.twice += 1

    def _storms(self) -> None:
        posts = [at for at, _, _ in self._posts]
        for number, at in enumerate(posts):
            within = bisect_left(posts, at + 60.0) - number
            self.figures.most_a_minute = max(self.figures.most_a_minute, within)
            self.figures.storms += within > STORM_PER_MINUTE


async def _ledger(store: Store, path: str) -> list[CronRun]:
    found: list[CronRun] = []
    before = None
    while page := await store.of(CronRows).runs(path=path, before=before, limit=1_000):
        found += page
        before = page[-1].no
    return found


async def _nothing() -> None:
    """There are no files."""


async def _tell(user: str, text: str, topic: str, path: str) -> None:
    """Nobody listens."""


def simulate(seed: int, days: float, folder: Path, *, begin: datetime = BEGIN) -> Figures:
    """Run one simulation; everything in it follows from `seed`."""
    # A look at the file each 4 s took two thirds of a year's time; that the file stays is another campaign's matter.
    with patch("daycare.store.sqlite.watch.LOOK_S", 3_600.0):
        return trio.run(Year(seed, days, folder, begin=begin).run, clock=patient_clock())
