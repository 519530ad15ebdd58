"""Inbox rows as the open transaction sees them: insert, complete, bury."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from daycare.base.causes import NOBODY_IN_PARTICULAR, Cause, of_earlier
from daycare.base.messages import Envelope, EnvelopeKind, File, Lane, Origin, Origins, Told
from daycare.store.records import InboxRow, Receipt
from daycare.store.sqlite import letters
from daycare.store.sqlite.facts import MessageEnded
from daycare.store.sqlite.sql import Select
from daycare.store.sqlite.writer import Tx

_COLUMNS: Final = "seq, agent_id, key, lane, kind, path, user, origin, sender, trace, attempts, created_at, text, extra"


WAITING, DONE, DEAD, HELD = range(4)  # a row's state


class _Extra(msgspec.Struct, omit_defaults=True):
    chain: tuple[str, ...] = ()
    via: tuple[str, ...] = ()
    files: tuple[File, ...] = ()
    reply_target: str | None = None
    cause: Cause | None = None
    origins: Origins = None
    told: Told | None = None
    meta: dict[str, str] = {}  # what earlier versions kept instead of a cause


_PLAIN = msgspec.structs.astuple(_Extra())[:-1]
_encode = msgspec.json.Encoder().encode
_decode_extra = msgspec.json.Decoder(_Extra).decode


def insert(tx: Tx, agent_id: str, envelope: Envelope) -> Receipt | None:
    """Insert a message whose agent lives; None if its key is known."""
    seq = tx.insert(
        "INSERT INTO inbox (agent_id, key, lane, kind, path, user, origin, sender, trace, created_at, text, extra)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (
            agent_id,
            envelope.key,
            envelope.lane,
            envelope.kind,
            envelope.to,
            envelope.user,
            envelope.origin,
            envelope.sender,
            envelope.trace,
            tx.now,
            envelope.text,
            _extra(envelope),
        ),
    )
    if seq is None:
        return None
    tx.memory.count_unread(agent_id, 1)
    tx.commit.posted.append(InboxRow(seq, agent_id, envelope, 0, tx.now))
    return Receipt(seq, agent_id, trace=envelope.trace, path=envelope.to)


def insert_dead(tx: Tx, agent_id: str, envelope: Envelope, reason: str) -> Receipt:
    """Insert a message that its inbox has no room for as one that was given up; its key is known from now on."""
    receipt = insert(tx, agent_id, envelope)
    assert receipt is not None, "a known key is answered before the room is looked at"
    tx.commit.posted.pop()  # nobody is to read it
    complete(tx, agent_id, [receipt.seq], None, reason, dead=True)
    return receipt


def complete(tx: Tx, agent_id: str, seqs: Sequence[int], turn: int | None, result: str, *, dead: bool = False) -> int:
    """Mark rows of one agent done (or dead); keep key and result, drop the text: history or dead letter has it.

    Return how many of them were still waiting.
    """
    changed = 0
    for seq in seqs:
        if tx.changes_one(
            "UPDATE inbox SET state = ?, turn = ?, done_at = ?, result = packed(?), text = NULL, extra = NULL"
            " WHERE seq = ? AND state = 0",
            (2 if dead else 1, turn, tx.now, result, seq),
        ):
            changed += 1
            tx.commit.completed.append((seq, None if dead else result))
            if turn is not None:
                tx.commit.answered[seq] = turn
            tx.tell(MessageEnded(seq, turn, result, dead))
            tx.memory.count_unread(agent_id, -1)
    return changed


def reword(tx: Tx, seq: int, envelope: Envelope) -> bool:
    """Give a message that waits to be heard its words, and what it is by now; False if it was heard, or is gone."""
    tx.run(
        "UPDATE inbox SET kind = ?, lane = ?, text = ?, extra = ? WHERE seq = ? AND state = 0 AND kind = ?",
        (str(envelope.kind), envelope.lane, envelope.text, _extra(envelope), seq, str(EnvelopeKind.VOICE)),
    )
    if not tx.db.changes():
        return False
    tx.commit.reworded += waiting_rows(tx, [seq])
    return True


def waiting_rows(tx: Tx, seqs: Sequence[int], *, held: bool = False) -> list[InboxRow]:
    """Return those of the rows that still wait (or are held), in order, as the open transaction sees them."""
    state = 3 if held else 0
    found = (ROWS.one(tx.db, "seq = ? AND state = ?", (seq, state)) for seq in sorted(seqs))
    return [row for row in found if row is not None]


def told_to_end_by(tx: Tx, agent_id: str, sender: str) -> bool:
    """Return whether a dismissal by the agent at the path `sender` waits for an agent."""
    found = tx.one(
        "SELECT 1 FROM inbox WHERE agent_id = ? AND state = 0 AND kind = ? AND sender = ?",
        (agent_id, str(EnvelopeKind.DISMISS), sender),
    )
    return found is not None


def bury_message(tx: Tx, seq: int, code: str, reason: str, attempts: int) -> Envelope | None:
    """Move one waiting inbox row to the dead letters and return it; None if it no longer waits."""
    rows = waiting_rows(tx, [seq])
    if not rows:
        return None
    envelope = rows[0].envelope
    complete(tx, rows[0].agent_id, [seq], None, reason, dead=True)
    letters.bury(tx, "inbox", seq, rows[0].agent_id, envelope, code, reason, attempts)
    return envelope


def _extra(envelope: Envelope) -> str | None:
    """Return what else there is of an envelope as JSON, None for nothing."""
    cause = envelope.cause if envelope.cause != NOBODY_IN_PARTICULAR else None
    more = envelope.chain, envelope.via, envelope.files, envelope.reply_target, cause, envelope.origins, envelope.told
    return _encode(_Extra(*more)).decode() if more != _PLAIN else None


def _row(row: tuple[Any, ...]) -> InboxRow:
    seq, agent_id, key, lane, kind, path, user, origin, sender, trace, attempts, created_at, text, extra = row
    more = _decode_extra(extra) if extra else _Extra()
    envelope = Envelope(
        to=path,
        user=user,
        origin=Origin(origin),
        sender=sender,
        key=key,
        text=text or "",
        trace=trace,
        kind=EnvelopeKind(kind),
        lane=Lane(lane),
        agent_id=agent_id,
        chain=more.chain,
        via=more.via,
        files=more.files,
        reply_target=more.reply_target,
        cause=of_earlier(more.meta, origin, kind, sender) if more.meta else more.cause,
        origins=more.origins,
        told=more.told,
    )
    return InboxRow(seq, agent_id, envelope, attempts, created_at)


ROWS: Final = Select(_COLUMNS, "inbox", _row)
