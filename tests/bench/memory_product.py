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

from daycare.base.recollection import RetrievalSection
from daycare.memory.embedding import Embedding, Model
from daycare.memory.queries import Query
from daycare.memory.search import Search
from daycare.memory.vectors import VectorBlock
from daycare.store.contract import Store
from daycare.store.records_memories import VectorPage
from daycare.store.sqlite.store import open_store

from . import apart, memories, memory_scan
from .measure import median, percentile, rounded
from .memories import PAGE, Floats

_FOUND = 50  # of vectors alone: what goes into a ranking
_WORDS = 8  # of a question
_LATE_MS = 4_000_000_000_000  # the question is asked after all that was said
_NO_BITS = (1 << 32) - 1  # of a memory's number: its place in its scope


def _fill(folder: str, count: str, *models: str) -> Mapping[str, Any]:
    """Make a store with so many messages, and vectors of so many dimensions each."""
    location = Path(folder) / "memories.db"
    memories.open_turns(location, int(count))
    begin = time.perf_counter()

    async def fill() -> None:
        async with open_store(str(location)) as store:
            await memories.fill(store, int(count), [int(dimensions) for dimensions in models])

    trio.run(fill)
    return {"each_ms": rounded(1000 * (time.perf_counter() - begin) / int(count))}


def _search(folder: str, count: str, dimensions: str, queries: str) -> Mapping[str, Any]:
    """Start over a store: how soon its vectors are there, how long searches take, how much memory that needs."""
    return trio.run(_searched, Path(folder) / "memories.db", int(count), int(dimensions), int(queries))


async def _searched(location: Path, count: int, dimensions: int, queries: int) -> dict[str, Any]:
    task = memory_scan.Task(count, dimensions, queries)
    texts = [_question(int(place)) for place in task.places]
    async with open_store(str(location)) as store:
        ask = await open_search(store, dimensions)
        times = []
        for text, query in [(texts[0], task.queries[0]), *zip(texts, task.queries, strict=True)]:
            begin = time.perf_counter()
            assert await ask(text, query), "nothing was found"
            times.append(1000 * (time.perf_counter() - begin))
        found: dict[str, Any] = {"p50_ms": rounded(median(times[1:])), "p95_ms": rounded(percentile(times[1:], 95))}
        found["first_ms"] = rounded(times[0])
        found["rss_mb"] = rounded(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)
        return found | _vectors_alone(store, task)


def _vectors_alone(store: Store, task: memory_scan.Task) -> dict[str, Any]:
    """Return what the part costs that looks at vectors only."""
    model = memories.model(task.dimensions)

    def fetch(numbers: Sequence[int]) -> VectorPage:
        return store.memories.vectors_of(model, numbers)

    def nearest(query: Floats) -> list[int]:
        return [(number & _NO_BITS) - 1 for number in block.search(query, memory_scan.TOP, fetch).numbers.tolist()]

    begin = time.perf_counter()
    block = VectorBlock(task.dimensions)
    for page in store.memories.vectors(memories.SCOPE, model):
        block.extend(page)
    found: dict[str, Any] = {"ready_s": rounded(time.perf_counter() - begin), "exact": block.exact}
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

    async def unasked(_: Sequence[str]) -> memoryview:
        raise AssertionError("a question that has its vector is not embedded")

    async def load() -> Model:
        return Model(memories.model(dimensions), unasked)

    embedding = Embedding(store.memories, "bench", load)
    await embedding.catch_up()  # there is nothing to be made; now it knows its model
    search = Search(store, RetrievalSection(), embedding)

    async def ask(text: str, vector: Floats) -> int:
        query = Query(scope=memories.SCOPE, text=text, now_ms=_LATE_MS, vector=vector)
        return len(await search.find(query))

    return ask


def _question(place: int) -> str:
    """Return some words of a message."""
    words = memories.texts(place // PAGE)[place % PAGE].split()
    return " ".join(words[:_WORDS])


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
            started, worked = time.perf_counter(), time.process_time()
            await memories.keep(store, begin + 1, texts[begin:end], [rows[begin:end]])
            times.append(1000 * (time.perf_counter() - started) / (end - begin))
            spent.append(1000 * (time.process_time() - worked) / (end - begin))
    return {"each_ms": rounded(median(times), 4), "cpu_ms": rounded(median(spent), 4)}


if __name__ == "__main__":
    apart.main({"fill": _fill, "search": _search, "add": _add}, sys.argv[1:])
