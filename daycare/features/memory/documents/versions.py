"""Versions of documents as rows: what one says, and which of them are kept.

A version that adds to the one before holds only what it adds (`tail`). So a log of n lines takes the space of n lines.
"""

from collections.abc import Sequence
from itertools import takewhile
from typing import Any, Final

from daycare.store.sqlite.database import count
from daycare.store.sqlite.sql import fetch
from daycare.store.sqlite.writer import Tx

NEWEST_KEPT: Final = 32  # versions of one document, to be looked at and undone: more than people go back
DAYS_KEPT: Final = 90  # of older ones the last of each day, for "what did it say last month?"
MONTHS_KEPT: Final = 120  # ... and after that the last of each month: ten years, some 240 versions in all

# The text of a version, whose row is `d`.
WHOLE: Final = (
    "CASE d.tail WHEN 0 THEN d.text ELSE (SELECT group_concat(p.text, '' ORDER BY p.version) FROM documents p"
    " WHERE (p.layer, p.owner, p.name) = (d.layer, d.owner, d.name) AND p.version <= d.version AND p.version >="
    " (SELECT b.version FROM documents b WHERE (b.layer, b.owner, b.name) = (d.layer, d.owner, d.name)"
    " AND b.version <= d.version AND b.tail = 0 ORDER BY b.version DESC LIMIT 1)) END"
)
_AT: Final = "layer = ? AND owner = ? AND name = ?"
_DAY_MS: Final = 86_400_000
_MONTH_DAYS: Final = 30
_PLACES: Final = 100  # documents looked at in one bite; most need nothing
_BITE_ROWS: Final = 500  # changed in one bite: small ones, of logs
_BITE_BYTES: Final = 2 * 1024 * 1024  # read and written in one bite, some 20 ms

_Place = tuple[str, str, str]


def grown(tx: Tx, place: _Place, user: str, origin: str, version: int) -> None:
    """Note, with a version, that its document may have too many."""
    if version > NEWEST_KEPT:
        tx.run("INSERT INTO documents_grown VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", (*place, user, origin))


def stand_alone(tx: Tx, no: int) -> None:
    """Let the version after this one need it no longer for its own text."""
    tx.run(
        f"UPDATE documents AS d SET text = {WHOLE}, tail = 0 WHERE tail = 1 AND no = (SELECT n.no FROM documents n"
        " JOIN documents o ON (n.layer, n.owner, n.name) = (o.layer, o.owner, o.name) AND n.version > o.version"
        " WHERE o.no = ? ORDER BY n.version LIMIT 1)",
        (no,),
    )


def thin(tx: Tx) -> int:
    """Delete or make smaller a bounded number of old versions; return how many, 0 if all is done."""
    bite = _Bite(tx)
    places = fetch(tx.db, "SELECT layer, owner, name FROM documents_grown LIMIT ?", (_PLACES,))
    for place in places:
        if not (bite.delete(place) and bite.shorten(place)):
            return bite.changed
        tx.run(f"DELETE FROM documents_grown WHERE {_AT}", place)
    return max(bite.changed, int(len(places) == _PLACES))


class _Bite:
    """What one transaction may change: `changed` rows so far."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self._bytes = 0
        self.changed = 0

    @property
    def _is_full(self) -> bool:
        return self.changed >= _BITE_ROWS or self._bytes >= _BITE_BYTES

    def delete(self, place: _Place) -> bool:
        """Delete versions of a document that are not kept; whether none of them is left."""
        line = fetch(
            self._tx.db,
            "SELECT no, version, created_at, origin, approver <> '' OR instr(author, ':') > 0, hash, key"
            f" FROM documents WHERE {_AT} ORDER BY version DESC",
            place,
        )
        kept = _kept(self._tx, place, line)
        run: list[int] = []
        for no, *_ in reversed(line):
            if no not in kept:
                if self._is_full:
                    self._merge(run, no)
                    return False
                run.append(no)
                self._took(no)
            elif run:
                self._merge(run, no)
                run = []
        return True

    def shorten(self, place: _Place) -> bool:
        """Let versions that begin with all of the one before hold only the rest; whether all do."""
        before = ""
        for (no,) in fetch(self._tx.db, f"SELECT no FROM documents WHERE {_AT} ORDER BY version", place):
            if self._is_full:
                return False
            [(text, tail)] = fetch(self._tx.db, "SELECT ifnull(text, ''), tail FROM documents WHERE no = ?", (no,))
            if tail:
                before += text
                continue
            if before and text.startswith(before):
                self._tx.run("UPDATE documents SET text = ?, tail = 1 WHERE no = ?", (text[len(before) :], no))
                self.changed += 1
                self._bytes += len(text)
            before = text
        return True

    def _took(self, no: int) -> None:
        self.changed += 1
        self._bytes += count(self._tx.db, "SELECT ifnull(octet_length(text), 0) FROM documents WHERE no = ?", (no,))

    def _merge(self, run: Sequence[int], into: int) -> None:
        """Delete versions that stand behind each other; the next takes over what it needs of them."""
        if not run:
            return
        [(text, tail)] = fetch(self._tx.db, "SELECT text, tail FROM documents WHERE no = ?", (into,))
        if tail:
            parts = [text]
            for no in reversed(run):
                [(text, tail)] = fetch(self._tx.db, "SELECT text, tail FROM documents WHERE no = ?", (no,))
                parts.append(text)
                if not tail:
                    break
            text = "".join(reversed(parts))
            self._tx.run("UPDATE documents SET text = ?, tail = ? WHERE no = ?", (text, tail, into))
            self._bytes += len(text)
        self._tx.db.executemany("DELETE FROM documents WHERE no = ?", [(no,) for no in run])


def _kept(tx: Tx, place: _Place, line: Sequence[tuple[Any, ...]]) -> set[int]:
    """Return which versions of a document, the newest first, are kept.

    The newest, the last of each day and then of each month, the first since it is there, and what something refers to.
    For what a turn has read, and for what a person stands behind, the newest of each origin is enough, as only the
    newest of them is asked for.
    """
    kept = {row[0] for row in line[:NEWEST_KEPT]}
    living = list(takewhile(lambda row: row[5], line))  # back to its last deletion
    kept.update(row[0] for row in living[-1:])
    named = _named(tx, place)
    bases = _bases(tx)
    seen: set[object] = set()
    later = 0
    for no, version, at_ms, origin, approved, hash_, key in line:
        period = _period(at_ms, tx.now)
        first = period is not None and period not in seen
        if first or (origin, approved) not in seen:
            kept.add(no)
        seen.update((period, (origin, approved)))
        if version in named or hash_ in bases or _may_be_repeated(tx, key):
            kept.add(no)
        if later:
            kept.add(no)  # what a request has changed is shown with what was before
        later = _is_of_request(tx, key)
        if later:
            kept.add(no)
    return kept


def _period(at_ms: int, now_ms: int) -> tuple[str, int] | None:
    """Return the day or month (of 30 days) of whose versions the last is kept, None for what was longer ago."""
    day = at_ms // _DAY_MS
    ago = now_ms // _DAY_MS - day
    if ago > _MONTH_DAYS * MONTHS_KEPT:
        return None
    return ("day", day) if ago < DAYS_KEPT else ("month", day // _MONTH_DAYS)


def _named(tx: Tx, place: _Place) -> set[int]:
    """Return the versions that chunks are of."""
    rows = fetch(
        tx.db,
        f"SELECT version FROM memory_documents WHERE {_AT} UNION SELECT m.version FROM memory_documents o"
        " JOIN memories m ON m.document = o.no WHERE o.layer = ? AND o.owner = ? AND o.name = ?",
        (*place, *place),
    )
    return {version for (version,) in rows}


def _bases(tx: Tx) -> set[str]:
    """Return the hashes of texts that pending requests build on."""
    return {base for (base,) in fetch(tx.db, "SELECT base_hash FROM approvals WHERE state = 'pending'", ())}


def _is_of_request(tx: Tx, key: str) -> int:
    """Return whether a request for approval, which is still there, has written a version with this key."""
    kind, _, rest = key.partition(":")
    number = rest.partition(":")[0]
    if kind != "approval" or not number.isdigit():
        return 0
    return count(tx.db, "SELECT count(*) FROM approvals WHERE no = ?", (int(number),))


def _may_be_repeated(tx: Tx, key: str) -> bool:
    """Return whether a turn that has not ended wrote under this key: after a crash it looks for that."""
    _, _, rest = key.partition(":")
    turn = rest.partition(":")[0]
    if not turn.isdigit():
        return False
    ended = "SELECT count(*) FROM turns t WHERE turn = ? AND NOT EXISTS (SELECT 1 FROM history h WHERE h.turn = t.turn)"
    return count(tx.db, ended, (int(turn),)) > 0
