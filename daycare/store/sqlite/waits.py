"""Turns that are set aside until an answer comes, as the open transaction sees them.

set_aside: its rows are held, a timer is set for each answer | a RESULT comes | begin: the turn goes on under a new
number, with its journal, its rows and the answer's.
"""

from collections.abc import Sequence

from daycare.base.causes import Answer
from daycare.base.messages import Envelope, EnvelopeKind, Lane, Origin
from daycare.store.records import Agent, InboxRow, Step, Turn
from daycare.store.sqlite import journal, mailbox, timers
from daycare.store.sqlite.writer import Tx

_WAITING, _HELD = 0, 3


def set_aside(tx: Tx, agent: Agent, turn: Turn, steps: Sequence[Step]) -> None:
    """Let the turn wait for the answers to these steps; its agent is free for others."""
    for step in steps:
        tx.run(
            "INSERT INTO waits (key, agent_id, turn, user, origin, aside) VALUES (?, ?, ?, ?, ?, 1)"
            " ON CONFLICT (key) DO UPDATE SET turn = excluded.turn, aside = 1",
            (step.wait, agent.id, turn.turn, agent.user, str(agent.origin)),
        )
        timers.insert(tx, agent.id, _late_key(step.wait), step.wait_until, _late(agent, turn, step))
    _change(tx, agent.id, journal.seqs_of(tx, turn), _WAITING, _HELD)


def awaited_by(tx: Tx, agent_id: str, key: str) -> int | None:
    """Return the turn that was set aside for an answer, if it still is."""
    row = tx.one("SELECT turn FROM waits WHERE key = ? AND agent_id = ? AND aside = 1", (key, agent_id))
    return None if row is None else int(row[0])


def go_on(tx: Tx, old: Turn, new: int) -> None:
    """Give what a turn has that was set aside to a new one: its rows, steps and open answers."""
    _change(tx, old.agent_id, journal.seqs_of(tx, old), _HELD, _WAITING)
    journal.move(tx, old.turn, new)
    tx.run("UPDATE waits SET turn = ?, aside = 0 WHERE turn = ?", (new, old.turn))


def answered(tx: Tx, key: str) -> None:
    """Forget a wait whose answer is journaled."""
    row = tx.one("DELETE FROM waits WHERE key = ? RETURNING agent_id", (key,))
    if row is not None:
        tx.run("DELETE FROM timers WHERE agent_id = ? AND key = ?", (row[0], _late_key(key)))


def give_up(tx: Tx, turn: Turn) -> None:
    """Forget what a turn waits for: it ends. Its rows wait again, for the end to complete or bury them."""
    keys = [str(row[0]) for row in tx.db.execute("SELECT key FROM waits WHERE turn = ?", (turn.turn,)).fetchall()]
    for key in keys:
        answered(tx, key)
    if turn.state == "waiting":
        _change(tx, turn.agent_id, journal.seqs_of(tx, turn), _HELD, _WAITING)


def turns_aside(tx: Tx, agent_id: str) -> list[int]:
    """Return the numbers of an agent's turns that were set aside, in order."""
    rows = tx.db.execute(
        "SELECT DISTINCT turn FROM waits WHERE agent_id = ? AND aside = 1 ORDER BY turn", (agent_id,)
    ).fetchall()
    return [int(str(row[0])) for row in rows]


def unread(tx: Tx, turn: Turn, steps: Sequence[Step]) -> list[InboxRow]:
    """Return the answers to a turn's calls that have come after it began, and were not read."""
    keys = {step.wait for step in steps if step.state == "waiting"}
    if not keys:
        return []
    rows = tx.db.execute(
        "SELECT seq FROM inbox WHERE agent_id = ? AND state = 0 AND kind = ? ORDER BY seq",
        (turn.agent_id, str(EnvelopeKind.RESULT)),
    ).fetchall()
    found = mailbox.waiting_rows(tx, [int(str(seq)) for (seq,) in rows if seq not in turn.seqs])
    return [row for row in found if row.envelope.answers is not None and row.envelope.answers.wait in keys]


def _change(tx: Tx, agent_id: str, seqs: Sequence[int], before: int, after: int) -> None:
    changed = 0
    for seq in set(seqs):
        tx.run("UPDATE inbox SET state = ? WHERE seq = ? AND state = ?", (after, seq, before))
        changed += tx.db.changes()
    tx.memory.count_unread(agent_id, changed if after == _WAITING else -changed)


def _late_key(key: str) -> str:
    return f"late:{key}"


def _late(agent: Agent, turn: Turn, step: Step) -> Envelope:
    return Envelope(
        to=agent.path,
        agent_id=agent.id,
        user=agent.user,
        origin=Origin.SYSTEM,
        sender="system",
        key=_late_key(step.wait),
        text=f"no answer came to {step.name} in time; it may still come as a message",
        trace=turn.trace,
        kind=EnvelopeKind.RESULT,
        lane=Lane.CONTROL,
        cause=Answer(step.wait, late=True),
        origins=(),
    )
