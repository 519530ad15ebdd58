"""What becomes of a job's due times, and what an occurrence says: decided without waiting or writing."""

from itertools import chain
from typing import Final
from zoneinfo import ZoneInfo

from daycare.base.causes import JobRun
from daycare.base.cron import within
from daycare.base.durations import duration
from daycare.base.fence import fence
from daycare.base.ids import new_trace_id
from daycare.base.limits import CRON_ANSWER_SHOWN_CHARS, CRON_DUE_MAX, CRON_ON_TIME_S
from daycare.base.messages import Envelope, Origin
from daycare.base.times import local_time
from daycare.base.zones import zone_of
from daycare.store.records_cron import CronAnswer, CronFiring, CronJob, CronRun, NewCronRun

_ON_TIME_MS: Final = int(CRON_ON_TIME_S * 1000)


def plan(job: CronJob, zone: str, now_ms: int) -> CronFiring:
    """Decide on what is due of a job; `zone` is its user's. What is too much for once is left for the next time.

    What begins within `CRON_ON_TIME_S` is on time. Of what is later at most the last runs, if its policy says so.
    """
    assert job.next_at is not None
    due: list[int] = []
    next_at: int | None = None
    for at in chain((job.next_at,), job.spec.times(zone, job.next_at)):
        if at > now_ms or len(due) == CRON_DUE_MAX:
            next_at = at
            break
        due.append(at)
    on_time = [at for at in due if now_ms - at <= _ON_TIME_MS]
    late = due[: len(due) - len(on_time)]
    runs: list[NewCronRun] = []
    if late:
        last = late[-1] if not on_time and (next_at is None or next_at > now_ms) else None
        runs = _late(job, late, last, now_ms)
    runs += [NewCronRun(due_at=at, state="due") for at in on_time]
    return CronFiring(job=job, runs=tuple(runs), next_at=next_at)


def _late(job: CronJob, late: list[int], last: int | None, now_ms: int) -> list[NewCronRun]:
    """`last` is the newest of all that are late, if nothing newer is due."""
    minutes = within(job.spec.misfire)
    policy = f"misfire policy: {job.spec.misfire}"
    passed = f"{policy}, of several the newest" if minutes else policy
    runs = [NewCronRun(due_at=at, state="missed", reason=passed) for at in late]
    if last is not None and (now_ms - last) / 60_000 <= minutes:
        runs[-1] = NewCronRun(due_at=last, state="waiting", reason=policy)
    return runs


def compose(job: CronJob, run: CronRun, zone: str, now_ms: int, last: CronAnswer | None) -> Envelope:
    """Return the message of a run; `last` is what the job answered last."""
    here = zone_of(job.spec.zone or zone)
    text = job.spec.said(run.parameters)
    if last is not None:
        answer = last.text
        if len(answer) > CRON_ANSWER_SHOWN_CHARS:
            answer = f"{answer[:CRON_ANSWER_SHOWN_CHARS]} [cut: {len(answer)} characters in all]"
        text += f"\n\nYour answer of {_local(last.due_at, here)}, for comparison:\n{fence('earlier-answer', answer)}"
    late_s = (now_ms - run.due_at) / 1000
    cause = JobRun(
        job=job.path,
        due=_local(run.due_at, here),
        deliver=job.spec.deliver,
        late=duration(late_s) if not run.by_hand and late_s * 1000 > _ON_TIME_MS else "",
        until=_local(deadline_of(job, now_ms), here) if job.spec.task else "",
    )
    return Envelope(
        to="" if job.spec.task else job.spec.target or job.path,
        user=job.user,
        origin=Origin.CRON,
        sender=job.path,
        key=f"cron:{job.no}:{run.due_at}:{run.attempt}",
        text=text,
        trace=new_trace_id(),
        cause=cause,
        origins=last.origins if last is not None else None,
    )


def deadline_of(job: CronJob, now_ms: int) -> int:
    """Return when the task is stopped that a run begins now."""
    return now_ms + round(job.spec.deadline_s * 1000)


def _local(at_ms: int, zone: ZoneInfo) -> str:
    return f"{local_time(at_ms, zone):%a %Y-%m-%d %H:%M %Z}"
