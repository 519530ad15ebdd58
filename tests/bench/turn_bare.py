"""The least that a turn could cost: one call of the model with the usual library, and one durable commit.

The call is made with httpx, the usual client, with the body of a turn, encoded already, and its stream is read
to the end without looking into it. The commit is one row of 1 KB with apsw: WAL, synchronous=FULL.
"""

import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

import apsw
import httpx
import msgspec

from .measure import median, scratch
from .turn_servers import Model

_ROW: Final = "x" * 1_024
_WARM_UP: Final = 5
_HEADERS: Final = {"Accept-Encoding": "identity", "User-Agent": "bench", "Content-Type": "application/json"}
Figures = dict[str, float | None]


async def measure(folder: Path, model: Model, times: int) -> Figures:
    """Return milliseconds of the clock (medians) and of the processor (means); the model must have been called."""
    body = msgspec.json.encode(await model.last())
    async with httpx.AsyncClient(verify=False, trust_env=False, timeout=None) as client:

        async def call() -> None:
            async with client.stream("POST", f"{model.url}/chat/completions", content=body, headers=_HEADERS) as answer:
                answer.raise_for_status()
                async for _ in answer.aiter_bytes():
                    pass

        call_ms, call_cpu_ms = await _cost(call, times)
    with scratch(folder) as here:
        db = apsw.Connection(str(here / "bare.db"))
        for pragma in ("journal_mode = WAL", "synchronous = FULL"):
            db.execute(f"PRAGMA {pragma}").fetchall()
        db.execute("CREATE TABLE kept (text TEXT)")

        async def commit() -> None:
            with db:
                db.execute("INSERT INTO kept VALUES (?)", (_ROW,))

        commit_ms, commit_cpu_ms = await _cost(commit, times)
        db.close()
    return {
        "call_ms": call_ms,
        "call_cpu_ms": call_cpu_ms,
        "commit_ms": commit_ms,
        "commit_cpu_ms": commit_cpu_ms,
        "body_bytes": len(body),
    }


def ratios(figures: Mapping[str, float | None], bare: Mapping[str, float | None]) -> Figures:
    """Return what a variant costs, divided by one call and one commit."""
    found: Figures = {}
    for name, key, parts in (
        ("cpu_vs_bare", "cpu_ms_per_turn", ("call_cpu_ms", "commit_cpu_ms")),
        ("p50_vs_bare", "p50_ms", ("call_ms", "commit_ms")),
    ):
        value = figures.get(key)
        if value is not None:
            found[name] = value / sum(bare[part] or 0.0 for part in parts)
    return found


async def _cost(work: Callable[[], Awaitable[None]], times: int) -> tuple[float, float]:
    for _ in range(_WARM_UP):
        await work()
    waits, worked = [], time.process_time()
    for _ in range(times):
        begin = time.perf_counter()
        await work()
        waits.append(1_000 * (time.perf_counter() - begin))
    return median(waits) or 0.0, 1_000 * (time.process_time() - worked) / times
