"""Durable timers: an envelope that is posted at a wall time, once."""

from typing import Any

import apsw
import msgspec

from daycare.base.errors import BusyError, ConflictError, DaycareError, NotFoundError
from daycare.base.events import TimerCancelled, TimerSet
from daycare.base.limits import TIMERS_MAX_PER_AGENT
from daycare.base.messages import Envelope, Lane, read_envelope
from daycare.store.records import NewTimer, Timer
from daycare.store.sqlite import inbox, letters
from daycare.store.sqlite.facts import TimersMoved
from daycare.store.sqlite.writer import Tx, Writer

_encode = msgspec.json.Encoder().encode


class Timers:
    """Envelopes that are posted at a wall time, once."""

    def __init__(self, writer: Writer, reader: apsw.Connection) -> None:
        self._write = writer.write
        self._reader = reader

    async def add(self, timer: NewTimer) -> int:
        """Set a timer and return its number; idempotent on (agent, key) while it has not fired.

        Raises `BusyError` at `TIMERS_MAX_PER_AGENT`.
        """
        return await self._write(lambda tx: add(tx, timer))

    async def next_due(self) -> int | None:
        """Return the wall time in ms of the earliest timer, of this node's users."""
        row = self._reader.execute(
            "SELECT due_at FROM timers WHERE due_at >= 0 /* nodes: AND mine(user) */ ORDER BY due_at LIMIT 1"
        ).fetchone()
        return None if row is None else int(row[0])

    async def fire(self, now_ms: int, limit: int) -> int:
        """Post what is due by `now_ms`, soonest first, and delete it, together; return how many fired.

        That is of this node's users. What an inbox refuses becomes a dead letter; so a timer never stands in the way of
        the next.
        """
        return await self._write(lambda tx: _fire(tx, now_ms, limit))

    async def rewind(self, now_ms: int) -> int:
        """Let what was set later than now, by a clock that was ahead, have been set now; return how many timers.

        It is about deadlines of this node's users, such as of an answer or a task, which wait for as long again. A
        message that somebody wants at a time, such as a reminder, stays at that time.
        """
        return await self._write(lambda tx: _rewind(tx, now_ms))

    async def find(
        self,
        agent_id: str | None = None,
        limit: int = 100,
        *,
        user: str | None = None,
        behind: tuple[int, int] = (0, 0),
    ) -> list[Timer]:
        """Return timers that have not fired, soonest first, from behind one on, of which (due_at, no) is given."""
        rows = self._reader.execute(
            "SELECT no, agent_id, due_at, envelope FROM timers WHERE (?1 IS NULL OR agent_id = ?1)"
            " AND (?2 IS NULL OR user = ?2) AND (due_at, no) > (?3, ?4) ORDER BY due_at, no LIMIT ?5",
            (agent_id, user, *behind, limit),
        )
        return [_timer(row) for row in rows]

    async def cancel(self, no: int) -> Timer:
        """Delete a timer with a message that somebody wants at a time, such as a reminder, and return it.

        Raises `NotFoundError`, also once it has fired, and `ConflictError` for a deadline, which others rely on.
        """
        return await self._write(lambda tx: _cancel(tx, no))


def add(tx: Tx, timer: NewTimer) -> int:
    """Insert a timer unless its agent has one with this key."""
    known = tx.one("SELECT no FROM timers WHERE agent_id = ? AND key = ?", (timer.agent_id, timer.key))
    if known is not None:
        return int(known[0])
    count = tx.one("SELECT count(*) FROM timers WHERE agent_id = ?", (timer.agent_id,))
    if count and count[0] >= TIMERS_MAX_PER_AGENT:
        raise BusyError(
            "TIMERS_MAX", f"setting a timer for {timer.envelope.to}: it has {count[0]} already", hint="let some fire"
        )
    return insert(tx, timer.agent_id, timer.key, timer.due_at, timer.envelope)


def insert(tx: Tx, agent_id: str, key: str, due_at: int, envelope: Envelope) -> int:
    """Insert a timer however many there are; one with this key is replaced. Return its number."""
    tx.run(
        "INSERT OR REPLACE INTO timers (agent_id, key, user, origin, due_at, envelope, created_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (agent_id, key, envelope.user, str(envelope.origin), due_at, _encode(envelope).decode(), tx.now),
    )
    tx.commit.timers = True
    no = tx.db.last_insert_rowid()
    if envelope.lane is not Lane.CONTROL:  # a deadline is part of what waits, which has events of its own
        tx.commit.events.append(TimerSet(**_about(tx, agent_id, envelope), timer=no, due_at=due_at))
    return no


def _cancel(tx: Tx, no: int) -> Timer:
    row = tx.one("SELECT no, agent_id, due_at, envelope FROM timers WHERE no = ?", (no,))
    if row is None:
        raise NotFoundError(
            "TIMER_UNKNOWN", f"cancelling timer {no}: there is none, or it has fired", hint="daycare timers list"
        )
    timer = _timer(row)
    it = timer.envelope
    if it.lane is Lane.CONTROL:
        raise ConflictError(
            "TIMER_DEADLINE",
            f"cancelling timer {no}: it is a deadline of {it.to}, which others rely on",
            hint="daycare task cancel NAME ends a task",
        )
    tx.run("DELETE FROM timers WHERE no = ?", (no,))
    tx.commit.events.append(TimerCancelled(**_about(tx, timer.agent_id, it), timer=no))
    return timer


def _about(tx: Tx, agent_id: str, it: Envelope) -> dict[str, Any]:
    return {"at_ms": tx.now, "path": it.to, "user": it.user, "agent_id": agent_id, "trace": it.trace}


def _fire(tx: Tx, now_ms: int, limit: int) -> int:
    rows = tx.db.execute(
        "SELECT no, agent_id, user, origin, envelope FROM timers WHERE due_at <= ?"
        " /* nodes: AND mine(user) */ ORDER BY due_at, no LIMIT ?",
        (now_ms, limit),
    ).fetchall()
    for no, agent_id, user, origin, text in rows:
        try:
            envelope = read_envelope(str(text))
        except msgspec.DecodeError as damage:
            what = f"a timer of agent {agent_id} cannot be read: {damage}"
            letters.insert(tx, "timer", no, agent_id, "", user, origin, "", "TIMER_UNREADABLE", what, 1, text)
        else:
            _post(tx, no, agent_id, envelope)
        tx.run("DELETE FROM timers WHERE no = ?", (no,))
    return len(rows)


def _post(tx: Tx, no: Any, agent_id: Any, envelope: Envelope) -> None:
    try:
        inbox.post(tx, envelope)
    except DaycareError as refused:
        letters.bury(tx, "timer", no, agent_id, envelope, refused.code, refused.message, 1)


def _rewind(tx: Tx, now_ms: int) -> int:
    tx.run(
        # On the control lane are deadlines; messages are reminders, and those of apps.
        "UPDATE timers SET due_at = due_at - created_at + ?1, created_at = ?1"
        " WHERE created_at > ?1 AND envelope ->> 'lane' = ?2 /* nodes: AND mine(user) */",
        (now_ms, int(Lane.CONTROL)),
    )
    moved = tx.db.changes()
    tx.tell(TimersMoved(now_ms))
    return moved


def _timer(row: tuple[Any, ...]) -> Timer:
    return Timer(no=row[0], agent_id=row[1], due_at=row[2], envelope=read_envelope(row[3]))
