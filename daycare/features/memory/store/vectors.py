"""Vectors of memories: rows by model and memory, read in the order of their numbers, and found again by their text."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import apsw
import trio

from daycare.base.clock import Clock
from daycare.base.errors import BusyError, ConflictError
from daycare.features.memory.store.records import NewVector, VectorModel, VectorPage
from daycare.features.memory.store.stored import MODEL_BITS, SCOPE_BITS, changes, new_incarnation, span
from daycare.store.sqlite.database import count, counted
from daycare.store.sqlite.readers import Readers
from daycare.store.sqlite.rows import Rows
from daycare.store.sqlite.sql import fetch, those
from daycare.store.sqlite.writer import Tx, Writer

MEMORY_MODELS_MAX: Final = 2**11 - 1  # of embedders whose vectors are kept at the same time, for the same reason

_HASH_BYTES: Final = 8  # of a text's hash in the index of vectors
_PAGE: Final = 2_000  # memories looked at before others have a turn, about 3 ms
_READ_PAGE: Final = 512  # vectors read at a time: what is made of them takes three times as much for a moment
_NO: Final = (1 << MODEL_BITS) - 1
_BEFORE_BYTES: Final = 2  # a number, in vectors of older versions


class MemoryVectors(Rows):
    """Vectors by model; those that are not async may be called in any thread."""

    def __init__(self, writer: Writer, reader: apsw.Connection, readers: Readers, clock: Clock) -> None:
        super().__init__(writer, reader, readers, clock)
        self._whole: dict[tuple[str, int], _Whole] = {}

    async def unembedded(self, model: str, limit: int) -> list[tuple[int, str, str]]:
        """Return (number, hash, text) of memories without a vector of this model, newest first."""
        db = self._reader
        at = _model(db, model)
        scopes = fetch(
            db,
            "SELECT no, next FROM memory_scopes s WHERE living > coalesce((SELECT vectors FROM memory_embedded"
            " WHERE model = ? AND scope = s.no), 0) ORDER BY changed + next DESC LIMIT ?",
            (at, limit),
        )
        missing: list[int] = []
        for scope, following in scopes:
            whole = self._whole.setdefault((model, scope), _Whole(scope, scope << SCOPE_BITS | following))
            missing += await whole.missing(db, at, max(1, limit // len(scopes)))
        rows = fetch(
            db,
            "SELECT no, hash, text FROM memories WHERE no IN (SELECT value FROM carray(?)) AND text IS NOT NULL"
            " ORDER BY created_at DESC, no DESC LIMIT ?",
            (those(missing), limit),
        )
        return [(no, hash_.hex(), text) for no, hash_, text in rows]

    async def pending(self, model: str) -> tuple[int, int]:
        """Return how many memories have no vector of this model, and how many memories there are."""
        total = counted(self._reader, "memories")
        done = count(self._reader, "SELECT coalesce((SELECT vectors FROM memory_models WHERE model = ?), 0)", (model,))
        return total - done, total

    async def vector_models(self) -> list[VectorModel]:
        """Return the models of which there are vectors."""
        rows = fetch(self._reader, "SELECT model, dimensions, vectors FROM memory_models ORDER BY no")
        return [VectorModel(*row) for row in rows]

    async def known_vectors(self, model: str, hashes: Sequence[str]) -> dict[str, bytes]:
        """Return vectors that texts with these hashes have already, in any scope."""
        found = {}
        at = _model(self._reader, model)
        for hash_ in hashes:
            whole = bytes.fromhex(hash_)
            row = self._reader.execute(
                "SELECT v.data FROM memory_vectors v JOIN memories m ON m.no = v.key & ?"
                " WHERE v.hash = ? AND v.key >> 52 = ? AND m.hash = ? LIMIT 1",
                (_NO, whole[:_HASH_BYTES], at, whole),
            ).fetchone()
            if row is not None:
                found[hash_] = bytes(row[0])
        return found

    async def embed(self, model: str, dimensions: int, vectors: Sequence[NewVector]) -> int:
        """Keep vectors; those of memories that were changed or forgotten meanwhile are left out. Idempotent.

        Returns how many were kept. Raises `ConflictError` EMBEDDING_DIMENSIONS when this model's vectors have others,
        or these are not of `dimensions`.
        """
        return await self._write(
            lambda tx: keep_vectors(tx, model, dimensions, vectors), sum(len(it.data) for it in vectors)
        )

    def dimensions(self, model: str) -> int:
        """Return how many dimensions the vectors of a model have, 0 where there are none of it."""
        with self._readers.lent() as db:
            row = db.execute("SELECT dimensions FROM memory_models WHERE model = ?", (model,)).fetchone()
        return 0 if row is None else int(row[0])

    def vectors(self, scope: str, model: str, *, after: int = 0, page: int = _READ_PAGE) -> Iterator[VectorPage]:
        """Yield a scope's vectors of one model, in order of number, beginning after `after`."""
        rows: list[tuple[int, bytes]] = []
        while not rows or len(rows) == page:
            with self._readers.lent() as db:
                there = span(db, scope)
                if there is None:
                    return
                high = _model(db, model) << MODEL_BITS
                rows = fetch(
                    db,
                    "SELECT key & ?, data FROM memory_vectors WHERE key BETWEEN ? AND ? AND data <> x'' ORDER BY key"
                    " LIMIT ?",
                    (_NO, high | max(after + 1, there.first), high | there.last, page),
                )
            if not rows:
                return
            numbers, data = zip(*rows, strict=True)
            yield VectorPage(numbers, data)
            after = numbers[-1]

    def vectors_of(self, model: str, numbers: Sequence[int]) -> VectorPage:
        """Return the vectors of some memories in order of number; those without one are left out."""
        with self._readers.lent() as db:
            high = _model(db, model) << MODEL_BITS
            rows = fetch(
                db,
                "SELECT key & ?, data FROM memory_vectors WHERE key IN (SELECT value FROM carray(?)) AND data <> x''"
                " ORDER BY key",
                (_NO, those(high | no for no in numbers)),
            )
        return VectorPage(tuple(no for no, _ in rows), tuple(data for _, data in rows))

    async def drop_vectors(self, keep: Sequence[str], limit: int) -> int:
        """Delete vectors of models that are not to be kept; return how many (0: all done)."""
        self._whole = {key: whole for key, whole in self._whole.items() if key[0] in keep}
        return await self._write(lambda tx: _drop(tx, keep, limit))


class _Whole:
    """Between which numbers of a scope each memory has a vector, so that a look for those without does not read them.

    It is found out anew after a start, from the newest down. What comes meanwhile joins at the other end.
    """

    def __init__(self, scope: int, following: int) -> None:
        self._scope = scope
        self._first = self._last = following  # of `first` and up to before `last` each has one ...
        self._lost: set[int] = set()  # ... but these, which were changed
        self._gone = 0

    async def missing(self, db: apsw.Connection, model: int, limit: int) -> list[int]:
        """Return memories without a vector: those that came last, then the newest of the others."""
        following, gone = map(int, _one(db, "SELECT next, changed FROM memory_scopes WHERE no = ?", (self._scope,)))
        low = self._scope << SCOPE_BITS
        newer = await _without(db, model, (self._last, low | following), limit)
        self._last = newer[0] if newer else low | following
        older = await _without(db, model, (low, self._first), limit, backwards=True)
        self._first = older[0] + 1 if older else low
        changed = [] if gone == self._gone else changes(db, self._scope, self._gone)
        self._gone = gone
        if changed is None:
            self._first = self._last = low | following  # all of them are to be looked at again
        else:
            self._lost.update(no for no in changed if self._first <= no < self._last)
        self._lost = set(_bare(db, model, self._lost))
        return [*newer, *sorted(self._lost, reverse=True), *older][:limit]


async def _without(
    db: apsw.Connection, model: int, among: tuple[int, int], limit: int, *, backwards: bool = False
) -> list[int]:
    """Return memories from the first number to before the second that have no vector."""
    first, end = among
    found: list[int] = []
    page = limit
    while first < end and len(found) < limit:
        rows = fetch(
            db,
            "SELECT no, EXISTS (SELECT 1 FROM memory_vectors WHERE key = ? | no) OR text IS NULL FROM memories"
            f" WHERE no >= ? AND no < ? ORDER BY no {'DESC' if backwards else ''} LIMIT ?",
            (model << MODEL_BITS, first, end, page),
        )
        found += [no for no, has in rows if not has]
        if len(rows) < page:
            break
        first, end = (first, rows[-1][0]) if backwards else (rows[-1][0] + 1, end)
        page = min(_PAGE, 4 * page)
        await trio.lowlevel.checkpoint()
    return found[:limit]


def _bare(db: apsw.Connection, model: int, numbers: Iterable[int]) -> list[int]:
    """Return those of the memories that have no vector."""
    rows = fetch(
        db,
        "SELECT no FROM memories WHERE no IN (SELECT value FROM carray(?)) AND text IS NOT NULL"
        " AND NOT EXISTS (SELECT 1 FROM memory_vectors WHERE key = ? | no)",
        (those(numbers), model << MODEL_BITS),
    )
    return [no for (no,) in rows]


def _model(db: apsw.Connection, model: str) -> int:
    """Return a model's number, 0 for one that has no vectors."""
    row = db.execute("SELECT no FROM memory_models WHERE model = ?", (model,)).fetchone()
    return 0 if row is None else int(str(row[0]))


def _one(db: apsw.Connection, sql: str, bindings: tuple[Any, ...]) -> tuple[Any, ...]:
    [row] = fetch(db, sql, bindings)
    return row


def keep_vectors(tx: Tx, model: str, dimensions: int, vectors: Sequence[NewVector]) -> int:
    """Add vectors in this transaction; return how many. Raises before it changes anything."""
    at = _registered(tx, model, dimensions, vectors)
    by_scope: dict[int, list[tuple[int, bytes, int, bytes]]] = {}
    for it in vectors:
        row = (at << MODEL_BITS | it.no, it.data, it.no, bytes.fromhex(it.hash))
        by_scope.setdefault(it.no >> SCOPE_BITS, []).append(row)
    kept = 0
    for scope, rows in by_scope.items():
        known = _there(tx.db, rows)
        tx.db.executemany(
            "INSERT INTO memory_vectors (key, hash, user, origin, data)"
            " SELECT ?, substr(hash, 1, 8), user, origin, ? FROM memories"
            " WHERE no = ? AND hash = ? AND text IS NOT NULL ON CONFLICT DO NOTHING",
            rows,
        )
        added = _there(tx.db, rows) - known  # `total_changes` counts what the index of words writes in between, too
        tx.run(
            "INSERT INTO memory_embedded (model, scope, user, origin, vectors)"
            " SELECT ?, no, user, origin, ? FROM memory_scopes WHERE no = ?"
            " ON CONFLICT DO UPDATE SET vectors = vectors + excluded.vectors",
            (at, added, scope),
        )
        kept += added
    return kept


def _there(db: apsw.Connection, rows: Sequence[tuple[int, bytes, int, bytes]]) -> int:
    """Return how many of these have a vector."""
    keys = those(key for key, *_ in rows)
    return count(db, "SELECT count(*) FROM memory_vectors WHERE key IN (SELECT value FROM carray(?))", (keys,))


def _registered(tx: Tx, model: str, dimensions: int, vectors: Sequence[NewVector]) -> int:
    """Return a model's number; it gets one with its first vectors."""
    wrong = next((it for it in vectors if len(it.data) not in (0, dimensions, _BEFORE_BYTES * dimensions)), None)
    row = tx.one("SELECT no, dimensions FROM memory_models WHERE model = ?", (model,))
    others = row[1] if row and dimensions and row[1] not in (0, dimensions) else 0
    if wrong or others:
        there = f"there are {others}" if others else f"one has {len(wrong.data) if wrong else 0} bytes"
        raise ConflictError("EMBEDDING_DIMENSIONS", f"keeping vectors of {model}: {dimensions} dimensions, {there}")
    if row is not None:
        if dimensions and not row[1]:  # until now it had vectors for texts that cannot have any
            tx.run("UPDATE memory_models SET dimensions = ? WHERE no = ?", (dimensions, row[0]))
        return int(row[0])
    free = tx.one(
        "SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM memory_models WHERE no = 1)"
        " UNION ALL SELECT no + 1 FROM memory_models m WHERE NOT EXISTS"
        " (SELECT 1 FROM memory_models n WHERE n.no = m.no + 1) LIMIT 1"
    )
    assert free is not None, "either 1 is free, or the one behind some other"
    if free[0] > MEMORY_MODELS_MAX:
        raise BusyError("MEMORY_MODELS_MAX", f"keeping vectors of {model}: those of {free[0] - 1} others are kept")
    tx.run(
        "INSERT INTO memory_models (no, model, dimensions, incarnation) VALUES (?, ?, ?, ?)",
        (free[0], model, dimensions, new_incarnation()),
    )
    return int(free[0])


def _drop(tx: Tx, keep: Sequence[str], limit: int) -> int:
    deleted = 0
    for model, name in fetch(tx.db, "SELECT no, model FROM memory_models ORDER BY no"):
        if name in keep or deleted >= limit:
            continue
        rows = fetch(
            tx.db,
            "SELECT key FROM memory_vectors WHERE key BETWEEN ? AND ? LIMIT ?",
            (model << MODEL_BITS, model << MODEL_BITS | _NO, limit - deleted),
        )
        keys = [key for (key,) in rows]
        tx.run("DELETE FROM memory_vectors WHERE key IN (SELECT value FROM carray(?))", (those(keys),))
        for scope, many in Counter((key & _NO) >> SCOPE_BITS for key in keys).items():
            tx.run(
                "UPDATE memory_embedded SET vectors = vectors - ? WHERE model = ? AND scope = ?", (many, model, scope)
            )
        deleted += len(keys)
        if deleted < limit:
            tx.run("DELETE FROM memory_embedded WHERE model = ?", (model,))
            tx.run("DELETE FROM memory_models WHERE no = ?", (model,))
    return deleted
