"""What people and agents do with scheduled jobs: add, change, pause, run and remove them, and read the ledger."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import Any, Final, Literal

import msgspec
from msgspec.structs import replace

from daycare.actors.directory import Directory
from daycare.agent.bounds import bounds_of
from daycare.base import crontab
from daycare.base.clock import Clock
from daycare.base.cron import NOBODY, CronSpec
from daycare.base.errors import ConflictError, ForbiddenError, InvalidError, NotFoundError
from daycare.base.limits import CRON_AGENT_EVERY_S
from daycare.base.path import Kind, Path, owner_of
from daycare.base.permission import SCHEDULE, SPAWN
from daycare.base.zones import zone_of
from daycare.store.contract import Store
from daycare.store.records import AgentConfig
from daycare.store.records_cron import CronJob, CronRun, NewCronJob, Source
from daycare.tools.runner import TASKS_ONLY

May = Callable[[str, str, str], Awaitable[object]]

_READ_ONLY: Final[tuple[Source, ...]] = ("config", "file")
_LOOKED_AT: Final = 50  # due times of an agent's job whose distance is looked at
_TARGETS: Final = (Kind.CONNECTOR, Kind.AGENT, Kind.APP, Kind.SUBUSER, Kind.TASK)


async def _nothing() -> None:
    """There is nothing to read."""


class CronProblem(msgspec.Struct, frozen=True):
    """A job in a file or in config.toml that cannot be kept as it is written; what was kept of it before stays."""

    source_ref: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.source_ref}:{self.line}: {self.what}"


@dataclass
class CronControls:
    """Does it. `may(subject, action, object)` raises what keeps an agent from scheduling; people are not asked.

    `refresh` reads what is new in config.toml and files; `problems` are those of what was read last.
    """

    store: Store
    directory: Directory
    clock: Clock
    may: May
    problems: Sequence[CronProblem] = field(default_factory=tuple)
    refresh: Callable[[], Awaitable[None]] = field(default=_nothing)

    async def find(self, user: str | None = None) -> list[CronJob]:
        """Return jobs, of one user or all, in order of path."""
        return await self.store.cron.find(user)

    async def at(self, path: str) -> CronJob:
        """Return the job at a path. Raises `NotFoundError`."""
        job = await self.store.cron.at(path)
        if job is None:
            raise NotFoundError("CRON_UNKNOWN", f"looking up {path}: no such job", hint="daycare cron list")
        return job

    async def add(
        self, user: str, name: str, spec: CronSpec, *, source: Literal["cli", "agent"], by: str = "", key: str = ""
    ) -> CronJob:
        """Add a job of a user; `by` is the agent that does, `key` names its call.

        Raises `InvalidError` that names the field, `ConflictError` for a name that is taken, `ForbiddenError`.
        """
        if key and (known := await self.store.cron.by_key(key)) is not None:
            return known
        path = str(Path.cron(user, name))
        zone = await self.zone(user)
        await self._check(path, spec, user, zone, by)
        new = NewCronJob(
            path=path,
            user=user,
            source=source,
            source_ref=by,
            spec=spec,
            next_at=spec.first(zone, self.clock.now_ms()),
            key=key,
            bounds=await self._bounds(by),
        )
        return await self.store.cron.add(new)

    async def change(self, path: str, changes: dict[str, Any], *, by: str = "") -> CronJob:
        """Change the fields that are given; null sets one back to its default."""
        job = await self._mine(path, "changing", by)
        merged = {name: value for name, value in (msgspec.to_builtins(job.spec) | changes).items() if value is not None}
        if changes.get("at"):
            merged.pop("cron", None)
        elif changes.get("cron"):
            merged.pop("at", None)
        try:
            spec = msgspec.convert(merged, CronSpec, strict=False)  # a command line has words only
        except msgspec.ValidationError as error:
            raise InvalidError("CRON_INVALID", f"changing {path}: {error}", hint="doc/cron.md") from None
        zone = await self.zone(job.user)
        moved = (spec.cron, spec.at, spec.zone) != (job.spec.cron, job.spec.at, job.spec.zone)
        await self._check(path, spec, job.user, zone, by, ahead=moved)
        return await self.store.cron.change(job.no, job.revision, spec, spec.first(zone, self.clock.now_ms()))

    async def remove(self, path: str, *, by: str = "") -> CronJob:
        """Remove a job; its ledger stays for a while."""
        job = await self._mine(path, "removing", by)
        await self.store.cron.remove(job.no, "the job was removed")
        return job

    async def pause(self, path: str, *, paused: bool, by: str = "") -> CronJob:
        """Pause a job, wherever it comes from, or let it go on from now."""
        job = await self.at(path)
        await self._reach(job.path, by)
        next_at = None if paused else job.spec.first(await self.zone(job.user), self.clock.now_ms())
        return await self.store.cron.pause(job.no, paused, next_at)

    async def run(self, path: str, parameters: dict[str, Any] | None = None, *, by: str = "") -> CronRun:
        """Let a job run now, beside its schedule."""
        job = await self.at(path)
        await self._reach(job.path, by)
        unknown = sorted((parameters or {}).keys() - job.spec.parameters.keys())
        if unknown:
            raise InvalidError(
                "CRON_PARAMETER", f"running {path}: it has no parameter {unknown[0]}", hint="doc/cron.md"
            )
        if parameters:
            replace(job.spec, parameters=job.spec.parameters | parameters).checked()
        return await self.store.cron.by_hand(job, self.clock.now_ms(), parameters or {})

    async def next_of(self, job: CronJob, count: int) -> list[str]:
        """Return the next times of a job as local ISO texts; none of one that is paused or off."""
        person = await self.store.people.get(job.user)
        if job.next_at is None or person is None:
            return []
        try:
            here = zone_of(job.spec.zone or person.zone)
        except InvalidError:  # it was abolished
            return []
        after = job.spec.times(person.zone, job.next_at)
        return [crontab.local(at, here) for at in (job.next_at, *islice(after, count - 1))]

    async def zone(self, user: str) -> str:
        """Return the time zone a user lives in. Raises `NotFoundError`."""
        person = await self.store.people.get(user)
        if person is None:
            raise NotFoundError("USER_UNKNOWN", f"scheduling for {user}: no such user", hint="daycare users list")
        return person.zone

    async def _mine(self, path: str, what: str, by: str) -> CronJob:
        job = await self.at(path)
        await self._reach(job.path, by)
        if job.source in _READ_ONLY:
            raise ForbiddenError(
                "CRON_READ_ONLY",
                f"{what} {path}: it stands in {job.source_ref}",
                hint=f"edit {job.source_ref}; it can be paused: daycare cron pause {job.id}",
            )
        return job

    async def _reach(self, path: str, by: str) -> None:
        """Let people do what they want with jobs, and agents what they may: for their own user, at most."""
        if by:
            await self.may(by, SCHEDULE, path)

    async def _bounds(self, by: str) -> AgentConfig:
        """Return what narrows the agent that adds a job, for the job's own: it may do no more."""
        if not by:
            return AgentConfig()
        bounds = await bounds_of(self.directory, await self.directory.at(by))
        return replace(bounds, tools=None if bounds.tools is None else (*bounds.tools, TASKS_ONLY))

    async def _check(self, path: str, spec: CronSpec, user: str, zone: str, by: str, *, ahead: bool = True) -> None:
        spec.checked()
        await self._reach(spec.target or path, by)
        if by and spec.task:
            await self.may(by, SPAWN, str(Path.task(user, spec.task)))
        check_addresses(self.directory, spec, user)
        if spec.target:
            await self.directory.at(spec.target)
        if by:
            times = list(islice(spec.times(zone, self.clock.now_ms()), _LOOKED_AT))
            if any(later - earlier < CRON_AGENT_EVERY_S * 1000 for earlier, later in pairwise(times)):
                raise InvalidError(
                    "CRON_OFTEN",
                    f"scheduling {spec.cron!r}: agents' jobs run every {CRON_AGENT_EVERY_S / 60:g} minutes at most",
                    hint="choose a longer interval, or ask the user to add it",
                )
        if ahead and spec.at and spec.enabled and spec.first(zone, self.clock.now_ms()) is None:
            raise ConflictError("CRON_PAST", f"scheduling at {spec.at}: that is over", hint="choose a later time")


def check_addresses(directory: Directory, spec: CronSpec, user: str) -> None:
    """Refuse a target or a place of delivery that is not the user's, or nobody's. Raises `DaycareError`."""
    if spec.target:
        target = directory.parse(spec.target)
        if target.kind not in _TARGETS:
            raise InvalidError("CRON_INVALID", f"target {target}: a {target.kind} takes no jobs", hint="doc/cron.md")
        if target.user != user:  # who looks after somebody may let their agent do something
            _check_user(target, user, "target")
    if spec.deliver and spec.deliver != NOBODY:
        place = directory.parse(spec.deliver)
        if not place.is_foreground:
            raise InvalidError("CRON_INVALID", f"deliver {place}: people talk at /{user}/CONNECTOR", hint="doc/cron.md")
        _check_user(place, user, "deliver")


def _check_user(path: Path, user: str, what: str) -> None:
    if owner_of(path) != user:
        raise ForbiddenError("OTHER_USER", f"{what} {path}: it belongs to another user", hint=f"/{user}/...")
