"""Scheduled jobs as agents see them (tools), people in a chat (`/cron`), and programs (`/v1/cron`)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from daycare.actors.lifecycle import Activation
from daycare.agent.blocks import one_line
from daycare.agent.commands import Command, CommandAnswer, Commands, check_manager
from daycare.api.documents import Limit, Number, PathQuery, RequestDocument, answer, body, query
from daycare.base import crontab
from daycare.base.cron import CronSpec, Value
from daycare.base.errors import InvalidError
from daycare.base.messages import Choice
from daycare.base.path import Path
from daycare.base.zones import zone_of
from daycare.features.cron.jobs import CronControls
from daycare.features.cron.records import CronJob
from daycare.plugin import StructTool, ToolContext
from daycare.store.records import Agent, InboxRow

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

_LINE_CHARS = 120

JobName = Annotated[str, msgspec.Meta(description="The job's name, such as morning-news; a-z, 0-9, - and _")]


class CronAdd(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Schedule something: at times that repeat (cron) or once (at). At each an agent gets the prompt as a message, in a
    conversation of its own, and its answer is sent to the user. Use remind for a single reminder of yourself."""

    name: JobName
    prompt: Annotated[str, msgspec.Meta(min_length=1, description="What is to be done then, complete in itself")]
    cron: Annotated[
        str,
        msgspec.Meta(description='Five fields: minute hour day-of-month month day-of-week, such as "30 7 * * MON-FRI"'),
    ] = ""
    at: Annotated[str, msgspec.Meta(description="Instead of cron: the one time, such as 2027-03-01T09:00")] = ""
    zone: Annotated[str, msgspec.Meta(description="IANA name, such as Europe/Berlin; default: the user's")] = ""
    target: Annotated[str, msgspec.Meta(description="Address of the agent that gets it; default: one of its own")] = ""
    task: Annotated[
        str, msgspec.Meta(description="For long work: a name; each run is then a task of this name and a number")
    ] = ""
    misfire: Annotated[
        str,
        msgspec.Meta(description='When its time was missed: "skip", "run_once" (late) or "within MINUTES"'),
    ] = "within 60"


class CronList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """List the scheduled jobs of the user: when each is due, and how its last run went."""


class CronPause(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Pause a scheduled job, or let it go on."""

    name: JobName
    paused: bool = True


class CronRemove(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Remove a scheduled job that is not wanted any more."""

    name: JobName


class CronTools:
    """Makes these tools."""

    def __init__(self, controls: CronControls) -> None:
        self._controls = controls

    def tools(self) -> Sequence[StructTool[Any]]:
        """Return the tools."""
        return (
            StructTool("cron_add", CronAdd, self._add, idempotent=True, outlasts=True),
            StructTool("cron_list", CronList, self._list, idempotent=True),
            StructTool("cron_pause", CronPause, self._pause, idempotent=True, outlasts=True),
            StructTool("cron_remove", CronRemove, self._remove, idempotent=True, outlasts=True),
        )

    async def _add(self, context: ToolContext, it: CronAdd) -> str:
        spec = CronSpec(
            cron=it.cron,
            at=it.at,
            zone=it.zone,
            prompt=it.prompt,
            target=it.target,
            task=it.task,
            misfire=it.misfire,
            delete_after_run=bool(it.at),
        )
        key = f"{context.turn}:{context.step}:{context.call_id}"
        job = await self._controls.add(context.user, it.name, spec, source="agent", by=context.path, key=key)
        return f"added: {await self._told(job)}"

    async def _list(self, context: ToolContext, it: CronList) -> str:
        lines = [await self._told(job) for job in await self._controls.find(context.user)]
        return "\n".join(lines) or "there are none"

    async def _pause(self, context: ToolContext, it: CronPause) -> str:
        job = await self._controls.pause(_path(context, it.name), paused=it.paused, by=context.path)
        return await self._told(job)

    async def _remove(self, context: ToolContext, it: CronRemove) -> str:
        path = _path(context, it.name)
        if await self._controls.rows.at(path) is None:  # also a repeat after a crash
            return f"there is no job {it.name}"
        await self._controls.remove(path, by=context.path)
        return f"removed {it.name}"

    async def _told(self, job: CronJob) -> str:
        return line_of(job, await self._controls.zone(job.user))


def line_of(job: CronJob, zone: str) -> str:
    """Return a job on one line: its name, what it does, when it is due, and how its last run went."""
    here = zone_of(job.spec.zone or zone)
    when = job.spec.cron or f"at {job.spec.at}"
    due = "paused" if job.paused else f"next {crontab.local(job.next_at, here)}" if job.next_at else "not due any more"
    last = f"; last {job.last.state} {crontab.local(job.last.due_at, here)}" if job.last is not None else ""
    what = one_line(job.spec.description or job.spec.prompt, _LINE_CHARS)
    return f"{job.id} [{when} {here.key}] {what}: {due}{last}"


def _path(context: ToolContext, name: str) -> str:
    if name.startswith("/"):
        raise InvalidError("CRON_NAME", f"looking for {name}: give the job's name alone", hint=name.rsplit("/", 1)[-1])
    return str(Path.cron(context.user, name))


_SHOWN: Final = 20  # jobs of one answer: a phone's screen
_HELP: Final = (
    "/cron pause NAME, /cron resume NAME, /cron run NAME; `daycare cron history` shows the result of each run."
)


class CronCommands:
    """Answers it."""

    def __init__(self, controls: CronControls) -> None:
        self._controls = controls

    def add_to(self, commands: Commands) -> None:
        """Register it."""
        commands.add("cron", Command("what is scheduled [pause | resume | run NAME]", self._run))

    async def _run(self, agent: Agent, lane: Activation, row: InboxRow, rest: str) -> CommandAnswer:
        verb, _, name = rest.partition(" ")
        if not verb or verb == "list":
            return await self._list(agent.user)
        if verb not in ("pause", "resume", "run") or not name.strip():
            return CommandAnswer(_HELP)
        await check_manager(self._controls.store.people, row, agent, "whose jobs these are can do that")
        path = str(Path.cron(agent.user, name.strip()))
        if verb == "run":
            run = await self._controls.run(path)
            return CommandAnswer(f"{name.strip()} runs now (run {run.no}); its answer comes by itself.")
        job = await self._controls.pause(path, paused=verb == "pause")
        return CommandAnswer(line_of(job, await self._controls.zone(job.user)))

    async def _list(self, user: str) -> CommandAnswer:
        jobs = await self._controls.find(user)
        if not jobs:
            return CommandAnswer(
                "Nothing is scheduled. Ask me to do something every morning, or see `daycare cron add --help`."
            )
        zone = await self._controls.zone(user)
        lines = [line_of(job, zone) for job in jobs[:_SHOWN]]
        lines += [f"and {len(jobs) - _SHOWN} more: `daycare cron list`"] if len(jobs) > _SHOWN else []
        verb = "resume" if jobs[0].paused else "pause"
        choices = (Choice(f"{verb} {jobs[0].id}"[:60], f"/cron {verb} {jobs[0].id}"),) if len(jobs) == 1 else ()
        return CommandAnswer("\n".join((*lines, "", _HELP)), choices=choices)


_NEXT = 5  # due times that a job's page shows


class CronQuery(RequestDocument, frozen=True, kw_only=True):
    """Whose jobs; everybody's without."""

    user: str | None = None


class CronBody(RequestDocument, frozen=True, kw_only=True):
    """A job to add; `user` is whose (default: the operator)."""

    id: str
    spec: CronSpec
    user: str = ""


class RunBody(RequestDocument, frozen=True, kw_only=True):
    """Other values of parameters, for this run only."""

    parameters: dict[str, Value] = msgspec.field(default_factory=dict)


class RunsQuery(RequestDocument, frozen=True, kw_only=True):
    """Entries of the ledger, newest first, beginning below number `before`."""

    user: str | None = None
    path: str | None = None
    before: Number | None = None
    limit: Limit = 100


class CronRoutes:
    """`/v1/cron`."""

    def __init__(self, controls: CronControls, owner: str) -> None:
        self._controls = controls
        self._owner = owner

    def routes(self) -> "list[Route]":
        """Return the routes."""
        from starlette.routing import Route

        return [
            Route("/v1/cron", self.find),
            Route("/v1/cron", self.add, methods=["POST"]),
            Route("/v1/cron/job", self.show),
            Route("/v1/cron/job", self.change, methods=["PATCH"]),
            Route("/v1/cron/job", self.remove, methods=["DELETE"]),
            Route("/v1/cron/pause", self.pause, methods=["POST"]),
            Route("/v1/cron/resume", self.resume, methods=["POST"]),
            Route("/v1/cron/run", self.run, methods=["POST"]),
            Route("/v1/cron/runs", self.runs),
        ]

    async def find(self, request: "Request") -> "Response":
        """List jobs, and what cannot be kept as it is written."""
        wish = query(request, CronQuery)
        await self._controls.refresh()  # also where no schedule runs
        jobs = [await self._view(job, 1) for job in await self._controls.find(wish.user)]
        return answer({"jobs": jobs, "problems": [self._problem(each) for each in self._controls.problems]})

    async def add(self, request: "Request") -> "Response":
        """Add a job."""
        wish = await body(request, CronBody)
        job = await self._controls.add(wish.user or self._owner, wish.id, wish.spec, source="cli")
        return answer(await self._view(job, _NEXT), 201)

    def _path(self, request: "Request") -> str:
        """Return the path that is meant: a bare name is that of a job of the operator's."""
        return self._resolved(query(request, PathQuery).path)

    def _resolved(self, text: str) -> str:
        return text if text.startswith("/") else str(Path.cron(self._owner, text))

    async def show(self, request: "Request") -> "Response":
        """Show one job."""
        return answer(await self._view(await self._controls.at(self._path(request)), _NEXT))

    async def change(self, request: "Request") -> "Response":
        """Change the fields that are given; null sets one back to its default."""
        job = await self._controls.change(self._path(request), await body(request, dict[str, Any]))
        return answer(await self._view(job, _NEXT))

    async def remove(self, request: "Request") -> "Response":
        """Remove a job."""
        job = await self._controls.remove(self._path(request))
        return answer({"removed": job.path})

    async def pause(self, request: "Request") -> "Response":
        """Pause a job."""
        return await self._pause(request, paused=True)

    async def resume(self, request: "Request") -> "Response":
        """Let a paused job go on."""
        return await self._pause(request, paused=False)

    async def _pause(self, request: "Request", *, paused: bool) -> "Response":
        job = await self._controls.pause(self._path(request), paused=paused)
        return answer(await self._view(job, _NEXT))

    async def run(self, request: "Request") -> "Response":
        """Let a job run now."""
        wish = await body(request, RunBody)
        return answer(await self._controls.run(self._path(request), wish.parameters), 202)

    async def runs(self, request: "Request") -> "Response":
        """List entries of the ledger."""
        wish = query(request, RunsQuery)
        path = None if wish.path is None else self._resolved(wish.path)
        found = await self._controls.rows.runs(user=wish.user, path=path, before=wish.before, limit=wish.limit)
        return answer({"runs": found})

    async def _view(self, job: CronJob, count: int) -> dict[str, Any]:
        view: dict[str, Any] = msgspec.to_builtins(job)
        return view | {"id": job.id, "next": await self._controls.next_of(job, count)}

    def _problem(self, problem: Any) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.to_builtins(problem)
        return found
