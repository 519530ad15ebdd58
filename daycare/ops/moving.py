"""Moving a home's store to another place or engine: checked, copied while the daemon works, settled in a short stop.

The order at the end lets one of the two be opened at most, wherever it is cut off: the source says that it is being
left, the target becomes a store like any other, the source says that it was left.
"""

import fcntl
import os
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Final
from urllib.parse import parse_qs, urlsplit

import msgspec

from daycare import features
from daycare.base.errors import BrokenError, BusyError, ConflictError, InvalidError, NotFoundError
from daycare.base.store_location import is_server, shown
from daycare.config import load
from daycare.features.configuration.service import write_config
from daycare.features.configuration.toml_edit import edited
from daycare.settings import StoreSection
from daycare.store.home import MEMORY, Home, HomeLock
from daycare.store.moving import file_side, opening
from daycare.store.moving.copier import Copier, MovedRows
from daycare.store.moving.note import MoveNote
from daycare.store.moving.row_format import NUL_INSTEAD, Nul
from daycare.store.moving.side import Side, TargetSide
from daycare.store.moving.tables import moved_tables
from daycare.store.sqlite.rows import indexes_of

DEFAULT: Final = "sqlite"  # what is given for the file that a new home has

_ROUNDS: Final = 3  # while the daemon works; more would bring what comes meanwhile, without end
_FEW_ROWS: Final = 2_000  # so little that the stop is short
_ROOM: Final = 1.3  # of the source's size: indexes, and the log of commits
_UNFIT_SHOWN: Final = 20
_LOCK_WAIT_S: Final = 15.0  # for a daemon that has just ended

Tell = Callable[[str, str, int, int], None]
"""Hears what is done, of which table, how many rows of it were read, and how many there are."""


class MoveRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a person wants: `to` is a location as `[store] location` has it, or `sqlite`.

    `switch`: config.toml names the new place at the end. `replace_nul`: NUL characters, which PostgreSQL's texts cannot
    have, become pictures of them.
    """

    to: str
    dry_run: bool = False
    switch: bool = False
    replace_nul: bool = False


class UnfitText(msgspec.Struct, frozen=True):
    """A text that PostgreSQL does not take: its table, the key of its row, its column."""

    table: str
    key: dict[str, object]
    column: str


class MoveReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a move, or what it would be. `tables` were the same on both sides at the end.

    `early` rows were copied while the daemon worked, `late` ones while it was stopped, which lasted `stopped_s`: None
    if it did not run. `aside` is where a file lies that was left before and had the name. `line` belongs under [store].
    """

    source: str
    target: str
    dry_run: bool
    rows: int
    bytes: int
    tables: tuple[MovedRows, ...] = ()
    early: int = 0
    late: int = 0
    took_s: float = 0.0
    stopped_s: float | None = None
    aside: str = ""
    unfit: tuple[UnfitText, ...] = ()
    line: str
    switched: bool = False


class MoveUndone(msgspec.Struct, frozen=True, kw_only=True):
    """A store that can be opened again, as it was `at` (wall ms), and where it was moved to."""

    location: str
    other: str
    at: int


def move(home: Home, wish: MoveRequest, *, stop: Callable[[], bool], tell: Tell = lambda *_: None) -> MoveReport:
    """Move a home's store; a repeat goes on from where an earlier try ended.

    `stop` ends the daemon that runs, for the last step, and returns whether it may: BusyError MOVE_WAITS else.
    """
    section = load(home.path).store
    to = StoreSection().location if wish.to == DEFAULT else wish.to
    _check(to)
    source_at, target_at = home.database(section.location), home.database(to)
    if MEMORY in (source_at, target_at):
        raise InvalidError(
            "STORE_IN_MEMORY", "moving a store: messages that are in memory cannot be moved", hint="[store] location"
        )
    if source_at == target_at:
        raise InvalidError("MOVE_SAME", f"moving {shown(source_at)}: that is where it is", hint="--to ANOTHER")
    with _alone(home), closing(opening.open_source(source_at, _nul(target_at, wish))) as source:
        moving = _Moving(home, source, target_at, wish, tell)
        report = moving.checked(f'location = "{to}"')
        if wish.dry_run:
            return report
        report = moving.run(report, stop)
    if wish.switch:
        _switch(home, to)
    return msgspec.structs.replace(report, switched=wish.switch)


def undo(home: Home) -> MoveUndone:
    """Let the store that config.toml names be opened again, though it was moved. The caller has the home's lock."""
    location = home.database(load(home.path).store.location)
    with closing(opening.open_source(location)) as side:
        note = side.note()
        if note is None or note.state not in ("left", "leaving"):
            raise ConflictError(
                "MOVE_NONE",
                f"undoing the move of {side.location}: it was not moved",
                hint="[store] location in config.toml has to name the one that was",
            )
        side.set_note(None)
    return MoveUndone(location=side.location, other=note.other, at=note.at)


class _Moving:
    """One try."""

    def __init__(self, home: Home, source: Side, target_at: str, wish: MoveRequest, tell: Tell) -> None:
        self._home = home
        self._source = source
        self._target_at = target_at
        self._wish = wish
        self._tell_of = tell
        self._began = time.monotonic()
        self._counts: dict[str, int] = {}
        self._read = 0
        self._table = self._doing = ""

    def checked(self, line: str) -> MoveReport:
        """Return what is to be moved. Raises for what would keep it from its end, before anything is written."""
        source, target_at = self._source, self._target_at
        self._refuse_notes()
        size = source.size()
        if not is_server(target_at):
            file_side.refuse_no_room(target_at, round(size * _ROOM))
        unfit: list[UnfitText] = []
        for table in moved_tables():
            self._counts[table.name] = source.count(table)
            if is_server(target_at) and not self._wish.replace_nul and len(unfit) < _UNFIT_SHOWN:
                unfit += [
                    UnfitText(table.name, dict(zip(table.columns, key, strict=False)), column)
                    for key, column in source.unfit(table, _UNFIT_SHOWN - len(unfit))
                ]
        if unfit and not self._wish.dry_run:
            first = unfit[0]
            raise InvalidError(
                "TEXT_NUL",
                f"moving {source.location}: the {first.column} of {first.table} {first.key} has a NUL character, which"
                f" no text of PostgreSQL can have{', and there are more' if len(unfit) > 1 else ''}",
                hint=f"--dry-run lists them; with --replace-nul they become {NUL_INSTEAD}",
            )
        return MoveReport(
            source=source.location,
            target=shown(target_at),
            dry_run=self._wish.dry_run,
            rows=sum(self._counts.values()),
            bytes=size,
            unfit=tuple(unfit),
            line=line,
        )

    def run(self, report: MoveReport, stop: Callable[[], bool]) -> MoveReport:
        """Move it."""
        now_ms = round(time.time() * 1000)
        source = self._source
        said = source.note()
        if said is not None and said.state in ("leaving", "left") and self._has_arrived():
            source.set_note(msgspec.structs.replace(said, state="left"))
            return report
        target, aside = opening.open_target(self._target_at, now_ms)
        with closing(target), HomeLock(self._home) as lock:
            copier = Copier(source, target, indexes_of(features.rows()), self._tell)
            target.begin(MoveNote(state="arriving", other=source.location, at=now_ms))
            stopped_at, early = None, 0
            try:
                lock.acquire("tool", now_ms)
            except BusyError:
                early = self._copied_early(copier)
                stopped_at = time.monotonic()
                self._stopped(stop, lock)
            source.alone()
            tables = self._settled(copier, target)
            ended_at = time.monotonic()
            target.tidy()
        return msgspec.structs.replace(
            report,
            rows=sum(each.rows for each in tables),
            tables=tables,
            early=early,
            late=sum(each.copied for each in tables),
            took_s=round(ended_at - self._began, 3),
            stopped_s=None if stopped_at is None else round(ended_at - stopped_at, 3),
            aside=aside,
        )

    def _refuse_notes(self) -> None:
        source = self._source.note()
        if source is not None and source.state == "arriving":
            raise ConflictError(
                "MOVE_OF_A_HALF",
                f"moving {self._source.location}: a move from {source.other} into it is not finished",
                hint="let [store] location in config.toml name that one, and finish it first",
            )
        if source is not None and source.state in ("leaving", "left") and self._has_arrived():
            return  # an earlier try had only to say so
        if source is not None and source.state == "left":
            raise ConflictError(
                "STORE_MOVED",
                f"moving {self._source.location}: it was moved to {source.other} already",
                hint=f'write location = "{source.other}" under [store] in config.toml',
            )
        target = opening.look_at_target(self._target_at)
        if target is not None and target.state == "arriving" and target.other != self._source.location:
            raise ConflictError(
                "MOVE_TARGET_TAKEN",
                f"moving to {shown(self._target_at)}: a move from {target.other} into it is not finished",
                hint="finish that one, or delete what is there",
            )

    def _has_arrived(self) -> bool:
        """Whether the target is a whole store that came from this source."""
        try:
            target = opening.open_source(self._target_at)
        except (NotFoundError, BrokenError, ConflictError):
            return False
        with closing(target):
            note = target.note()
            return note is not None and (note.state, note.other) == ("arrived", self._source.location)

    def _copied_early(self, copier: Copier) -> int:
        """Copy what there is while somebody works on the source."""
        copied = 0
        for round_ in range(_ROUNDS):
            self._doing = "copying" if round_ == 0 else "catching up"
            self._source.hold()
            try:
                came = copier.bring()
            finally:
                self._source.let_go()
            copied += came
            if came <= _FEW_ROWS:
                break
        return copied

    def _stopped(self, stop: Callable[[], bool], lock: HomeLock) -> None:
        if not stop():
            raise BusyError(
                "MOVE_WAITS",
                f"moving {self._source.location}: everything is copied so far; the last step needs the daemon stopped",
                hint=f"daycare migrate-store --to {shlex.quote(shown(self._wish.to))} --stop",
            )
        deadline = time.monotonic() + _LOCK_WAIT_S
        while True:
            try:
                lock.acquire("tool", round(time.time() * 1000))
                return
            except BusyError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.05)

    def _settled(self, copier: Copier, target: TargetSide) -> tuple[MovedRows, ...]:
        """Copy the rest, compare every row, and let the target take the source's place."""
        source = self._source
        self._doing = "comparing every row"
        source.hold()
        tables = copier.settle()
        target.complete()
        now_ms = round(time.time() * 1000)
        leaving = MoveNote(state="leaving", other=target.location, at=now_ms)
        source.leave(leaving)
        target.finish(MoveNote(state="arrived", other=source.location, at=now_ms))
        source.set_note(msgspec.structs.replace(leaving, state="left"))
        return tables

    def _tell(self, table: str, rows: int) -> None:
        if table != self._table:
            self._table, self._read = table, 0
        self._read += rows
        self._tell_of(self._doing or "copying", table, self._read, self._counts.get(table, 0))


def _check(to: str) -> None:
    """Raise `InvalidError` for what `[store] location` does not take."""
    if not to.strip() or ("://" in to and not is_server(to)):
        raise InvalidError("USAGE", f"--to {to}: it is not a location", hint='a file, "sqlite" or "postgresql://..."')
    with suppress(ValueError):
        parts = urlsplit(to) if is_server(to) else None
        if parts is not None and (parts.password or "password" in parse_qs(parts.query)):
            raise InvalidError(
                "USAGE", f"--to {shown(to)}: a password does not belong there", hint="~/.pgpass, or PGPASSWORD"
            )


def _nul(target_at: str, wish: MoveRequest) -> Nul:
    return "keep" if not is_server(target_at) else "replace" if wish.replace_nul else "refuse"


def _switch(home: Home, to: str) -> None:
    text = home.config.read_text("utf-8") if home.config.exists() else ""
    write_config(home.config, edited(text, {("store", "location"): to}))
    if load(home.path).store.location != to:
        raise BrokenError(
            "CONFIG_UNUSUAL",
            f"changing {home.config}: the new location is not what it says",
            hint=f'location = "{to}" under [store]',
        )


@contextmanager
def _alone(home: Home) -> Iterator[None]:
    """Let no other move of this home run."""
    try:
        fd = os.open(home.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise NotFoundError(
            "HOME_MISSING", f"using the home {home.path}: {error.strerror or error}", hint="daycare init"
        ) from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise BusyError("MOVE_RUNS", f"using the home {home.path}: another move runs", hint="wait for it") from error
    finally:
        os.close(fd)
