"""Whether what people and the daemon ask for often costs more with a million agents than with a thousand.

Two houses of the same run, with their real threads: one with `--few` agents, one with `--agents`. For each thing that
is asked, how long it held the loop at a time, and how long it kept the writer's thread; in processor time of these.
"""

import argparse
import gc
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from daycare import process
from daycare.base.budget import Measure, Use, day_of
from daycare.base.clock import SystemClock
from daycare.base.messages import Usage
from daycare.features.budgets.records import Ceiling, NewReservation
from daycare.features.budgets.rows import BudgetRows
from daycare.store.records import Spend
from daycare.testing.daemon import TestDaemon, open_daemon

from . import crowd
from .measure import median, rounded, say, scratch

_PERSON = "u5"
_MOST = Use(usd=100, tokens=1_000, calls=1, minutes=60_000)
_ENOUGH = 10**15
_SETTLE_S = 300.0
_START_S = 3.0  # in which what works in the background begins
_BUSY = 20  # people for whom something waits, in both houses
Work = Callable[[TestDaemon], Awaitable[object]]


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--agents", type=int, default=1_000_000)
    parser.add_argument("--few", type=int, default=1_000, help="agents of the house that it is compared with")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Measure both houses and return milliseconds and ratios."""
    found: dict[str, dict[str, tuple[float, float]]] = {}
    sizes = {}
    process.tune()
    with scratch(args.dir) as folder:
        for name, agents in (("few", args.few), ("many", args.agents)):
            home = folder / name
            home.mkdir()
            say(f"building a database of {agents} agents")
            crowd.build(home / "daycare.db", agents, busy=_BUSY)
            sizes[name] = (home / "daycare.db").stat().st_size
            if not found:
                trio.run(_measure, home, 0)  # the first start of all imports modules
            found[name] = trio.run(_measure, home, args.rounds)
            for what, (loop_ms, writer_ms) in found[name].items():
                say(f"{agents} agents, {what}: {loop_ms:.2f} ms of the loop, {writer_ms:.2f} ms of the writer")
    few, many = found["few"], found["many"]
    return {
        "agents": args.agents,
        "few": args.few,
        "loop_ms": {name: rounded(loop) for name, (loop, _) in many.items()},
        "writer_ms": {name: rounded(writer) for name, (_, writer) in many.items()},
        "few_loop_ms": {name: rounded(loop) for name, (loop, _) in few.items()},
        "few_writer_ms": {name: rounded(writer) for name, (_, writer) in few.items()},
        "loop_ratio": {name: rounded(loop / few[name][0], 2) for name, (loop, _) in many.items()},
        "longest_ms": rounded(max(each for name, both in many.items() if name != "start" for each in both)),
        "database_mb": rounded(sizes["many"] / 1e6, 1),
    }


def _said(text: str, user: str) -> Work:
    """Let somebody type a command, and wait for the answer."""
    return lambda house: house.talk(text, user=user, path=f"/{user}/direct")


async def _reserve(house: TestDaemon) -> None:
    """Make a reservation under three ceilings, and charge the call."""
    day = day_of(house.daemon.clock.now_ms(), "UTC")
    path = f"/{_PERSON}/direct"
    measure: Measure = "usd"
    ceilings = [
        Ceiling(path=each, name="day.usd", key=day, measure=measure, most=_ENOUGH, limit=_ENOUGH)
        for each in (path, f"/{_PERSON}", "/")
    ]
    new = NewReservation(path=path, user=_PERSON, day=day, provider="p", model="m", most=_MOST)
    reserved = await house.store.of(BudgetRows).reserve(new, ceilings)
    assert reserved.no, "there is room"
    await house.store.of(BudgetRows).settle(
        Spend(
            agent_id="",
            user=_PERSON,
            turn=0,
            provider="p",
            model="m",
            usage=Usage(100, 10),
            cost_micros=7,
            reservation=reserved.no,
            path=path,
        )
    )


_WORK: dict[str, Work] = {
    "GET /v1/status": lambda house: house.daemon.status(),
    "/status": _said("/status", crowd.OWNER),
    "/status of a person": _said("/status", _PERSON),
    "/model of a person": _said("/model scripted/model", _PERSON),
    "/model of an operator": _said("/model default", crowd.OWNER),
    "/agents": _said("/agents", _PERSON),
    "/spend of a person": _said("/spend", _PERSON),
    "reservation": _reserve,
    "metrics": lambda house: house.daemon.observation.measured.families(),
    "health": lambda house: house.daemon.health.look(whole=True),
}


async def _measure(home: Path, rounds: int) -> dict[str, tuple[float, float]]:
    found: dict[str, tuple[float, float]] = {}
    watch = _Watch()
    gc.collect()  # of what was left by filling the database
    async with trio.open_nursery() as nursery:
        trio.lowlevel.add_instrument(watch)
        await watch.begin()
        async with _house(home) as (house, kept):
            nursery.start_soon(house.daemon.work)
            with trio.fail_after(_SETTLE_S):
                await trio.sleep(_START_S)
                schedule = house.daemon.cron.schedule  # which goes through all jobs, and what waits has its turns
                while not schedule._seen_ms or (await house.store.inbox.counts())["waiting"]:
                    await trio.sleep(0.1)
            found["start"] = (1000 * await watch.end(), 1000 * max(kept, default=0.0))
            for name, work in _WORK.items():
                loop: list[float | None] = []
                writer: list[float | None] = []
                for _ in range(rounds + 1):
                    kept.clear()
                    await watch.begin()
                    await work(house)
                    loop.append(1000 * await watch.end())
                    writer.append(1000 * sum(kept))
                # The first is left out: it reads pages from the disk.
                found[name] = (median(loop[1:]) or 0.0, median(writer[1:]) or 0.0)
            nursery.cancel_scope.cancel()
    return found


class _Watch(trio.abc.Instrument):
    """Measures for how long one task held the loop at most, in seconds of its thread."""

    def __init__(self) -> None:
        self._began = 0.0
        self._longest = 0.0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Take note that a task has its turn."""
        self._began = time.thread_time()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """Take note that it is over."""
        self._longest = max(self._longest, time.thread_time() - self._began)

    async def begin(self) -> None:
        """Look from now on."""
        await trio.lowlevel.checkpoint()  # what was before this is over
        self._longest = 0.0

    async def end(self) -> float:
        """Return the longest turn since then."""
        await trio.lowlevel.checkpoint()
        return self._longest


@asynccontextmanager
async def _house(home: Path) -> AsyncIterator[tuple[TestDaemon, list[float]]]:
    """Open a house; what is kept are seconds of the writer's thread, one for each commit."""
    kept: list[float] = []
    async with open_daemon(home, location="daycare.db", clock=SystemClock(), inline=False, work=False) as house:
        writer = house.store._writer
        run_batch = writer._run_batch

        def timed(batch: Sequence[Any]) -> object:
            began = time.thread_time()
            try:
                return run_batch(batch)  # type: ignore[arg-type]
            finally:
                kept.append(time.thread_time() - began)

        writer._run_batch = timed  # type: ignore[assignment,method-assign]
        yield house, kept
