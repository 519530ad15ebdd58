"""Heartbeats: since when an agent has one, and its last beat, posted and recorded together."""

from typing import Any, ClassVar

import apsw

from daycare.base.messages import Envelope
from daycare.store.records import Agent, Receipt
from daycare.store.records_signals import Heartbeat
from daycare.store.sqlite import agents, inbox, signal_rows
from daycare.store.sqlite.database import count
from daycare.store.sqlite.rows import Rows, Table
from daycare.store.sqlite.writer import Tx


class HeartbeatRows(Rows):
    """Reads and writes them."""

    tables: ClassVar = (Table("heartbeats", why="when a heart has beaten here"),)

    async def look(self, now_ms: int, limit: int) -> list[tuple[Agent, Heartbeat]]:
        """Return living agents with a heartbeat."""
        found = agents.with_heartbeat(self._reader, limit)
        ids = {agent.id for agent in found}
        rows = self._reader.execute("SELECT agent_id, max(since, coalesce(beat_at, 0)) > ? FROM heartbeats", (now_ms,))
        known = {str(agent_id): bool(ahead) for agent_id, ahead in rows}
        if ids != known.keys() or any(known.values()):
            await self._write(lambda tx: _sync(tx, sorted(ids - known.keys()), sorted(known.keys() - ids)))
        each = [(agent, _state(self._reader, agent)) for agent in found]
        return [(agent, state) for agent, state in each if state is not None]

    async def of(self, agent: Agent) -> Heartbeat | None:
        """Return how the heartbeat of one agent stands."""
        return _state(self._reader, agent) if agent.config.heartbeat_s else None

    async def beat(self, agent_id: str, envelope: Envelope) -> Receipt | None:
        """Post a beat and record it, if it is due."""

        def run(tx: Tx) -> Receipt | None:
            agent = agents.must_get(tx, agent_id)
            state = _state(tx.db, agent) if agent.state == "living" and agent.config.heartbeat_s else None
            if state is None or state.busy or state.next_at(tx.now) > tx.now:
                return None
            receipt = inbox.post(tx, envelope)
            tx.run(
                "UPDATE heartbeats SET beats = beats + 1, beat_at = ?, seq = ? WHERE agent_id = ?",
                (tx.now, receipt.seq, agent_id),
            )
            return receipt

        return await self._write(run, len(envelope.text))


def _sync(tx: Tx, new: list[str], gone: list[str]) -> None:
    tx.run("UPDATE heartbeats SET since = min(since, ?1), beat_at = min(beat_at, ?1)", (tx.now,))
    for agent_id in new:
        tx.run("INSERT INTO heartbeats (agent_id, since) VALUES (?, ?) ON CONFLICT DO NOTHING", (agent_id, tx.now))
    for agent_id in gone:
        tx.run("DELETE FROM heartbeats WHERE agent_id = ?", (agent_id,))


def _state(db: apsw.Connection, agent: Agent) -> Heartbeat | None:
    row: tuple[Any, ...] | None = db.execute(
        "SELECT since, beats, beat_at FROM heartbeats WHERE agent_id = ?", (agent.id,)
    ).fetchone()
    if row is None:
        return None
    last: tuple[Any, ...] | None = db.execute(
        "SELECT t.turn, h.ended_at FROM turns t LEFT JOIN history h USING (turn) WHERE t.agent_id = ?"
        " ORDER BY t.turn DESC LIMIT 1",
        (agent.id,),
    ).fetchone()
    waits = count(db, "SELECT EXISTS (SELECT 1 FROM inbox WHERE agent_id = ? AND state = 0)", (agent.id,))
    return Heartbeat(
        agent_id=agent.id,
        every_s=agent.config.heartbeat_s,
        since=row[0],
        beats=row[1],
        beat_at=row[2],
        busy=bool(waits) or signal_rows.is_at_work(db, agent.id),
        worked_at=last[1] if last is not None else None,
    )
