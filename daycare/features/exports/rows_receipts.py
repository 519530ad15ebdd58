"""Messages that an agent has answered, in exports and imports: without their words, so that a repeat is still known."""

from typing import Any, Final

from daycare.base.limits import EXPORT_TURNS_MAX
from daycare.base.messages import EnvelopeKind, Lane, Origin
from daycare.features.exports.records import ArrivingAgent, ReceiptRecord
from daycare.store.records_conversations import APART
from daycare.store.sqlite.mailbox import DONE
from daycare.store.sqlite.writer import Tx

# Over `temp.exported` and the places that a snapshot has made.
SELECT: Final = (
    "SELECT e.place, i.key, i.lane, i.kind, i.origin, i.sender, coalesce(p.place, 0), coalesce(tr.place, 0),"
    " i.created_at, i.done_at, coalesce(unpacked(i.result), '') FROM (SELECT * FROM inbox WHERE state ="
    f" {DONE} AND agent_id IN (SELECT id FROM exported) ORDER BY seq DESC LIMIT {EXPORT_TURNS_MAX}) i"
    " JOIN exported e ON e.id = i.agent_id LEFT JOIN turn_places p ON p.turn = i.turn"
    " LEFT JOIN trace_places tr ON tr.trace = i.trace"
    f" WHERE NOT EXISTS (SELECT 1 FROM turns t WHERE t.turn = i.turn AND t.session <= {APART}) ORDER BY i.seq"
)


def read(row: tuple[Any, ...]) -> ReceiptRecord:
    """Return what a row of `SELECT` says."""
    agent, key, lane, kind, origin, sender, turn, trace, created_at, done_at, result = row
    return ReceiptRecord(
        agent=agent,
        key=key,
        lane=Lane(lane),
        kind=EnvelopeKind(kind),
        origin=Origin(origin),
        sender=sender,
        turn=turn,
        trace=trace,
        created_at=created_at,
        done_at=done_at,
        result=result,
    )


def add(tx: Tx, agent: ArrivingAgent, user: str, record: ReceiptRecord, turn: int | None, trace: str) -> None:
    """Let a message be one that was answered; `turn` and `trace` are as they are here."""
    tx.run(
        "INSERT INTO inbox (agent_id, key, lane, state, kind, path, user, origin, sender, trace, turn, created_at,"
        " done_at, result) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, packed(?)) ON CONFLICT DO NOTHING",
        (
            agent.id,
            record.key,
            record.lane,
            DONE,
            str(record.kind),
            agent.path,
            user,
            str(record.origin),
            record.sender,
            trace,
            turn,
            record.created_at,
            record.done_at,
            record.result,
        ),
    )
