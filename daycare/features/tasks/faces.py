"""Tasks as agents see them (tools), people in a chat (`/task`), and programs (`/v1/tasks`)."""

import secrets
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import trio

from daycare.actors.lifecycle import Activation
from daycare.agent.blocks import one_line
from daycare.agent.commands import Command, CommandAnswer, Commands, check_manager
from daycare.agent.kinds import sender_connector
from daycare.api.callers import caller_of, persons
from daycare.api.described import described
from daycare.api.documents import Limit, Number, PathQuery, RequestDocument, answer, body, query
from daycare.api.wanted import while_wanted
from daycare.base import crontab
from daycare.base.cron import Name, Value
from daycare.base.errors import InvalidError
from daycare.base.limits import (
    API_WAIT_MAX_S,
    KEY_MAX_CHARS,
    PROGRESS_MAX_CHARS,
    TASK_DEADLINE_MAX_S,
    TASK_DEADLINE_S,
    WAIT_MAX_S,
)
from daycare.base.messages import Choice
from daycare.base.path import Path
from daycare.base.tool import ACTS, READS, STAYS, Sourced
from daycare.base.zones import zone_of
from daycare.features.tasks.records import Parameter, Task, TaskSpec, TaskState
from daycare.features.tasks.service import TaskControls
from daycare.plugin import StructTool, ToolContext, Waiting
from daycare.store.records import Agent, InboxRow
from daycare.tools.catalogue import TASKS_ONLY

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

_LINE_CHARS = 120
_LISTED = 20
_AFTER_DEADLINE_S = 60.0  # in which a task that was stopped hands over what it had


class TaskStart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Start work that goes on in the background, with a conversation of its own, until a deadline; it goes on when this
    conversation begins anew. Its answer comes as a message, or with wait as this call's result. For parts of what you
    do right now use spawn."""

    prompt: Annotated[str, msgspec.Meta(min_length=1, description="Everything to know and do; {{name}} is a value")]
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
            StructTool("task_start", TaskStart, self._start, idempotent=True, group="tasks", **ACTS),
            StructTool("task_list", TaskList, self._list, idempotent=True, group="tasks", **READS),
            StructTool("task_cancel", TaskCancel, self._cancel, idempotent=True, group="tasks", **ACTS),
            StructTool(TASKS_ONLY, TaskProgressTold, self._progress, idempotent=True, **STAYS),
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
        tasks = await self._controls.rows.find(user=context.user, limit=_LISTED)
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
        task = await self._controls.rows.progress(agent.id, it.text, key, await context.origins())
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


_SHOWN: Final = 10  # tasks of one answer: a phone's screen
_HELP: Final = "/task TEXT starts one, /task cancel NAME stops it; `daycare task show` tells all of one."


class TaskCommands:
    """Answers it. `connectors` are those that people write by."""

    def __init__(self, controls: TaskControls, connectors: Collection[str]) -> None:
        self._controls = controls
        self._connectors = connectors

    def add_to(self, commands: Commands) -> None:
        """Register it."""
        commands.add("task", Command("what works in the background [TEXT | cancel NAME]", self._run))

    async def _run(self, agent: Agent, lane: Activation, row: InboxRow, rest: str) -> CommandAnswer:
        verb, _, name = rest.partition(" ")
        if not rest or rest == "list":
            return await self._list(agent.user)
        await check_manager(self._controls.store.people, row, agent, "whose tasks these are can do that")
        if verb == "cancel" and name.strip() and " " not in name.strip():
            task = await self._controls.cancel(str(Path.task(agent.user, name.strip())))
            return CommandAnswer(f"Task {task.id} is being stopped.")
        task = await self._controls.start(
            agent.user,
            TaskSpec(prompt=rest),
            key=f"chat:{agent.id}:{row.seq}",
            deliver=agent.path,
            connector=sender_connector(row.envelope, self._connectors) or "",
            target=row.envelope.reply_target,
        )
        stop = Choice(f"Cancel {task.id}", f"/task cancel {task.id}")
        return CommandAnswer(f"Task {task.id} has begun; its answer comes here by itself.", choices=(stop,))

    async def _list(self, user: str) -> CommandAnswer:
        tasks = await self._controls.rows.find(user=user, limit=_SHOWN)
        if not tasks:
            return CommandAnswer(f"There are no tasks. {_HELP}")
        zone = await self._controls.zone(user)
        return CommandAnswer("\n".join((*(line_of(task, zone) for task in tasks), "", _HELP)))


_Wait = Annotated[float, msgspec.Meta(ge=0, le=API_WAIT_MAX_S)]


class TasksQuery(RequestDocument, frozen=True, kw_only=True):
    """Whose tasks, newest first, beginning below number `before`; everybody's without. `open`: which have not ended."""

    user: str | None = None
    open: bool = False
    state: TaskState | None = None
    before: Number | None = None
    limit: Limit = 100


class TaskBody(RequestDocument, frozen=True, kw_only=True):
    """A task to start; `user` is whose (default: the operator), `deliver` where its answer goes. A repeat with its key

    starts it once.
    """

    spec: TaskSpec
    id: str = ""
    user: str = ""
    deliver: str = ""
    key: Annotated[str, msgspec.Meta(max_length=KEY_MAX_CHARS)] = ""


class TaskQuery(PathQuery, frozen=True, kw_only=True):
    """One task. With `wait_s` answered when it has ended, or has other progress than of the time `progress`."""

    wait_s: _Wait = 0.0
    progress: Number | None = None


class TaskRoutes:
    """`/v1/tasks`."""

    def __init__(self, controls: TaskControls, owner: str, closing: trio.Event) -> None:
        self._controls = controls
        self._owner = owner
        self._closing = closing

    def routes(self) -> "list[Route]":
        """Return the routes."""
        from starlette.routing import Route

        return [
            Route("/v1/tasks", self.find),
            Route("/v1/tasks", self.start, methods=["POST"]),
            Route("/v1/tasks/task", self.show),
            Route("/v1/tasks/cancel", self.cancel, methods=["POST"]),
        ]

    @persons
    @described({200: {"tasks": list[Task]}}, query=TasksQuery)
    async def find(self, request: "Request") -> "Response":
        """List tasks."""
        wish, caller = query(request, TasksQuery), caller_of(request)
        found = await self._controls.rows.find(
            user=caller.whose(wish.user), is_open=wish.open, state=wish.state, before=wish.before, limit=wish.limit
        )
        return answer({"tasks": [_view(task) for task in found if caller.sees(task.path)]})

    @described({201: Task}, body=TaskBody, refuses=(409,))
    async def start(self, request: "Request") -> "Response":
        """Start a task."""
        wish = await body(request, TaskBody)
        key = f"api:{wish.key or secrets.token_hex(8)}"
        user = wish.user or self._owner
        task = await self._controls.start(user, wish.spec, key=key, name=wish.id, deliver=wish.deliver)
        return answer(_view(task), 201)

    @persons
    @described({200: Task}, query=TaskQuery)
    async def show(self, request: "Request") -> "Response":
        """Show one task, at once or when there is news of it."""
        wish = query(request, TaskQuery)
        path = self._resolved(wish.path)
        caller_of(request).check_path(path)
        task = await self._controls.at(path)
        if wish.wait_s:
            async with while_wanted(self._closing, request.receive):
                task = await self._controls.wait(task, wish.wait_s, progress=wish.progress)
        return answer(_view(task))

    @described({202: Task}, query=PathQuery, refuses=(409,))
    async def cancel(self, request: "Request") -> "Response":
        """Cancel a task."""
        path = self._resolved(query(request, PathQuery).path)
        return answer(_view(await self._controls.cancel(path)), 202)

    def _resolved(self, text: str) -> str:
        """Return the path that is meant: a bare name is that of a task of the operator's."""
        return text if text.startswith("/") else str(Path.task(self._owner, text))


def _view(task: Task) -> dict[str, Any]:
    view: dict[str, Any] = msgspec.to_builtins(task)
    return view | {"id": task.id, "ended": task.ended_at is not None}
