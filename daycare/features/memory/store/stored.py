"""Rows of memories as the open transaction sees them: structs in and out, their words in the index, what is counted."""

import hashlib
import secrets
from collections import Counter
from collections.abc import Iterable, Sequence
from sys import intern
from typing import Any, Final, NamedTuple

import apsw
import msgspec

from daycare.base.documents import Layer, Place
from daycare.base.errors import ConflictError, InvalidError
from daycare.base.limits import MEMORY_TEXT_MAX_CHARS
from daycare.base.memories import NewMemory, Tier
from daycare.base.messages import Origin
from daycare.features.memory.store.extra import Extra, extra_from, extra_of, names_of
from daycare.features.memory.store.records import StoredMemory
from daycare.store.sqlite.database import count
from daycare.store.sqlite.rows import WordIndex
from daycare.store.sqlite.sql import Select, fetch, those
from daycare.store.sqlite.stems import stemmer
from daycare.store.sqlite.writer import Tx

MEMORY_SCOPES_MAX: Final = 2**20 - 1  # whose numbers fit into a vector's key
MEMORY_CHANGES_MAX: Final = 100_000  # remembered, so that caches need not start over: a year of a busy daemon

_CLOSED_UP_MAX: Final = 256  # memories moved with one commit, some milliseconds; where more are left, pages are full

SCOPE_BITS: Final = 32  # a memory's number: its scope's, then so many bits of its own
MODEL_BITS: Final = 52  # a vector's key: its model's number, then so many bits of the memory's
_OWN: Final = (1 << SCOPE_BITS) - 1
_INCARNATION_BITS: Final = 62  # fit into a column, and none comes twice

COLUMNS: Final = (
    "no, tier, user, origin, agent_id, path, session, turn, speaker, role, at_ms, created_at, version, hash, extra,"
    " indexed, text, (SELECT scope FROM memory_scopes s WHERE s.no = memories.no >> 32),"
    " CASE WHEN tier IN ('fact', 'entity')"
    " THEN (SELECT json_group_array(source) FROM memory_sources s WHERE s.no = memories.no) END,"
    " CASE WHEN document IS NOT NULL"
    " THEN (SELECT json_array(layer, owner, name) FROM memory_documents d WHERE d.no = memories.document) END"
)


_TIERS: Final = {tier.value: tier for tier in Tier}  # a look-up takes a tenth of a call of the class
_ORIGINS: Final = {origin.value: origin for origin in Origin}
_decode_numbers = msgspec.json.Decoder(tuple[int, ...]).decode
_decode_place = msgspec.json.Decoder(tuple[str, str, str]).decode


def new_incarnation() -> int:
    """Return what tells a scope or a model from others that had its number before, or will have it."""
    return secrets.randbits(_INCARNATION_BITS)


class ScopeSpan(NamedTuple):
    """A scope: its number, the numbers that its memories may have, how many live and how many words these have."""

    scope: int
    first: int
    last: int
    living: int
    words: int
    changed: int


def span(db: apsw.Connection, scope: str) -> ScopeSpan | None:
    """Return a scope, None if it never had a memory."""
    row = db.execute("SELECT no, living, words, changed FROM memory_scopes WHERE scope = ?", (scope,)).fetchone()
    if row is None:
        return None
    no, living, words, changed = map(int, row)
    return ScopeSpan(no, no << SCOPE_BITS, no << SCOPE_BITS | _OWN, living, words, changed)


# -- words -------------------------------------------------------------------------------------------------------------


def words_of(scope: int, stems: Sequence[str]) -> str:
    """Return stems as the index has them."""
    return f"{scope}:" + f" {scope}:".join(stems) if stems else ""


_INDEX: Final = "INSERT INTO memory_words (rowid, words) VALUES (?, ?)"
_UNINDEX: Final = "INSERT INTO memory_words (memory_words, rowid, words) VALUES ('delete', ?, ?)"


def _rows_come(db: apsw.Connection, keys: Sequence[tuple[Any, ...]]) -> None:
    db.executemany(_INDEX, _words_in(db, keys))


def _rows_go(db: apsw.Connection, keys: Sequence[tuple[Any, ...]]) -> None:
    db.executemany(_UNINDEX, _words_in(db, keys))


def _words_in(db: apsw.Connection, keys: Sequence[tuple[Any, ...]]) -> list[tuple[int, str]]:
    """Return the words of memories as the index has them, by their numbers."""
    stems = stemmer(db)
    rows = fetch(
        db,
        "SELECT no, coalesce(indexed, text) FROM memories WHERE no IN (SELECT value FROM carray(?))"
        " AND text IS NOT NULL ORDER BY no",
        (those(no for (no,) in keys),),
    )
    return [(no, words_of(no >> SCOPE_BITS, stems(text))) for no, text in rows]


WORDS: Final = WordIndex("memories", add=_rows_come, drop=_rows_go)


_ROW: Final = (
    "no, tier, user, origin, agent_id, path, session, turn, speaker, at_ms, until_ms, words, role, created_at,"
    " document, version, hash, extra, indexed, text"
)
_INSERT: Final = f"INSERT INTO memories ({_ROW}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


# -- new ones ----------------------------------------------------------------------------------------------------------


def insert(tx: Tx, new: Sequence[NewMemory], documents: Sequence[int] = ()) -> list[int]:
    """Add memories, chunks with the numbers of their documents; return their numbers."""
    stems = stemmer(tx.db)
    scopes: dict[str, list[int]] = {}  # its number, the next of its memories, how many are added, how many words
    rows: list[tuple[Any, ...]] = []
    words: list[tuple[int, str]] = []
    for at, it in enumerate(new):
        if len(it.text) > MEMORY_TEXT_MAX_CHARS or not it.text:
            what = f"keeping a memory of {it.path}: it has {len(it.text)} characters, not 1 to {MEMORY_TEXT_MAX_CHARS}"
            raise InvalidError("MEMORY_TEXT", what)
        counts = scopes.get(it.scope) or scopes.setdefault(it.scope, _opened(tx, it))
        no = counts[0] << SCOPE_BITS | counts[1]
        found = stems(it.index or it.text)
        counts[1] += 1
        counts[2] += 1
        counts[3] += len(found)
        words.append((no, words_of(counts[0], found)))
        rows.append(
            (
                no,
                it.tier,
                it.user,
                it.origin,
                it.agent_id,
                it.path,
                it.session,
                it.turn,
                it.speaker,
                it.at_ms,
                it.fact.valid_until_ms if it.fact else None,
                len(found),
                it.role,
                tx.now,
                documents[at] if documents else None,
                it.version if documents else None,
                hash_of(it.text),
                extra_of(it.fact, it.entity),
                None if it.index in ("", it.text) else it.index,
                it.text,
            )
        )
    tx.commit.memories = True
    tx.db.executemany(_INSERT, rows)
    tx.db.executemany(_INDEX, words)
    for scope, following, added, word_count in scopes.values():
        tx.run(
            "UPDATE memory_scopes SET next = ?, living = living + ?, words = words + ? WHERE no = ?",
            (following, added, word_count, scope),
        )
    numbers = [no for no, _ in words]
    for no, it in zip(numbers, new, strict=True):
        if it.fact is not None or it.entity is not None:
            _name(tx, no, it.user, it.origin.value, Extra(it.fact, it.entity))
        for source in it.sources:
            add_source(tx, no, source)
    return numbers


def _opened(tx: Tx, it: NewMemory) -> list[int]:
    row = tx.one("SELECT no, next FROM memory_scopes WHERE scope = ?", (it.scope,))
    if row is not None:
        return [row[0], row[1], 0, 0]
    tx.run(
        "INSERT INTO memory_scopes (scope, user, origin, incarnation) VALUES (?, ?, ?, ?)",
        (it.scope, it.user, it.origin.value, new_incarnation()),
    )
    no = tx.db.last_insert_rowid()
    if no > MEMORY_SCOPES_MAX:
        raise ConflictError("MEMORY_SCOPES_MAX", f"remembering for {it.scope}: {no - 1} others remember already")
    return [no, 1, 0, 0]


def add_source(tx: Tx, no: int, source: int) -> bool:
    """Note a log entry that something was learned from; False if that is known, or the entry is not there."""
    tx.run(
        "INSERT INTO memory_sources (no, source, user, origin, agent_id, turn) SELECT ?, no, user, origin, agent_id,"
        " turn FROM memories WHERE no = ? AND tier = 'log' AND text IS NOT NULL ON CONFLICT DO NOTHING",
        (no, source),
    )
    return tx.db.changes() == 1


def hash_of(text: str) -> bytes:
    """Return the hash of a text as rows have it."""
    return hashlib.sha256(text.encode()).digest()


def _name(tx: Tx, no: int, user: str, origin: str, extra: Extra) -> None:
    tx.db.executemany(
        "INSERT INTO memory_names (name, no, user, origin) VALUES (?, ?, ?, ?)",
        [(name, no, user, origin) for name in sorted(names_of(extra))],
    )


def _unname(tx: Tx, no: int, extra: Extra) -> None:
    tx.db.executemany("DELETE FROM memory_names WHERE name = ? AND no = ?", [(name, no) for name in names_of(extra)])


# -- changed ones ------------------------------------------------------------------------------------------------------


def describe(tx: Tx, no: int, extra: Extra, *, text: str = "", index: str = "") -> None:
    """Change what is said of a living fact or entity, and its text if there is a new one."""
    tx.commit.memories = True
    row = tx.one("SELECT user, origin, extra, until_ms, indexed, text, words FROM memories WHERE no = ?", (no,))
    assert row is not None, "it was read in this transaction"
    user, origin, old, old_until, indexed, old_text, old_words = row
    until = extra.fact.valid_until_ms if extra.fact else None
    _unname(tx, no, extra_from(old))
    _name(tx, no, user, origin, extra)
    tx.run("UPDATE memories SET extra = ?, until_ms = ? WHERE no = ?", (extra_of(extra.fact, extra.entity), until, no))
    if text and (text, index or text) != (old_text, indexed or old_text):
        stems = stemmer(tx.db)
        scope = no >> SCOPE_BITS
        found = stems(index or text)
        tx.run(_UNINDEX, (no, words_of(scope, stems(indexed or old_text))))
        tx.run(_INDEX, (no, words_of(scope, found)))
        tx.run(
            "UPDATE memories SET text = ?, indexed = ?, hash = ?, words = ? WHERE no = ?",
            (text, None if index in ("", text) else index, hash_of(text), len(found), no),
        )
        tx.run("UPDATE memory_scopes SET words = words + ? WHERE no = ?", (len(found) - old_words, scope))
        if text != old_text:
            drop_vectors(tx, [no])
    elif until == old_until:
        return  # nothing that is kept of it elsewhere is another one by that
    changed(tx, [no])


def remove(tx: Tx, numbers: Iterable[int], *, hashes: bool) -> int:
    """Take living memories out of everything; with `hashes` that is left of them, else nothing. Return how many."""
    rows = fetch(
        tx.db,
        "SELECT no, coalesce(indexed, text), words, extra FROM memories"
        " WHERE no IN (SELECT value FROM carray(?)) AND text IS NOT NULL ORDER BY no",
        (those(numbers),),
    )
    if not rows:
        return 0
    stems = stemmer(tx.db)
    gone = [no for no, *_ in rows]
    tx.db.executemany(_UNINDEX, [(no, words_of(no >> SCOPE_BITS, stems(text))) for no, text, *_ in rows])
    for no, _, _, extra in rows:
        if extra is not None:
            _unname(tx, no, extra_from(extra))
    drop_vectors(tx, gone)
    tx.run("DELETE FROM memory_sources WHERE no IN (SELECT value FROM carray(?))", (those(gone),))
    living: Counter[int] = Counter(no >> SCOPE_BITS for no in gone)
    words: Counter[int] = Counter()
    for no, _, word_count, _ in rows:
        words[no >> SCOPE_BITS] += word_count
    for scope, many in living.items():
        tx.run(
            "UPDATE memory_scopes SET living = living - ?, words = words - ? WHERE no = ?",
            (many, words[scope], scope),
        )
    changed(tx, gone)
    what = "UPDATE memories SET text = NULL, indexed = NULL, extra = NULL, speaker = '', words = 0, until_ms = NULL"
    tx.run(
        f"{what if hashes else 'DELETE FROM memories'} WHERE no IN (SELECT value FROM carray(?))",
        (those(gone),),
    )
    return len(gone)


def close_up(tx: Tx, first: int, last: int) -> None:
    """Write what is left between two numbers again: SQLite lets pages be until two thirds of them are empty."""
    between = (first, last)
    left = f"SELECT {_ROW} FROM memories WHERE no BETWEEN ? AND ? ORDER BY no LIMIT ?"
    rows = fetch(tx.db, left, (*between, _CLOSED_UP_MAX))
    if rows and len(rows) < _CLOSED_UP_MAX:
        tx.run("DELETE FROM memories WHERE no BETWEEN ? AND ?", between)
        tx.db.executemany(_INSERT, rows)


def changed(tx: Tx, numbers: Sequence[int]) -> None:
    """Note that memories are others now, or not there any more."""
    last: dict[int, int] = {}
    for no in numbers:
        tx.run(
            "INSERT INTO memory_changes (no, user, origin) SELECT no, user, origin FROM memories WHERE no = ?", (no,)
        )
        last[no >> SCOPE_BITS] = tx.db.last_insert_rowid()
    for scope, seq in last.items():
        tx.run("UPDATE memory_scopes SET changed = ? WHERE no = ?", (seq, scope))
    if last:
        tx.run("DELETE FROM memory_changes WHERE seq <= ?", (max(last.values()) - MEMORY_CHANGES_MAX,))


def changes(db: apsw.Connection, scope: int, since: int) -> list[int] | None:
    """Return which memories of a scope were changed or deleted since; None if so much is not remembered."""
    rows = fetch(
        db,
        "SELECT DISTINCT no FROM memory_changes WHERE seq > ? AND no >> 32 = ? ORDER BY no",
        (since, scope),
    )
    # Only now: the oldest are deleted, by others also between two statements.
    if since < count(db, "SELECT coalesce(min(seq), 1) - 1 FROM memory_changes"):
        return None
    return [no for (no,) in rows]


def drop_vectors(tx: Tx, numbers: Sequence[int]) -> None:
    """Delete the vectors of memories, of every model."""
    by_scope: dict[int, list[int]] = {}
    for no in numbers:
        by_scope.setdefault(no >> SCOPE_BITS, []).append(no)
    for (model,) in fetch(tx.db, "SELECT no FROM memory_models"):
        for scope, mine in by_scope.items():
            tx.run(
                "DELETE FROM memory_vectors WHERE key IN (SELECT value FROM carray(?))",
                (those(model << MODEL_BITS | no for no in mine),),
            )
            if deleted := tx.db.changes():
                tx.run(
                    "UPDATE memory_embedded SET vectors = vectors - ? WHERE model = ? AND scope = ?",
                    (deleted, model, scope),
                )


# -- structs -----------------------------------------------------------------------------------------------------------


def memory(row: tuple[Any, ...]) -> StoredMemory:
    """Return the struct of a row of `COLUMNS`."""
    (no, tier, user, origin, agent_id, path, session, turn, speaker, role, at_ms, created_at, version, hash_, extra,
     indexed, text, scope, sources, place) = row  # fmt: skip
    more = extra_from(extra)
    return StoredMemory(  # searches keep thousands, most of which have these texts in common
        no=no,
        tier=_TIERS[tier],
        scope=intern(scope),
        user=intern(user),
        agent_id=intern(agent_id),
        path=intern(path),
        origin=_ORIGINS[origin],
        text=text,
        index=indexed or "",
        at_ms=at_ms,
        session=session,
        turn=turn,
        speaker=intern(speaker),
        role=intern(role),
        sources=() if sources is None else _decode_numbers(sources),
        fact=more.fact,
        entity=more.entity,
        place=None if place is None else _place(place),
        version=version or 0,
        hash=hash_.hex(),
        created_at=created_at,
    )


MEMORIES: Final = Select(COLUMNS, "memories", memory)


def _place(text: str) -> Place:
    layer, owner, name = _decode_place(text)
    return Place(Layer(layer), owner, name)
