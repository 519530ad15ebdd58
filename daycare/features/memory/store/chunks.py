"""Chunks of documents: replaced together when a document has a new version; what says the same stays as it is."""

from collections.abc import Sequence
from typing import Any, Final

import apsw
from msgspec.structs import replace

from daycare.base.documents import Layer, Place
from daycare.base.memories import NewMemory
from daycare.features.memory.store.stored import changed, insert, remove
from daycare.store.sqlite.database import count
from daycare.store.sqlite.rows import Rows
from daycare.store.sqlite.sql import fetch
from daycare.store.sqlite.writer import Tx

_AT: Final = "layer = ? AND owner = ? AND name = ?"
_DONE: Final = "SELECT version FROM memory_documents WHERE layer = '' AND owner = '' AND name = ''"
# A deletion is done when version 0 is in chunks, which has none.
_IS_NEWEST: Final = (
    "NOT EXISTS (SELECT 1 FROM documents n WHERE (n.layer, n.owner, n.name) = (d.layer, d.owner, d.name)"
    " AND n.version > d.version)"
)
_IS_DONE: Final = (
    "EXISTS (SELECT 1 FROM memory_documents m WHERE (m.layer, m.owner, m.name) = (d.layer, d.owner, d.name)"
    " AND m.version = CASE WHEN d.hash = '' THEN 0 ELSE d.version END)"
)
_PASSED: Final = 1_000  # rows of documents looked at in one commit, to see how far all are in chunks


class MemoryChunks(Rows):
    """What is remembered of documents."""

    async def unchunked(self, limit: int) -> list[tuple[Place, int]]:
        """Return (place, newest version) of documents whose chunks are not of that version; 0: it was deleted."""
        rows = self._reader.execute(
            "SELECT d.layer, d.owner, d.name, CASE WHEN d.hash = '' THEN 0 ELSE d.version END FROM documents d"
            f" WHERE d.no > ({_DONE}) AND {_IS_NEWEST} AND NOT {_IS_DONE} ORDER BY d.no LIMIT ?",
            (limit,),
        )
        return [(Place(Layer(layer), str(owner), str(name)), int(str(version))) for layer, owner, name, version in rows]

    async def chunk(self, place: Place, version: int, chunks: Sequence[NewMemory]) -> bool:
        """Replace a document's chunks; False, with nothing changed, when `version` is not the newest any more."""
        return await self._write(lambda tx: _chunk(tx, place, version, chunks), sum(len(it.text) for it in chunks))


def chunks_of(tx: Tx, place: Place, version: int) -> list[int]:
    """Return the numbers of the chunks of a version of a document."""
    rows = fetch(
        tx.db,
        "SELECT no FROM memories WHERE version = ? AND text IS NOT NULL AND document ="
        f" (SELECT no FROM memory_documents WHERE {_AT})",
        (version, str(place.layer), place.owner, place.name),
    )
    return [no for (no,) in rows]


def _chunk(tx: Tx, place: Place, version: int, chunks: Sequence[NewMemory]) -> bool:
    at = (str(place.layer), place.owner, place.name)
    newest = tx.one(
        f"SELECT version, hash, user, origin FROM documents WHERE {_AT} ORDER BY version DESC LIMIT 1",
        at,
    )
    if newest is None or version != (newest[0] if newest[1] else 0):
        return False
    tx.run(
        "INSERT INTO memory_documents (layer, owner, name, user, origin, version) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT DO UPDATE SET version = excluded.version, user = excluded.user, origin = excluded.origin",
        (*at, newest[2], newest[3], version),
    )
    row = tx.one(f"SELECT no FROM memory_documents WHERE {_AT}", at)
    assert row is not None, "it was just inserted"
    _replace(tx, int(row[0]), [replace(it, place=place, version=version) for it in chunks])
    _pass(tx)
    return True


def _replace(tx: Tx, document: int, chunks: Sequence[NewMemory]) -> None:
    """Let a document's chunks be these. One with the same words keeps its number, and so its vectors."""
    old: dict[tuple[Any, ...], list[tuple[int, tuple[Any, ...]]]] = {}
    for no, scope, text, indexed, *rest in fetch(
        tx.db,
        "SELECT no, (SELECT scope FROM memory_scopes s WHERE s.no = memories.no >> 32), text, indexed, version, turn,"
        " at_ms, user, origin FROM memories WHERE document = ? AND text IS NOT NULL ORDER BY no DESC",
        (document,),
    ):
        old.setdefault((scope, text, indexed or text), []).append((no, tuple(rest)))
    new = []
    for it in chunks:
        same = old.get((it.scope, it.text, it.index or it.text))
        if not same:
            new.append(it)
            continue
        no, before = same.pop()
        now = (it.version, it.turn, it.at_ms, it.user, it.origin.value)
        tx.run("UPDATE memories SET version = ?, turn = ?, at_ms = ?, user = ?, origin = ? WHERE no = ?", (*now, no))
        if now[1:3] != before[1:3]:
            changed(tx, [no])
    remove(tx, [no for left in old.values() for no, _ in left], hashes=False)
    insert(tx, new, [document] * len(new))


def _pass(tx: Tx) -> None:
    """Advance to where all documents are in chunks, a bounded way."""
    done = count(tx.db, _DONE)
    first = _first_undone(tx.db, done)
    last = count(tx.db, "SELECT coalesce(max(no), 0) FROM documents")
    through = min(last if first is None else first - 1, done + _PASSED)
    if through > done:
        tx.run("UPDATE memory_documents SET version = ? WHERE layer = '' AND owner = '' AND name = ''", (through,))


def _first_undone(db: apsw.Connection, done: int) -> int | None:
    row = db.execute(
        f"SELECT d.no FROM documents d WHERE d.no > ? AND d.no <= ? AND {_IS_NEWEST} AND NOT {_IS_DONE}"
        " ORDER BY d.no LIMIT 1",
        (done, done + _PASSED),
    ).fetchone()
    return None if row is None else int(str(row[0]))
