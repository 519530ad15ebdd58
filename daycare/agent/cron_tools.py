"""What an agent does with scheduled jobs of its own user, as tools: add, list, pause, remove."""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from daycare.agent.blocks import one_line
from daycare.agent.cron_controls import CronControls
from daycare.base import crontab
from daycare.base.cron import CronSpec
from daycare.base.errors import InvalidError
from daycare.base.path import Path
from daycare.base.zones import zone_of
from daycare.plugin import StructTool, ToolContext
from daycare.store.records_cron import CronJob

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
        if await self._controls.store.cron.at(path) is None:  # also a repeat after a crash
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
