"""Where scheduled jobs come from: people and agents, who add, change, pause, run and remove them, and files.

Files are config.toml with `[cron.NAME]`, and `cron/NAME.md` in the home. One that cannot be read is a problem that is
told; what was kept of it before stays, and so do all others.
"""

import os
import pathlib
import stat
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import Any, Final, Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from daycare.actors.directory import Directory
from daycare.agent.bounds import bounds_of
from daycare.base import crontab
from daycare.base.clock import Clock
from daycare.base.cron import NOBODY, CronSpec
from daycare.base.errors import ConflictError, DaycareError, ForbiddenError, InvalidError, NotFoundError
from daycare.base.events import CronBroken
from daycare.base.path import Kind, Path, owner_of
from daycare.base.permission import SCHEDULE, SPAWN
from daycare.base.zones import zone_of
from daycare.features.cron.model import CronJob, CronProblem, CronRun, NewCronJob, Source, UnreadableError, section_of
from daycare.features.cron.rows import CronRows
from daycare.observe.bus import Bus
from daycare.settings import CronSection, Live
from daycare.store.records import AgentConfig
from daycare.store.sqlite.store import Store
from daycare.tools.catalogue import TASKS_ONLY

CRON_AGENT_EVERY_S: Final = 600.0  # the least time between two runs of a job that an agent made: each costs money
CRON_FILES_MAX: Final = 200  # in the folder cron/
CRON_FILE_MAX_BYTES: Final = 64 * 1024

May = Callable[[str, str, str], Awaitable[object]]

_READ_ONLY: Final[tuple[Source, ...]] = ("config", "file")
_LOOKED_AT: Final = 50  # due times of an agent's job whose distance is looked at
_TARGETS: Final = (Kind.CONNECTOR, Kind.AGENT, Kind.APP, Kind.SUBUSER, Kind.TASK)


async def _nothing() -> None:
    """There is nothing to read."""


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

    def __post_init__(self) -> None:
        """Find where jobs are kept."""
        self.rows = self.store.of(CronRows)

    async def find(self, user: str | None = None, after: str = "", limit: int = 1_000) -> list[CronJob]:
        """Return jobs, of one user or all, in order of path, those behind the path `after`."""
        return await self.rows.find(user, limit, after)

    async def at(self, path: str) -> CronJob:
        """Return the job at a path. Raises `NotFoundError`."""
        job = await self.rows.at(path)
        if job is None:
            raise NotFoundError("CRON_UNKNOWN", f"looking up {path}: no such job", hint="daycare cron list")
        return job

    async def add(
        self, user: str, name: str, spec: CronSpec, *, source: Literal["cli", "agent"], by: str = "", key: str = ""
    ) -> CronJob:
        """Add a job of a user; `by` is the agent that does, `key` names its call.

        Raises `InvalidError` that names the field, `ConflictError` for a name that is taken, `ForbiddenError`.
        """
        if key and (known := await self.rows.by_key(key)) is not None:
            return known
        path = str(Path.cron(user, name))
        zone = await self.zone(user)
        await self.check(path, spec, user, zone, by)
        new = NewCronJob(
            path=path,
            user=user,
            source=source,
            source_ref=by,
            spec=spec,
            next_at=spec.first(zone, self.clock.now_ms()),
            key=key,
            bounds=await self.bounds(by),
        )
        return await self.rows.add(new)

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
            raise InvalidError("CRON_INVALID", f"changing {path}: {error}", hint="doc/use/cron.md") from None
        zone = await self.zone(job.user)
        moved = (spec.cron, spec.at, spec.zone) != (job.spec.cron, job.spec.at, job.spec.zone)
        await self.check(path, spec, job.user, zone, by, ahead=moved)
        return await self.rows.change(job.no, job.revision, spec, spec.first(zone, self.clock.now_ms()))

    async def remove(self, path: str, *, by: str = "") -> CronJob:
        """Remove a job; its ledger stays for a while."""
        job = await self._mine(path, "removing", by)
        await self.rows.remove(job.no, "the job was removed")
        return job

    async def pause(self, path: str, *, paused: bool, by: str = "") -> CronJob:
        """Pause a job, wherever it comes from, or let it go on from now."""
        job = await self.at(path)
        await self._reach(job.path, by)
        next_at = None if paused else job.spec.first(await self.zone(job.user), self.clock.now_ms())
        return await self.rows.pause(job.no, paused, next_at)

    async def run(self, path: str, parameters: dict[str, Any] | None = None, *, by: str = "") -> CronRun:
        """Let a job run now, beside its schedule."""
        job = await self.at(path)
        await self._reach(job.path, by)
        unknown = sorted((parameters or {}).keys() - job.spec.parameters.keys())
        if unknown:
            raise InvalidError(
                "CRON_PARAMETER", f"running {path}: it has no parameter {unknown[0]}", hint="doc/use/cron.md"
            )
        if parameters:
            replace(job.spec, parameters=job.spec.parameters | parameters).checked()
        return await self.rows.by_hand(job, self.clock.now_ms(), parameters or {})

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

    async def status(self) -> dict[str, Any]:
        """Return how many jobs there are, and what is wrong with what is written down."""
        jobs = await self.rows.count()
        return msgspec.structs.asdict(jobs) | {"problems": [str(problem) for problem in self.problems]}

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

    async def bounds(self, by: str) -> AgentConfig:
        """Return what narrows the agent that adds a job, for the job's own: it may do no more."""
        if not by:
            return AgentConfig()
        bounds = await bounds_of(self.directory, await self.directory.at(by))
        return replace(bounds, tools=None if bounds.tools is None else (*bounds.tools, TASKS_ONLY))

    async def check(
        self, path: str, spec: CronSpec, user: str, zone: str, by: str, *, ahead: bool = True, born: str = ""
    ) -> None:
        """Raise `DaycareError` for a job that cannot be kept; the agent `born` will be there by then."""
        spec.checked()
        await self._reach(spec.target or path, by)
        if by and spec.task:
            await self.may(by, SPAWN, str(Path.task(user, spec.task)))
        check_addresses(self.directory, spec, user)
        if spec.target and spec.target != born:
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
            raise InvalidError(
                "CRON_INVALID", f"target {target}: a {target.kind} takes no jobs", hint="doc/use/cron.md"
            )
        if target.user != user:  # who looks after somebody may let their agent do something
            _check_user(target, user, "target")
    if spec.deliver and spec.deliver != NOBODY:
        place = directory.parse(spec.deliver)
        if not place.is_foreground:
            raise InvalidError(
                "CRON_INVALID", f"deliver {place}: people talk at /{user}/CONNECTOR", hint="doc/use/cron.md"
            )
        _check_user(place, user, "deliver")


def _check_user(path: Path, user: str, what: str) -> None:
    if owner_of(path) != user:
        raise ForbiddenError("OTHER_USER", f"{what} {path}: it belongs to another user", hint=f"/{user}/...")


class _Written(NamedTuple):
    """A job as it was read. `ref` says where."""

    name: str
    user: str
    spec: CronSpec
    ref: str


class CronSources:
    """Brings the jobs of the store in line with both; `owner` has those that name no user."""

    def __init__(
        self,
        store: Store,
        directory: Directory,
        controls: CronControls,
        bus: Bus,
        clock: Clock,
        folder: pathlib.Path,
        live: Live,
        owner: str,
    ) -> None:
        self._rows = store.of(CronRows)
        self._directory = directory
        self._controls = controls
        self._bus = bus
        self._clock = clock
        self._folder = folder
        self._live = live
        self._owner = owner
        self._sections: Mapping[str, CronSection] | None = None  # of config.toml, as they were read last
        self._in_config: list[CronProblem] = []
        self._in_files: list[CronProblem] = []
        self._state: object = None

    async def read(self) -> None:
        """Read what is new: the settings, and the files whenever one has changed."""
        sections = self._live.now.cron
        if sections != self._sections:
            written = [
                _Written(name, each.user or self._owner, each.spec(), f"config.toml [cron.{name}]")
                for name, each in sections.items()
            ]
            problems: list[CronProblem] = []
            await self._keep("config", written, problems, keep=set())
            self._tell(problems)
            self._sections, self._in_config = sections, problems
            self._controls.problems = (*problems, *self._in_files)
        state = self._look()
        if state != self._state:
            problems = []
            keep: set[str] = set()
            await self._keep("file", self._files(problems, keep), problems, keep)
            self._tell(problems)
            self._state, self._in_files = state, problems
            self._controls.problems = (*self._in_config, *problems)

    async def _keep(self, source: Source, written: list[_Written], problems: list[CronProblem], keep: set[str]) -> None:
        wanted = []
        for each in written:
            try:
                path = str(Path.cron(each.user, each.name))
                zone = await self._controls.zone(each.user)
                check_addresses(self._directory, each.spec.checked(), each.user)
            except DaycareError as error:
                problems.append(CronProblem(each.ref, 1, error.message))
                keep.add(each.ref)
                continue
            first = each.spec.first(zone, self._clock.now_ms())
            wanted.append(
                NewCronJob(path=path, user=each.user, source=source, source_ref=each.ref, spec=each.spec, next_at=first)
            )
        for conflict in await self._rows.reconcile(source, wanted, keep):
            what = f"{conflict.path} is not kept: there is one from {conflict.taken_by}"
            problems.append(CronProblem(conflict.source_ref, 1, what))

    def _look(self) -> object:
        """Return something that differs when a file was added, changed or removed."""
        try:
            with os.scandir(self._folder) as found:
                return sorted((entry.name, *_stamp(entry)) for entry in found if entry.name.endswith(".md"))
        except FileNotFoundError:
            return ()
        except OSError as error:
            return str(error)

    def _files(self, problems: list[CronProblem], keep: set[str]) -> list[_Written]:
        try:
            files = sorted(file for file in self._folder.iterdir() if file.suffix == ".md")
        except FileNotFoundError:
            return []
        except OSError as error:
            problems.append(CronProblem("cron/", 1, f"cannot be read: {error.strerror or error}"))
            keep |= self._known()
            return []
        if len(files) > CRON_FILES_MAX:
            problems.append(CronProblem("cron/", 1, f"has {len(files)} files; the first {CRON_FILES_MAX} are read"))
            keep |= {f"cron/{file.name}" for file in files[CRON_FILES_MAX:]}
        written = []
        for file in files[:CRON_FILES_MAX]:
            ref = f"cron/{file.name}"
            try:
                section = section_of(_text(file))
                written.append(_Written(file.stem, section.user or self._owner, section.spec(), ref))
            except UnreadableError as error:
                problems.append(CronProblem(ref, error.line, error.what))
                keep.add(ref)
        return written

    def _known(self) -> set[str]:
        """Return the files as they were seen last."""
        return {f"cron/{entry[0]}" for entry in self._state} if isinstance(self._state, list) else set()

    def _tell(self, problems: list[CronProblem]) -> None:
        for each in problems:
            self._bus.publish(
                CronBroken(at_ms=self._clock.now_ms(), source=each.source_ref, line=each.line, reason=each.what)
            )


def _stamp(entry: os.DirEntry[str]) -> tuple[int, int, int]:
    try:
        it = entry.stat()
    except OSError:  # a link that leads nowhere
        return 0, 0, 0
    return it.st_mtime_ns, it.st_size, it.st_ino


def _text(file: pathlib.Path) -> str:
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            raise UnreadableError(1, "is not a file")
        with file.open("rb") as opened:
            raw = opened.read(CRON_FILE_MAX_BYTES + 1)
        if len(raw) > CRON_FILE_MAX_BYTES:
            raise UnreadableError(1, f"is longer than {CRON_FILE_MAX_BYTES} bytes")
        return raw.decode("utf-8-sig").replace("\r\n", "\n")
    except OSError as error:
        raise UnreadableError(1, f"cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UnreadableError(1, "is not written in UTF-8") from error


def _line(lines: list[str], field: str) -> int:
    return next((n for n, line in enumerate(lines, 1) if line.split(":")[0].strip() == field), 1)
