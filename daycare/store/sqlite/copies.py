"""Copies of a database file: taken while it is in use, looked at as a whole, and put in the place of another.

A copy is the database as of one moment: the reading connection keeps its view until the last page, so writers go on and
the copy is never begun anew. Meanwhile the log of commits grows by what they write.
"""

import os
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

import apsw
import msgspec

from daycare.base.errors import BrokenError
from daycare.store.moving import note as notes
from daycare.store.sqlite.database import BUSY_TIMEOUT_MS, count, describing, refuse_future
from daycare.store.sqlite.sql import fetch

_STEP_PAGES: Final = 256  # 1 MB: some ms, after which others may have the disk for as long
_PAUSE_MAX_S: Final = 0.1
_HEADER_BYTES: Final = 100
_CHECK_EVERY: Final = 100_000  # instructions of SQLite's machine, some ms
_COUNTED: Final = (  # what people know of, and the column that says when
    ("people", "users", "created_at", "removed_at IS NULL"),
    ("agents", "agents", "created_at", "state <> 'dead'"),
    ("messages", "inbox", "created_at", "lane = 1"),
    ("replies", "outbox", "created_at", "1"),
    ("turns", "history", "ended_at", "1"),
    ("documents", "documents", "created_at", "text IS NOT NULL"),
    ("memories", "memories", "created_at", "text IS NOT NULL"),
    ("files", "files", "created_at", "1"),
    ("scheduled jobs", "cron_jobs", "created_at", "removed_at IS NULL"),
    ("tasks", "tasks", "created_at", "1"),
)
_NUMBERED: Final = {"messages": "seq", "replies": "seq", "turns": "turn", "documents": "no"}  # rows only grow
RESTORED: Final = ("", "restored")  # connector and name of what `connector_memory` keeps about a restore
BUCKET_PLACE: Final = ("", "files.place")  # and about where in a bucket the files of this store are put


class DatabaseFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is in a database: the number of its schema, rows by what they are, the newest row's time (wall ms).

    `elsewhere` files lie in a bucket, which have so many bytes.
    """

    number: int
    counts: dict[str, int]
    newest_at: int
    secrets: tuple[str, ...]
    elsewhere: int = 0
    elsewhere_bytes: int = 0


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """That a database was put back: what it is `from`, as of when, and when that was done (wall ms)."""

    source: str
    made_at: int
    restored_at: int


def copy(location: str, target: Path, *, check: Callable[[], None] = lambda: None, pause: bool = True) -> None:
    """Copy a database to a new file that only its owner reads, a step at a time; `check` may raise between two."""
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    with (
        describing(location),
        closing(apsw.Connection(location, flags=apsw.SQLITE_OPEN_READONLY)) as source,
        closing(apsw.Connection(str(target), flags=apsw.SQLITE_OPEN_READWRITE)) as made,
    ):
        source.set_busy_timeout(BUSY_TIMEOUT_MS)
        made.execute("PRAGMA synchronous = OFF").fetchall()  # it counts for nothing before it was read again
        source.execute("BEGIN; SELECT count(*) FROM sqlite_master").fetchall()  # the view that is kept
        with made.backup("main", source, "main") as steps:
            while not steps.done:
                began = time.monotonic()
                steps.step(_STEP_PAGES)
                check()
                if pause and not steps.done:
                    time.sleep(min(time.monotonic() - began, _PAUSE_MAX_S))
        made.execute("PRAGMA journal_mode = DELETE").fetchall()  # one file, whole in itself


def is_database(file: Path) -> bool:
    """Return whether a file is one of SQLite's.

    It is read by SQLite's own means: closing it by another would give up the locks that this process has on it.
    """
    if file.stat().st_size < _HEADER_BYTES:
        return False
    with describing(str(file)):
        opened = apsw.VFSFile("", str(file), [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY, 0])
        try:
            return opened.xRead(16, 0) == b"SQLite format 3\0"
        finally:
            opened.xClose()


def examine(file: Path, *, whole: bool = True, check: Callable[[], None] = lambda: None) -> DatabaseFacts:
    """Return what is in a database; with `whole` every page of it is checked. Raises `BrokenError` STORE_CORRUPT."""

    def go_on() -> bool:
        check()
        return False

    with describing(str(file)), closing(apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)) as db:
        db.set_busy_timeout(BUSY_TIMEOUT_MS)
        db.set_progress_handler(go_on, _CHECK_EVERY)
        if whole:
            [(answer,), *_] = db.execute("PRAGMA integrity_check(1)").fetchall()
            if answer != "ok":
                raise apsw.CorruptError(str(answer))
        tables = {str(name) for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if "users" not in tables or "outbox" not in tables:
            raise BrokenError("NOT_DAYCARES", f"looking into {file}: it is a database, but none of daycare's")
        counts, newest = {}, 0
        for what, table, at, where in _COUNTED:
            if table in tables:
                counts[what] = count(db, f"SELECT count(*) FROM {table} WHERE {where}")
                newest = max(newest, count(db, f"SELECT coalesce(max({at}), 0) FROM {table}"))
        names = db.execute("SELECT name FROM secrets ORDER BY name").fetchall()
        many, size = 0, 0
        if "gone_objects" in tables:
            [(many, size)] = fetch(db, "SELECT count(*), coalesce(sum(size), 0) FROM files WHERE object <> ''")
        return DatabaseFacts(
            elsewhere=many,
            elsewhere_bytes=size,
            number=count(db, "PRAGMA user_version"),
            counts=counts,
            newest_at=newest,
            secrets=tuple(str(name) for (name,) in names),
        )


def since(newer: str, older: Path) -> dict[str, int]:
    """Return how many rows one database has that are newer than all of another, by what they are."""
    found = {}
    with (
        describing(newer),
        closing(apsw.Connection(newer, flags=apsw.SQLITE_OPEN_READONLY)) as now,
        closing(apsw.Connection(str(older), flags=apsw.SQLITE_OPEN_READONLY)) as then,
    ):
        now.set_busy_timeout(BUSY_TIMEOUT_MS)
        for what, table, _, where in _COUNTED:
            if what in _NUMBERED:
                number = _NUMBERED[what]
                last = count(then, f"SELECT coalesce(max({number}), 0) FROM {table}")
                newer_than = f"SELECT count(*) FROM {table} WHERE {number} > ? AND {where}"
                found[what] = count(now, newer_than, (last,))
    return found


def mark_restored(file: Path, note: Restored) -> int:
    """Prepare a database that is to be gone on with later than it was made; return how many replies wait in it.

    Each of these may have arrived since, so it goes out as one that may come twice; so does one that was given up, when
    it is replayed. Who opens it learns of the restore.
    """
    with describing(str(file)), closing(apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READWRITE)) as db:
        refuse_future(db, str(file))
        said = notes.read(db, notes.OF_A_FILE)
        if said is not None and said.state == "arriving":
            notes.refuse(said, str(file))
        db.execute("BEGIN IMMEDIATE; UPDATE outbox SET state = 1 WHERE state < 2").fetchall()
        waiting = db.changes()
        db.execute("UPDATE outbox SET state = 4 WHERE state = 3")
        notes.remove(db)  # where it was moved to since is not where it goes on
        # What lies in a bucket and is newer may be the original's, which goes on elsewhere: it is not looked through.
        db.execute("DELETE FROM connector_memory WHERE connector = ? AND name = ?", BUCKET_PLACE)
        db.execute(
            "INSERT INTO connector_memory (connector, name, value, at) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (connector, name) DO UPDATE SET value = excluded.value, at = excluded.at",
            (*RESTORED, msgspec.json.encode(note).decode(), note.restored_at),
        )
        db.execute("COMMIT")
    return waiting


def restored_in(location: str) -> Restored | None:
    """Return the last restore that a database tells of."""
    with describing(location), closing(apsw.Connection(location, flags=apsw.SQLITE_OPEN_READONLY)) as db:
        db.set_busy_timeout(BUSY_TIMEOUT_MS)
        row = db.execute("SELECT value FROM connector_memory WHERE connector = ? AND name = ?", RESTORED).fetchone()
    return decode_restored(str(row[0])) if row else None


def decode_restored(value: str) -> Restored | None:
    """Read what was noted of a restore; None for nothing."""
    return msgspec.json.decode(value, type=Restored) if value else None


def put_in_place(new: Path, location: Path, aside: Path) -> None:
    """Let a file take the place of a database that nobody has open, which is `aside` afterwards, with its log.

    At every moment there is a whole database in the place: the one before with all that was committed, or the new one.
    """
    if location.exists():
        with suppress(apsw.Error), closing(apsw.Connection(str(location), flags=apsw.SQLITE_OPEN_READWRITE)) as db:
            db.set_busy_timeout(BUSY_TIMEOUT_MS)
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()  # what is left of a damaged one is moved as it is
        _link(location, aside)
    for end in ("-wal", "-shm", ".mark"):  # of the one before: none of it must be read as the new one's
        beside = Path(f"{location}{end}")
        if beside.exists():
            beside.replace(f"{aside}{end}")
    sync_file(new)
    new.replace(location)
    sync_folder(location.parent)


def _link(location: Path, aside: Path) -> None:
    try:
        os.link(location, aside)
    except OSError:  # a file system without a second name for a file
        made = Path(f"{aside}.part")
        made.unlink(missing_ok=True)
        fd = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with location.open("rb") as source, os.fdopen(fd, "wb") as to:
            while data := source.read(1024 * 1024):
                to.write(data)
        sync_file(made)
        made.replace(aside)
    sync_folder(aside.parent)


def sync_file(file: Path) -> None:
    """Return when what was written to a file is on the disk."""
    fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


sync_folder = sync_file  # the names in it
