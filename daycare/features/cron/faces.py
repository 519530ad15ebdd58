"""Scheduled jobs as agents see them (tools), people in a chat (`/cron`), and programs (`/v1/cron`)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from daycare.actors.lifecycle import Activation
from daycare.agent.blocks import one_line
from daycare.agent.commands import Command, CommandAnswer, Commands, check_manager
from daycare.api.callers import Caller, persons
from daycare.api.described import With, described
from daycare.api.operations import route
from daycare.base import crontab
from daycare.base.cron import At, CronSpec, Expression, Misfire, Prompt, Target, TaskName, Zone
from daycare.base.errors import InvalidError
from daycare.base.messages import Choice
from daycare.base.path import Path
from daycare.base.tool import ACTS, READS
from daycare.base.zones import zone_of
from daycare.features.cron import model
from daycare.features.cron.jobs import CronControls
from daycare.features.cron.model import CronJob, CronProblem, CronRun
from daycare.features.cron.preview import preview
from daycare.plugin import StructTool, ToolContext
from daycare.store.records import Agent, InboxRow

if TYPE_CHECKING:
    from starlette.routing import Route

Json = dict[str, Any]
_LINE_CHARS = 120

JobName = Annotated[str, msgspec.Meta(description="The job's name, such as morning-news; a-z, 0-9, - and _")]


class CronAdd(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Schedule something: at times that repeat (cron) or once (at). At each an agent gets the prompt as a message, in a
    conversation of its own, and its answer is sent to the user. Use remind for a single reminder of yourself."""

    name: JobName
    prompt: Annotated[Prompt, msgspec.Meta(min_length=1)]
    cron: Expression = ""
    at: At = ""
    zone: Zone = ""
    target: Target = ""
    task: TaskName = ""
    misfire: Misfire = "within 60"


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
            StructTool("cron_add", CronAdd, self._add, idempotent=True, group="schedule", **ACTS),
            StructTool("cron_list", CronList, self._list, idempotent=True, group="schedule", **READS),
            StructTool("cron_pause", CronPause, self._pause, idempotent=True, group="schedule", **ACTS),
            StructTool("cron_remove", CronRemove, self._remove, idempotent=True, group="schedule", **ACTS),
        )

    async def _add(self, context: ToolContext, it: CronAdd) -> str:
        fields = {name: value for name, value in msgspec.structs.asdict(it).items() if name != "name"}
        spec = CronSpec(**fields, delete_after_run=bool(it.at))
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
_NEXT: Final = 5  # due times that a job's page shows
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


_JOB: Final = With(CronJob, {"id": str, "words": str, "next": list[str]})


class CronOperations:
    """Does what `model` declares."""

    def __init__(self, controls: CronControls, owner: str) -> None:
        self._controls = controls
        self._owner = owner

    def routes(self) -> "list[Route]":
        """Return `/v1/cron`."""
        return [
            route(model.ListJobs, self.find),
            route(model.PreviewJob, self.preview),
            route(model.AddJob, self.add),
            route(model.ShowJob, self.show),
            route(model.ChangeJob, self.change),
            route(model.RemoveJob, self.remove),
            route(model.PauseJob, self.pause),
            route(model.ResumeJob, self.resume),
            route(model.RunJob, self.run),
            route(model.ListRuns, self.runs),
        ]

    @persons
    @described({200: {"jobs": [_JOB], "problems": list[CronProblem]}})
    async def find(self, it: model.ListJobs, caller: Caller) -> Json:
        """Return jobs, and what cannot be kept as it is written."""
        await self._controls.refresh()  # also where no schedule runs
        found = await self._controls.find(caller.whose(it.user), it.after, it.limit)
        jobs = [await self._view(job, 1) for job in found if caller.sees(job.path)]
        return {"jobs": jobs, "problems": [] if caller.own_only else self._controls.problems}

    @described({200: model.CronPreview})
    async def preview(self, it: model.PreviewJob) -> model.CronPreview:
        """Return what a job would be."""
        return await preview(self._controls, it, it.user or self._owner)

    @described({201: _JOB}, refuses=(409,))
    async def add(self, it: model.AddJob) -> Json:
        """Add a job."""
        return await self._view(await self._controls.add(it.user or self._owner, it.id, it.spec, source="cli"))

    @persons
    @described({200: _JOB})
    async def show(self, it: model.ShowJob, caller: Caller) -> Json:
        """Return a job."""
        path = self._path(it.path)
        caller.check_path(path)
        return await self._view(await self._controls.at(path))

    @described({200: _JOB}, refuses=(409,))
    async def change(self, it: model.ChangeJob) -> Json:
        """Change a job."""
        return await self._view(await self._controls.change(self._path(it.path), it.changes))

    @described({200: {"removed": str}}, refuses=(409,))
    async def remove(self, it: model.RemoveJob) -> Json:
        """Remove a job."""
        return {"removed": (await self._controls.remove(self._path(it.path))).path}

    @described({200: _JOB}, refuses=(409,))
    async def pause(self, it: model.PauseJob) -> Json:
        """Pause a job."""
        return await self._view(await self._controls.pause(self._path(it.path), paused=True))

    @described({200: _JOB}, refuses=(409,))
    async def resume(self, it: model.ResumeJob) -> Json:
        """Let a job go on."""
        return await self._view(await self._controls.pause(self._path(it.path), paused=False))

    @described({202: CronRun}, refuses=(409,))
    async def run(self, it: model.RunJob) -> CronRun:
        """Let a job run now."""
        return await self._controls.run(self._path(it.path), it.parameters)

    @persons
    @described({200: {"runs": list[CronRun]}})
    async def runs(self, it: model.ListRuns, caller: Caller) -> Json:
        """Return entries of the ledger, newest first."""
        path = None if it.path is None else self._path(it.path)
        fields = msgspec.structs.asdict(it) | {"path": path, "user": caller.whose(it.user)}
        return {"runs": [run for run in await self._controls.rows.runs(**fields) if caller.sees(run.path)]}

    def _path(self, text: str) -> str:
        """Return the path that is meant: a bare name is that of a job of the operator's."""
        return text if text.startswith("/") else str(Path.cron(self._owner, text))

    async def _view(self, job: CronJob, count: int = _NEXT) -> Json:
        view: Json = msgspec.to_builtins(job)
        words = crontab.words(job.spec.cron) if job.spec.cron else "once"
        return view | {"id": job.id, "words": words, "next": await self._controls.next_of(job, count)}
