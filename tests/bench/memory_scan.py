"""Finding the nearest of many vectors: comparing with all of them, and others' indexes. Each runs in a process apart.

Everybody has the same vectors, the same questions and one thread; only graphs are built with one for each core.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import apsw
import numpy as np

from daycare.features.memory.embed.packing import packed
from daycare.features.memory.embed.vectors import VectorBlock
from daycare.features.memory.store.records import VectorPage

from . import apart, memories
from .measure import median, median_ratio, percentile, rounded
from .memories import PAGE, Floats

TOP = 10
_QUESTION_PAGES = 20  # from which questions are drawn, so that not all vectors have to be made for them
_RECALLED = 50  # questions whose true nearest are looked up
_LINKS, _BUILD, _SEARCH = 16, 128, 64  # of a graph: what the makers start from, or near it

Search = Callable[[Floats], Sequence[int]]


class Task:
    """Vectors, which have the numbers 0 and on, and questions."""

    def __init__(self, count: int, dimensions: int, queries: int) -> None:
        self.count = count
        self.dimensions = dimensions
        draw = np.random.default_rng(5)
        pages = -(-count // PAGE)
        chosen = draw.choice(pages, min(_QUESTION_PAGES, pages), replace=False)
        near = np.concatenate([memories.vectors(int(page), count, dimensions) for page in chosen])
        self.places = draw.choice(len(near), queries, replace=False)
        self.queries = memories.questions(near[self.places])
        self.places = chosen[self.places // PAGE] * PAGE + self.places % PAGE

    def pages(self) -> Iterator[tuple[int, Floats]]:
        """Yield (number of the first, vectors)."""
        for page in range(-(-self.count // PAGE)):
            yield page * PAGE, memories.vectors(page, self.count, self.dimensions)

    def whole(self) -> Floats:
        """Return all vectors at once."""
        rows = np.empty((self.count, self.dimensions), np.float32)
        for begin, page in self.pages():
            rows[begin : begin + len(page)] = page
        return rows

    def timed(self, search: Search) -> dict[str, float | None]:
        """Return how long a search takes, and which share of the true nearest it finds."""
        search(self.queries[0])
        times = []
        for query in self.queries:
            begin = time.perf_counter()
            search(query)
            times.append(1000 * (time.perf_counter() - begin))
        return {
            "p50_ms": rounded(median(times)),
            "p95_ms": rounded(percentile(times, 95)),
            "recall": self.recall(search),
        }

    def recall(self, search: Search) -> float:
        queries = self.queries[:_RECALLED]
        best = np.full((len(queries), TOP), -2, np.float32)
        true = np.zeros((len(queries), TOP), np.int64)
        for begin, page in self.pages():
            scores = np.concatenate((best, queries @ page.T), axis=1)
            numbers = np.concatenate((true, np.tile(np.arange(begin, begin + len(page)), (len(queries), 1))), axis=1)
            kept = np.argpartition(-scores, TOP, axis=1)[:, :TOP]
            best, true = np.take_along_axis(scores, kept, 1), np.take_along_axis(numbers, kept, 1)
        hits = sum(len({*search(query)} & {*row.tolist()}) for query, row in zip(queries, true, strict=True))
        return round(hits / true.size, 4)


def _compared(count: str, dimensions: str, queries: str, rounds: str) -> Mapping[str, Any]:
    """Compare with every vector: the product's float block, faiss, and the least that reading them once takes.

    By turns, question by question, so that whatever else the machine does hits all of them.
    """
    task = Task(int(count), int(dimensions), int(queries))
    block = VectorBlock(task.dimensions, exact_max_bytes=1 << 60)
    whole = task.whole()
    for begin in range(0, task.count, PAGE):
        page = whole[begin : begin + PAGE]
        block.extend(VectorPage(tuple(range(begin, begin + len(page))), packed(page)))
    words = whole.reshape(-1).view(np.int64)
    ways: dict[str, Callable[[Floats], object]] = {
        "limit": lambda _: words.max(),  # the fastest of numpy's ways to read all of an array
        "exact": lambda query: block.search(query, TOP, _nothing),
    }
    if faiss := _faiss():
        index = faiss.IndexFlatIP(task.dimensions)
        index.add(whole)
        ways["faiss_flat"] = lambda query: index.search(query[None, :], TOP)
    times: dict[str, list[float | None]] = {name: [] for name in ways}
    for _ in range(int(rounds)):
        taken: dict[str, list[float]] = {name: [] for name in ways}
        for query in task.queries:
            for name, way in ways.items():
                begin_s = time.perf_counter()
                way(query)
                taken[name].append(1000 * (time.perf_counter() - begin_s))
        for name in ways:
            times[name].append(median(taken[name]))
    found: dict[str, Any] = {f"{name}_ms": rounded(median(times[name])) for name in ways}
    found["vs_limit"] = rounded(median_ratio(times["exact"], times["limit"]))
    found["vs_faiss"] = rounded(median_ratio(times["exact"], times["faiss_flat"])) if "faiss_flat" in ways else None
    limit = median(times["limit"])
    found["read_gb_s"] = rounded(whole.nbytes / 1e6 / limit, 1) if limit else None
    return found


def _nothing(numbers: Sequence[int]) -> VectorPage:
    raise AssertionError(f"an exact block fetched {numbers}")


def _faiss() -> Any:
    try:
        import faiss
    except ImportError:
        return None
    faiss.omp_set_num_threads(1)
    return faiss


def _faiss_graph(count: str, dimensions: str, queries: str) -> Mapping[str, Any]:
    import faiss

    task = Task(int(count), int(dimensions), int(queries))
    faiss.omp_set_num_threads(os.cpu_count() or 1)
    index = faiss.IndexHNSWFlat(task.dimensions, _LINKS, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction, index.hnsw.efSearch = _BUILD, _SEARCH
    begin = time.perf_counter()
    index.add(task.whole())
    built = time.perf_counter() - begin
    faiss.omp_set_num_threads(1)
    return task.timed(lambda query: index.search(query[None, :], TOP)[1][0].tolist()) | {"build_s": rounded(built)}


def _faiss_bits(count: str, dimensions: str, queries: str) -> Mapping[str, Any]:
    """Compare signs with faiss, then the 400 nearest by their true vectors, which lie in memory."""
    import faiss

    task = Task(int(count), int(dimensions), int(queries))
    faiss.omp_set_num_threads(1)
    whole = task.whole()
    index = faiss.IndexBinaryFlat(task.dimensions)
    index.add(np.packbits(whole > 0, axis=1))

    def search(query: Floats) -> list[int]:
        near = index.search(np.packbits(query > 0)[None, :], 400)[1][0]
        found: list[int] = near[np.argsort(-(whole[near] @ query))[:TOP]].tolist()
        return found

    return task.timed(search)


def _usearch_exact(count: str, dimensions: str, queries: str) -> Mapping[str, Any]:
    from usearch.index import search

    task = Task(int(count), int(dimensions), int(queries))
    whole = task.whole()
    return task.timed(lambda query: search(whole, query, TOP, "ip", exact=True, threads=1).keys.reshape(-1).tolist())


def _usearch_graph(count: str, dimensions: str, queries: str) -> Mapping[str, Any]:
    from usearch.index import Index

    task = Task(int(count), int(dimensions), int(queries))
    index = Index(
        ndim=task.dimensions,
        metric="ip",
        dtype="f32",
        connectivity=_LINKS,
        expansion_add=_BUILD,
        expansion_search=_SEARCH,
    )
    begin = time.perf_counter()
    index.add(np.arange(task.count), task.whole(), threads=os.cpu_count() or 1)
    built = time.perf_counter() - begin
    return task.timed(lambda query: index.search(query, TOP, threads=1).keys.tolist()) | {"build_s": rounded(built)}


def _sqlite_vec(count: str, dimensions: str, queries: str) -> Mapping[str, Any]:
    import sqlite_vec

    task = Task(int(count), int(dimensions), int(queries))
    db = apsw.Connection(":memory:")
    db.enable_load_extension(True)
    db.load_extension(sqlite_vec.loadable_path())
    db.execute(f"CREATE VIRTUAL TABLE vectors USING vec0 (v float[{task.dimensions}] distance_metric=cosine)")
    with db:
        for begin, page in task.pages():
            rows = ((begin + at + 1, row.tobytes()) for at, row in enumerate(page))
            db.executemany("INSERT INTO vectors (rowid, v) VALUES (?, ?)", rows)

    def search(query: Floats) -> list[int]:
        sql = "SELECT rowid FROM vectors WHERE v MATCH ? AND k = ?"
        return [int(str(row[0])) - 1 for row in db.execute(sql, (query.tobytes(), TOP))]

    return task.timed(search)


PEERS: dict[str, apart.Measurement] = {
    "faiss_bits": _faiss_bits,
    "faiss_graph": _faiss_graph,
    "usearch_exact": _usearch_exact,
    "usearch_graph": _usearch_graph,
    "sqlite_vec": _sqlite_vec,
}
GRAPHS = ("faiss_graph", "usearch_graph")

if __name__ == "__main__":
    apart.main({"compared": _compared, **PEERS}, sys.argv[1:])
