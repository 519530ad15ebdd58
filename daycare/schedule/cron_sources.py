"""Jobs that people write down: `[cron.NAME]` in config.toml, and files `cron/NAME.md` in the home.

A file has its fields between two lines `---` and then the prompt. One that cannot be read is a problem that is told;
what was kept of it before stays, and so do all others.
"""

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from daycare.actors.directory import Directory
from daycare.agent.cron_controls import CronControls, CronProblem, check_addresses
from daycare.base import path as paths
from daycare.base.clock import Clock
from daycare.base.cron import CronSpec
from daycare.base.errors import DaycareError
from daycare.base.events import CronBroken
from daycare.base.limits import CRON_FILE_MAX_BYTES, CRON_FILES_MAX
from daycare.observe.bus import Bus
from daycare.settings import CronSection, Live
from daycare.store.contract import Store
from daycare.store.records_cron import NewCronJob, Source

_FENCE: Final = "---"
_FIELDS_MAX_CHARS: Final = 8_000  # read in some 50 ms


class _Written(NamedTuple):
    """A job as it was read. `ref` says where."""

    name: str
    user: str
    spec: CronSpec
    ref: str


class _UnreadableError(Exception):
    """Why a file is no job, and in which line."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(what)
        self.line = line
        self.what = what


class CronSources:
    """Brings the jobs of the store in line with both; `owner` has those that name no user."""

    def __init__(
        self,
        store: Store,
        directory: Directory,
        controls: CronControls,
        bus: Bus,
        clock: Clock,
        folder: Path,
        live: Live,
        owner: str,
    ) -> None:
        self._store = store
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
                path = str(paths.Path.cron(each.user, each.name))
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
        for conflict in await self._store.cron.reconcile(source, wanted, keep):
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
                section = _section(_text(file))
                written.append(_Written(file.stem, section.user or self._owner, section.spec(), ref))
            except _UnreadableError as error:
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


def _text(file: Path) -> str:
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            raise _UnreadableError(1, "is no file")
        with file.open("rb") as opened:
            raw = opened.read(CRON_FILE_MAX_BYTES + 1)
        if len(raw) > CRON_FILE_MAX_BYTES:
            raise _UnreadableError(1, f"is longer than {CRON_FILE_MAX_BYTES} bytes")
        return raw.decode("utf-8-sig").replace("\r\n", "\n")
    except OSError as error:
        raise _UnreadableError(1, f"cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise _UnreadableError(1, "is not written in UTF-8") from error


def _section(text: str) -> CronSection:
    """Read a file: fields between two lines `---`, then the prompt."""
    import yaml  # late: it costs 20 ms, and most homes have no such file

    lines = text.split("\n")
    if lines[0].rstrip() != _FENCE:
        raise _UnreadableError(1, "begins with a line ---, then fields such as `cron: 0 7 * * *`, then another ---")
    end = next((n for n, line in enumerate(lines[1:], 1) if line.rstrip() == _FENCE), None)
    if end is None:
        raise _UnreadableError(1, "has no second line ---: nobody knows where its fields end")
    if sum(map(len, lines[1:end])) > _FIELDS_MAX_CHARS:
        raise _UnreadableError(2, f"has fields of over {_FIELDS_MAX_CHARS} characters")
    try:
        # Every value is text, as it stands there: `07:30` is no number and `no` is no false.
        found: Any = yaml.load("\n".join(lines[1:end]), Loader=yaml.BaseLoader)  # noqa: S506 - it makes no objects
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        what = f"{getattr(error, 'problem', None) or 'its fields cannot be read'}"
        if "alias" in f"{getattr(error, 'context', '')}{what}":
            what = 'a value that begins with * stands in quotes: cron: "*/15 * * * *"'
        raise _UnreadableError(mark.line + 2 if mark is not None else 1, what) from error
    except RecursionError as error:
        raise _UnreadableError(1, "its fields are nested too deeply") from error
    if not isinstance(found, dict):
        raise _UnreadableError(2, "has no fields, such as `cron: 0 7 * * *`")
    if "prompt" in found:
        raise _UnreadableError(_line(lines, "prompt"), "prompt is what stands below the second ---")
    prompt = "\n".join(lines[end + 1 :]).strip()
    try:
        return msgspec.convert(found | {"prompt": prompt}, CronSection, strict=False)
    except msgspec.ValidationError as error:
        what = str(error)
        field = (
            (what.rpartition("`$.")[2] if "`$." in what else what.partition("`")[2]).partition("`")[0].partition(".")[0]
        )
        raise _UnreadableError(_line(lines, field), what[:1].lower() + what[1:]) from error


def _line(lines: list[str], field: str) -> int:
    return next((n for n, line in enumerate(lines, 1) if line.split(":")[0].strip() == field), 1)
