"""Opening the file: pragmas, migrations with a snapshot before each, and refusals that say how to repair."""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import cache, partial
from importlib import resources
from itertools import count as count_from
from itertools import repeat
from pathlib import Path
from typing import Any, Final, TypeVar

import apsw

from daycare.base.errors import BrokenError, DaycareError, StoreAwayError, UnavailableError
from daycare.base.limits import START_CHECK_MAX_BYTES
from daycare.store.moving import note as notes
from daycare.store.sqlite import packing
from daycare.store.sqlite.sql import bound

SNAPSHOTS_KEPT: Final = 3  # of before upgrades: three releases to go back

C = TypeVar("C", bound=apsw.Connection)

MEMORY = "memory:"
_IN_MEMORY = "file:/daycare-"  # what the names of databases in memory begin with
_in_memory = count_from(1)
_CHECKPOINT_MS = 100  # that commits wait for readers, each time
BUSY_TIMEOUT_MS = 10_000  # another process may hold the file for a backup
_STATEMENTS = 256  # every statement of the store stays prepared
_SNAPSHOT = re.compile(r"\.before-\d{4}")
_LOG_KEPT_BYTES = 16 * 1024 * 1024  # of the log of commits once it is in the file: as much as is brought in at a time
_CACHE_KIB = 16 * 1024  # the tail of every table and index; with the default of 2 MB commits spill half-way


def file_of(location: str) -> str:
    """Return what to open for a location: of a memory store a new database that several connections can share."""
    return f"{_IN_MEMORY}{next(_in_memory)}?vfs=memdb" if location == MEMORY else location


def open_writer(location: str, vfs: str | None = None) -> apsw.Connection:
    """Open the one writing connection, check the file and bring its schema up to date."""
    with describing(location), ExitStack() as opened:
        db = opened.enter_context(
            closing(_connect(apsw.Connection, location, apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE, vfs))
        )
        # FULL: an acknowledged row survives a power cut (NORMAL loses the last commits of the WAL).
        for pragma in (
            "auto_vacuum = INCREMENTAL",  # of a new file: what is free in it can be given back, a little at a time
            "journal_mode = WAL",
            "synchronous = FULL",
            "foreign_keys = ON",
            "secure_delete = ON",  # what is deleted is overwritten: somebody may have asked for it to be forgotten
            "wal_autocheckpoint = 4000",
            f"journal_size_limit = {_LOG_KEPT_BYTES}",
            "cell_size_check = ON",  # a damaged page is an error where it is read, and not half a row
            f"cache_size = -{_CACHE_KIB}",
        ):
            db.execute(f"PRAGMA {pragma}").fetchall()
        notes.refuse(notes.read(db, notes.OF_A_FILE), location)
        migrate(db, location)
        opened.pop_all()
    return db


def connect_reader(
    location: str, vfs: str | None = None, heed: Callable[[apsw.Error], DaycareError] | None = None
) -> apsw.Connection:
    """Open a read-only connection of a file; each belongs to one thread at a time.

    `heed` is told what SQLite says is wrong, in the thread that reads, and returns what is raised instead.
    """
    with describing(location):
        db = _connect(_Reading, location, apsw.SQLITE_OPEN_READONLY, vfs)
        db.execute("PRAGMA cell_size_check = ON")
    db.heed = heed or partial(described, location)
    db.cursor_factory = _ReadingCursor
    return db


_next_row: Final = apsw.Cursor.__next__


class _Reading(apsw.Connection):
    heed: Callable[[apsw.Error], DaycareError]


class _ReadingCursor(apsw.Cursor):
    """Turns SQLite's errors into ours at whichever row they come up. (No context manager: this is on every path.)"""

    connection: _Reading

    def execute(self, *args: Any, **more: Any) -> apsw.Cursor:
        try:
            return super().execute(*args, **more)
        except apsw.Error as error:
            raise self.connection.heed(error) from error

    def fetchone(self) -> Any:
        try:
            return super().fetchone()
        except apsw.Error as error:
            raise self.connection.heed(error) from error

    def fetchall(self) -> list[Any]:
        try:
            return list(map(_next_row, repeat(self)))  # its own would call ours for each row, which takes twice as long
        except apsw.Error as error:
            raise self.connection.heed(error) from error

    def __next__(self) -> Any:
        try:
            return super().__next__()
        except apsw.Error as error:
            raise self.connection.heed(error) from error


def _connect(kind: Callable[..., C], location: str, flags: int, vfs: str | None) -> C:
    uri = apsw.SQLITE_OPEN_URI if location.startswith(_IN_MEMORY) else 0
    db = kind(location, flags=flags | uri, vfs=vfs, statementcachesize=_STATEMENTS)
    db.set_busy_timeout(BUSY_TIMEOUT_MS)
    db.convert_binding = bound
    if not db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'sqlite_stat1'").fetchall():
        # Without statistics the plan is the same whatever is bound, and need not be made again for each value.
        db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    packing.add_functions(db)
    return db


@cache
def migrations() -> tuple[tuple[int, str, str], ...]:
    """Return every shipped migration as (number, name, SQL), in order."""
    found = []
    for entry in resources.files("daycare_migrations").iterdir():
        if match := re.fullmatch(r"(\d{4})_(\w+)\.sql", entry.name):
            found.append((int(match[1]), match[2], entry.read_text(encoding="utf-8")))
    return tuple(sorted(found))


def migrate(db: apsw.Connection, location: str) -> list[str]:
    """Apply what is missing, one transaction each, after a snapshot beside the file; return the names applied.

    A new database gets everything in one transaction.
    """
    known = migrations()
    version = refuse_future(db, location)
    if version and version < known[-1][0]:
        snapshot(db, Path(f"{location}.before-{version + 1:04d}"))
    missing = [each for each in known if each[0] > version]
    for part in [[each] for each in missing] if version else [missing]:
        scripts = "; ".join(sql for _, _, sql in part)
        # fetchall: apsw stops at the first row a script returns
        db.execute(f"BEGIN IMMEDIATE; {scripts}; PRAGMA user_version = {part[-1][0]}; COMMIT").fetchall()
    for old in snapshots(location)[:-SNAPSHOTS_KEPT]:
        old.unlink(missing_ok=True)
    return [name for _, name, _ in missing]


def refuse_future(db: apsw.Connection, location: str) -> int:
    """Return the number of a database's schema. Raises `BrokenError` STORE_FROM_FUTURE for one nobody here knows."""
    version, newest = int(db.pragma("user_version") or 0), migrations()[-1][0]
    if version > newest:
        fitting = [file for file in snapshots(location) if number_of(file) <= newest + 1]
        back = f"daycare rollback, to {fitting[-1]} of before its upgrade" if fitting else "restore an older backup"
        raise BrokenError(
            "STORE_FROM_FUTURE",
            f"opening {location}: its schema is number {version}, this daycare knows up to {newest}",
            hint=f"install the newer daycare again, or {back}",
        )
    return version


def snapshot(db: apsw.Connection, target: Path) -> None:
    """Copy the database to `target`, replacing an older snapshot of the same name once the new one is whole."""
    made = Path(f"{target}.part")
    made.unlink(missing_ok=True)
    os.close(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))  # nobody else's, from its start
    try:
        db.execute("VACUUM INTO ?", (str(made),)).fetchall()
    except apsw.Error:
        made.unlink(missing_ok=True)
        raise
    for path in (made, made.parent):
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
        if path == made:
            made.replace(target)


def snapshots(location: str) -> list[Path]:
    """Return the snapshots that upgrades have made of a database, the oldest first."""
    file = Path(location)
    return sorted(
        each for each in file.parent.glob("*.before-*") if _SNAPSHOT.fullmatch(each.name.removeprefix(file.name))
    )


def number_of(snapshot_file: Path) -> int:
    """Return before which migration a snapshot was made: its own schema is one less."""
    return int(snapshot_file.name[-4:])


def check(location: str) -> str | None:
    """Return None if the file is sound, else SQLite's first complaint. Reads the whole file."""
    with describing(location):
        db = _connect(apsw.Connection, location, apsw.SQLITE_OPEN_READONLY, None)
        try:
            [(answer,)] = db.execute("PRAGMA quick_check(1)").fetchall()
        finally:
            db.close()
    return None if answer == "ok" else str(answer)


def checkpoint(db: apsw.Connection) -> bool:
    """Bring the log of commits into the file and empty it; return False where somebody reads it for long."""
    db.set_busy_timeout(_CHECKPOINT_MS)
    try:
        [(busy, *_)] = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    finally:
        db.set_busy_timeout(BUSY_TIMEOUT_MS)
    return not busy


def refuse_damage(location: str, *, whole: bool = False) -> None:
    """Raise `BrokenError` for a damaged file, as far as a look costs little, or `whole`: larger ones are read later."""
    file = Path(location)
    if location != MEMORY and file.exists() and (whole or file.stat().st_size <= START_CHECK_MAX_BYTES):
        complaint = check(location)
        if complaint is not None:
            raise described(location, apsw.CorruptError(complaint))


@contextmanager
def describing(location: str) -> Iterator[None]:
    """Turn SQLite's errors into ours."""
    try:
        yield
    except apsw.Error as error:
        raise described(location, error) from error


def described(location: str, error: apsw.Error) -> DaycareError:
    """Say what an SQLite error means for the operator."""
    what = f"using the database {location}: {error}"
    match error:
        case apsw.NotADBError() | apsw.CorruptError():
            return BrokenError(
                "STORE_CORRUPT",
                what,
                hint=f"put the newest backup back: `daycare restore BACKUP --force`, which keeps {location} aside"
                " (`sqlite3 FILE .recover` salvages what is readable in it)",
            )
        case apsw.FullError():
            return StoreAwayError("DISK_FULL", what, hint="free some space; daycare goes on by itself then")
        case apsw.CantOpenError() | apsw.PermissionsError() | apsw.ReadOnlyError():
            return StoreAwayError(
                "STORE_UNREACHABLE", what, hint="check that the folder exists and belongs to the daemon's account"
            )
        case apsw.BusyError() | apsw.LockedError():
            return StoreAwayError("STORE_LOCKED", what, hint="another program has the database open; close it")
        case apsw.InterruptError():
            return UnavailableError("STORE_LATE", what, hint="it was asked for more than it can look at in time")
        case apsw.IOError():
            return StoreAwayError("STORE_IO", what, hint="check the disk (`dmesg`, free space); daycare retries")
    return BrokenError("STORE_ERROR", what, hint="this is a defect of daycare; please report it with the log")


def is_of_an_index(error: apsw.Error) -> bool:
    """Whether only an index of words is damaged, which can be made again of what it is about."""
    return getattr(error, "extendedresult", 0) == apsw.SQLITE_CORRUPT_VTAB


def counted(db: apsw.Connection, name: str) -> int:
    """Return a number that is kept in the table of counts."""
    return count(db, "SELECT number FROM counts WHERE name = ?", (name,))


def count(db: apsw.Connection, sql: str, bindings: tuple[object, ...] = ()) -> int:
    """Return the first column of the first row, which is a number."""
    row = db.execute(sql, bindings).fetchone()
    assert row is not None, f"a counting statement returned no row: {sql}"
    return int(str(row[0]))
