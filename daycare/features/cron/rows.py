"""Scheduled jobs and their ledger in the store: each time one is due is handled once, and the ledger says how.

The ledger has one row for each (job, due time), for ever as long as it is kept. The end of a run is written in the
transaction that ends its message (a turn, a dead letter), wherever that happens: with what it cost, and with the reply
that carries its answer. A failed run waits for another attempt as often as its job says. A job that is to be deleted
after its run goes in that transaction, too.
"""

from collections.abc import Collection, Mapping, Sequence
from operator import attrgetter
from typing import Any, ClassVar, Final

import msgspec

from daycare.base.cron import CronSpec
from daycare.base.errors import BusyError, ConflictError, NotFoundError
from daycare.base.limits import CRON_JOBS_MAX, CRON_RETRY_MAX_S
from daycare.base.messages import Message, Origin
from daycare.features.cron import ledger
from daycare.features.cron.ledger import DELIVERED, JOBS, RUNS, must_get_job
from daycare.features.cron.model import (
    CronAnswer,
    CronConflict,
    CronCount,
    CronFiring,
    CronJob,
    CronNews,
    CronPost,
    CronRun,
    NewCronJob,
    RunState,
    Source,
)
from daycare.store.sqlite.database import count, counted
from daycare.store.sqlite.facts import Follower, Heed, UserLeaving
from daycare.store.sqlite.rows import Rows, Table
from daycare.store.sqlite.writer import Tx

CRON_RUNS_KEPT: Final = 2_000  # of one job's ledger: three weeks of one that runs each quarter of an hour

_NEWEST: Final = 1_000  # entries of the ledger, among which one of a time that is still to come is looked for
_AT: Final = "path = ? AND removed_at IS NULL"
_when: Final = attrgetter("cron", "at", "zone", "enabled")
_encode = msgspec.json.Encoder().encode
_decode_messages = msgspec.json.Decoder(tuple[Message, ...]).decode


class JobsOfUsers(Follower):
    """Removes the jobs of a user who is removed, before the agents: a run of a job that stays would be tried again."""

    def heeds(self) -> Mapping[type, Heed]:
        """Follow users."""
        return {UserLeaving: _leaving}


class CronRows(Rows):
    """Reads and writes them."""

    news: ClassVar = (CronNews(changed=True),)
    tables: ClassVar = (
        Table("cron_jobs", "scheduled jobs", exported="job"),
        Table("cron_runs", why="the ledger of what ran here", number="no"),
    )
    followers: ClassVar = (ledger.OpenRuns, JobsOfUsers)

    # -- jobs --------------------------------------------------------------------------------------------------------

    async def add(self, new: NewCronJob) -> CronJob:
        """Keep a job; a repeat of its `key` returns the first.

        Raises `ConflictError` CRON_EXISTS for a path that is taken, `BusyError` CRON_JOBS_MAX at so many of its user.
        """
        return await self._write(lambda tx: add(tx, new))

    async def reconcile(
        self, source: Source, wanted: Sequence[NewCronJob], keep: Collection[str]
    ) -> list[CronConflict]:
        """Let the jobs of a source be those that are `wanted`, all or nothing, and return which could not be kept.

        Others of it are removed unless their `source_ref` is in `keep`. An unchanged one stays untouched, so that what
        it missed is not forgotten.
        """
        return await self._write(lambda tx: _reconcile(tx, source, wanted, keep))

    async def change(self, no: int, revision: int, spec: CronSpec, next_at: int | None) -> CronJob:
        """Replace how a job is written. What is due when stays unless that is what was changed.

        Raises `ConflictError` CRON_CHANGED if it is of another revision by now.
        """
        return await self._write(lambda tx: change(tx, no, revision, spec, next_at))

    async def pause(self, no: int, paused: bool, next_at: int | None) -> CronJob:
        """Pause a job, or let it go on; idempotent. What waits to be posted of a paused one is skipped."""

        def run(tx: Tx) -> CronJob:
            job = must_get_job(tx, no)
            if job.removed_at is not None:
                raise NotFoundError("CRON_UNKNOWN", f"pausing {job.path}: it was removed", hint="daycare cron list")
            if job.paused != paused:
                tx.run(
                    "UPDATE cron_jobs SET paused = ?, next_at = ?, revision = revision + 1, updated_at = ?"
                    " WHERE no = ?",
                    (int(paused), None if paused else next_at, tx.now, no),
                )
                if paused:
                    ledger.skip_waiting(tx, no, "the job was paused")
                ledger.tell(tx, job, "paused" if paused else "resumed")
            return must_get_job(tx, no)

        return await self._write(run)

    async def remove(self, no: int, reason: str) -> None:
        """Remove a job and what waits of it; idempotent. Its own agent is an orphan then."""
        await self._write(lambda tx: remove(tx, no, reason))

    async def find(self, user: str | None = None, limit: int = 1000, after: str = "") -> list[CronJob]:
        """Return jobs that are not removed in order of path, each with its newest run and whether one is going on.

        They begin after the path `after`.
        """
        of_user, bindings = ("", ()) if user is None else (" AND user = ?", (user,))
        where = f"removed_at IS NULL AND path > ?{of_user} ORDER BY path LIMIT ?"
        return [*map(self._with_last, JOBS.find(self._reader, where, (after, *bindings, limit)))]

    async def at(self, path: str) -> CronJob | None:
        """Return the job at a path that is not removed."""
        return self._one(_AT, path)

    async def by_key(self, key: str) -> CronJob | None:
        """Return the job that a call has made, removed or not."""
        return self._one("key = ?", key)

    async def get(self, no: int) -> CronJob | None:
        """Return a job, removed or not."""
        return self._one("no = ?", no)

    def _one(self, where: str, value: str | int) -> CronJob | None:
        return None if (job := JOBS.one(self._reader, where, (value,))) is None else self._with_last(job)

    def _with_last(self, job: CronJob) -> CronJob:
        last = RUNS.one(self._reader, "r.job = ? ORDER BY r.due_at DESC LIMIT 1", (job.no,))
        going = self._number("SELECT 1 FROM cron_runs WHERE job = ? AND state IN ('waiting', 'due') LIMIT 1", job.no)
        return msgspec.structs.replace(job, last=last, running=going is not None)

    async def count(self) -> CronCount:
        """Return how many jobs there are that are not removed; it costs the same however many."""
        running = (
            "SELECT count(DISTINCT r.job) FROM cron_runs r JOIN cron_jobs j ON j.no = r.job AND j.removed_at IS NULL"
            " WHERE r.state IN ('waiting', 'due')"
        )
        return CronCount(
            jobs=counted(self._reader, "cron.jobs"),
            paused=counted(self._reader, "cron.paused"),
            running=count(self._reader, running),
            next_at=self._number("SELECT min(next_at) FROM cron_jobs WHERE next_at IS NOT NULL"),
        )

    async def orphans(self, limit: int) -> list[tuple[str, str, str]]:
        """Return (id, path, user) of living agents of kind cron whose job was removed."""
        rows = self._reader.execute(
            "SELECT id, path, user FROM agents a WHERE kind = 'cron' AND state <> 'dead'"
            " AND EXISTS (SELECT 1 FROM cron_jobs j WHERE j.path = a.path)"
            " AND NOT EXISTS (SELECT 1 FROM cron_jobs j WHERE j.path = a.path AND j.removed_at IS NULL)"
            " /* nodes: AND mine(user) */ LIMIT ?",
            (limit,),
        ).fetchall()
        return [(str(row[0]), str(row[1]), str(row[2])) for row in rows]

    # -- time --------------------------------------------------------------------------------------------------------

    async def due(self, now_ms: int, limit: int) -> list[CronJob]:
        """Return jobs of this node's users that are due by `now_ms`, soonest first."""
        return JOBS.find(
            self._reader, "next_at <= ? /* nodes: AND mine(user) */ ORDER BY next_at, no LIMIT ?", (now_ms, limit)
        )

    async def next_due(self) -> int | None:
        """Return the earliest time at which a job of this node's users is due."""
        return self._number(
            "SELECT next_at FROM cron_jobs WHERE next_at IS NOT NULL /* nodes: AND mine(user) */"
            " ORDER BY next_at LIMIT 1"
        )

    async def fire(self, firings: Sequence[CronFiring]) -> list[CronRun]:
        """Record due times, post what is to be posted and move the jobs on, all or nothing; return the new rows.

        A job that was changed meanwhile is left as it is, a time that is in the ledger already is passed over. What a
        running one of the same job stands in the way of is `skipped`, by the job's `overlap`; what the inbox refuses is
        `failed`. Of many missed ones some have their own row, the others share one.
        """

        def run(tx: Tx) -> list[CronRun]:
            return [each for firing in firings for each in ledger.fire(tx, firing)]

        return await self._write(run, 4096 * len(firings))

    async def waiting(self, now_ms: int, limit: int) -> list[CronRun]:
        """Return runs that wait to be posted and whose time has come, soonest first, late ones behind all others.

        Those of this node's users.
        """
        return RUNS.find(
            self._reader,
            # What waits longer than any pause does so because the clock was set back.
            "r.state = 'waiting' AND (r.post_at <= ?1 OR r.post_at > ?2) /* nodes: AND mine(r.user) */"
            " ORDER BY r.by_hand = 0 AND r.attempt = 0, r.post_at, r.no LIMIT ?3",  # late ones have time
            (now_ms, now_ms + int(CRON_RETRY_MAX_S * 1000), limit),
        )

    async def next_post(self) -> int | None:
        """Return the earliest time at which a run of this node's users that waits is to be posted."""
        return self._number(
            "SELECT post_at FROM cron_runs WHERE state = 'waiting' /* nodes: AND mine(user) */ ORDER BY post_at LIMIT 1"
        )

    async def post(self, no: int, post: CronPost) -> CronRun | None:
        """Post a waiting run; None if it waits no more. `overlap` and a full inbox as for `fire`."""
        return await self._write(lambda tx: ledger.post_waiting(tx, no, post), len(post.envelope.text))

    async def by_hand(self, job: CronJob, now_ms: int, parameters: dict[str, Any]) -> CronRun:
        """Add a run that somebody asked for, to be posted at once. Raises `ConflictError` if the job is removed."""
        return await self._write(lambda tx: ledger.by_hand(tx, job, now_ms, parameters))

    async def was_ahead(self, now_ms: int) -> bool:
        """Return whether jobs were decided on, or runs recorded, at a later time than this: the clock was set back."""
        return bool(
            count(
                self._reader,
                "SELECT EXISTS (SELECT 1 FROM cron_jobs WHERE updated_at > ?1 AND next_at IS NOT NULL) OR EXISTS"
                " (SELECT 1 FROM (SELECT created_at FROM cron_runs ORDER BY no DESC LIMIT ?2) WHERE created_at > ?1)",
                (now_ms, _NEWEST),
            )
        )

    async def ahead(self, now_ms: int, *, after: int, limit: int) -> list[CronJob]:
        """Return jobs whose next time was decided on later than this, in order of number, from behind `after` on."""
        decided_later = (
            "updated_at > ? AND next_at IS NOT NULL AND no > ? /* nodes: AND mine(user) */ ORDER BY no LIMIT ?"
        )
        return JOBS.find(self._reader, decided_later, (now_ms, after, limit))

    async def rewind(self, now_ms: int, sooner: Sequence[tuple[int, int, int]]) -> None:
        """The clock was set back: take back what was missed in a future that is to come again.

        `sooner` are (number, revision, time) of jobs that are due earlier than they were said to be.
        """
        await self._write(lambda tx: ledger.rewind(tx, now_ms, sooner))

    # -- the ledger --------------------------------------------------------------------------------------------------

    async def runs(
        self,
        *,
        user: str | None = None,
        path: str | None = None,
        state: RunState | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> list[CronRun]:
        """Return entries of the ledger, newest first, beginning below number `before`, with their delivery."""
        return DELIVERED.find(
            self._reader,
            "(?1 IS NULL OR r.user = ?1) AND (?2 IS NULL OR r.path = ?2) AND (?3 IS NULL OR r.no < ?3)"
            " AND (?4 IS NULL OR r.state = ?4) ORDER BY r.no DESC LIMIT ?5",
            (user, path, before, state, limit),
        )

    async def run(self, no: int) -> CronRun | None:
        """Return one entry."""
        return DELIVERED.one(self._reader, "r.no = ?", (no,))

    async def last_answer(self, job: int) -> CronAnswer | None:
        """Return what the newest run said that said something."""
        row = self._reader.execute(
            "SELECT r.due_at, unpacked(i.result), unpacked(h.messages) FROM cron_runs r"
            " JOIN inbox i ON i.seq = r.seq AND i.state = 1 LEFT JOIN history h ON h.turn = i.turn"
            " WHERE r.job = ? AND r.state IN ('ran', 'late') ORDER BY r.due_at DESC LIMIT 1",
            (job,),
        ).fetchone()
        if row is None or not row[1]:
            return None
        messages = _decode_messages(row[2]) if row[2] else ()
        said = [message.origins for message in messages if message.role == "assistant"]
        return CronAnswer(due_at=int(row[0]), text=str(row[1]), origins=said[-1] if said else None)

    async def expire(self, before_ms: int, limit: int) -> int:
        """Delete a bounded number of entries that ended before `before_ms`, or are beyond those kept of a job.

        Removed jobs that have none any more go with them.
        """

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


def add(tx: Tx, new: NewCronJob) -> CronJob:
    """Do what `CronRows.add` does, inside of an open transaction."""
    if new.key and (made := JOBS.one(tx.db, "key = ?", (new.key,))) is not None:
        return made
    if (known := JOBS.one(tx.db, _AT, (new.path,))) is not None:
        raise ConflictError("CRON_EXISTS", f"scheduling {new.path}: there is one", hint=f"daycare cron show {known.id}")
    _check_room(tx, new)
    return _insert(tx, new)


def _reconcile(tx: Tx, source: Source, wanted: Sequence[NewCronJob], keep: Collection[str]) -> list[CronConflict]:
    conflicts = []
    paths = {new.path for new in wanted}
    for job in JOBS.find(tx.db, "source = ? AND removed_at IS NULL", (source,)):
        if job.path not in paths and job.source_ref not in keep:
            remove(tx, job.no, f"it is not in {job.source_ref} any more")
    for new in wanted:
        known = JOBS.one(tx.db, _AT, (new.path,))
        if known is not None and known.source != source:
            taken = f"{known.source} {known.source_ref}".strip()
            conflicts.append(CronConflict(path=new.path, source_ref=new.source_ref, taken_by=taken))
        elif known is None:
            try:
                _check_room(tx, new)
            except BusyError as full:
                conflicts.append(CronConflict(path=new.path, source_ref=new.source_ref, taken_by=full.message))
                continue
            _insert(tx, new)
        elif (known.spec, known.source_ref) != (new.spec, new.source_ref):
            tx.run("UPDATE cron_jobs SET source_ref = ? WHERE no = ?", (new.source_ref, known.no))
            if known.spec != new.spec:
                change(tx, known.no, known.revision, new.spec, new.next_at)
    return conflicts


def change(tx: Tx, no: int, revision: int, spec: CronSpec, next_at: int | None) -> CronJob:
    """Do what `CronRows.change` does, inside of an open transaction."""
    job = must_get_job(tx, no)
    if job.revision != revision or job.removed_at is not None:
        raise ConflictError("CRON_CHANGED", f"changing {job.path}: it was changed meanwhile", hint="look at it again")
    moved = _when(spec) != _when(job.spec)
    due = None if job.paused else next_at if moved else job.next_at
    tx.run(
        "UPDATE cron_jobs SET spec = ?, next_at = ?, revision = revision + 1, updated_at = ? WHERE no = ?",
        (_encode(spec).decode(), due, tx.now, no),
    )
    ledger.tell(tx, job, "changed")
    return must_get_job(tx, no)


def remove(tx: Tx, no: int, reason: str) -> None:
    """Do what `CronRows.remove` does, inside of an open transaction."""
    tx.run("UPDATE cron_jobs SET removed_at = ?, next_at = NULL WHERE no = ? AND removed_at IS NULL", (tx.now, no))
    if tx.db.changes():
        ledger.skip_waiting(tx, no, reason)
        ledger.tell(tx, must_get_job(tx, no), "removed")


def _leaving(tx: Tx, it: UserLeaving) -> None:
    jobs = "SELECT no FROM cron_jobs WHERE user = ? AND removed_at IS NULL"
    for (no,) in tx.db.execute(jobs, (it.user,)).fetchall():
        remove(tx, int(str(no)), it.reason)


def _insert(tx: Tx, new: NewCronJob) -> CronJob:
    tx.run(
        "INSERT INTO cron_jobs (path, user, origin, source, source_ref, key, spec, bounds, next_at,"
        " created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            new.path,
            new.user,
            str(Origin.AGENT if new.source == "agent" else Origin.PERSON),
            new.source,
            new.source_ref,
            new.key,
            _encode(new.spec).decode(),
            _encode(new.bounds).decode(),
            new.next_at,
            tx.now,
            tx.now,
        ),
    )
    job = must_get_job(tx, tx.db.last_insert_rowid())
    ledger.tell(tx, job, "added")
    return job


def _check_room(tx: Tx, new: NewCronJob) -> None:
    row = tx.one(
        "SELECT count(*) FROM cron_jobs WHERE user = ? AND removed_at IS NULL AND (next_at IS NOT NULL OR paused)",
        (new.user,),
    )
    if row is not None and row[0] >= CRON_JOBS_MAX:
        raise BusyError(
            "CRON_JOBS_MAX",
            f"scheduling {new.path}: {new.user} has {row[0]} jobs, the most there can be",
            hint="daycare cron rm NAME",
        )
