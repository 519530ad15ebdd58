"""What is kept for people to look at: the event log, the story behind a trace id, and when all of it expires."""

from typing import Final

import apsw
import msgspec

from daycare.store.records import Spend, TraceEntry
from daycare.store.sqlite.database import count
from daycare.store.sqlite.facts import RowsExpired
from daycare.store.sqlite.readers import Readers
from daycare.store.sqlite.sql import delete_older
from daycare.store.sqlite.writer import Tx, Writer

EVENTS_MAX_ROWS: Final = 200_000

_EXPIRE_ROWS = 2_000  # deleted in one transaction, so that expiry never holds up a message for long

_RECALLED = "json_extract(e.event, '$.event') = 'memory.recalled'"

# Memories are named by their short numbers alone: their words are for those to read whose they are.
_TRACE = f"""
SELECT created_at, 'accepted', path, 'from ' || sender || ', message ' || seq
    FROM inbox WHERE trace = ?1
UNION ALL SELECT done_at, CASE WHEN state = 2 THEN 'given up' WHEN EXISTS (SELECT 1 FROM history h
        WHERE h.turn = inbox.turn AND h.state = 'stopped') THEN 'stopped' ELSE 'answered' END, path, 'message ' || seq
    FROM inbox WHERE trace = ?1 AND state > 0
UNION ALL SELECT t.started_at, 'turn ' || t.turn || ' started', a.path, 'messages ' || t.seqs
    FROM turns t JOIN agents a ON a.id = t.agent_id WHERE t.trace = ?1
UNION ALL SELECT s.at, s.kind || ' ' || s.state, a.path, s.name
    FROM steps s JOIN turns t USING (turn) JOIN agents a ON a.id = t.agent_id WHERE t.trace = ?1
    AND NOT (s.kind = 'recall' AND EXISTS (SELECT 1 FROM events e WHERE e.trace = ?1 AND {_RECALLED}
        AND CAST(json_extract(e.event, '$.turn') AS BIGINT) = s.turn))
UNION ALL SELECT e.at, 'recalled', e.path, e.event FROM events e WHERE e.trace = ?1 AND {_RECALLED}
UNION ALL SELECT e.at, 'turn ' || (e.event ->> '$.turn') || ' failed', e.path, 'try ' || (e.event ->> '$.attempt')
        || ', ' || (e.event ->> '$.code') || ': ' || (e.event ->> '$.reason')
        || coalesce('; next try in ' || CAST(trunc(CAST(e.event ->> '$.retry_in_s' AS REAL)) AS INTEGER) || ' s',
        '; given up')
    FROM events e WHERE e.trace = ?1 AND e.event ->> '$.event' = 'turn.failed'
UNION ALL SELECT t.retry_at, 'turn ' || t.turn || ' next try', a.path, t.error
    FROM turns t JOIN agents a ON a.id = t.agent_id WHERE t.trace = ?1 AND t.error IS NOT NULL AND t.retry_at > 0
    AND NOT EXISTS (SELECT 1 FROM history h WHERE h.turn = t.turn)
UNION ALL SELECT h.ended_at, 'turn ' || t.turn || ' ' || h.state, a.path,
        coalesce(h.error, t.error, 'attempt ' || t.attempt)
    FROM turns t JOIN history h USING (turn) JOIN agents a ON a.id = t.agent_id WHERE t.trace = ?1
UNION ALL SELECT created_at, 'reply queued', path, connector || ', reply ' || seq
    FROM outbox WHERE trace = ?1
UNION ALL SELECT sent_at, 'reply delivered', path, connector || ', receipt ' || coalesce(receipt, '')
    FROM outbox WHERE trace = ?1 AND sent_at IS NOT NULL
UNION ALL SELECT created_at, 'dead letter ' || no, path, reason
    FROM dead_letters WHERE trace = ?1
ORDER BY 1 LIMIT 1000
"""


class Ledger:
    """What is kept for people to look at, and when it expires."""

    def __init__(self, writer: Writer, reader: apsw.Connection, readers: Readers) -> None:
        self._write = writer.write
        self._reader = reader
        self._readers = readers

    async def tokens(self, turn: int) -> tuple[int, int]:
        """Return how many tokens the models of a turn were given, and how many they made."""
        given, made = self._reader.execute(
            "SELECT coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0) FROM spend WHERE turn = ?", (turn,)
        ).fetchall()[0]
        return int(str(given)), int(str(made))

    async def record(self, events: list[tuple[int, str, str, str, str]], *, may_wait: bool = False) -> None:
        """Append events in order: (wall ms, user, path, trace, JSON). The newest `EVENTS_MAX_ROWS` are kept.

        Those that `may_wait` go with a commit of others, as `Writer.write` says.
        """

        def run(tx: Tx) -> None:
            if not events:
                return
            for at, user, path, trace, event in events:
                tx.run(
                    "INSERT INTO events (at, user, origin, path, trace, event) VALUES (?, ?, 'system', ?, ?, ?)",
                    (at, user, path, trace, event),
                )
            tx.run("DELETE FROM events WHERE no <= ?", (tx.db.last_insert_rowid() - EVENTS_MAX_ROWS,))

        await self._write(run, may_wait=may_wait)

    async def events(self, *, path: str | None = None, before: int | None = None, limit: int = 100) -> list[str]:
        """Return recorded events as JSON texts, newest first."""
        rows = self._reader.execute(
            "SELECT event FROM events WHERE (? IS NULL OR path = ?) AND (? IS NULL OR no < ?) ORDER BY no DESC LIMIT ?",
            (path, path, before, before, limit),
        )
        return [str(row[0]) for row in rows]

    def trace(self, trace: str) -> list[TraceEntry]:
        """Return what happened under a trace id, in order of time. Blocks for long: call it in a thread."""
        with self._readers.lent() as db:
            rows = db.execute(_TRACE, (trace,)).fetchall()
        return [
            TraceEntry(
                at_ms=int(str(at or 0)),
                what=str(what),
                path=str(path),
                detail=_recalled(str(detail)) if what == "recalled" else str(detail),
            )
            for at, what, path, detail in rows
        ]

    def last(self, agent_id: str, sender: str) -> str:
        """Return the trace id of the last message that somebody wrote to an agent. Call it in a thread of its own."""
        with self._readers.lent() as db:
            row = db.execute(
                "SELECT trace FROM inbox WHERE agent_id = ? AND sender = ? AND lane = 1 ORDER BY seq DESC LIMIT 1",
                (agent_id, sender),
            ).fetchone()
        return str(row[0]) if row else ""

    async def expire(self, before_ms: int, now_ms: int | None = None) -> int:
        """Delete a bounded number of finished rows that ended before `before_ms`; return how many (0: all done).

        Some stay, see `delete_older`.
        """

        def run(tx: Tx) -> int:
            now = tx.now if now_ms is None else now_ms
            deleted = 0
            for table, key, ended in (
                ("inbox", "seq", "state > 0 AND done_at"),
                ("outbox", "seq", "state > 1 AND coalesce(sent_at, created_at)"),
                ("events", "no", "at"),
                ("spend", "no", "at"),
                ("files", "id", "created_at"),
            ):
                tx.run(delete_older(table, key, ended), (before_ms, now, _EXPIRE_ROWS))
                deleted += tx.db.changes()
            theirs: list[int] = []
            tx.tell(RowsExpired(before_ms, now, _EXPIRE_ROWS, theirs))
            deleted += sum(theirs)
            # A turn's messages are the conversation and stay; its journal was for crashes and `trace`.
            tx.run(
                "DELETE FROM steps WHERE turn IN (SELECT DISTINCT s.turn FROM steps s JOIN history h USING (turn)"
                " WHERE h.ended_at < ? ORDER BY s.turn LIMIT ?)",
                (before_ms, _EXPIRE_ROWS),
            )
            return deleted + tx.db.changes()

        return await self._write(run)

    async def size_bytes(self) -> int:
        """Return the size of the database."""
        return count(self._reader, "PRAGMA page_count") * count(self._reader, "PRAGMA page_size")


class _Recall(msgspec.Struct):
    """An event `memory.recalled`."""

    numbers: tuple[int, ...] = ()
    scores: tuple[float, ...] = ()
    took_ms: float = 0.0
    without: str = ""


def _recalled(event: str) -> str:
    """Return what is said of a recall: memories are named by their short numbers, everybody's with a g before it."""
    it = msgspec.json.decode(event, type=_Recall)
    found = sorted(zip(it.scores, it.numbers, strict=False), reverse=True)
    named = ", ".join(f"#{'g' if no < 0 else ''}{abs(no) & 0xFFFFFFFF} {score:.2f}" for score, no in found)
    missing = f", without vectors: {it.without}" if it.without else ""
    return f"{len(it.numbers)} memories in {it.took_ms} ms{missing}" + (f": {named}" if named else "")


def note_call(tx: Tx, it: Spend) -> None:
    """Note what a call of a model took in its turn: for what is told of turns, tasks and scheduled runs."""
    tx.run(
        "INSERT INTO spend (at, user, origin, agent_id, turn, step, provider, model, input_tokens, output_tokens,"
        " cached_tokens, cost_micros) SELECT ?1, ?2, 'agent', ?3, ?4, coalesce(max(step), -1) + 1, ?5, ?6, ?7, ?8,"
        " ?9, ?10 FROM spend WHERE turn = ?4",
        (
            *(tx.now, it.user, it.agent_id, it.turn, it.provider, it.model),
            *(it.usage.input_tokens, it.usage.output_tokens, it.usage.cached_tokens, it.cost_micros),
        ),
    )
