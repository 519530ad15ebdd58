"""The journal of a turn: its steps, as the open transaction sees them."""

import msgspec
from msgspec.structs import asdict

from daycare.base.errors import ConflictError
from daycare.store.records import Step, Turn
from daycare.store.sqlite.writer import Tx


class _Stored(Step, frozen=True, kw_only=True, omit_defaults=True):
    """A step as it is stored: most have little of what one may have."""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Step).decode


def put(tx: Tx, step: Step) -> None:
    """Write a step, replacing the one with its number. Raises `ConflictError` if its turn has ended."""
    tx.run(
        "INSERT INTO steps (turn, step, kind, name, state, idempotent, user, origin, at, body)"
        " SELECT ?, ?, ?, ?, ?, ?, user, origin, ?, ? FROM turns WHERE turn = ?"
        " AND NOT EXISTS (SELECT 1 FROM history h WHERE h.turn = turns.turn)"
        " ON CONFLICT (turn, step) DO UPDATE SET state = excluded.state, idempotent = excluded.idempotent,"
        " body = excluded.body, at = excluded.at",
        (
            step.turn,
            step.step,
            step.kind,
            step.name,
            step.state,
            step.idempotent,
            tx.now,
            _encode(_Stored(**asdict(step))).decode(),
            step.turn,
        ),
    )
    if tx.db.changes() != 1:
        raise ConflictError("TURN_GONE", f"journaling step {step.step} of turn {step.turn}: the turn ended meanwhile")


def steps_of(tx: Tx, turn: int) -> list[Step]:
    """Return a turn's steps in order."""
    rows = tx.db.execute("SELECT body FROM steps WHERE turn = ? ORDER BY step", (turn,)).fetchall()
    return [_decode(str(row[0])) for row in rows]


def move(tx: Tx, turn: int, to: int) -> None:
    """Give the steps of one turn to another that is open."""
    steps = steps_of(tx, turn)
    tx.run("DELETE FROM steps WHERE turn = ?", (turn,))
    for step in steps:
        put(tx, msgspec.structs.replace(step, turn=to))


def seqs_of(tx: Tx, turn: Turn) -> list[int]:
    """Return the numbers of all inbox rows that a turn works on, those it was steered by included."""
    return [*turn.seqs, *(seq for step in steps_of(tx, turn.turn) for seq in step.seqs)]


def works_on(tx: Tx, agent_id: str, seq: int) -> bool:
    """Return whether the open turn of an agent works on an inbox row."""
    row = tx.one(
        "SELECT t.turn FROM turns t WHERE t.turn = (SELECT max(turn) FROM turns WHERE agent_id = ?1)"
        " AND NOT EXISTS (SELECT 1 FROM history h WHERE h.turn = t.turn)"
        " AND (EXISTS (SELECT 1 FROM json_each(t.seqs) WHERE value = ?2) OR EXISTS (SELECT 1 FROM steps s,"
        " json_each(s.body, '$.seqs') WHERE s.turn = t.turn AND s.kind = 'steer' AND value = ?2))",
        (agent_id, seq),
    )
    return row is not None
