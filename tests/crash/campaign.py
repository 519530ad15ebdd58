"""A campaign: a daemon under load is killed again and again, and the judge compares what is left with the ledger."""

import random
import sys
import time
from typing import Any, Literal, Protocol

import apsw
import httpx
import trio

from daycare.testing.daemon_process import BrokenDaemonError, DaemonProcess, client_of, status
from tests.crash.figures import Figures
from tests.crash.judge import Verdict, judge
from tests.crash.ledger import Finding, Ledger, tool_lines
from tests.crash.load import Crowd
from tests.crash.process import Home

START_SHARE = 0.25  # of the kills come while the daemon starts
BIRTH_SHARE = 0.04  # of the kills interrupt the very first start of another, fresh home
START_S = 1.0  # as long as none was measured
QUIET_DEADLINE_S = 90.0
HUSH_DEADLINE_S = 60.0
PROGRESS_EVERY = 25
USER = "me"
When = Literal["birth", "start", "work"]


class Killer(Protocol):
    """How daemons die."""

    async def prepare(self, rng: random.Random) -> None:
        """Find out what there is to hit."""

    def start(self, home: Home, rng: random.Random, when: When) -> DaemonProcess:
        """Start a daemon that is to die."""

    async def strike(self, process: DaemonProcess, rng: random.Random, when: When) -> None:
        """Wait for the moment, and return when the daemon is dead."""

    def summary(self) -> dict[str, Any]:
        """Return what to say of the strikes."""


class Delay:
    """Kills after random delays, drawn from how long the daemon took to be ready when it last was."""

    def __init__(self) -> None:
        self._start_s = START_S

    async def prepare(self, rng: random.Random) -> None:
        """Time is always there."""

    def start(self, home: Home, rng: random.Random, when: When) -> DaemonProcess:
        """Start it as it is."""
        return DaemonProcess(home)

    async def strike(self, process: DaemonProcess, rng: random.Random, when: When) -> None:
        """Kill."""
        if when == "work":
            self._start_s = await process.ready() or self._start_s
        await trio.sleep(rng.uniform(0.0, self._start_s))
        await process.kill()

    def summary(self) -> dict[str, Any]:
        """There is nothing to say."""
        return {}


class Campaign:
    """One home and its daemons."""

    def __init__(self, mode: str, kills: int, seed: int, killer: Killer, workload: str = "messages") -> None:
        self.figures = Figures(mode, seed, workload=workload)
        self.ledger = Ledger()
        self._kills = kills
        self._killer = killer
        self._rng = random.Random(f"{mode}/{seed}")

    async def run(self) -> Figures:
        """Kill, let it come to rest, judge. The home stays if a promise was broken."""
        began = time.perf_counter()
        self.home = self._furnished()
        findings: list[Finding] = []
        try:
            await self._killer.prepare(self._rng)
            async with trio.open_nursery() as nursery:
                crowd = self._people(f"{self.figures.mode}/{self.figures.seed}")
                await self._introduce(crowd)
                nursery.start_soon(crowd.run)
                await self._kill_all()
                await self._rest(crowd)
                nursery.cancel_scope.cancel()
            verdict = self._judge()
            findings = verdict.findings
            self.figures.turns, self.figures.parked = verdict.turns, verdict.parked
            self.figures.results = verdict.results
            self.figures.uncertain_tools, self.figures.refused = verdict.uncertain_tools, verdict.refused
        except* (BrokenDaemonError, httpx.HTTPError) as errors:
            findings += [("broken", repr(error)) for error in errors.exceptions]
        self.figures.acknowledged = len(self.ledger.acknowledged)
        self.figures.resent = self.ledger.resent
        self.figures.counts.update(kind for kind, _ in findings)
        self.figures.more = self._killer.summary()
        self.figures.seconds = time.perf_counter() - began
        for kind, what in findings[:20]:
            say(f"{kind}: {what}")
        if findings:
            say(f"mode {self.figures.mode}, seed {self.figures.seed}: the home is kept in {self.home.folder}")
        else:
            self.home.remove()
        return self.figures

    def _furnished(self) -> Home:
        """Return a fresh home, with the settings of the workload."""
        return Home()

    def _people(self, seed: str) -> Crowd:
        """Return who will talk."""
        return Crowd(self.home.socket, self.ledger, seed, USER, self.figures.workload)

    async def _introduce(self, crowd: Crowd) -> None:
        process = DaemonProcess(self.home)
        try:
            await process.ready()
            await crowd.prepare()
        finally:
            with trio.CancelScope(shield=True):
                await process.kill()

    async def _kill_all(self) -> None:
        while self.figures.kills < self._kills:
            dice = self._rng.random()
            if dice < BIRTH_SHARE:
                await self._birth()
            else:
                await self._life("start" if dice < BIRTH_SHARE + START_SHARE else "work")
            if self.figures.kills % PROGRESS_EVERY == 0:
                say(
                    f"{self.figures.kills} of {self._kills} kills, {len(self.ledger.acknowledged)} acknowledged, "
                    f"{len(self.ledger.findings)} findings"
                )

    async def _life(self, when: When) -> None:
        process = self._killer.start(self.home, self._rng, when)
        try:
            await self._killer.strike(process, self._rng, when)
        finally:
            with trio.CancelScope(shield=True):
                await process.kill()
        self.figures.kills += 1
        self.ledger.kills += when != "birth"  # which is of another home
        if process.ready_s is not None:
            self.figures.ready_s.append(process.ready_s)

    async def _birth(self) -> None:
        """Interrupt the first start of a fresh home; the next start finds what that left and is ready."""
        mine, self.home = self.home, self._furnished()
        try:
            await self._life("birth")
            process = DaemonProcess(self.home)
            try:
                await process.ready()
                async with client_of(self.home.socket) as client:
                    answer = await client.post("/v1/messages", json={"text": "m s0 1", "key": "birth", "wait_s": 10})
                if answer.status_code != 200 or answer.json()["result"] != "ack m s0 1":
                    raise BrokenDaemonError(f"no answer: {answer.status_code} {answer.text}")
            finally:
                with trio.CancelScope(shield=True):
                    await process.kill()
        except (BrokenDaemonError, httpx.HTTPError) as error:
            say(f"broken: a home whose first start was interrupted: {error!r}\nit is kept in {self.home.folder}")
            self.ledger.findings.append(("broken", f"interrupted first start: {error!r}"))
        else:
            self.home.remove()
        finally:
            self.home = mine

    async def _rest(self, crowd: Crowd) -> None:
        """Start the daemon once more, and wait until everybody was heard and nothing is left to do."""
        process = DaemonProcess(self.home)
        try:
            await process.ready()
            crowd.hush()
            with trio.move_on_after(HUSH_DEADLINE_S) as hushing:
                while not crowd.silent:
                    await trio.sleep(0.05)
            if hushing.cancelled_caught:
                raise BrokenDaemonError(f"after {HUSH_DEADLINE_S:g} s some messages are not acknowledged")
            await self._quiet(crowd)
            await process.stop()
        finally:
            with trio.CancelScope(shield=True):
                await process.kill()

    async def _quiet(self, crowd: Crowd) -> None:
        """Wait until nothing is left to do; on a slow machine that takes as long as what is left becomes less."""
        least: int | None = None
        with trio.move_on_after(QUIET_DEADLINE_S) as waiting:
            async with client_of(self.home.socket) as client:
                while True:
                    now = await status(self.home.socket)
                    if least is None or now["inbox_waiting"] < least:
                        least = now["inbox_waiting"]
                        waiting.deadline = trio.current_time() + QUIET_DEADLINE_S
                    if now["inbox_waiting"] == 0 and now["agents"]["in_turn"] == 0:
                        shown = [await _agent(client, path) for path in crowd.paths]
                        if not any(agent["timers"] or agent["waiting"] for agent in shown):
                            return
                    await trio.sleep(0.1)
        self.ledger.findings.append(("broken", f"not quiet after {QUIET_DEADLINE_S:g} s: {now}"))

    def _judge(self) -> Verdict:
        db = apsw.Connection(str(self.home.database), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            return judge(db, self.ledger, tool_lines(self.home.ledger_file))
        finally:
            db.close()


async def _agent(client: httpx.AsyncClient, path: str) -> dict[str, Any]:
    answer = await client.get("/v1/agent", params={"path": path})
    answer.raise_for_status()
    found: dict[str, Any] = answer.json()
    return found


def run(mode: str, kills: int, seed: int, workload: str = "messages") -> Figures:
    """Run one campaign of so many kills."""
    killer: Killer = Delay()
    if mode == "syscall":
        from tests.crash.inject import choose

        killer = choose()
    if workload == "curation":
        from tests.crash.curation import CurationCampaign

        return trio.run(CurationCampaign(mode, kills, seed, killer).run)
    if workload == "cron":
        from tests.crash.cron import CronCampaign

        return trio.run(CronCampaign(mode, kills, seed, killer).run)
    if workload == "approvals":
        from tests.crash.approvals import ApprovalsCampaign

        return trio.run(ApprovalsCampaign(mode, kills, seed, killer).run)
    if workload == "budget":
        from tests.crash.budget import BudgetCampaign

        return trio.run(BudgetCampaign(mode, kills, seed, killer).run)
    return trio.run(Campaign(mode, kills, seed, killer, workload).run)


def say(line: str) -> None:
    """Report to whoever watches."""
    print(line, file=sys.stderr, flush=True)
