"""What recalling memories adds to a turn: two daemons with the same 100,000 memories, of which one does not recall.

They are whole but for sockets and processes: store on disk, actors, flow, and a model that answers at once. Turns go to
one and the other in pairs, so that whatever else the machine does hits both; the figures are of the differences.
"""

import argparse
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import trio

from daycare.base.clock import SystemClock
from daycare.base.memory_settings import MemorySection, RetrievalSection
from daycare.config import Config
from daycare.features import open_store
from daycare.plugin import Plugin, vectors
from daycare.process import tune
from daycare.settings import ModelsSection, ProviderSection
from daycare.testing.daemon import OWNER, TestDaemon, open_daemon
from daycare.testing.scripted import Scripted, say

from . import apart, memories, memory_scan
from .measure import median, percentile, rounded, scratch
from .measure import say as tell

_FILE = "daycare.db"
_PROVIDER = "bench"
_DIMENSIONS = 384
_WARM_UP = 20  # turns: during the first one begins to be read what later ones have in memory


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--memories", type=int, default=100_000, help="memories of the person")
    parser.add_argument("--turns", type=int, default=50, help="pairs of turns in a round")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Fill a store, copy it, and let two daemons answer."""
    with scratch(args.dir) as folder:
        filled = apart.measured("memory_turn", "fill", (folder, args.memories), max(args.deadline, args.memories / 500))
        tell(f"filling with {args.memories}: {filled}")
        arguments = (folder, args.memories, args.turns, args.rounds)
        found = apart.measured("memory_turn", "turns", arguments, max(args.deadline, args.turns * args.rounds))
    return {"memories": args.memories, "turns": args.turns, **(found or {"memory_turn_added_ms_p95": None})}


def _fill(folder: str, count: str) -> Mapping[str, Any]:
    """Make the folders of two daemons whose owner has so many memories, with vectors."""
    recalls, other = (Path(folder) / name for name in ("on", "off"))
    recalls.mkdir()
    memories.open_turns(recalls / _FILE, int(count))

    async def fill() -> None:
        async with open_store(str(recalls / _FILE)) as store:
            await memories.fill(store, int(count), [_DIMENSIONS], OWNER)

    begin = time.perf_counter()
    trio.run(fill)
    took_s = time.perf_counter() - begin
    shutil.copytree(recalls, other)
    return {"each_ms": rounded(1000 * took_s / int(count))}


class _Embedder:
    """Knows the vectors of the questions that will be asked; what else is said in the house gets one of them."""

    name = _PROVIDER
    needs_key = False

    def __init__(self, texts: Sequence[str], rows: memories.Floats) -> None:
        self._rows = dict(zip(texts, rows.tolist(), strict=True))
        self._any = rows[0].tolist()

    async def embed(self, model: str, texts: Sequence[str]) -> memoryview:
        await trio.lowlevel.checkpoint()
        return vectors([self._rows.get(text, self._any) for text in texts])


def _turns(folder: str, count: str, turns: str, rounds: str) -> Mapping[str, Any]:
    """Ask both daemons the same by turns."""
    return trio.run(_compared, Path(folder), int(count), int(turns), int(rounds))


async def _compared(folder: Path, count: int, turns: int, rounds: int) -> dict[str, Any]:
    task = memory_scan.Task(count, _DIMENSIONS, turns * rounds + _WARM_UP)
    texts = [memories.asked(int(place)) for place in task.places]
    embedder = _Embedder(texts, task.queries)
    async with trio.open_nursery() as nursery:
        houses = []
        for name in ("on", "off"):
            houses.append(await nursery.start(_keep_house, folder / name, embedder, name == "on"))
        first_ms, *_ = [(await _pair(houses, text, 0))[0] for text in texts[:_WARM_UP]]
        took: dict[str, list[list[float]]] = {name: [] for name in ("on", "off", "on_cpu", "off_cpu")}
        for number in range(rounds):
            begin = _WARM_UP + number * turns
            pairs = [await _pair(houses, text, at % 2) for at, text in enumerate(texts[begin : begin + turns])]
            for name, times in zip(took, zip(*pairs, strict=True), strict=True):
                took[name].append(list(times))
        recalled = sum("<memory " in request.system for request in houses[0].model.history)
        nursery.cancel_scope.cancel()
    assert not any("<memory " in request.system for request in houses[1].model.history)
    return _figures(took) | {"first_on_ms": rounded(first_ms), "recalled": rounded(recalled / len(texts))}


async def _keep_house(
    home: Path, embedder: _Embedder, recalls: bool, task_status: trio.TaskStatus[TestDaemon] = trio.TASK_STATUS_IGNORED
) -> None:
    plugin = Plugin(name=_PROVIDER, embedders={_PROVIDER: lambda _: embedder})
    config = Config(
        models=ModelsSection(default="scripted/model"),
        providers={"scripted": ProviderSection(kind="scripted"), _PROVIDER: ProviderSection(kind=_PROVIDER)},
        memory=MemorySection(embedder=memories.model(_DIMENSIONS), retrieval=RetrievalSection(enabled=recalls)),
    )
    model = Scripted(lambda _: say("I see."))
    opened = open_daemon(
        home, model, location=_FILE, config=config, plugins=[plugin], clock=SystemClock(), inline=False
    )
    async with opened as house:
        task_status.started(house)
        await trio.sleep_forever()


async def _pair(houses: Sequence[TestDaemon], text: str, first: int) -> tuple[float, ...]:
    """Return how long each house took for its turn, then how long the processor worked; who is asked first changes."""
    took = [0.0] * 4
    for at in (first, 1 - first):
        begin, worked = time.perf_counter(), time.process_time()
        await houses[at].talk(text)
        took[at] = 1000 * (time.perf_counter() - begin)
        took[2 + at] = 1000 * (time.process_time() - worked)
    return tuple(took)


def _figures(took: Mapping[str, Sequence[Sequence[float]]]) -> dict[str, Any]:
    figures = {
        "memory_turn_added_ms": _less(took["on"], took["off"]),
        "added_cpu_ms": _less(took["on_cpu"], took["off_cpu"]),
        "on_ms": took["on"],
        "off_ms": took["off"],
    }
    found: dict[str, Any] = {}
    for name, rounds in figures.items():
        found[f"{name}_p50"] = rounded(median([median(times) for times in rounds]))
        found[f"{name}_p95"] = rounded(median([percentile(times, 95) for times in rounds]))
    return found


def _less(some: Sequence[Sequence[float]], others: Sequence[Sequence[float]]) -> list[list[float]]:
    return [np.subtract(each, other).tolist() for each, other in zip(some, others, strict=True)]


if __name__ == "__main__":
    tune()  # as the daemon's process is
    apart.main({"fill": _fill, "turns": _turns}, sys.argv[1:])
