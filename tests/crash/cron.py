"""Kills between due and done: each time of a scheduled job is handled once, and what was answered is delivered once.

Beside people who talk there are some who schedule single runs a moment ahead, and jobs of each minute, one of them in a
file. The judge compares what the API acknowledged with the ledger, the conversations and the replies.
"""

import random
import re
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import apsw
import httpx
import trio

from daycare.testing.daemon_process import client_of
from tests.crash.campaign import Campaign, Killer, When
from tests.crash.figures import Figures
from tests.crash.given_up import letters
from tests.crash.judge import Verdict
from tests.crash.ledger import Finding, Ledger
from tests.crash.load import RETRY_S, Crowd
from tests.crash.process import Home

SCHEDULERS = 3
PAUSE_S = 0.25  # on average, between two jobs of one of them
AHEAD_S = (1, 6)
EACH_MINUTE = ("r0", "r1", "f0")  # the last stands in a file
POLICIES = ("run_once", "within 60", "skip")
_CONFIG = """\
[models]
default = "ticks/errands"

[providers.ticks]
kind = "ticks"

[plugins]
load = ["daycare.testing.tools:plugin", "tests.crash.mind:plugin", "tests.crash.ticks:plugin"]
"""
_FILE = '---\ncron: "* * * * *"\noverlap: queue\nmisfire: run_once\n---\ntick f0\n'
_QUIET_S = 30.0
_TICK = re.compile(r"\\ntick (\w+?)(?=\\n|\")")  # as JSON has a prompt, at its end or before what follows it


@dataclass
class Once:
    """A job for a single time. `sure`: it was acknowledged; else it may have been kept or not."""

    name: str
    at_ms: int
    misfire: str
    sure: bool = False


@dataclass
class Planned:
    """What was scheduled, and when daemons were killed."""

    once: dict[str, Once] = field(default_factory=dict)
    kills_ms: list[int] = field(default_factory=list)


class Schedulers(Crowd):
    """People who talk, and some who schedule."""

    def __init__(self, home: Home, ledger: Ledger, seed: str, user: str, planned: Planned) -> None:
        super().__init__(home.socket, ledger, seed, user, "cron")
        self._user = user
        self._planned = planned
        self._scheduling = SCHEDULERS

    @property
    def silent(self) -> bool:
        """Whether nobody has anything left to say or to schedule."""
        return super().silent and not self._scheduling

    async def prepare(self) -> None:
        """Create the agents, and the jobs of each minute."""
        await super().prepare()
        async with client_of(self.socket) as client:
            for name in EACH_MINUTE[:-1]:
                spec = {"cron": "* * * * *", "prompt": f"tick {name}", "overlap": "queue", "misfire": "run_once"}
                answer = await client.post("/v1/cron", json={"id": name, "spec": spec})
                assert answer.status_code in (201, 409), answer.text

    async def run(self) -> None:
        """Talk and schedule until hushed."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(super().run)
            for number in range(SCHEDULERS):
                nursery.start_soon(self._schedule, number, random.Random(f"{self._seed}/c{number}"))

    async def _schedule(self, number: int, rng: random.Random) -> None:
        count = 0
        async with client_of(self.socket) as client:
            while not self._hushed.is_set():
                count += 1
                at_s = int(time.time()) + rng.randint(*AHEAD_S)
                once = Once(f"o{number}x{count}", at_s * 1000, rng.choice(POLICIES))
                self._planned.once[once.name] = once
                await self._add(client, once, delete=rng.random() < 0.5)
                with trio.move_on_after(rng.expovariate(1 / PAUSE_S)):
                    await self._hushed.wait()
        self._scheduling -= 1

    async def _add(self, client: httpx.AsyncClient, once: Once, *, delete: bool) -> None:
        """Add a job again and again until that is acknowledged, or its time is over."""
        spec: dict[str, Any] = {
            "at": datetime.fromtimestamp(once.at_ms / 1000, UTC).isoformat(),
            "prompt": f"tick {once.name}",
            "misfire": once.misfire,
            "delete_after_run": delete,
        }
        while True:
            try:
                answer = await client.post("/v1/cron", json={"id": once.name, "spec": spec})
            except httpx.TransportError:
                await trio.sleep(RETRY_S)
                continue
            code = answer.json()["error"]["code"] if answer.status_code >= 400 else ""
            if answer.status_code == 201 or code == "CRON_EXISTS":
                once.sure = True
                return
            if code == "CRON_PAST":
                return  # nobody knows whether the first try was committed
            if answer.status_code not in (429, 503):
                self.ledger.findings.append(("broken", f"{once.name}: {answer.status_code} {answer.text}"))
                return
            await trio.sleep(RETRY_S)


class CronCampaign(Campaign):
    """A campaign with schedules."""

    def __init__(self, mode: str, kills: int, seed: int, killer: Killer) -> None:
        super().__init__(mode, kills, seed, killer, "cron")
        self._planned = Planned()

    async def run(self) -> Figures:
        """Say how many kills hit a run that was due and not done."""
        figures = await super().run()
        figures.more |= self._counted
        return figures

    def _furnished(self) -> Home:
        home = Home()
        (home.path / "config.toml").write_text(_CONFIG)
        (home.path / "cron").mkdir()
        (home.path / "cron" / "f0.md").write_text(_FILE)
        self._counted: dict[str, Any] = {}
        return home

    def _people(self, seed: str) -> Crowd:
        return Schedulers(self.home, self.ledger, seed, "me", self._planned)

    async def _life(self, when: When) -> None:
        await super()._life(when)
        if when != "birth":
            self._planned.kills_ms.append(int(time.time() * 1000))

    async def _quiet(self, crowd: Crowd) -> None:
        async with client_of(self.home.socket) as client:
            for name in EACH_MINUTE:
                (await client.post("/v1/cron/pause", params={"path": name})).raise_for_status()
            with trio.move_on_after(_QUIET_S):
                while True:
                    jobs = (await client.get("/v1/cron")).json()["jobs"]
                    if not any(job["running"] or job["next_at"] for job in jobs):
                        break
                    await trio.sleep(0.1)
        await super()._quiet(crowd)

    def _judge(self) -> Verdict:
        verdict = super()._judge()
        db = apsw.Connection(str(self.home.database), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            runs = runs_of(db)
            verdict.findings += _once(self._planned, runs)
            verdict.findings += _each_minute(runs)
            verdict.findings += done(db, runs)
        finally:
            db.close()
        hit = sum(any(run.due_at <= at < run.ended_at for run in runs) for at in self._planned.kills_ms)
        states = Counter(run.state for run in runs)
        self._counted = {"scheduled": len(self._planned.once), "runs": states, "killed_between_due_and_done": hit}
        return verdict


@dataclass
class Run:
    """An entry of the daemon's ledger."""

    name: str
    due_at: int
    until_at: int
    state: str
    reason: str
    ended_at: int
    seq: int

    def __str__(self) -> str:
        return f"{self.name} at {self.due_at} ({self.state} {self.reason})"


def runs_of(db: apsw.Connection) -> list[Run]:
    """Return the entries of the daemon's ledger."""
    rows = db.execute("SELECT path, due_at, until_at, state, reason, ended_at, seq FROM cron_runs ORDER BY due_at")
    return [
        Run(
            str(path).rsplit("/", 1)[-1],
            int(str(due)),
            int(str(until)),
            str(state),
            str(why),
            int(str(end or 0)),
            int(str(seq or 0)),
        )
        for path, due, until, state, why, end, seq in rows
    ]


def _once(planned: Planned, runs: list[Run]) -> Iterator[Finding]:
    """A job for a single time has one entry, and ran unless it was too late by its policy."""
    found: dict[str, list[Run]] = {}
    for run in runs:
        found.setdefault(run.name, []).append(run)
    for once in planned.once.values():
        mine = found.pop(once.name, [])
        if len(mine) > 1:
            yield "doubled", f"{once.name} has {len(mine)} entries"
        elif not mine and once.sure:
            yield "lost", f"{once.name}, acknowledged, has no entry"
        for run in mine:
            if run.due_at != once.at_ms:
                yield "broken", f"{run}, but it was wanted at {once.at_ms}"
    for name in found.keys() - set(EACH_MINUTE):
        yield "broken", f"nobody has scheduled {name}"


def _each_minute(runs: list[Run]) -> Iterator[Finding]:
    """Each minute from the first on is in the ledger once."""
    for name in EACH_MINUTE:
        mine = [run for run in runs if run.name == name]
        minutes = Counter(at for run in mine for at in range(run.due_at, run.until_at + 1, 60_000))
        for at in range(min(minutes, default=0), max(minutes, default=-1) + 1, 60_000):
            if minutes[at] != 1:
                yield "doubled" if minutes[at] else "lost", f"{name} at {at}: {minutes[at]} entries"


def done(db: apsw.Connection, runs: list[Run]) -> Iterator[Finding]:
    """What ran was asked once and answered once, and each answer is on its way once."""
    asked: Counter[str] = Counter()
    given_up = letters(db)
    for turn, messages in db.execute("SELECT turn, unpacked(messages) FROM history"):
        if turn not in {it.turn for it in given_up}:
            asked.update(_TICK.findall(str(messages)))
    replies = Counter(str(text) for (text,) in db.execute("SELECT text FROM outbox WHERE text LIKE 'tock %'"))
    expected: Counter[str] = Counter()
    for run in runs:
        if run.state in ("waiting", "due"):
            yield "lost", f"{run} has not ended after all was quiet"
        elif run.state == "failed" and run.seq not in {it.seq for it in given_up}:
            yield "broken", str(run)
        elif run.state in ("ran", "late"):
            expected[run.name] += 1
        elif not run.reason:
            yield "broken", f"{run}: no reason"
    for name in expected | asked | Counter({text[5:-1]: 1 for text in replies}):
        for what, times in (("was asked", asked[name]), ("was answered", replies[f"tock {name}."])):
            if times != expected[name]:
                kind = "lost" if times < expected[name] else "doubled"
                yield kind, f"{name} ran {expected[name]} times and {what} {times} times"
