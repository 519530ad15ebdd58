"""Rows of approvals: structs in and out of their table."""

from typing import Any, Final

import apsw
import msgspec

from daycare.features.approvals.records import Action, Approval, ApprovalFinding, ApprovalState, Grant
from daycare.store.sqlite.sql import Select, insert_into
from daycare.store.sqlite.writer import Tx

_COLUMNS: Final = (
    "no, key, kind, agent_id, path, user, decider, state, revision, content_hash, salt, base_hash, reason, provenance,"
    " findings, trace, session, edited_by, created_at, expires_at, decided_at, decided_by, why, version, undone,"
    " made_in, action"
)
_NAMES: Final = tuple(_COLUMNS.replace(",", " ").split())
_encode = msgspec.json.Encoder().encode
_action = msgspec.json.Decoder(Action).decode
_strings = msgspec.json.Decoder(tuple[str, ...]).decode
_findings = msgspec.json.Decoder(tuple[ApprovalFinding, ...]).decode


def get(db: apsw.Connection, no: int) -> Approval | None:
    """Return the request with a number."""
    return APPROVALS.one(db, "no = ?", (no,))


def by_key(db: apsw.Connection, key: str) -> Approval | None:
    """Return the request that a call made."""
    return APPROVALS.one(db, "key = ?", (key,))


def next_no(tx: Tx) -> int:
    """Return the number of the next request."""
    row = tx.one("SELECT coalesce(max(no), 0) + 1 FROM approvals")
    assert row is not None
    return int(row[0])


def insert(tx: Tx, it: Approval, root: str) -> None:
    """Add a request of the agent at `root` or of a helper of it."""
    tx.run(insert_into("approvals", (*_NAMES, "root", "origin")), (*_values(it), root, "agent"))


def save(tx: Tx, it: Approval) -> None:
    """Write a request over its row."""
    sets = ", ".join(f"{name} = ?" for name in _NAMES)
    tx.run(f"UPDATE approvals SET {sets} WHERE no = ?", (*_values(it), it.no))


def _approval(row: tuple[Any, ...]) -> Approval:
    fields = dict(zip(_NAMES, row, strict=True))
    decoded = {
        "state": ApprovalState(fields["state"]),
        "provenance": _strings(fields["provenance"]),
        "findings": _findings(fields["findings"]),
        "action": _action(fields["action"]),
    }
    return Approval(**fields | decoded)


APPROVALS: Final = Select(_COLUMNS, "approvals", _approval)


def grant(row: tuple[Any, ...]) -> Grant:
    """Return the struct of a row (agent, kind, user, by, until)."""
    agent_id, kind, user, by, until = row
    return Grant(agent_id=agent_id, kind=kind, user=user, by=by, until=until)


def _values(it: Approval) -> tuple[Any, ...]:
    plain = msgspec.structs.asdict(it) | {
        "state": str(it.state),
        "provenance": _encode(it.provenance).decode(),
        "findings": _encode(it.findings).decode(),
        "action": _encode(it.action).decode(),
    }
    return tuple(plain[name] for name in _NAMES)
