"""Writing dead letters: what was given up on, with its reason."""

from typing import Any

import msgspec

from daycare.base.limits import DEAD_LETTERS_MAX
from daycare.base.messages import Envelope
from daycare.base.secrecy import without_secrets
from daycare.store.records import DeadLetter
from daycare.store.sqlite.writer import Tx

COLUMNS = "no, source, seq, agent_id, path, user, origin, trace, code, reason, attempts, body, created_at, replayed_at"
_encode = msgspec.json.Encoder().encode


def bury(
    tx: Tx, source: str, seq: int, agent_id: str, envelope: Envelope, code: str, reason: str, attempts: int
) -> DeadLetter:
    """Record one dead letter. The oldest make room when there are too many."""
    body = _encode(msgspec.structs.replace(envelope, agent_id=None)).decode()
    return insert(
        tx, source, seq, agent_id, envelope.to, envelope.user, str(envelope.origin), envelope.trace, code, reason,
        attempts, body,
    )  # fmt: skip


def insert(tx: Tx, *values: Any) -> DeadLetter:
    """Insert a dead letter from its columns (source .. body). What is said of why never holds a secret."""
    values = (*values[:8], without_secrets(values[8]), *values[9:])
    tx.run(
        "INSERT INTO dead_letters (source, seq, agent_id, path, user, origin, trace, code, reason, attempts, body,"
        " created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*values, tx.now),
    )
    no = tx.db.last_insert_rowid()
    tx.run("DELETE FROM dead_letters WHERE no <= ?", (no - DEAD_LETTERS_MAX,))
    row = tx.one(f"SELECT {COLUMNS} FROM dead_letters WHERE no = ?", (no,))  # noqa: S608
    assert row is not None
    tx.commit.dead.append(letter(row))
    return letter(row)


def letter(row: tuple[Any, ...]) -> DeadLetter:
    """Return the struct of a row of `COLUMNS`."""
    return DeadLetter(**dict(zip(COLUMNS.split(", "), row, strict=True)))
