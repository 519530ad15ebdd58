"""What an agent does with tasks of its own user, as tools: start, list, cancel; and tell how far its own is."""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from daycare.agent.blocks import one_line
from daycare.agent.task_controls import TaskControls
from daycare.base import crontab
from daycare.base.cron import Name, Value
from daycare.base.errors import InvalidError
from daycare.base.limits import PROGRESS_MAX_CHARS, TASK_DEADLINE_MAX_S, TASK_DEADLINE_S, WAIT_MAX_S
from daycare.base.path import Path
from daycare.base.task import Parameter, TaskSpec
from daycare.base.tool import Sourced
from daycare.base.zones import zone_of
from daycare.plugin import StructTool, ToolContext, Waiting
from daycare.store.records_tasks import Task
from daycare.store.sqlite.tasks import TaskRows
from daycare.tools.runner import TASKS_ONLY

_LINE_CHARS = 120
_LISTED = 20


class TaskStart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Start work that goes on in the background, with a conversation of its own, until a deadline; it goes on when this
    conversation begins anew. Its answer comes as a message, or with wait as this call's result. For parts of what you
    do right now use spawn."""

    prompt: Annotated[
        str, msgspec.Meta(min_length=1, description="All that is to be known and done; {{name}} is a value")
    ]
    name: Annotated[str, msgspec.Meta(description="A short name: a-z, 0-9, - and _; default: a number")] = ""
    parameters: Annotated[
        dict[Name, Value | Parameter],
        msgspec.Meta(description='Values, such as {"city": "Bonn"} or {"days": {"value": 3, "type": "whole"}}'),
    ] = msgspec.field(default_factory=dict)
    deadline_s: Annotated[
        float, msgspec.Meta(ge=1, le=TASK_DEADLINE_MAX_S, description="Seconds until it is stopped, with what it has")
    ] = TASK_DEADLINE_S
    wait: bool = False


class TaskList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """List the user's tasks, the newest first: how far they are, how they ended."""


class TaskCancel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Stop a task that is not wanted any more."""

    name: Annotated[str, msgspec.Meta(description="The task's name or number")]


class TaskProgressTold(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Tell how far you are with your task, in a line, for people who watch. Nobody is disturbed by it."""

    text: Annotated[str, msgspec.Meta(min_length=1, max_length=PROGRESS_MAX_CHARS)]


class TaskTools:
    """Makes these tools."""

    def __init__(self, controls: TaskControls) -> None:
        self._controls = controls

    def tools(self) -> Sequence[StructTool[Any]]:
        """Return the tools."""
        return (
            StructTool("task_start", TaskStart, self._start, idempotent=True, outlasts=True),
            StructTool("task_list", TaskList, self._list, idempotent=True),
            StructTool("task_cancel", TaskCancel, self._cancel, idempotent=True, outlasts=True),
            StructTool(TASKS_ONLY, TaskProgressTold, self._progress, idempotent=True),
        )

    async def _start(self, context: ToolContext, it: TaskStart) -> str | Waiting:
        spec = TaskSpec(prompt=it.prompt, parameters=it.parameters, deadline_s=it.deadline_s)
        wait = f"task:{context.path}:{context.turn}:{context.step}" if it.wait else ""
        task = await self._controls.start_for(context, spec, name=it.name, wait=wait)
        if wait:
            return Waiting(key=wait, deadline_s=min(it.deadline_s + _AFTER_DEADLINE_S, WAIT_MAX_S))
        return f"task {task.id} works on it; its answer will come as a message"

    async def _list(self, context: ToolContext, it: TaskList) -> Sourced:
        zone = await self._controls.zone(context.user)
        tasks = await self._controls.store.of(TaskRows).find(user=context.user, limit=_LISTED)
        told = [task.progress[-1].origins or () for task in tasks if task.progress and task.ended_at is None]
        origins = tuple(dict.fromkeys(origin for each in told for origin in each))
        return Sourced("\n".join(line_of(task, zone) for task in tasks) or "there are none", origins)

    async def _cancel(self, context: ToolContext, it: TaskCancel) -> str:
        if it.name.startswith("/"):
            bare = it.name.rsplit("/", 1)[-1]
            raise InvalidError("TASK_NAME", f"looking for {it.name}: give the task's name alone", hint=bare)
        task = await self._controls.cancel(str(Path.task(context.user, it.name)), by=context.path)
        return f"task {task.id} is being stopped"

    async def _progress(self, context: ToolContext, it: TaskProgressTold) -> str:
        agent = await self._controls.directory.at(context.path)
        key = f"{context.turn}:{context.step}:{context.call_id}"
        task = await self._controls.store.of(TaskRows).progress(agent.id, it.text, key, await context.origins())
        return "told" if task is not None else "your task has ended"


def line_of(task: Task, zone: str) -> str:
    """Return a task on one line: its name, what it is, and how far it is or how it ended."""
    here = zone_of(zone)
    state = task.state + (f" ({task.reason})" if task.reason else "")
    if task.ended_at is not None:
        state += f" {crontab.local(task.ended_at, here)}"
    else:
        state += f", until {crontab.local(task.deadline_at, here)}"
        if task.progress:
            state += f"; {one_line(task.progress[-1].text, _LINE_CHARS)}"
    return f"{task.id} {one_line(task.prompt, _LINE_CHARS)}: {state}"


_AFTER_DEADLINE_S = 60.0  # in which a task that was stopped hands over what it had
