"""Scheduled jobs as the open transaction sees them: added, changed, paused, removed, and brought in line with files."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import msgspec

from daycare.base.cron import CronSpec
from daycare.base.errors import BusyError, ConflictError, NotFoundError
from daycare.base.limits import CRON_JOBS_MAX
from daycare.base.messages import Origin
from daycare.store.records import AgentConfig
from daycare.store.records_cron import CronConflict, CronJob, CronNews, NewCronJob, Source
from daycare.store.sqlite import cron_ledger
from daycare.store.sqlite.facts import Follower, Heed, UserLeaving
from daycare.store.sqlite.sql import Select
from daycare.store.sqlite.writer import Tx

_COLUMNS = (
    "no, path, user, source, source_ref, spec, paused, next_at, revision, created_at, updated_at, removed_at, bounds"
)
_encode = msgspec.json.Encoder().encode
_decode_spec = msgspec.json.Decoder(CronSpec).decode
_decode_bounds = msgspec.json.Decoder(AgentConfig).decode


def add(tx: Tx, new: NewCronJob) -> CronJob:
    """Keep a job, or return the one that this call has made."""
    if new.key and (made := JOBS.one(tx.db, "key = ?", (new.key,))) is not None:
        return made
    known = at(tx, new.path)
    if known is not None:
        raise ConflictError("CRON_EXISTS", f"scheduling {new.path}: there is one", hint=f"daycare cron show {known.id}")
    _check_room(tx, new)
    return _insert(tx, new)


def reconcile(tx: Tx, source: Source, wanted: Sequence[NewCronJob], keep: Collection[str]) -> list[CronConflict]:
    """Let the jobs of a source be those that are wanted."""
    conflicts = []
    paths = {new.path for new in wanted}
    for job in JOBS.find(tx.db, "source = ? AND removed_at IS NULL", (source,)):
        if job.path not in paths and job.source_ref not in keep:
            remove(tx, job.no, f"it is not in {job.source_ref} any more")
    for new in wanted:
        known = at(tx, new.path)
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
    """Replace how a job is written. What is due when stays unless that is what was changed."""
    job = must_get(tx, no)
    if job.revision != revision or job.removed_at is not None:
        raise ConflictError("CRON_CHANGED", f"changing {job.path}: it was changed meanwhile", hint="look at it again")
    moved = _when(spec) != _when(job.spec)
    due = None if job.paused else next_at if moved else job.next_at
    tx.run(
        "UPDATE cron_jobs SET spec = ?, next_at = ?, revision = revision + 1, updated_at = ? WHERE no = ?",
        (_encode(spec).decode(), due, tx.now, no),
    )
    tx.commit.add(CronNews).changed = True
    return must_get(tx, no)


def pause(tx: Tx, no: int, *, paused: bool, next_at: int | None) -> CronJob:
    """Pause a job, or let it go on from now."""
    job = must_get(tx, no)
    if job.removed_at is not None:
        raise NotFoundError("CRON_UNKNOWN", f"pausing {job.path}: it was removed", hint="daycare cron list")
    if job.paused != paused:
        tx.run(
            "UPDATE cron_jobs SET paused = ?, next_at = ?, revision = revision + 1, updated_at = ? WHERE no = ?",
            (int(paused), None if paused else next_at, tx.now, no),
        )
        if paused:
            _skip_waiting(tx, no, "the job was paused")
        tx.commit.add(CronNews).changed = True
    return must_get(tx, no)


def remove(tx: Tx, no: int, reason: str) -> None:
    """Remove a job, and what waits of it."""
    tx.run("UPDATE cron_jobs SET removed_at = ?, next_at = NULL WHERE no = ? AND removed_at IS NULL", (tx.now, no))
    if tx.db.changes():
        _skip_waiting(tx, no, reason)
        tx.commit.add(CronNews).changed = True


class JobsOfUsers(Follower):
    """Removes the jobs of a user who is removed, before the agents: a run of a job that stays would be tried again."""

    def heeds(self) -> Mapping[type, Heed]:
        """Follow users."""
        return {UserLeaving: _leaving}


def _leaving(tx: Tx, it: UserLeaving) -> None:
    rows = tx.db.execute("SELECT no FROM cron_jobs WHERE user = ? AND removed_at IS NULL", (it.user,)).fetchall()
    for (no,) in rows:
        remove(tx, int(str(no)), it.reason)


def at(tx: Tx, path: str) -> CronJob | None:
    """Return the living job at a path."""
    return JOBS.one(tx.db, "path = ? AND removed_at IS NULL", (path,))


def must_get(tx: Tx, no: int) -> CronJob:
    """Return a job, removed or not; raises `NotFoundError`."""
    job = JOBS.one(tx.db, "no = ?", (no,))
    if job is None:
        raise NotFoundError("CRON_UNKNOWN", f"there is no scheduled job number {no}", hint="daycare cron list")
    return job


def _job(row: tuple[Any, ...]) -> CronJob:
    values = dict(zip(_COLUMNS.split(", "), row, strict=True))
    values["spec"] = _decode_spec(values["spec"])
    values["bounds"] = _decode_bounds(values["bounds"])
    values["paused"] = bool(values["paused"])
    return CronJob(**values)


JOBS: Final = Select(_COLUMNS, "cron_jobs", _job)


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
    tx.commit.add(CronNews).changed = True
    return must_get(tx, tx.db.last_insert_rowid())


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


def _skip_waiting(tx: Tx, no: int, reason: str) -> None:
    rows = tx.db.execute("SELECT no FROM cron_runs WHERE job = ? AND state = 'waiting'", (no,)).fetchall()
    for (run,) in rows:
        tx.run(
            "UPDATE cron_runs SET state = 'skipped', reason = ?, post_at = NULL, ended_at = ? WHERE no = ?",
            (reason, tx.now, run),
        )
        cron_ledger.note(tx, int(str(run)))


def _when(spec: CronSpec) -> tuple[str, str, str, bool]:
    return spec.cron, spec.at, spec.zone, spec.enabled
