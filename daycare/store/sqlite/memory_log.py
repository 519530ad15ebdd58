"""The log of what was said: each turn that has ended gets into it once, in whatever order turns end.

The numbers of logged turns are kept as ranges. Between two of them lie turns that are still open or set aside, which
are few, so a look at what is new reads nothing else. A turn's own commit has nothing to do with it.
"""

from collections.abc import Collection, Iterable, Sequence
from itertools import count
from typing import Final

import apsw
import msgspec

from daycare.base.errors import ConflictError
from daycare.base.messages import Message
from daycare.store.records_memories import EndedTurn, NewMemory
from daycare.store.sqlite.memory_part import Part
from daycare.store.sqlite.memory_rows import fetch, insert, those
from daycare.store.sqlite.writer import Tx

_LAST: Final = 2**62
_decode = msgspec.json.Decoder(tuple[Message, ...]).decode


class MemoryLog(Part):
    """What becomes of turns that have ended."""

    async def unlogged(self, limit: int) -> list[EndedTurn]:
        """Return ended turns that are not in the log."""
        return _unlogged(self._reader, limit)

    async def log(self, turns: Sequence[EndedTurn], entries: Sequence[NewMemory]) -> list[int]:
        """Keep what was said in these turns and count them as logged, together."""
        return await self._write(lambda tx: _log(tx, turns, entries), sum(len(it.text) for it in entries))


def _unlogged(db: apsw.Connection, limit: int) -> list[EndedTurn]:
    gaps = _gaps(db)
    for size in (limit * 4**more for more in count()):
        window: list[tuple[int, str, int, int]] = []
        for first, last in gaps:
            window += fetch(
                db,
                "SELECT turn, agent_id, session, ended_at FROM history WHERE turn BETWEEN ? AND ?"
                " ORDER BY turn LIMIT ?",
                (first, last, size - len(window)),
            )
            if len(window) == size:
                break
        seen = {turn for turn, *_ in window}
        ready = [row for row in window if not _goes_before(db, row, gaps, seen)]
        if ready or len(window) < size:
            break  # else all wait for turns outside of the window
    ready.sort(key=lambda row: (row[3], row[0]))
    return [_ended(db, row) for row in ready[:limit]]


def _gaps(db: apsw.Connection) -> list[tuple[int, int]]:
    """Return the ranges of turns that are not in the log; the last one is open."""
    gaps = []
    free = 1
    for first, last in fetch(db, "SELECT first, last FROM memory_logged ORDER BY first"):
        if first > free:
            gaps.append((free, first - 1))
        free = last + 1
    return [*gaps, (free, _LAST)]


def _goes_before(
    db: apsw.Connection, row: tuple[int, str, int, int], gaps: Iterable[tuple[int, int]], seen: Collection[int]
) -> bool:
    """Return whether another turn of the agent, which is not `seen`, ended earlier and is not in the log yet.

    Only one that was set aside ends after the next one has begun.
    """
    turn, agent_id, _, ended_at = row
    following = db.execute(
        "SELECT started_at FROM turns WHERE agent_id = ? AND turn > ? ORDER BY turn LIMIT 1", (agent_id, turn)
    ).fetchone()
    if following is None or int(str(following[0])) >= ended_at:
        return False
    earlier = fetch(
        db,
        "SELECT turn FROM turns JOIN history h USING (turn) WHERE turns.agent_id = ? AND turn > ? AND h.ended_at < ?",
        (agent_id, turn, ended_at),
    )
    return any(other not in seen and any(first <= other <= last for first, last in gaps) for (other,) in earlier)


def _ended(db: apsw.Connection, row: tuple[int, str, int, int]) -> EndedTurn:
    turn, agent_id, session, ended_at = row
    found = db.execute(
        "SELECT h.messages, t.trace FROM history h JOIN turns t USING (turn) WHERE h.turn = ?", (turn,)
    ).fetchone()
    assert found is not None, f"turn {turn} has ended and is never deleted"
    return EndedTurn(
        turn=turn,
        agent_id=agent_id,
        session=session,
        ended_at=ended_at,
        trace=str(found[1]),
        messages=_decode(str(found[0])),
    )


def _log(tx: Tx, turns: Sequence[EndedTurn], entries: Sequence[NewMemory]) -> list[int]:
    new = _not_logged(tx, {it.turn for it in turns})
    open_ = fetch(
        tx.db,
        "SELECT value FROM carray(?) WHERE NOT EXISTS (SELECT 1 FROM history WHERE turn = value)",
        (those(new),),
    )
    if new and open_:
        raise ConflictError("TURN_OPEN", f"logging turn {open_[0][0]}: it has not ended")
    gone = fetch(tx.db, "SELECT turn FROM forgotten_turns WHERE turn IN (SELECT value FROM carray(?))", (those(new),))
    kept = set(new) - {turn for (turn,) in gone}
    numbers = iter(insert(tx, [it for it in entries if it.turn in kept]))
    found = [next(numbers) if it.turn in kept else 0 for it in entries]
    by_agent: dict[str, list[tuple[int, NewMemory]]] = {}
    for no, it in zip(found, entries, strict=True):
        if no:
            by_agent.setdefault(it.agent_id, []).append((no, it))
    for mine in by_agent.values():
        _count(tx, mine[0][0], mine[-1][0], mine[-1][1])
    for first, last in _runs(new):
        _mark(tx, first, last)
    return found


def _count(tx: Tx, first: int, last: int, it: NewMemory) -> None:
    """Let what is known of an agent's log include its new entries; `it` is one of them."""
    tx.run(
        "INSERT INTO memory_marks (agent_id, user, origin, newest, oldest, oldest_at) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT DO UPDATE SET newest = excluded.newest,"
        " oldest_at = CASE oldest WHEN 0 THEN excluded.oldest_at ELSE oldest_at END,"
        " oldest = CASE oldest WHEN 0 THEN excluded.oldest ELSE oldest END",
        (it.agent_id, it.user, it.origin.value, last, first, tx.now),
    )


def _not_logged(tx: Tx, turns: set[int]) -> list[int]:
    """Return those of the turns that are in no range, in order."""
    if not turns:
        return []
    ranges = fetch(
        tx.db, "SELECT first, last FROM memory_logged WHERE first <= ? AND last >= ?", (max(turns), min(turns))
    )
    return sorted(turn for turn in turns if not any(first <= turn <= last for first, last in ranges))


def _runs(turns: Sequence[int]) -> list[tuple[int, int]]:
    """Return numbers in order as ranges."""
    runs: list[tuple[int, int]] = []
    for turn in turns:
        if runs and turn == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], turn)
        else:
            runs.append((turn, turn))
    return runs


def _mark(tx: Tx, first: int, last: int) -> None:
    """Add a range, which becomes one with those that it touches."""
    before = tx.one("DELETE FROM memory_logged WHERE last = ? RETURNING first", (first - 1,))
    after = tx.one("DELETE FROM memory_logged WHERE first = ? RETURNING last", (last + 1,))
    tx.run(
        "INSERT INTO memory_logged (first, last) VALUES (?, ?)",
        (before[0] if before else first, after[0] if after else last),
    )
