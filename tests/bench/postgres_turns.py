"""What a server adds to one turn: round trips, and milliseconds compared with those of one commit.

A whole daemon with its default memory, in this process; its model answers at once, so that the store is most of a turn.
One person says something, waits for the answer and goes on. With a `delay_ms` each answer of the server comes so much
later, as across a network.
"""

import gc
import time
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlsplit

import trio

from daycare.base.clock import SystemClock
from daycare.store.sqlite.store import Store
from daycare.testing.daemon import OWNER, TestDaemon, open_daemon
from tests.nodes.line import Line

from .measure import percentile, scratch
from .servers import new_database

_WARM: Final = 10
_PAUSE_S: Final = 0.02
Figures = dict[str, float | None]


def measure(folder: Path, server: str, turns: int, delay_ms: float) -> Figures:
    """Return the figures of a turn on a file and on the server."""
    file = trio.run(_measure, folder, str(folder / f"{time.monotonic_ns()}.db"), turns)
    database = urlsplit(new_database(server)).path.strip("/")
    line = Line(f"{parse_qs(urlsplit(server).query)['host'][0]}/.s.PGSQL.5432", delay_ms / 1000)
    try:
        found = trio.run(_measure, folder, line.address(database), turns)
    finally:
        line.end()
    added = found["p50_ms"] - file["p50_ms"]
    return {
        "turn_read_trips": found["reads"],
        "turn_write_trips": found["writes"],
        "turn_p50_ms": found["p50_ms"],
        "turn_p50_ms_sqlite": file["p50_ms"],
        "commit_p50_ms": found["commit_p50_ms"],
        "turn_added_in_commits": added / found["commit_p50_ms"],
        "turn_process_ms": found["process_ms"],
        "turn_process_ms_sqlite": file["process_ms"],
    }


async def _measure(folder: Path, location: str, turns: int) -> dict[str, float]:
    with scratch(folder) as home:
        async with open_daemon(home, location=location, clock=SystemClock(), inline=False) as house:
            for number in range(_WARM):
                await house.talk(f"warm up {number}")
            await trio.sleep(1)
            gc.collect()
            each = [await _turn(house, number) for number in range(turns)]
            commits = [await _commit(house.store, number) for number in range(turns)]
    took, process, reads, writes = (_p50(list(column)) for column in zip(*each, strict=True))
    return {
        "p50_ms": took,
        "process_ms": process,
        "reads": reads,
        "writes": writes,
        "commit_p50_ms": _p50(commits),
    }


async def _turn(house: TestDaemon, number: int) -> tuple[float, float, float, float]:
    await trio.sleep(_PAUSE_S)  # what followed the last one is over
    reads, writes = _trips(house.store)
    began, used = time.perf_counter(), time.process_time()
    await house.talk(f"hello there {number}")
    took, process = time.perf_counter() - began, time.process_time() - used
    after = _trips(house.store)
    return 1000 * took, 1000 * process, after[0] - reads, after[1] - writes


async def _commit(store: Store, number: int) -> float:
    began = time.perf_counter()
    await store.people.change(OWNER, name=f"Ann {number}", zone="UTC")
    return 1000 * (time.perf_counter() - began)


def _trips(store: Store) -> tuple[int, int]:
    return getattr(store._reader, "trips", 0), getattr(store._db, "trips", 0)


def _p50(values: list[float]) -> float:
    found = percentile(values, 50)
    assert found is not None
    return found
