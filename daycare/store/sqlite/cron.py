"""Scheduled jobs and their ledger."""

from collections.abc import Collection, Sequence
from typing import Any, Final

import apsw
import msgspec

from daycare.base.cron import CronSpec
from daycare.base.limits import CRON_RETRY_MAX_S, CRON_RUNS_KEPT
from daycare.base.messages import Message
from daycare.store.records_cron import (
    CronAnswer,
    CronConflict,
    CronCount,
    CronFiring,
    CronJob,
    CronPost,
    CronRun,
    NewCronJob,
    Source,
)
from daycare.store.sqlite import cron_fire, cron_jobs, outbox
from daycare.store.sqlite.cron_jobs import JOBS
from daycare.store.sqlite.cron_ledger import COLUMNS, RUNS, run_of
from daycare.store.sqlite.database import count, counted
from daycare.store.sqlite.sql import Select
from daycare.store.sqlite.writer import Tx, Writer

_NEWEST = 1_000  # entries of the ledger, among which one of a time that is still to come is looked for
_decode_messages = msgspec.json.Decoder(tuple[Message, ...]).decode


class Cron:
    """See `contract_cron.CronStore`."""

    def __init__(self, writer: Writer, reader: apsw.Connection) -> None:
        self._write = writer.write
        self._reader = reader

    # -- jobs --------------------------------------------------------------------------------------------------------

    async def add(self, new: NewCronJob) -> CronJob:
        """Keep a job, or return the one that this call has made."""
        return await self._write(lambda tx: cron_jobs.add(tx, new))

    async def reconcile(
        self, source: Source, wanted: Sequence[NewCronJob], keep: Collection[str]
    ) -> list[CronConflict]:
        """Let the jobs of a source be those that are wanted; return which could not be kept."""
        return await self._write(lambda tx: cron_jobs.reconcile(tx, source, wanted, keep))

    async def change(self, no: int, revision: int, spec: CronSpec, next_at: int | None) -> CronJob:
        """Replace how a job is written."""
        return await self._write(lambda tx: cron_jobs.change(tx, no, revision, spec, next_at))

    async def pause(self, no: int, paused: bool, next_at: int | None) -> CronJob:
        """Pause a job, or let it go on."""
        return await self._write(lambda tx: cron_jobs.pause(tx, no, paused=paused, next_at=next_at))

    async def remove(self, no: int, reason: str) -> None:
        """Remove a job and what waits of it."""
        await self._write(lambda tx: cron_jobs.remove(tx, no, reason))

    async def find(self, user: str | None = None, limit: int = 1000, after: str = "") -> list[CronJob]:
        """Return living jobs in order of path, each with its newest run and whether one is going on."""
        of_user, bindings = ("", ()) if user is None else (" AND user = ?", (user,))
        where = f"removed_at IS NULL AND path > ?{of_user} ORDER BY path LIMIT ?"
        return [*map(self._with_last, JOBS.find(self._reader, where, (after, *bindings, limit)))]

    async def at(self, path: str) -> CronJob | None:
        """Return the living job at a path."""
        return self._one("path = ? AND removed_at IS NULL", path)

    async def by_key(self, key: str) -> CronJob | None:
        """Return the job that a call has made."""
        return self._one("key = ?", key)

    async def get(self, no: int) -> CronJob | None:
        """Return a job, removed or not."""
        return self._one("no = ?", no)

    def _one(self, where: str, value: str | int) -> CronJob | None:
        job = JOBS.one(self._reader, where, (value,))
        return None if job is None else self._with_last(job)

    def _with_last(self, job: CronJob) -> CronJob:
        last = RUNS.one(self._reader, "r.job = ? ORDER BY r.due_at DESC LIMIT 1", (job.no,))
        going = self._reader.execute(
            "SELECT 1 FROM cron_runs WHERE job = ? AND state IN ('waiting', 'due') LIMIT 1", (job.no,)
        ).fetchone()
        return msgspec.structs.replace(job, last=last, running=going is not None)

    async def count(self) -> CronCount:
        """Return how many jobs there are."""
        running = (
            "SELECT count(DISTINCT r.job) FROM cron_runs r JOIN cron_jobs j ON j.no = r.job AND j.removed_at IS NULL"
            " WHERE r.state IN ('waiting', 'due')"
        )
        return CronCount(
            jobs=counted(self._reader, "cron.jobs"),
            paused=counted(self._reader, "cron.paused"),
            running=count(self._reader, running),
            next_at=await self.next_due(),
        )

    # -- time --------------------------------------------------------------------------------------------------------

    async def due(self, now_ms: int, limit: int) -> list[CronJob]:
        """Return jobs that are due, soonest first."""
        return JOBS.find(self._reader, "next_at <= ? ORDER BY next_at, no LIMIT ?", (now_ms, limit))

    async def next_due(self) -> int | None:
        """Return the earliest time at which a job is due."""
        return self._min("SELECT min(next_at) FROM cron_jobs WHERE next_at IS NOT NULL")

    async def fire(self, firings: Sequence[CronFiring]) -> list[CronRun]:
        """Record due times, post what is to be posted, move the jobs on."""

        def run(tx: Tx) -> list[CronRun]:
            return [each for firing in firings for each in cron_fire.fire(tx, firing)]

        return await self._write(run, 4096 * len(firings))

    async def waiting(self, now_ms: int, limit: int) -> list[CronRun]:
        """Return runs that wait to be posted and whose time has come."""
        return RUNS.find(
            self._reader,
            # What waits longer than any pause does so because the clock was set back.
            "r.state = 'waiting' AND (r.post_at <= ?1 OR r.post_at > ?2)"
            " ORDER BY r.by_hand = 0 AND r.attempt = 0, r.post_at, r.no LIMIT ?3",  # late ones have time
            (now_ms, now_ms + int(CRON_RETRY_MAX_S * 1000), limit),
        )

    async def next_post(self) -> int | None:
        """Return the earliest time at which a run that waits is to be posted."""
        return self._min("SELECT min(post_at) FROM cron_runs WHERE state = 'waiting'")

    def _min(self, sql: str) -> int | None:
        row = self._reader.execute(sql).fetchone()
        return None if row is None or row[0] is None else int(row[0])

    async def post(self, no: int, post: CronPost) -> CronRun | None:
        """Post a waiting run."""
        return await self._write(lambda tx: cron_fire.post_waiting(tx, no, post), len(post.envelope.text))

    async def by_hand(self, job: CronJob, now_ms: int, parameters: dict[str, Any]) -> CronRun:
        """Add a run that somebody asked for."""
        return await self._write(lambda tx: cron_fire.by_hand(tx, job, now_ms, parameters))

    async def was_ahead(self, now_ms: int) -> bool:
        """Return whether anything was decided at a later time than this."""
        return bool(
            count(
                self._reader,
                "SELECT EXISTS (SELECT 1 FROM cron_jobs WHERE updated_at > ?1 AND next_at IS NOT NULL) OR EXISTS"
                " (SELECT 1 FROM (SELECT created_at FROM cron_runs ORDER BY no DESC LIMIT ?2) WHERE created_at > ?1)",
                (now_ms, _NEWEST),
            )
        )

    async def ahead(self, now_ms: int, *, after: int, limit: int) -> list[CronJob]:
        """Return jobs whose next time was decided on later than this."""
        decided_later = "updated_at > ? AND next_at IS NOT NULL AND no > ? ORDER BY no LIMIT ?"
        return JOBS.find(self._reader, decided_later, (now_ms, after, limit))

    async def rewind(self, now_ms: int, sooner: Sequence[tuple[int, int, int]]) -> None:
        """Take back what was missed in a future that is to come again."""
        await self._write(lambda tx: cron_fire.rewind(tx, now_ms, sooner))

    # -- the ledger --------------------------------------------------------------------------------------------------

    async def runs(
        self, *, user: str | None = None, path: str | None = None, before: int | None = None, limit: int = 100
    ) -> list[CronRun]:
        """Return entries, newest first, with their delivery."""
        return _DELIVERED.find(
            self._reader,
            "(?1 IS NULL OR r.user = ?1) AND (?2 IS NULL OR r.path = ?2) AND (?3 IS NULL OR r.no < ?3)"
            " ORDER BY r.no DESC LIMIT ?4",
            (user, path, before, limit),
        )

    async def run(self, no: int) -> CronRun | None:
        """Return one entry with its delivery."""
        return _DELIVERED.one(self._reader, "r.no = ?", (no,))

    async def last_answer(self, job: int) -> CronAnswer | None:
        """Return what the newest run said that said something."""
        row = self._reader.execute(
            "SELECT r.due_at, i.result, h.messages FROM cron_runs r JOIN inbox i ON i.seq = r.seq AND i.state = 1"
            " LEFT JOIN history h ON h.turn = i.turn"
            " WHERE r.job = ? AND r.state IN ('ran', 'late') ORDER BY r.due_at DESC LIMIT 1",
            (job,),
        ).fetchone()
        if row is None or not row[1]:
            return None
        messages = _decode_messages(row[2]) if row[2] else ()
        said = [message.origins for message in messages if message.role == "assistant"]
        return CronAnswer(due_at=int(row[0]), text=str(row[1]), origins=said[-1] if said else None)

    async def orphans(self, limit: int) -> list[tuple[str, str, str]]:
        """Return (id, path, user) of living agents whose job was removed."""
        rows = self._reader.execute(
            "SELECT id, path, user FROM agents a WHERE kind = 'cron' AND state <> 'dead'"
            " AND EXISTS (SELECT 1 FROM cron_jobs j WHERE j.path = a.path)"
            " AND NOT EXISTS (SELECT 1 FROM cron_jobs j WHERE j.path = a.path AND j.removed_at IS NULL) LIMIT ?",
            (limit,),
        ).fetchall()
        return [(str(row[0]), str(row[1]), str(row[2])) for row in rows]

    async def expire(self, before_ms: int, limit: int) -> int:
        """Delete a bounded number of old entries, and removed jobs that have none any more."""

        def run(tx: Tx) -> int:
            tx.run(
                "DELETE FROM cron_runs WHERE no IN (SELECT no FROM cron_runs WHERE ended_at < ? ORDER BY no LIMIT ?)",
                (before_ms, limit),
            )
            deleted = tx.db.changes()
            jobs = tx.db.execute(
                "SELECT job FROM cron_runs GROUP BY job HAVING count(*) > ?", (CRON_RUNS_KEPT,)
            ).fetchall()
            for (job,) in jobs:
                tx.run(
                    "DELETE FROM cron_runs WHERE ended_at IS NOT NULL AND no IN (SELECT no FROM cron_runs"
                    " WHERE job = ? ORDER BY due_at DESC LIMIT ? OFFSET ?)",
                    (job, limit, CRON_RUNS_KEPT),
                )
                deleted += tx.db.changes()
            tx.run(
                "DELETE FROM cron_jobs WHERE removed_at < ? AND NOT EXISTS"
                " (SELECT 1 FROM cron_runs r WHERE r.job = cron_jobs.no) AND no < (SELECT max(no) FROM cron_jobs)",
                (before_ms,),
            )
            return deleted + tx.db.changes()

        return await self._write(run)


def _with_delivery(row: tuple[Any, ...]) -> CronRun:
    answer, state, connector, receipt, sent_at = row[-5:]
    return msgspec.structs.replace(
        run_of(row[:-5]),
        answer=answer,
        delivery="" if state is None else outbox.STATES[int(str(state))],
        connector=connector or "",
        receipt=receipt,
        delivered_at=sent_at,
    )


_DELIVERED: Final = Select(
    f"{COLUMNS}, i.result, o.state, o.connector, o.receipt, o.sent_at",
    "cron_runs r LEFT JOIN inbox i ON i.seq = r.seq AND i.state = 1 LEFT JOIN outbox o ON o.seq = r.outbox",
    _with_delivery,
)
