"""Dead letters: what was given up on, with its reason, until it is replayed or pruned."""

from typing import Any, Final

import apsw
import msgspec
from msgspec.structs import replace

from daycare.base.errors import ConflictError, NotFoundError
from daycare.base.events import DeadPruned, DeadReplayed
from daycare.base.messages import read_envelope
from daycare.store.records import DeadLetter
from daycare.store.records_upkeep import DeadFilter, DroppedLetters
from daycare.store.sqlite import inbox, outbox, turns
from daycare.store.sqlite.database import counted
from daycare.store.sqlite.letters import LETTERS
from daycare.store.sqlite.sql import fetch, those
from daycare.store.sqlite.writer import Tx, Writer

_ALL: Final = DeadFilter()
_FITS: Final = (
    "(?1 IS NULL OR path = ?1) AND (?2 IS NULL OR user = ?2) AND (?3 IS NULL OR code = ?3)"
    " AND (?4 IS NULL OR source = ?4) AND (NOT ?5 OR replayed_at IS NULL)"
    " AND (?6 OR no IN (SELECT value FROM carray(?7)))"
)


class DeadLetters:
    """What was given up on, until it is replayed or pruned; at most `DEAD_LETTERS_MAX` in all.

    Past that the oldest make room of whoever has most, a person or group with everybody below: nobody pushes out those
    of others who have less.
    """

    def __init__(self, writer: Writer, reader: apsw.Connection) -> None:
        self._write = writer.write
        self._reader = reader

    async def find(self, which: DeadFilter = _ALL, *, before: int | None = None, limit: int = 100) -> list[DeadLetter]:
        """Return the newest dead letters first, beginning below number `before`."""
        at = "" if which.path is None else "path = ?1 AND "  # has an index
        bindings = (*_bound(which), 2**63 - 1 if before is None else before, limit)
        return LETTERS.find(self._reader, f"{at}{_FITS} AND no < ?8 ORDER BY no DESC LIMIT ?9", bindings)

    async def waiting(self, which: DeadFilter, *, after: int, limit: int) -> list[int]:
        """Return numbers of dead letters that nobody has replayed, the oldest first, from behind `after` on."""
        found = fetch(
            self._reader,
            f"SELECT no FROM dead_letters WHERE {_FITS} AND no > ?8 ORDER BY no LIMIT ?9",
            (*_bound(replace(which, waiting=True)), after, limit),
        )
        return [int(no) for (no,) in found]

    async def get(self, no: int) -> DeadLetter | None:
        """Return one dead letter."""
        return LETTERS.one(self._reader, "no = ?", (no,))

    async def replay(self, no: int) -> int:
        """Queue it again, behind what waits now, and return its new inbox or outbox number.

        Happens once: a repeat raises `ConflictError`. A refused one (`NotFoundError`, `BusyError`) may be tried again.
        """
        return await self._write(lambda tx: _replay(tx, no))

    async def replay_turn(self, agent_id: str, turn: int) -> int:
        """Queue again, in order, what an agent's turn was given up with and nobody has replayed; return how many.

        All or nothing; raises as `replay` does. A repeat finds nothing more.
        """
        return await self._write(lambda tx: _replay_turn(tx, agent_id, turn))

    async def prune(self, which: DeadFilter = _ALL, *, before_ms: int | None = None) -> int:
        """Delete dead letters, older than `before_ms` where that is given; return how many.

        Where all that are older go, what is known of those dropped before goes, too.
        """

        def run(tx: Tx) -> int:
            older = 2**63 - 1 if before_ms is None else before_ms
            if which == _ALL:
                tx.run("DELETE FROM dropped_letters WHERE last_at < ?", (older,))
            tx.run(f"DELETE FROM dead_letters WHERE {_FITS} AND created_at < ?8", (*_bound(which), older))
            deleted = tx.db.changes()
            tx.memory.count_letters(tx.db)
            if deleted:
                tx.commit.events.append(DeadPruned(at_ms=tx.now, letters=deleted))
            return deleted

        return await self._write(run)

    async def dropped(self) -> list[DroppedLetters]:
        """Return whose dead letters made room, and how many since they were last pruned; those with most first."""
        rows = self._reader.execute(
            "SELECT user, letters, first_at, last_at FROM dropped_letters ORDER BY letters DESC, user LIMIT 100"
        )
        return [DroppedLetters(str(user), *(int(str(number)) for number in numbers)) for user, *numbers in rows]

    async def count(self) -> int:
        """Return how many dead letters wait for a decision."""
        return counted(self._reader, "dead.waiting")


def _bound(which: DeadFilter) -> tuple[Any, ...]:
    """Return what is bound in `_FITS`."""
    return which.path, which.user, which.code, which.source, which.waiting, not which.numbers, those(which.numbers)


def _replay_turn(tx: Tx, agent_id: str, turn: int) -> int:
    seqs = turns.seqs_of(tx, agent_id, turn)
    rows = tx.db.execute(
        "SELECT no FROM dead_letters WHERE source = 'inbox' AND agent_id = ? AND replayed_at IS NULL"
        " AND seq IN (SELECT CAST(value AS BIGINT) FROM json_each(?)) ORDER BY seq",
        (agent_id, msgspec.json.encode(seqs).decode()),
    ).fetchall()
    for row in rows:
        _replay(tx, int(str(row[0])))
    return len(rows)


def _replay(tx: Tx, no: int) -> int:
    it = LETTERS.one(tx.db, "no = ?", (no,))
    if it is None:
        raise NotFoundError("DEAD_UNKNOWN", f"replaying dead letter {no}: there is none", hint="daycare dead list")
    if it.replayed_at is not None:
        raise ConflictError(
            "DEAD_REPLAYED", f"replaying dead letter {no}: that was done before", hint="daycare dead list"
        )
    if it.source == "intake":
        raise ConflictError(
            "DEAD_UNREADABLE", f"replaying dead letter {no}: it could not be read", hint=f"daycare dead show {no}"
        )
    if it.source == "outbox":
        seq = outbox.revive(tx, it.seq)
    else:
        # A pruned letter's number comes back; with its time the key does not.
        key = f"replay:{no}:{it.created_at}"
        try:
            envelope = read_envelope(it.body)
        except msgspec.DecodeError as damage:
            what = f"replaying dead letter {no}: it cannot be read ({damage})"
            raise ConflictError("DEAD_UNREADABLE", what, hint=f"daycare dead show {no}") from damage
        seq = inbox.post(tx, replace(envelope, key=key)).seq
    tx.run("UPDATE dead_letters SET replayed_at = ? WHERE no = ?", (tx.now, no))
    about: dict[str, Any] = {
        "at_ms": tx.now,
        "path": it.path,
        "user": it.user,
        "agent_id": it.agent_id,
        "trace": it.trace,
    }
    tx.commit.events.append(DeadReplayed(**about, no=no))
    return seq
