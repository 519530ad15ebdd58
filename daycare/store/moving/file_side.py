"""A file of SQLite's as a side of a move."""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

import apsw

from daycare.base.errors import BrokenError, BusyError, ConflictError, NotFoundError, UnavailableError
from daycare.base.sizes import size
from daycare.base.times import local_time
from daycare.store.moving import note as notes
from daycare.store.moving.note import MoveNote
from daycare.store.moving.row_format import Key, Nul, decoder, encoder
from daycare.store.moving.tables import MovedTable, moved_tables
from daycare.store.sqlite.database import (
    BUSY_TIMEOUT_MS,
    connect_reader,
    count,
    describing,
    migrate,
    migrations,
    refuse_future,
)
from daycare.store.sqlite.packing import add_functions
from daycare.store.sqlite.rows import WordIndex
from daycare.store.sqlite.sql import bound, fetch

_ENDS: Final = ("-wal", "-shm", ".mark")  # what lies beside a file and belongs to it
_CACHE_KIB: Final = 64 * 1024


class FileSide:
    """A file of SQLite's, read by one connection and written by another."""

    def __init__(self, location: str, *, nul: Nul = "keep") -> None:
        self.location = location
        self.nul: Nul = nul
        self._read = connect_reader(location)
        self._write: apsw.Connection | None = None
        self._held = 0  # the version of its contents when it was held

    # -- reading -------------------------------------------------------------------------------------------------------

    def note(self) -> MoveNote | None:
        """Return what it says of a move."""
        return notes.read(self._read, notes.OF_A_FILE)

    def hold(self) -> None:
        """Keep a view of it; meanwhile its log of commits grows by what others write."""
        self._read.execute("BEGIN; SELECT count(*) FROM sqlite_schema").fetchall()
        self._held = count(self._read, "PRAGMA data_version")

    def let_go(self) -> None:
        """Give the view up."""
        if self._read.in_transaction:
            self._read.execute("ROLLBACK").fetchall()

    def count(self, table: MovedTable) -> int:
        """Return how many rows a table has."""
        return count(self._read, f"SELECT count(*) FROM {table.name}")

    def rows(self, table: MovedTable, after: Key | None) -> Iterator[bytes]:
        """Yield the rows of a table in the order of its key, those behind one of it."""
        where = "" if after is None else f" WHERE ({table.key}) > ({', '.join('?' for _ in after)})"
        encode = encoder(table, self.location, self.nul)
        found = self._read.execute(f"SELECT {table.read} FROM {table.name}{where} ORDER BY {table.key}", after or ())
        try:
            yield from map(encode, found)
        except UnicodeDecodeError as error:
            raise BrokenError(
                "MOVE_UNFIT",
                f"moving {self.location}: a text in {table.name} is not valid: {error.reason}",
                hint="daycare doctor",
            ) from error

    def unfit(self, table: MovedTable, most: int) -> list[tuple[Key, str]]:
        """Return keys of rows that have a NUL character in a text, and the column."""
        found: list[tuple[Key, str]] = []
        for column in table.texts:
            rows = fetch(
                self._read,
                f"SELECT {table.key} FROM {table.name} WHERE instr({table.text_of(column)}, char(0)) LIMIT ?",
                (most - len(found),),
            )
            found += [(row, column) for row in rows]
        return found

    def size(self) -> int:
        """Return how many bytes it takes."""
        return count(self._read, "PRAGMA page_size") * count(self._read, "PRAGMA page_count")

    # -- writing -------------------------------------------------------------------------------------------------------

    def set_note(self, note: MoveNote | None) -> None:
        """Let it say something of a move, or nothing any more."""
        with self._transaction() as db:
            if note is None:
                notes.remove(db)
            else:
                notes.write(db, note)

    def alone(self) -> None:
        """Be ready to write: the lock of its home says whether a daycare works on it.

        One without a log of commits, as a restore leaves it, gets one now: behind `hold` that would be a change.
        """
        self._writing()

    def leave(self, note: MoveNote) -> None:
        """Let nobody open it any more. Raises `BusyError` MOVE_CHANGED where somebody has written since `hold`."""
        self.let_go()
        with self._transaction() as db:
            if count(self._read, "PRAGMA data_version") != self._held:
                raise BusyError(
                    "MOVE_CHANGED",
                    f"moving {self.location}: another program has written to it meanwhile",
                    hint="end that program, and do it again: what was copied is kept",
                )
            notes.write(db, note)

    def begin(self, note: MoveNote) -> None:
        """Let it be a target: triggers are off in this connection, and what they count comes as rows."""
        with self._transaction() as db:
            notes.write(db, note)

    def put(self, table: MovedTable, rows: Sequence[bytes], words: WordIndex | None) -> None:
        """Add rows, and their words to an index."""
        decode = decoder(table)
        values = [decode(row) for row in rows]
        with self._transaction() as db:
            db.executemany(f"INSERT INTO {table.name} ({table.listed}) VALUES ({table.marks})", values)
            if words is not None:
                words.add(db, [row[: table.keys] for row in values])

    def drop(self, table: MovedTable, keys: Sequence[Key], words: WordIndex | None) -> None:
        """Delete rows, and their words from an index."""
        where = " AND ".join(f'"{each}" = ?' for each in table.columns[: table.keys])
        with self._transaction() as db:
            if words is not None:
                words.drop(db, keys)
            db.executemany(f"DELETE FROM {table.name} WHERE {where}", keys)

    def complete(self) -> None:
        """Check that each row names others that are there; this connection does not at each."""
        wrong = self._writing().execute("PRAGMA foreign_key_check").fetchone()
        if wrong is not None:
            raise BrokenError(
                "MOVE_DIFFERS",
                f"moving to {self.location}: a row of {wrong[0]} names one of {wrong[2]} that is not there",
                hint="daycare doctor of the source; please report it with the log",
            )

    def finish(self, note: MoveNote | None) -> None:
        """Let it be a database like any other."""
        self._writing().execute("PRAGMA synchronous = FULL").fetchall()
        self.set_note(note)
        self._writing().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def tidy(self) -> None:
        """Return: it is quick."""

    def close(self) -> None:
        """Close it."""
        self._read.close()
        if self._write is not None:
            self._write.close()

    def _writing(self) -> apsw.Connection:
        if self._write is None:
            self._write = _connect(self.location)
        return self._write

    @contextmanager
    def _transaction(self) -> Iterator[apsw.Connection]:
        with describing(self.location):
            db = self._writing()
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                with suppress(apsw.Error):
                    db.execute("ROLLBACK")
                raise


def open_source(location: str, nul: Nul) -> FileSide:
    """Open a file to read from. Raises `NotFoundError` STORE_MISSING, `BrokenError` for one that cannot be moved."""
    if not Path(location).exists():
        raise NotFoundError("STORE_MISSING", f"moving {location}: it does not exist", hint="daycare init")
    with describing(location), closing(apsw.Connection(location, flags=apsw.SQLITE_OPEN_READONLY)) as db:
        number, known = refuse_future(db, location), migrations()[-1][0]
        if number < known:
            raise ConflictError(
                "MOVE_OLD_SCHEMA",
                f"moving {location}: its schema is number {number}, this daycare's {known}",
                hint="start this daycare on it first: daycare run",
            )
    return FileSide(location, nul=nul)


def said_in(location: str) -> MoveNote | None:
    """Return what a file says of a move."""
    with describing(location), closing(connect_reader(location)) as db:
        return notes.read(db, notes.OF_A_FILE)


def look_at_target(location: str) -> MoveNote | None:
    """Return what a file that is to be written to says of a move.

    Raises `ConflictError` MOVE_TARGET_TAKEN for one that has rows of its own.
    """
    if not Path(location).exists():
        return None
    with describing(location), closing(connect_reader(location)) as db:
        said = notes.read(db, notes.OF_A_FILE)
        if said is None or said.state == "arrived":
            names = {name for (name,) in fetch(db, "SELECT name FROM sqlite_schema WHERE type = 'table'")}
            known = {table.name: table for table in moved_tables()}
            strange = names and not names.issuperset(("users", "inbox", "outbox"))
            if strange or any(
                count(db, f"SELECT count(*) FROM {name}") > known[name].first for name in names & known.keys()
            ):
                raise ConflictError(
                    "MOVE_TARGET_TAKEN",
                    f"moving to {location}: there is something in it",
                    hint="name a file that is not there yet, or move this one away",
                )
    return said


def open_target(location: str, now_ms: int) -> tuple[FileSide, str]:
    """Open a file to write to, made if it is not there; also return where a file was put that was left before."""
    file = Path(location)
    said = look_at_target(location)
    aside = ""
    if said is not None and said.state != "arriving":
        aside = _put_aside(file, now_ms)
    if not file.exists():
        try:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except OSError as error:
            raise UnavailableError(
                "MOVE_FAILED", f"making {location}: {error.strerror or error}", hint="make it possible, and do it again"
            ) from error
        for end in _ENDS:  # of one that was there once
            Path(f"{file}{end}").unlink(missing_ok=True)
    with describing(location), closing(apsw.Connection(location, flags=apsw.SQLITE_OPEN_READWRITE)) as db:
        db.execute("PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL").fetchall()
        migrate(db, location)
    return FileSide(location), aside


def refuse_no_room(location: str, wanted: int) -> None:
    """Raise `UnavailableError` MOVE_NO_ROOM where the disk of a file has less than so many bytes."""
    folder = next(each for each in Path(location).absolute().parents if each.exists())
    free = shutil.disk_usage(folder).free + (Path(location).stat().st_size if Path(location).exists() else 0)
    if free < wanted:
        raise UnavailableError(
            "MOVE_NO_ROOM",
            f"moving to {location}: it needs some {size(wanted)}, and {size(free)} are free there",
            hint="free some space, or name a file on another disk",
        )


def _put_aside(file: Path, now_ms: int) -> str:
    aside = file.with_name(f"{file.name}.left-{local_time(now_ms, None).strftime('%Y%m%d-%H%M%S')}")
    with describing(str(file)), closing(_connect(str(file))) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    file.rename(aside)
    for end in _ENDS:
        if Path(f"{file}{end}").exists():
            Path(f"{file}{end}").rename(f"{aside}{end}")
    return str(aside)


def _connect(location: str) -> apsw.Connection:
    db = apsw.Connection(location, flags=apsw.SQLITE_OPEN_READWRITE)
    db.set_busy_timeout(BUSY_TIMEOUT_MS)
    db.convert_binding = bound
    add_functions(db)
    for pragma in (
        "journal_mode = WAL",
        "synchronous = NORMAL",  # what a power cut undoes is copied again, and the end is not before all is on the disk
        "secure_delete = ON",
        f"cache_size = -{_CACHE_KIB}",
    ):
        db.execute(f"PRAGMA {pragma}").fetchall()
    db.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    return db
