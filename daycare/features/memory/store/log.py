"""The log of what was said: each turn that has ended gets into it once, in whatever order turns end.

The numbers of logged turns are kept as ranges. Between two of them lie turns that are still open or set aside, which
are few, so a look at what is new reads nothing else. A turn's own commit has nothing to do with it.
"""

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from itertools import count
from typing import Final, NamedTuple

import apsw
import msgspec

from daycare.base.errors import BusyError, ConflictError
from daycare.base.memories import NewMemory
from daycare.base.messages import Message
from daycare.features.memory.store.records import EndedTurn, NewVector, NewVectors
from daycare.features.memory.store.stored import hash_of, insert
from daycare.features.memory.store.vectors import keep_vectors
from daycare.store.sqlite.rows import Rows
from daycare.store.sqlite.sql import fetch, those
from daycare.store.sqlite.writer import Tx

_LAST: Final = 2**62
_decode = msgspec.json.Decoder(tuple[Message, ...]).decode


class MemoryLog(Rows):
    """What becomes of turns that have ended."""

    async def unlogged(self, limit: int) -> list[EndedTurn]:
        """Return ended turns that are not in the log, those of one agent in the order in which they ended."""
        return _unlogged(self._reader, limit)

    async def log(
        self, turns: Sequence[EndedTurn], entries: Sequence[NewMemory], vectors: NewVectors | None = None
    ) -> list[int]:
        """Keep what was said in these turns and count them as logged, together; return the entries' numbers.

        `vectors` are those of the entries, where they are known already. If they do not fit the model's others, the
        entries are kept without. Idempotent: entries of a turn that is logged already, or whose words were forgotten
        meanwhile, are left out (number 0). A turn may have no entries. Raises `ConflictError` for a turn that has not
        ended.
        """
        size = sum(len(it.text) for it in entries) + (sum(map(len, vectors.data)) if vectors else 0)
        return await self._write(lambda tx: _log(tx, turns, entries, vectors), size)


class _Ended(NamedTuple):
    """A turn that has ended; `next_ms` is when the agent's next turn began, none if there is no next one."""

    turn: int
    agent_id: str
    session: int
    ended_at: int
    next_ms: int | None


def _unlogged(db: apsw.Connection, limit: int) -> list[EndedTurn]:
    gaps = _gaps(db)
    for size in (limit * 4**more for more in count()):
        window: list[_Ended] = []
        for first, last in gaps:
            rows = fetch(
                db,
                "SELECT turn, agent_id, session, ended_at, (SELECT started_at FROM turns n WHERE n.agent_id ="
                " history.agent_id AND n.turn > history.turn ORDER BY n.turn LIMIT 1)"
                " FROM history WHERE turn BETWEEN ? AND ? ORDER BY turn LIMIT ?",
                (first, last, size - len(window)),
            )
            window += (_Ended(*row) for row in rows)
            if len(window) == size:
                break
        seen = {it.turn for it in window}
        ready = [it for it in window if not _goes_before(db, it, gaps, seen)]
        if ready or len(window) < size:
            break  # else all wait for turns outside of the window
    ready.sort(key=lambda it: (it.ended_at, it.turn))
    return _with_messages(db, ready[:limit])


def _gaps(db: apsw.Connection) -> list[tuple[int, int]]:
    """Return the ranges of turns that are not in the log; the last one is open."""
    gaps = []
    free = 1
    for first, last in fetch(db, "SELECT first, last FROM memory_logged ORDER BY first"):
        if first > free:
            gaps.append((free, first - 1))
        free = last + 1
    return [*gaps, (free, _LAST)]


def _goes_before(db: apsw.Connection, it: _Ended, gaps: Iterable[tuple[int, int]], seen: Collection[int]) -> bool:
    """Return whether another turn of the agent, which is not `seen`, ended earlier and is not in the log yet.

    Only one that was set aside ends after the next one has begun.
    """
    if it.next_ms is None or it.next_ms >= it.ended_at:
        return False
    earlier = fetch(
        db,
        "SELECT turn FROM turns JOIN history h USING (turn) WHERE turns.agent_id = ? AND turn > ? AND h.ended_at < ?",
        (it.agent_id, it.turn, it.ended_at),
    )
    return any(other not in seen and any(first <= other <= last for first, last in gaps) for (other,) in earlier)


def _with_messages(db: apsw.Connection, turns: Sequence[_Ended]) -> list[EndedTurn]:
    rows = fetch(
        db,
        "SELECT turn, unpacked(h.messages), t.trace FROM history h JOIN turns t USING (turn)"
        " WHERE turn IN (SELECT value FROM carray(?))",
        (those(it.turn for it in turns),),
    )
    found = {turn: (messages, trace) for turn, messages, trace in rows}
    return [
        EndedTurn(
            turn=it.turn,
            agent_id=it.agent_id,
            session=it.session,
            ended_at=it.ended_at,
            trace=found[it.turn][1],
            messages=_decode(found[it.turn][0]),
        )
        for it in turns
    ]


def _log(tx: Tx, turns: Sequence[EndedTurn], entries: Sequence[NewMemory], vectors: NewVectors | None) -> list[int]:
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
    if vectors is not None:
        each = zip(found, entries, vectors.data, strict=True)
        with suppress(ConflictError, BusyError):  # the model's vectors are others by now: these are made later
            keep_vectors(
                tx,
                vectors.model,
                vectors.dimensions,
                [NewVector(no, hash_of(it.text).hex(), data) for no, it, data in each if no],
            )
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
