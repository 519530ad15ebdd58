"""Outbox rows: replies that were committed with their turn and wait for a connector's receipt."""

from typing import Any

import apsw

from daycare.base.errors import ConflictError
from daycare.base.limits import OUTBOX_MAX_MESSAGES
from daycare.store.records import Agent, OutboxRow, Reply
from daycare.store.sqlite import letters
from daycare.store.sqlite.database import count
from daycare.store.sqlite.writer import Tx, Writer

_STATES = ("waiting", "sending", "sent", "dead")
_ROW = (
    "seq, agent_id, path, user, connector, target, text, trace, turn, state, attempts, retry_at, created_at, error,"
    " receipt"
)


class Outbox:
    """See `contract.OutboxStore`."""

    def __init__(self, writer: Writer, reader: apsw.Connection) -> None:
        self._write = writer.write
        self._reader = reader

    async def waiting(self, connector: str, *, after: int = 0, limit: int = 64) -> list[OutboxRow]:
        """Return undelivered rows of one connector in order."""
        rows = self._reader.execute(
            f"SELECT {_ROW} FROM outbox WHERE connector = ? AND state < 2 AND seq > ? ORDER BY seq LIMIT ?",  # noqa: S608
            (connector, after, limit),
        )
        return [_outbox(row) for row in rows]

    async def unread(self, path: str, *, after: int = 0, limit: int = 64) -> list[OutboxRow]:
        """Return undelivered rows of one agent's path in order."""
        rows = self._reader.execute(
            f"SELECT {_ROW} FROM outbox WHERE path = ? AND state < 2 AND seq > ? ORDER BY seq LIMIT ?",  # noqa: S608
            (path, after, limit),
        )
        return [_outbox(row) for row in rows]

    async def get(self, seq: int) -> OutboxRow | None:
        """Return one row."""
        row = self._reader.execute(f"SELECT {_ROW} FROM outbox WHERE seq = ?", (seq,)).fetchone()  # noqa: S608
        return _outbox(row) if row else None

    async def add(self, agent: Agent, reply: Reply, trace: str) -> int:
        """Queue words of an agent that belong to no turn; return their number."""
        key = (agent.id, agent.path, agent.user, str(agent.origin))
        return await self._write(lambda tx: insert(tx, key, None, trace, reply))

    async def start(self, seq: int) -> int:
        """Journal that a delivery is about to be tried; return which try it is. 0: nothing is left to deliver."""

        def run(tx: Tx) -> int:
            tx.run("UPDATE outbox SET state = 1, attempts = attempts + 1 WHERE seq = ? AND state < 2", (seq,))
            row = tx.one("SELECT attempts FROM outbox WHERE seq = ? AND state < 2", (seq,))
            return int(row[0]) if row else 0

        return await self._write(run)

    async def sent(self, seqs: list[int], receipt: str) -> int:
        """Record that rows were delivered; return how many of them were still waiting."""

        def run(tx: Tx) -> int:
            changed = 0
            for seq in seqs:
                tx.run(
                    "UPDATE outbox SET state = 2, sent_at = ?, receipt = ?, error = NULL WHERE seq = ? AND state < 2",
                    (tx.now, receipt, seq),
                )
                changed += tx.db.changes()
            return changed

        return await self._write(run)

    async def retry(self, seq: int, error: str, retry_at: int, *, untouched: bool = False) -> None:
        """Record a failed try. `untouched` says that the platform surely did not take it: no duplicate can arise."""

        def run(tx: Tx) -> None:
            state = 0 if untouched else 1
            tx.run(
                "UPDATE outbox SET state = ?, error = ?, retry_at = ? WHERE seq = ? AND state < 2",
                (state, error, retry_at, seq),
            )

        await self._write(run)

    async def give_up(self, seq: int, code: str, reason: str) -> None:
        """Move a row to the dead letters."""
        await self._write(lambda tx: give_up(tx, seq, code, reason))

    async def count(self) -> int:
        """Return how many rows are undelivered."""
        return count(self._reader, "SELECT count(*) FROM outbox WHERE state < 2")


def insert(tx: Tx, agent: tuple[str, str, str, str], turn: int | None, trace: str, reply: Reply) -> int:
    """Add a reply of an agent (id, path, user, origin). Past the bound the oldest unread one becomes a dead letter."""
    agent_id, path, user, origin = agent
    tx.run(
        "INSERT INTO outbox (agent_id, path, turn, connector, target, user, origin, trace, created_at, text)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (agent_id, path, turn, reply.connector, reply.target, user, origin, trace, tx.now, reply.text),
    )
    seq = tx.db.last_insert_rowid()
    tx.commit.connectors.add(reply.connector)
    overflow = tx.one(
        "SELECT seq FROM outbox WHERE path = ? AND state < 2 ORDER BY seq DESC LIMIT 1 OFFSET ?",
        (path, OUTBOX_MAX_MESSAGES),
    )
    if overflow is not None:
        give_up(tx, overflow[0], "OUTBOX_FULL", f"{OUTBOX_MAX_MESSAGES} newer replies wait undelivered")
    return seq


def give_up(tx: Tx, seq: int, code: str, reason: str) -> None:
    """Move one undelivered row to the dead letters."""
    row = tx.one(f"SELECT {_ROW}, origin FROM outbox WHERE seq = ? AND state < 2", (seq,))  # noqa: S608
    if row is None:
        return
    it = _outbox(row[:-1])
    tx.run("UPDATE outbox SET state = 3, error = ? WHERE seq = ?", (reason, seq))
    letters.insert(
        tx, "outbox", seq, it.agent_id, it.path, it.user, row[-1], it.trace, code, reason, it.attempts, it.text
    )  # fmt: skip


def revive(tx: Tx, seq: int) -> int:
    """Let a dead row wait again with fresh attempts, behind the others, where a courier has not passed yet."""
    row = tx.one("SELECT connector FROM outbox WHERE seq = ? AND state = 3", (seq,))
    if row is None:
        raise ConflictError("OUTBOX_GONE", f"replaying reply {seq}: it has expired", hint="daycare dead prune")
    newest = tx.one("SELECT max(seq) FROM outbox")
    assert newest is not None
    tx.run(
        "UPDATE outbox SET seq = ?, state = 0, attempts = 0, retry_at = 0, error = NULL WHERE seq = ?",
        (newest[0] + 1, seq),
    )
    tx.commit.connectors.add(row[0])
    return int(newest[0]) + 1


def _outbox(row: tuple[Any, ...]) -> OutboxRow:
    (seq, agent_id, path, user, connector, target, text, trace, turn, state, attempts, retry_at, created_at, error,
     receipt) = row  # fmt: skip
    return OutboxRow(
        seq=seq,
        agent_id=agent_id,
        path=path,
        user=user,
        connector=connector,
        target=target,
        text=text,
        trace=trace,
        turn=turn,
        state=_STATES[state],  # type: ignore[arg-type]
        attempts=attempts,
        retry_at=retry_at,
        created_at=created_at,
        error=error,
        receipt=receipt,
    )
