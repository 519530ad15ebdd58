"""Writing dead letters: what was given up on, with its reason."""

from typing import Any, Final

import msgspec

from daycare.base.limits import DEAD_LETTERS_MAX
from daycare.base.messages import Envelope
from daycare.base.secrecy import without_secrets
from daycare.store.records import DeadLetter
from daycare.store.sqlite.sql import Select
from daycare.store.sqlite.writer import Tx

_COLUMNS = "no, source, seq, agent_id, path, user, origin, trace, code, reason, attempts, body, created_at, replayed_at"
_DROPPED_PART = 100  # of a share: so much of it is dropped together
_encode = msgspec.json.Encoder().encode


def bury(
    tx: Tx, source: str, seq: int, agent_id: str, envelope: Envelope, code: str, reason: str, attempts: int
) -> DeadLetter:
    """Record one dead letter. Where there are too many, the oldest of whoever has most make room."""
    body = _encode(msgspec.structs.replace(envelope, agent_id=None)).decode()
    return insert(
        tx, source, seq, agent_id, envelope.to, envelope.user, str(envelope.origin), envelope.trace, code, reason,
        attempts, body,
    )  # fmt: skip


def insert(tx: Tx, *values: Any) -> DeadLetter:
    """Insert a dead letter from its columns (source .. body). What is said of why never holds a secret."""
    values = (*values[:8], without_secrets(values[8]), *values[9:])
    share = _share_of(tx, values[4])
    tx.run(
        "INSERT INTO dead_letters (source, seq, agent_id, path, user, origin, trace, code, reason, attempts, body,"
        " created_at, share) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*values, tx.now, share),
    )
    no = tx.db.last_insert_rowid()
    tx.memory.letters[share] = tx.memory.letters.get(share, 0) + 1
    tx.memory.letters_all += 1
    if tx.memory.letters_all > DEAD_LETTERS_MAX:
        _make_room(tx, share)
    it = LETTERS.one(tx.db, "no = ?", (no,))
    assert it is not None
    tx.commit.dead.append(it)
    return it


def _make_room(tx: Tx, newest: str) -> None:
    """Drop the oldest letters of whoever has most, some at a time, so that who it is is not looked for each time."""
    shares = tx.memory.letters
    most = max(shares, key=lambda share: (shares[share], share != newest))
    tx.run(
        "DELETE FROM dead_letters WHERE no IN (SELECT no FROM dead_letters WHERE share = ? ORDER BY no LIMIT ?)",
        (most, max(1, shares[most] // _DROPPED_PART)),
    )
    dropped = tx.db.changes()
    shares[most] -= dropped
    tx.memory.letters_all -= dropped
    tx.run(
        "INSERT INTO dropped_letters (user, letters, first_at, last_at) VALUES (?1, ?2, ?3, ?3)"
        " ON CONFLICT (user) DO UPDATE SET letters = letters + excluded.letters, last_at = excluded.last_at",
        (most, dropped, tx.now),
    )


def _share_of(tx: Tx, user: str) -> str:
    """Return in whose share a user's letters are: that of the person or the group above them."""
    row = tx.one(
        "WITH RECURSIVE above (id, parent) AS (SELECT id, parent FROM users WHERE id = ?"
        " UNION SELECT u.id, u.parent FROM users u JOIN above a ON u.id = a.parent)"
        " SELECT id FROM above WHERE parent IS NULL",
        (user,),
    )
    return user if row is None else str(row[0])


def _letter(row: tuple[Any, ...]) -> DeadLetter:
    return DeadLetter(**dict(zip(_COLUMNS.split(", "), row, strict=True)))


LETTERS: Final = Select(_COLUMNS, "dead_letters", _letter)
