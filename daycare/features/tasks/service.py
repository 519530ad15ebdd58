"""What people and agents do with tasks: start, look at, wait for and cancel them; and who hears of their ends."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

import trio
from msgspec.structs import replace

from daycare.actors.directory import Directory
from daycare.actors.router import Router
from daycare.agent.bounds import bounds_of
from daycare.agent.deliveries import Deliveries, told_note
from daycare.base import crontab
from daycare.base.causes import AgentQuestion, TaskWork
from daycare.base.clock import Clock
from daycare.base.cron import NOBODY
from daycare.base.errors import ConflictError, ForbiddenError, InvalidError, NotFoundError
from daycare.base.events import TaskEnded, TaskProgressed, TaskStarted
from daycare.base.ids import new_agent_id, new_trace_id
from daycare.base.limits import ASK_CHAIN_MAX
from daycare.base.messages import Envelope, EnvelopeKind, Origin, Origins, dismissal
from daycare.base.path import Kind, Path, Role, owner_of
from daycare.base.permission import KILL, SPAWN
from daycare.base.zones import zone_of
from daycare.features.tasks.records import NewTask, Task, TaskNews, TaskSpec
from daycare.features.tasks.rows import TaskRows
from daycare.observe.about import about_row
from daycare.observe.bus import Bus
from daycare.observe.keeper import SetAside
from daycare.plugin import ToolContext
from daycare.rules.taint import spoken_in
from daycare.settings import Live
from daycare.store.records import Agent, AgentConfig, Commit, ForwardedReply, NewAgent, Policy, Reply
from daycare.store.sqlite.store import Store
from daycare.store.worker import Worker
from daycare.tools.catalogue import TASKS_ONLY
from daycare.tools.context import shortened

TASK_LOOK_S: Final = 60.0  # between two looks for ended tasks when nothing was heard of any
TASK_PAGE: Final = 64  # tasks looked at in one go

May = Callable[[str, str, str], Awaitable[object]]
_NAMELESS: Final = "x"  # stands for the name of a task that gets its number


@dataclass
class TaskControls:
    """Does it. `may(subject, action, object)` raises what keeps an agent from it; people are not asked."""

    store: Store
    directory: Directory
    router: Router
    clock: Clock
    may: May
    _news: trio.Event = field(default_factory=trio.Event)

    def __post_init__(self) -> None:
        """Find where tasks are kept."""
        self.rows = self.store.of(TaskRows)

    async def start(
        self,
        user: str,
        spec: TaskSpec,
        *,
        key: str,
        name: str = "",
        deliver: str = "",
        connector: str = "",
        target: str | None = None,
    ) -> Task:
        """Start a task for a person; once for each `key`.

        What it comes to is told in the conversation `deliver`, over the `connector` and to the `target` they asked
        from; empty: in the latest. Raises `InvalidError` that names the field, `ConflictError`, `BusyError`.
        """
        if deliver not in ("", NOBODY):
            self._check_place(deliver, user, by_hand=not connector)
        work = TaskWork(deliver=deliver, connector=connector, target=target)
        message = Envelope(
            to="",
            user=user,
            origin=Origin.PERSON,
            sender=deliver if deliver.startswith("/") else f"/{user}/direct",
            key="task",
            text="",
            trace=new_trace_id(),
        )
        new = await self._new(user, spec, name, f"{user}:{key}", message, work, AgentConfig())
        return await self.rows.start(
            replace(new, deliver=deliver, connector=connector, target=target),
        )

    async def start_for(self, context: ToolContext, spec: TaskSpec, *, name: str = "", wait: str = "") -> Task:
        """Start a task for an agent, once for each call; with `wait` that call waits for the answer under this key."""
        asker = await self.directory.at(context.path)
        key = f"{asker.id}:{context.turn}:{context.step}:{context.call_id}"
        if (known := await self.rows.by_key(key)) is not None:
            return known
        await self._check_asker(context, asker, name, wait)
        chains = context.chains
        # One that nobody waits for goes on when a new conversation begins, and its answer is wanted there.
        question = AgentQuestion(wait or f"{key}:task", asker.id, asker.session if wait else None)
        work = TaskWork(question=question, waits=bool(wait))
        message = Envelope(
            to="",
            user=asker.user,
            origin=Origin.AGENT,
            sender=asker.path,
            key="task",
            text="",
            trace=context.trace,
            chain=chains.waiting if wait else (),
            via=chains.via,
            origins=await context.origins(),
        )
        config = replace(await bounds_of(self.directory, asker), tools=(*context.allowed, TASKS_ONLY))
        new = await self._new(asker.user, spec, name, key, message, work, config)
        await self.router.count(new.message)
        return await self.rows.start(replace(new, asker=asker.path, waits=bool(wait)))

    async def cancel(self, path: str, *, by: str = "") -> Task:
        """Stop a task that has not ended; what it had goes to whoever asked, but for the very agent that cancels it.

        `by` is the agent that does. Raises `NotFoundError`, `ForbiddenError`, `ConflictError` TASK_ENDED.
        """
        task = await self.at(path)
        if by:
            await self.may(by, KILL, task.path)
        ended = ConflictError("TASK_ENDED", f"cancelling {task.path}: it is {task.state}", hint=f"daycare task {path}")
        if task.ended_at is not None:
            raise ended
        stop = dismissal(
            task.path,
            task.agent_id,
            task.user,
            key="task:cancel",
            reason=f"cancelled by {by or 'the user'}",
            trace=task.trace,
            by=by,
            quiet=True,
            untold=(await self.directory.at(by)).id if by and by == task.asker and not task.waits else "",
        )
        try:
            await self.router.post(stop)
        except NotFoundError:  # it ended meanwhile
            raise ended from None
        return task

    async def at(self, path: str) -> Task:
        """Return the newest task at a path. Raises `NotFoundError`."""
        task = await self.rows.at(path)
        if task is None:
            raise NotFoundError("TASK_UNKNOWN", f"looking up {path}: no such task", hint="daycare task list")
        return task

    async def wait(self, task: Task, wait_s: float, *, progress: int | None = None) -> Task:
        """Return a task once it has ended, or has other progress than the time of its last line; or after a time."""
        with trio.move_on_after(wait_s):
            while task.ended_at is None and (progress is None or last_progress(task) == progress):
                news = self._news  # before looking: what is committed after the look sets this one
                found = await self.rows.get(task.no)
                if found is None:
                    break
                if found.ended_at is None and (progress is None or last_progress(found) == progress):
                    await news.wait()
                task = found
        return await self.rows.get(task.no) or task

    def changed(self) -> None:
        """Some task is not as it was. Called after the commit."""
        self._news.set()
        self._news = trio.Event()

    async def zone(self, user: str) -> str:
        """Return the time zone a user lives in. Raises `NotFoundError`."""
        person = await self.store.people.get(user)
        if person is None:
            raise NotFoundError("USER_UNKNOWN", f"starting a task of {user}: no such user", hint="daycare users list")
        return person.zone

    async def _new(
        self, user: str, spec: TaskSpec, name: str, key: str, message: Envelope, work: TaskWork, config: AgentConfig
    ) -> NewTask:
        text, values = spec.said(), spec.values()
        path = Path.task(user, name or _NAMELESS)  # a wrong name is refused here
        deadline_at = self.clock.now_ms() + round(spec.deadline_s * 1000)
        due = crontab.local(deadline_at, zone_of(await self.zone(user)))
        config = replace(config, description=shortened(text, 100), policy=Policy.FOLLOWUP)
        return NewTask(
            user=user,
            id=name,
            key=key,
            prompt=text,
            parameters=values,
            deadline_at=deadline_at,
            message=replace(message, text=text, cause=replace(work, due=due)),
            create=NewAgent(
                id=new_agent_id(),
                path=str(path),
                kind=Kind.TASK,
                role=Role.TASK,
                user=user,
                origin=message.origin,
                config=config,
            ),
        )

    async def _check_asker(self, context: ToolContext, asker: Agent, name: str, wait: str) -> None:
        if Path.stored(asker.path, Kind(asker.kind)).root.kind is Kind.TASK:
            raise ForbiddenError("TASK_NESTED", "starting a task: a task starts no others", hint="spawn a helper")
        await self.may(asker.path, SPAWN, str(Path.task(asker.user, name or _NAMELESS)))
        if wait and len(context.chains.waiting) > ASK_CHAIN_MAX:
            waiting = len(context.chains.waiting)
            raise ConflictError("ASK_CHAIN", f"starting a task: {waiting} agents wait already", hint="do not wait")

    def _check_place(self, deliver: str, user: str, *, by_hand: bool) -> None:
        place = self.directory.parse(deliver)
        if by_hand and not place.is_foreground:
            raise InvalidError(
                "TASK_INVALID", f"deliver {place}: people talk at /{user}/CONNECTOR", hint="doc/use/tasks.md"
            )
        if by_hand and owner_of(place) != user:
            raise ForbiddenError("OTHER_USER", f"deliver {place}: it belongs to another user", hint=f"/{user}/...")


def last_progress(task: Task) -> int:
    """Return when a task told last how far it is; 0: not yet."""
    return task.progress[-1].at if task.progress else 0


_EXPIRE_ROWS = 1_000
_SAID_MAX = 10  # messages of a task that are looked at: each carries what all before it had read


class TaskEnds:
    """Tells observers of tasks, whoever asked of the ends of those that have no answer, and lets their agents go.

    An answer goes out in the transaction that ends its turn. All other ends, and an agent's soft death after each, are
    seen to here, from the store: a start after a crash finds what was left. `changed` is called when a task is not as
    it was.
    """

    def __init__(
        self, store: Store, deliveries: Deliveries, changed: Callable[[], None], bus: Bus, clock: Clock, live: Live
    ) -> None:
        self._store = store
        self._rows = store.of(TaskRows)
        self._deliveries = deliveries
        self._changed = changed
        self._bus = bus
        self._clock = clock
        self._live = live
        self.worker = Worker(self._look)

    def committed(self, commit: Commit) -> None:
        """Let observers know what became of tasks. Called after the commit."""
        news = commit.news_of(TaskNews)
        if news is None:
            return
        for task in news.tasks:
            about = about_row(self._clock, task)
            if task.ended_at is not None:
                took_ms = task.ended_at - task.created_at
                self._bus.publish(
                    TaskEnded(**about, task=task.no, state=task.state, took_ms=took_ms, reason=task.reason)
                )
            elif task.state == "waiting":
                self._bus.publish(TaskStarted(**about, task=task.no, deadline_at=task.deadline_at, asker=task.asker))
        by_number = {task.no: task for task in news.tasks}
        for no, text in news.progress:
            self._bus.publish(TaskProgressed(**about_row(self._clock, by_number[no]), task=no, text=text))
        if news.tasks or not news.progress:  # or another node's
            self._changed()
            self.worker.wake()

    async def _look(self) -> float:
        """Settle what has ended."""
        while tasks := await self._rows.unsettled(TASK_PAGE):
            for task in tasks:
                with SetAside(self._bus, self._clock, "tasks", f"the end of task {task.no}") as tried:
                    await self._settle(task)
                if tried.failed:
                    await self._rows.settle(task.no, _dismissal(task), None, None)
        return TASK_LOOK_S

    async def _settle(self, task: Task) -> None:
        told, note = None, None
        if text := _words(task):
            way = await self._deliveries.way(task.user, task.deliver, task.connector, task.target)
            if way is not None:
                to, connector, target = way
                told = ForwardedReply(agent=to, reply=Reply(connector=connector, target=target, text=text))
                note = Envelope(
                    to=to.path,
                    agent_id=to.id,
                    user=to.user,
                    origin=Origin.AGENT,
                    sender=task.path,
                    key=f"task:{task.no}",
                    text=told_note(f"the task {task.path}", text),
                    trace=task.trace,
                    kind=EnvelopeKind.NOTE,
                    via=(task.path,),
                    origins=await self._origins(task),
                )
        await self._rows.settle(task.no, _dismissal(task), told, note)

    async def _origins(self, task: Task) -> Origins:
        """Return where the words of others came from in what a task had said."""
        agent = await self._deliveries.directory.get(task.agent_id)
        return spoken_in(await self._store.turns.history(agent.id, agent.session, _SAID_MAX))

    async def expire(self, now_ms: int) -> int:
        """Delete a bounded number of tasks that ended long ago; return how many."""
        return await self._rows.expire(now_ms - self._live.now.store.keep_ms, _EXPIRE_ROWS)


def _dismissal(task: Task) -> Envelope:
    key, reason = "task:ended", "its task has ended"
    return dismissal(task.path, task.agent_id, task.user, key=key, reason=reason, trace=task.trace, quiet=True)


def _words(task: Task) -> str:
    """Return what a person is told of a task without an answer; empty for what they know or did not ask for."""
    if task.asker or task.state == "done":
        return ""
    had = "\n".join(line for line in (*_progress(task), task.result or "") if line)
    if task.state == "cancelled" and not had:
        return ""  # whoever did it was told so
    what = {"cancelled": "was cancelled", "expired": "was stopped, its deadline has passed"}
    how = what.get(task.state, f"failed: {task.reason}")
    return f"The task {task.id} {how}." + (f" What it had:\n{had}" if had else "")


def _progress(task: Task) -> list[str]:
    """Return what a task told of its progress, unless its last words have it."""
    return [] if task.result else [line.text for line in task.progress]
