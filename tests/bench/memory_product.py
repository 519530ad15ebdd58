"""The product's own memory under measurement: filling it, starting over what is there, searching, adding to it.

Nothing else of the benchmarks of memory knows how the product is built.
"""

import resource
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import trio

from daycare.features import open_store
from daycare.features.memory.embed.service import Embedding, Model
from daycare.features.memory.embed.vectors import VectorBlock
from daycare.features.memory.search.queries import MemoryQuery
from daycare.features.memory.search.service import Search
from daycare.features.memory.store.records import VectorPage
from daycare.features.memory.store.rows import MemoryRows
from daycare.process import tune
from daycare.settings import Live
from daycare.store.sqlite.store import Store

from . import apart, memories, memory_scan
from .measure import median, percentile, rounded
from .memories import PAGE, Floats

_FOUND = 50  # of vectors alone: what goes into a ranking
_SETTLED_S = 4.0  # between the first question and the others: a search of a small scope looks ahead meanwhile
_LATE_MS = 4_000_000_000_000  # the question is asked after all that was said
_NO_BITS = (1 << 32) - 1  # of a memory's number: its place in its scope


def _fill(folder: str, count: str, queries: str, *models: str) -> Mapping[str, Any]:
    """Make a store with so many messages, vectors of so many dimensions each, and questions to them."""
    location = Path(folder) / "memories.db"
    memories.open_turns(location, int(count))
    begin = time.perf_counter()

    async def fill() -> None:
        async with open_store(str(location)) as store:
            await memories.fill(store, int(count), [int(dimensions) for dimensions in models])

    trio.run(fill)
    took_s = time.perf_counter() - begin
    for dimensions in models:
        task = memory_scan.Task(int(count), int(dimensions), int(queries))
        texts = [memories.asked(int(place)) for place in task.places]
        np.savez(_questions(folder, dimensions), texts=texts, vectors=task.queries)
    return {"each_ms": rounded(1000 * took_s / int(count))}


def _questions(folder: str, dimensions: str) -> Path:
    return Path(folder) / f"questions-{dimensions}.npz"


def _search(folder: str, dimensions: str, rounds: str) -> Mapping[str, Any]:
    """Start over a store and search: how long that takes, at first and then, and how much memory.

    There is nothing else in this process. Each round has questions of its own, which were made before.
    """
    asked = np.load(_questions(folder, dimensions))
    return trio.run(_searched, Path(folder) / "memories.db", asked["texts"].tolist(), asked["vectors"], int(rounds))


async def _searched(location: Path, texts: Sequence[str], vectors: Floats, rounds: int) -> dict[str, Any]:
    async with open_store(str(location)) as store:
        ask = await open_search(store, vectors.shape[1])
        begin = time.perf_counter()
        assert await ask(texts[0], vectors[0]), "nothing was found"
        first_ms = 1000 * (time.perf_counter() - begin)
        await trio.sleep(_SETTLED_S)
        figures: dict[str, list[float | None]] = {}
        for number in range(rounds):
            times, spent = [], []
            for text, vector in [*zip(texts, vectors, strict=True)][number::rounds]:
                begin, worked = time.perf_counter(), time.process_time()
                assert await ask(text, vector), "nothing was found"
                times.append(1000 * (time.perf_counter() - begin))
                spent.append(1000 * (time.process_time() - worked))
            for name, values in (("", times), ("cpu_", spent)):
                figures.setdefault(f"{name}p50_ms", []).append(median(values))
                figures.setdefault(f"{name}p95_ms", []).append(percentile(values, 95))
    found: dict[str, Any] = {name: rounded(median(values)) for name, values in figures.items()}
    found["prepared_first_ms"] = rounded(await _first_prepared(location, texts[0], vectors[0]))
    memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return found | {"first_ms": rounded(first_ms), "rss_mb": rounded(memory_mb, 1)}


async def _first_prepared(location: Path, text: str, vector: Floats) -> float:
    """Return how long the first question takes after what a daemon does at its start."""
    async with open_store(str(location)) as store:
        search, ask = await _open(store, len(vector))
        await search.prepare()
        await trio.sleep(_SETTLED_S)
        begin = time.perf_counter()
        assert await ask(text, vector), "nothing was found"
        return 1000 * (time.perf_counter() - begin)


def _vectors(folder: str, count: str, dimensions: str, queries: str) -> Mapping[str, Any]:
    """Start over a store: how soon its vectors are there, and what the part costs that looks at vectors only."""
    task = memory_scan.Task(int(count), int(dimensions), int(queries))
    return trio.run(_vectors_alone, Path(folder) / "memories.db", task)


async def _vectors_alone(location: Path, task: memory_scan.Task) -> dict[str, Any]:
    model = memories.model(task.dimensions)
    async with open_store(str(location)) as store:

        def fetch(numbers: Sequence[int]) -> VectorPage:
            return store.of(MemoryRows).vectors_of(model, numbers)

        def nearest(query: Floats) -> list[int]:
            return [(number & _NO_BITS) - 1 for number in block.search(query, memory_scan.TOP, fetch).numbers.tolist()]

        begin, worked = time.perf_counter(), time.process_time()
        block = VectorBlock(task.dimensions, expected=task.count)
        for page in store.of(MemoryRows).vectors(memories.SCOPE, model):
            block.extend(page)
        found: dict[str, Any] = {
            "ready_s": rounded(time.perf_counter() - begin),
            "ready_cpu_s": rounded(time.process_time() - worked),
            "exact": block.exact,
        }
        assert block.size == task.count
        times = []
        for query in task.queries:
            begin = time.perf_counter()
            block.search(query, _FOUND, fetch)
            times.append(1000 * (time.perf_counter() - begin))
        found |= {"vectors_p50_ms": rounded(median(times)), "vectors_p95_ms": rounded(percentile(times, 95))}
        return found | {"recall": task.recall(nearest)}


async def open_search(store: Store, dimensions: int) -> Callable[[str, Floats], Awaitable[int]]:
    """Return the product's search, of a text with its vector; it gives how many were found."""
    return (await _open(store, dimensions))[1]


async def _open(store: Store, dimensions: int) -> tuple[Search, Callable[[str, Floats], Awaitable[int]]]:
    async def unasked(_: Sequence[str]) -> memoryview:
        raise AssertionError("a question that has its vector is not embedded")

    async def load() -> Model:
        return Model(memories.model(dimensions), unasked)

    embedding = Embedding(store.of(MemoryRows), "bench", load)
    await embedding.catch_up()  # there is nothing to be made; now it knows its model
    search = Search(store, Live(), embedding)

    async def ask(text: str, vector: Floats) -> int:
        query = MemoryQuery(scope=memories.SCOPE, text=text, now_ms=_LATE_MS, vector=vector)
        return len(await search.find(query))

    return search, ask


def _add(folder: str, count: str, batch: str, dimensions: str) -> Mapping[str, Any]:
    """Add messages, with vectors, to a store, so many with one commit."""
    location = Path(folder) / "added.db"
    memories.open_turns(location, int(count))
    return trio.run(_added, location, int(count), int(batch), int(dimensions))


async def _added(location: Path, count: int, batch: int, dimensions: int) -> dict[str, Any]:
    texts = [text for page in range(-(-count // PAGE)) for text in memories.texts(page)]
    rows = np.concatenate([memories.vectors(page, count, dimensions) for page in range(-(-count // PAGE))])
    times, spent = [], []
    async with open_store(str(location)) as store:
        for begin in range(0, count, batch):
            end = min(begin + batch, count)
            new = memories.batch(begin + 1, texts[begin:end], [rows[begin:end]])
            started, worked = time.perf_counter(), time.process_time()
            await memories.keep(store, new)
            times.append(1000 * (time.perf_counter() - started) / (end - begin))
            spent.append(1000 * (time.process_time() - worked) / (end - begin))
    return {"each_ms": rounded(median(times), 4), "cpu_ms": rounded(median(spent), 4)}


if __name__ == "__main__":
    tune()  # as the daemon's process is
    apart.main({"fill": _fill, "search": _search, "vectors": _vectors, "add": _add}, sys.argv[1:])
