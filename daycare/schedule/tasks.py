"""Tasks, wired: what people and agents do with them, and what tells whoever asked when one has not ended well.

An answer goes out in the transaction that ends its turn. All other ends, and an agent's soft death after each, are seen
to here, from the store: a start after a crash finds what was left.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from daycare.actors.router import Router
from daycare.agent.commands import Commands
from daycare.agent.deliveries import Deliveries, told_note
from daycare.agent.task_commands import TaskCommands
from daycare.agent.task_controls import May, TaskControls
from daycare.agent.task_tools import TaskTools
from daycare.base.clock import Clock
from daycare.base.events import TaskEnded, TaskProgressed, TaskStarted
from daycare.base.limits import TASK_LOOK_S, TASK_PAGE
from daycare.base.messages import Envelope, EnvelopeKind, Origin, Origins, dismissal
from daycare.feature import Feature
from daycare.observe.about import about_row
from daycare.observe.bus import Bus
from daycare.observe.keeper import SetAside
from daycare.plugin import StructTool
from daycare.rules.taint import spoken_in
from daycare.settings import Live
from daycare.store.contract import Store
from daycare.store.records import Commit, Delivery, Reply
from daycare.store.records_tasks import Task, TaskNews
from daycare.store.sqlite.tasks import TaskRows
from daycare.store.worker import Worker

_EXPIRE_ROWS = 1_000
_SAID_MAX = 10  # messages of a task that are looked at: each carries what all before it had read


class Tasks(Feature):
    """All of it. Tasks are kept for `[store] keep_days` after their end.

    `may(subject, action, object)` raises what keeps an agent from starting or cancelling one.
    """

    name = "tasks"

    def __init__(
        self, store: Store, deliveries: Deliveries, router: Router, may: May, bus: Bus, clock: Clock, live: Live
    ) -> None:
        self.controls = TaskControls(store, deliveries.directory, router, clock, may)
        self._deliveries = deliveries
        self._store = store
        self._clock = clock
        self._bus = bus
        self._live = live
        self.worker = Worker(self._look)

    def tools(self) -> Sequence[StructTool[Any]]:
        """Return the tools by which agents start tasks, and tell how far they are."""
        return TaskTools(self.controls).tools()

    def add_to(self, commands: Commands) -> None:
        """Register the chat command."""
        TaskCommands(self.controls, self._deliveries.connectors).add_to(commands)

    def background(self) -> Mapping[str, Callable[[], Awaitable[None]]]:
        """Return what settles tasks that have ended."""
        return {"tasks": self.worker.run}

    def sweeps(self) -> Mapping[str, Callable[[int], Awaitable[int]]]:
        """Return what ends old tasks."""
        return {"tasks": self.expire}

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
        if news.tasks:
            self.controls.changed()
            self.worker.wake()

    async def _look(self) -> float:
        """Settle what has ended."""
        while tasks := await self._store.of(TaskRows).unsettled(TASK_PAGE):
            for task in tasks:
                with SetAside(self._bus, self._clock, "tasks", f"the end of task {task.no}") as tried:
                    await self._settle(task)
                if tried.failed:
                    await self._store.of(TaskRows).settle(task.no, _dismissal(task), None, None)
        return TASK_LOOK_S

    async def _settle(self, task: Task) -> None:
        told, note = None, None
        if text := _words(task):
            way = await self._deliveries.way(task.user, task.deliver, task.connector, task.target)
            if way is not None:
                to, connector, target = way
                told = Delivery(agent=to, reply=Reply(connector=connector, target=target, text=text))
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
        await self._store.of(TaskRows).settle(task.no, _dismissal(task), told, note)

    async def _origins(self, task: Task) -> Origins:
        """Return where the words of others came from in what a task had said."""
        agent = await self._deliveries.directory.get(task.agent_id)
        return spoken_in(await self._store.turns.history(agent.id, agent.session, _SAID_MAX))

    async def expire(self, now_ms: int) -> int:
        """Delete a bounded number of tasks that ended long ago; return how many."""
        return await self._store.of(TaskRows).expire(now_ms - self._live.now.store.keep_ms, _EXPIRE_ROWS)


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
