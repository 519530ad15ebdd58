"""The schedule: notices what is due, records it, and posts it to the agents of the jobs.

Recording a due time, posting it and moving its job on are one commit, so that a crash neither loses nor doubles one.
What is late is recorded at once and posted little by little, so that a start after a long absence is no burst.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final
from zoneinfo import ZoneInfo

import trio
from msgspec.structs import replace

from daycare.actors.directory import Directory
from daycare.actors.router import Router
from daycare.agent.bounds import is_as_bound
from daycare.base import crontab
from daycare.base.causes import JobRun
from daycare.base.clock import Clock
from daycare.base.cron import within
from daycare.base.durations import duration
from daycare.base.errors import BusyError, DaycareError, InvalidError, UnavailableError
from daycare.base.events import CronBroken, CronDue, CronFailed, CronMissed, CronRan
from daycare.base.fence import fence
from daycare.base.ids import new_trace_id
from daycare.base.limits import CRON_LOOK_S, CRON_ON_TIME_S
from daycare.base.messages import Envelope, Origin, dismissal
from daycare.base.path import Kind, Path
from daycare.base.times import local_time
from daycare.base.zones import zone_of
from daycare.features.cron.model import CronAnswer, CronFiring, CronJob, CronNews, CronPost, CronRun, NewCronRun
from daycare.features.cron.rows import CronRows
from daycare.features.tasks.records import NewTask
from daycare.observe.bus import Bus
from daycare.observe.keeper import SetAside, is_of_the_store
from daycare.settings import Live
from daycare.store.records import Commit, Policy
from daycare.store.sqlite.store import Store
from daycare.store.worker import Worker
from daycare.tools.context import shortened

CRON_PAGE: Final = 64  # jobs fired in one transaction
CRON_DUE_MAX: Final = 500  # missed times of one job recorded in one transaction: 5 ms to find them
CRON_CATCH_UP_S: Final = 5.0  # between two late runs of whatever jobs: 12 a minute
CRON_FILES_LOOK_S: Final = 10.0  # between two looks at the folder
CRON_ANSWER_SHOWN_CHARS: Final = 2_000  # of the last answer, in a fresh session's prompt

_EXPIRE_ROWS: Final = 1_000
_PAGE: Final = 16  # jobs read at a time when the clock was set back: some 2 ms


@dataclass
class Schedule:
    """Runs the jobs. `read` brings in what stands in config.toml and files, and is called again and again.

    `tell(user, text, topic, path)` lets a person know of what did not run and will not by itself.
    """

    store: Store
    directory: Directory
    router: Router
    bus: Bus
    clock: Clock
    live: Live
    read: Callable[[], Awaitable[None]]
    tell: Callable[[str, str, str, str], Awaitable[None]]
    _seen_ms: int = 0  # the wall time of the last look
    _caught_up_at: float = float("-inf")  # trio's clock when a late run was posted last
    _orphaned: bool = True  # a job may have gone without its agent

    def __post_init__(self) -> None:
        """Have it looked when something is due, has changed, or the clock may have been set."""
        self.rows = self.store.of(CronRows)
        self._worker = Worker(self.look)

    def committed(self, commit: Commit) -> None:
        """Something was committed: look again where a job was added or changed, or a run waits; tell observers."""
        news = commit.news_of(CronNews)
        if news is not None:
            if news.changed:
                self._orphaned = True
                self._worker.wake()
            self._announce(news.runs)

    def _announce(self, runs: Sequence[CronRun]) -> None:
        for run in runs:
            about: dict[str, Any] = {
                "at_ms": self.clock.now_ms(),
                "path": run.path,
                "user": run.user,
                "trace": run.trace,
            }
            about |= {"agent_id": run.agent_id or "", "due_at": run.due_at, "run": run.no}
            match run.state:
                case "due":
                    self.bus.publish(CronDue(**about, attempt=run.attempt))
                case "ran" | "late":
                    took_ms = (run.ended_at or 0) - (run.started_at or run.ended_at or 0)
                    self.bus.publish(CronRan(**about, state=run.state, took_ms=took_ms, turn=run.turn or 0))
                case "missed" | "skipped":
                    self.bus.publish(CronMissed(**about, state=run.state, count=run.count, reason=run.reason))
                case "failed":
                    self.bus.publish(CronFailed(**about, reason=run.reason))
                case "waiting" if run.attempt:
                    self.bus.publish(CronFailed(**about, reason=run.reason, again_at=run.post_at or 0))

    def background(self) -> Mapping[str, Callable[[], Awaitable[None]]]:
        """Return what runs the jobs, and what reads their files again, until cancelled, by name."""
        return {"schedule": self._worker.run, "schedule's files": Worker(self._read_again).run}

    async def look(self) -> float:
        """Do what is to be done now; return how many seconds may pass before the next look."""
        now_ms = self.clock.now_ms()
        if now_ms < self._seen_ms or not self._seen_ms:
            await self._rewind(now_ms)
        self._seen_ms = now_ms
        jobs = await self.rows.due(now_ms, CRON_PAGE)
        if jobs:
            firings = [await self._firing_or_none(job, now_ms) for job in jobs]
            for run in await self._fire(firings):
                await self._tell_of_failure(run)
            for firing in firings:
                await self._tell_of_missed(firing)
            return 0.0  # there may be more, and the clock goes on
        catch_up_s = self._caught_up_at + CRON_CATCH_UP_S - trio.current_time()
        for run in await self.rows.waiting(now_ms, CRON_PAGE):
            late = not run.by_hand and run.attempt == 0
            if late and catch_up_s > 0:
                continue
            await self._post(run, now_ms)
            if late:
                self._caught_up_at = trio.current_time()
                catch_up_s = CRON_CATCH_UP_S
        if self._orphaned:
            await self._dismiss_orphans()
        return await self._wait_s(now_ms, catch_up_s)

    async def _wait_s(self, now_ms: int, catch_up_s: float) -> float:
        waits = [CRON_LOOK_S]
        if (due := await self.rows.next_due()) is not None:
            waits.append((due - now_ms) / 1000)
        if (post := await self.rows.next_post()) is not None:
            waits.append(max((post - now_ms) / 1000, catch_up_s, 0.0))
        return max(min(waits), 0.0)

    async def _firing_or_none(self, job: CronJob, now_ms: int) -> CronFiring:
        """A job that cannot be understood any more, such as one of a zone that was abolished, holds up no other."""
        with self._aside(job):
            try:
                return await self._firing(job, now_ms)
            except InvalidError as error:
                reason = str(error)
                self.bus.publish(CronBroken(at_ms=now_ms, path=job.path, user=job.user, source=job.path, reason=reason))
        return CronFiring(job=job, runs=(), next_at=None)

    async def _fire(self, firings: Sequence[CronFiring]) -> list[CronRun]:
        try:
            return await self.rows.fire(firings)
        except Exception as defect:  # of one of them: each by itself
            if is_of_the_store(defect):
                raise
        runs: list[CronRun] = []
        for each in firings:
            with self._aside(each.job) as tried:
                runs += await self.rows.fire([each])
            if tried.failed:
                runs += await self.rows.fire([CronFiring(job=each.job, runs=(), next_at=None)])
        return runs

    def _aside(self, job: CronJob) -> SetAside:
        return SetAside(self.bus, self.clock, "schedule", f"the job {job.path}")

    async def _firing(self, job: CronJob, now_ms: int) -> CronFiring:
        person = await self.store.people.get(job.user)
        if person is None:
            raise InvalidError("USER_REMOVED", f"{job.path}: its user was removed", hint=f"daycare cron rm {job.path}")
        zone = person.zone
        firing = plan(job, zone, now_ms)
        runs = []
        for run in firing.runs:
            if run.state == "due":
                entry = CronRun(
                    no=0, job=job.no, path=job.path, user=job.user, by_hand=False, due_at=run.due_at,
                    until_at=run.due_at, count=1, state="due", reason="", attempt=0, created_at=now_ms,
                )  # fmt: skip
                run = replace(run, post=await self._message(job, entry, zone, now_ms))
            runs.append(run)
        return replace(firing, runs=tuple(runs))

    async def _post(self, run: CronRun, now_ms: int) -> None:
        job = await self.rows.get(run.job)
        assert job is not None, "a job stays as long as its ledger"
        posted = await self.rows.post(run.no, await self._message(job, run, await self._zone(job), now_ms))
        if posted is not None:
            await self._tell_of_failure(posted)

    async def _tell_of_failure(self, run: CronRun) -> None:
        """A turn that fails is told of by whoever gives it up, what could not even be posted is told here."""
        if run.state == "failed":
            name = run.path.rsplit("/", 1)[-1]
            text = f"The scheduled job {name} could not run: {run.reason}. `daycare cron show {run.path}` shows it."
            await self.tell(run.user, text, f"cron:{run.path}", run.path)

    async def _tell_of_missed(self, firing: CronFiring) -> None:
        """A time that its job would have liked to run at, and that is too far in the past."""
        job = firing.job
        if not firing.runs or firing.runs[-1].state != "missed" or job.spec.misfire == "skip":
            return
        if firing.next_at is not None and firing.next_at <= self.clock.now_ms():
            return  # there are more to look at
        here = zone_of(job.spec.zone or await self._zone(job))
        due = crontab.local(firing.runs[-1].due_at, here)
        text = (
            f"The scheduled job {job.id} did not run at {due}: I was not there, and "
            f"by its policy ({job.spec.misfire} minutes) it is too late now. `daycare cron run {job.path}` runs it."
        )
        await self.tell(job.user, text, f"cron:{job.path}", job.path)

    async def _message(self, job: CronJob, run: CronRun, zone: str, now_ms: int) -> CronPost:
        if job.spec.target:
            return CronPost(envelope=compose(job, run, zone, now_ms, None))
        fresh = job.spec.session == "fresh"
        last = await self.rows.last_answer(job.no) if fresh else None
        if job.spec.task:
            return self._task(job, run, compose(job, run, zone, now_ms, last), now_ms)
        agent = await self.directory.find(job.path)
        if agent is not None:
            bounds = job.bounds
            if job.source != "agent":  # what the operator has given the agent of a person's job stays
                bounds = replace(bounds, workspace=agent.config.workspace, access=agent.config.access)
            if not is_as_bound(agent.config, bounds):  # it was that of another job of this name
                names = ("tools", "permissions", "approvals", "workspace", "access")
                bound = {name: getattr(bounds, name) for name in names}
                await self.store.agents.configure(agent.id, replace(agent.config, **bound))
        create = self.directory.new(Path.stored(job.path, Kind.CRON), origin=Origin.CRON, config=job.bounds)
        return CronPost(envelope=compose(job, run, zone, now_ms, last), create=create, fresh=fresh)

    def _task(self, job: CronJob, run: CronRun, envelope: Envelope, now_ms: int) -> CronPost:
        """Return a run as the task that it is, once for each attempt. It counts for the budget of its job, too."""
        config = replace(job.bounds, description=shortened(envelope.text, 100), policy=Policy.FOLLOWUP)
        task = NewTask(
            user=job.user,
            id=job.spec.task,
            key=f"{job.user}:{envelope.key}",
            prompt=job.spec.said(run.parameters),
            create=self.directory.new(Path.task(job.user, job.spec.task), origin=Origin.CRON, config=config),
            message=envelope,
            deadline_at=deadline_of(job, now_ms),
            payer=job.path,
            parameters=job.spec.parameters | run.parameters,
            deliver=job.spec.deliver,
        )
        return CronPost(envelope=envelope, task=task)

    async def _zone(self, job: CronJob) -> str:
        person = await self.store.people.get(job.user)
        return person.zone if person is not None else "UTC"

    async def _rewind(self, now_ms: int) -> None:
        """The clock was set back, perhaps before this start: nothing is due later than the rules say from here on.

        Only jobs are looked at that were decided on in what is the future now: most often none.
        """
        if not await self.rows.was_ahead(now_ms):
            return
        sooner = []
        after = 0
        while jobs := await self.rows.ahead(now_ms, after=after, limit=_PAGE):
            for job in jobs:
                await trio.lowlevel.checkpoint()  # others have a turn: there may be very many, at half a ms each
                assert job.next_at is not None
                first = None
                with self._aside(job), suppress(InvalidError):  # as in `_firing_or_none`
                    first = job.spec.first(await self._zone(job), now_ms)
                if first is not None and first < job.next_at:
                    sooner.append((job.no, job.revision, first))
            after = jobs[-1].no
        await self.rows.rewind(now_ms, sooner)

    async def _dismiss_orphans(self) -> None:
        """A job that is gone needs its agent no more."""
        self._orphaned = False
        for agent_id, path, user in await self.rows.orphans(CRON_PAGE):
            key, reason = f"dismiss:{agent_id}", "its job was removed"
            message = dismissal(path, agent_id, user, key=key, reason=reason, trace=new_trace_id(), quiet=True)
            try:
                await self.router.post(message)
            except (UnavailableError, BusyError):
                self._orphaned = True
            except DaycareError:
                continue  # it has died meanwhile

    async def _read_again(self) -> float:
        await self.read()
        return CRON_FILES_LOOK_S

    async def expire(self, now_ms: int) -> int:
        """Delete a bounded number of old runs, and removed jobs; return how many."""
        return await self.rows.expire(now_ms - self.live.now.store.keep_ms, _EXPIRE_ROWS)


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
    late_ms = now_ms - run.due_at
    cause = JobRun(
        job=job.path,
        due=_local(run.due_at, here),
        deliver=job.spec.deliver,
        late=duration(late_ms / 1000) if not run.by_hand and late_ms > _ON_TIME_MS else "",
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
