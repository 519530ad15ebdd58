"""Scheduled jobs: the next runs, and those that are off, broken, late, or failed within a day."""

import heapq
from collections.abc import Iterator
from itertools import islice
from typing import Final

from daycare.base.crontab import local
from daycare.base.english import plural
from daycare.base.errors import InvalidError
from daycare.base.times import when
from daycare.base.zones import zone_of
from daycare.ops.doctor.context import DoctorContext
from daycare.ops.doctor.finding import DoctorFinding
from daycare.store.sqlite.inspection import InspectedJob

_NEXT: Final = 3
_SHOWN: Final = 5  # of those in one state
_LATE_MS: Final = 300_000  # a daemon that works posts a run within a second


def jobs(context: DoctorContext) -> Iterator[DoctorFinding]:
    """All that is scheduled, as the database has it."""
    inside = context.inside
    if inside is None:
        return
    known = inside.jobs
    for problem in ((context.status or {}).get("cron") or {}).get("problems", ()):
        yield DoctorFinding("fail", "cron", str(problem), "correct it there, then: daycare cron list")
    broken = [job for job in known if _broken(job)]
    for job in broken[:_SHOWN]:
        yield DoctorFinding("fail", "cron", f"{job.path}: {_broken(job)}", f"daycare cron show {job.path}")
    working = [job for job in known if job not in broken]
    paused = [job.path for job in working if job.paused]
    off = [job.path for job in working if job.spec is not None and not job.spec.enabled and not job.paused]
    for what, paths, hint in (("paused", paused, "daycare cron resume"), ("switched off", off, "daycare cron show")):
        if paths:
            told = f"{len(paths)} {what}: {', '.join(paths[:_SHOWN])}"
            yield DoctorFinding("ok", "cron", f"{told}; {hint} {paths[0]}")
    late = [job for job in working if _late(job, context.now_ms)]
    if late and context.running:
        told = f"{late[0].path} was due {when(late[0].next_at)} and did not run; {len(late)} in all"
        yield DoctorFinding("fail", "cron", told, "daycare health, then daycare restart")
    elif late:
        told = f"{len(late)} {plural('job', len(late))} due since {when(late[0].next_at)} and no daemon runs"
        yield DoctorFinding("warn", "cron", told, "daycare run")
    for path, reason in inside.failed[:_SHOWN]:
        yield DoctorFinding("warn", "cron", f"{path} failed within a day: {reason}", f"daycare cron history {path}")
    for path, count in inside.missed[:_SHOWN]:
        told = f"{path} missed {count} {plural('run', count)} within a day: no daemon ran, or it was too late"
        yield DoctorFinding("warn", "cron", told, f"daycare cron history {path}")
    soon = heapq.merge(*(_times(job) for job in working if _lives(job)), key=lambda each: each[0])
    following = list(islice(soon, _NEXT))
    if following:
        told = "; ".join(f"{job.path} {_shown(at, job)}" for at, job in following)
        yield DoctorFinding("ok", "cron", f"{len(known)} {plural('job', len(known))}; next {told}")
    elif not known:
        yield DoctorFinding("ok", "cron", "no jobs")
    else:
        yield DoctorFinding("ok", "cron", f"{len(known)} {plural('job', len(known))}, none of them due again")


def _broken(job: InspectedJob) -> str:
    if job.spec is None:
        return "this version does not understand it"
    try:
        zone_of(job.spec.zone or job.zone)
        job.spec.checked()
    except InvalidError as error:
        return error.message
    return ""


def _lives(job: InspectedJob) -> bool:
    return not job.paused and job.spec is not None and job.spec.enabled and job.next_at is not None


def _late(job: InspectedJob, now_ms: int) -> bool:
    return _lives(job) and job.next_at is not None and now_ms - job.next_at > _LATE_MS


def _times(job: InspectedJob) -> Iterator[tuple[int, InspectedJob]]:
    assert job.next_at is not None
    assert job.spec is not None
    yield job.next_at, job
    for at in islice(job.spec.times(job.zone, job.next_at), _NEXT - 1):
        yield at, job


def _shown(at_ms: int, job: InspectedJob) -> str:
    assert job.spec is not None
    return local(at_ms, zone_of(job.spec.zone or job.zone))[:16].replace("T", " ")
