"""Adding messages with their vectors to others' stores on disk, so many at a time. Each runs in a process apart.

Each keeps what the product keeps: the text, who said it when, and the vector that is given to it; each is set up as its
documentation does it, and made as durable as the product where it is not. All are offline: nothing is embedded, nothing
is sent.
"""

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from . import apart, memories
from .measure import median, rounded
from .memories import PAGE, SPEAKERS, Floats

# Given the number of the first of some messages, their texts and vectors, returns what adds them.
Prepare = Callable[[int, Sequence[str], Floats], Callable[[], object]]


def _timed(prepare: Prepare, count: int, batch: int, dimensions: int) -> Mapping[str, Any]:
    pages = range(-(-count // PAGE))
    texts = [text for page in pages for text in memories.texts(page)]
    rows = np.concatenate([memories.vectors(page, count, dimensions) for page in pages])
    times, spent = [], []
    for begin in range(0, count, batch):
        end = min(begin + batch, count)
        add = prepare(begin, texts[begin:end], rows[begin:end])
        started, worked = time.perf_counter(), time.process_time()
        add()
        times.append(1000 * (time.perf_counter() - started) / (end - begin))
        spent.append(1000 * (time.process_time() - worked) / (end - begin))
    return {"each_ms": rounded(median(times), 4), "cpu_ms": rounded(median(spent), 4)}


def _about(number: int) -> Mapping[str, Any]:
    return {"speaker": SPEAKERS[number % 2], "session": number // 40, "at_ms": 1_700_000_000_000 + number}


def _chromadb(folder: str, count: str, batch: str, dimensions: str) -> Mapping[str, Any]:
    import chromadb
    from chromadb.config import Settings

    settings = Settings(anonymized_telemetry=False)
    client = chromadb.PersistentClient(folder, settings)
    collection = client.create_collection("memories", embedding_function=None)

    def prepare(first: int, texts: Sequence[str], rows: Floats) -> Callable[[], object]:
        numbers = range(first, first + len(texts))
        ids, metadatas = [str(number) for number in numbers], [*map(_about, numbers)]
        return lambda: collection.add(ids=ids, embeddings=rows, documents=[*texts], metadatas=metadatas)

    return _timed(prepare, int(count), int(batch), int(dimensions))


def _qdrant(folder: str, count: str, batch: str, dimensions: str) -> Mapping[str, Any]:
    from qdrant_client import QdrantClient, models

    client = QdrantClient(path=folder)
    client.create_collection(
        "memories", vectors_config=models.VectorParams(size=int(dimensions), distance=models.Distance.COSINE)
    )

    def prepare(first: int, texts: Sequence[str], rows: Floats) -> Callable[[], object]:
        points = [
            models.PointStruct(id=first + at, vector=row, payload={"text": text, **_about(first + at)})
            for at, (text, row) in enumerate(zip(texts, rows.tolist(), strict=True))
        ]
        return lambda: client.upsert("memories", points=points)

    return _timed(prepare, int(count), int(batch), int(dimensions))


def _lancedb(folder: str, count: str, batch: str, dimensions: str, *, bare: bool = False) -> Mapping[str, Any]:
    """Keep an index of words, which takes in each batch, and flush what it wrote, which it leaves to the system.

    `bare` does neither: after a power cut messages are missing, and a search by words reads all of them.
    """
    import lancedb
    import pyarrow

    schema = pyarrow.schema(
        [
            ("number", pyarrow.int64()),
            ("vector", pyarrow.list_(pyarrow.float32(), int(dimensions))),
            ("text", pyarrow.string()),
            ("speaker", pyarrow.string()),
            ("session", pyarrow.int64()),
            ("at_ms", pyarrow.int64()),
        ]
    )
    table = lancedb.connect(folder).create_table("memories", schema=schema)
    flushed: set[Path] = set()

    def prepare(first: int, texts: Sequence[str], rows: Floats) -> Callable[[], object]:
        flat = pyarrow.array(rows.reshape(-1))
        about = [_about(first + at) for at in range(len(texts))]
        columns = {
            "number": range(first, first + len(texts)),
            "vector": pyarrow.FixedSizeListArray.from_arrays(flat, rows.shape[1]),
            "text": texts,
            **{name: [each[name] for each in about] for name in ("speaker", "session", "at_ms")},
        }
        new = pyarrow.table(columns, schema=schema)

        def add() -> None:
            table.add(new)
            if bare:
                return
            if first:
                table.optimize()
            else:
                table.create_fts_index("text")
            _flush(folder, flushed)

        return add

    return _timed(prepare, int(count), int(batch), int(dimensions))


def _flush(folder: str, flushed: set[Path]) -> None:
    """Flush files that are new, and the folders that they are in."""
    new = {path for path in Path(folder).rglob("*") if path.is_file()} - flushed
    flushed |= new
    for path in (*new, *{path.parent for path in new}):
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


def _lancedb_bare(folder: str, count: str, batch: str, dimensions: str) -> Mapping[str, Any]:
    return _lancedb(folder, count, batch, dimensions, bare=True)


def _mem0(folder: str, count: str, batch: str, dimensions: str) -> Mapping[str, Any]:
    """Its own batches of messages, without a model that draws conclusions from them."""
    os.environ |= {"MEM0_TELEMETRY": "False", "MEM0_DIR": folder, "OPENAI_API_KEY": "none"}
    from mem0 import Memory

    vectors = {"path": str(Path(folder) / "vectors"), "on_disk": True, "embedding_model_dims": int(dimensions)}
    memory = Memory.from_config(
        {
            "vector_store": {"provider": "qdrant", "config": vectors},
            "history_db_path": str(Path(folder) / "history.db"),
        }
    )
    given: dict[str, list[float]] = {}
    memory.embedding_model = SimpleNamespace(embed=lambda text, *_: given[text], config=SimpleNamespace())

    def prepare(first: int, texts: Sequence[str], rows: Floats) -> Callable[[], object]:
        given.update(zip(texts, rows.tolist(), strict=True))
        messages = [{"role": ("user", "assistant")[(first + at) % 2], "content": text} for at, text in enumerate(texts)]
        return lambda: memory.add(messages, user_id="ann", infer=False, metadata=_about(first))

    return _timed(prepare, int(count), int(batch), int(dimensions))


PEERS: dict[str, apart.Measurement] = {
    "chromadb": _chromadb,
    "qdrant": _qdrant,
    "lancedb": _lancedb,
    "lancedb_bare": _lancedb_bare,
    "mem0": _mem0,
}
SLOW = ("qdrant", "mem0")  # fewer messages: they flush each one by itself
EQUAL = ("chromadb", "qdrant", "lancedb", "mem0")  # these keep what the product promises, or try to

if __name__ == "__main__":
    apart.main(PEERS, sys.argv[1:])
