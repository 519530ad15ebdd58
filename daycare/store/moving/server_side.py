"""A database on a server as a side of a move."""

import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any, Final, cast

import msgspec

from daycare.base.errors import BrokenError, BusyError, ConflictError, DaycareError, NotFoundError, StoreAwayError
from daycare.store.moving import note as notes
from daycare.store.moving.note import MoveNote
from daycare.store.moving.row_format import Key, Nul, decoder
from daycare.store.moving.tables import MovedTable, moved_tables
from daycare.store.postgres import schema
from daycare.store.postgres.copying import CopyingConnection
from daycare.store.postgres.errors import StatementError
from daycare.store.postgres.location import ServerLocation
from daycare.store.sqlite.database import migrations
from daycare.store.sqlite.rows import WordIndex

ANSWER_MAX_S: Final = 600.0  # a key of another table is looked up for each row
OWNER_GONE_S: Final = 15.0  # that a daycare which was killed still counts as there
OTHER_GONE_S: Final = 10.0  # that the server needs to notice that a move was killed
_RETRY_S: Final = 0.1
_DROPPED: Final = 500  # rows of one statement
_LOCK: Final = 0x6D6F7665
_KEYS: Final = (
    "SELECT t.relname, c.conname, pg_get_constraintdef(c.oid) FROM pg_constraint c JOIN pg_class t"
    " ON t.oid = c.conrelid WHERE c.contype = 'f' AND c.connamespace = 'daycare'::regnamespace ORDER BY c.conname"
)
_WRITTEN: Final = "SELECT coalesce(sum(batch), 0) || '/' || coalesce(sum(epoch), 0) FROM nodes"


class ServerSide:
    """A database on a server, read by one connection and written by another."""

    nul: Nul = "keep"

    def __init__(self, location: str) -> None:
        self._where = ServerLocation(location)
        self.location = self._where.shown
        self._read = _connect(self._where)
        self._write: CopyingConnection | None = None
        self._held: object = None

    # -- reading -------------------------------------------------------------------------------------------------------

    def note(self) -> MoveNote | None:
        """Return what it says of a move."""
        return notes.read(self._read, notes.OF_A_SERVER)

    def hold(self) -> None:
        """Keep a view of it."""
        self._read.simple("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        self._held = self._read.simple(_WRITTEN)

    def let_go(self) -> None:
        """Give the view up."""
        if self._read.in_transaction:
            self._read.simple("ROLLBACK")

    def count(self, table: MovedTable) -> int:
        """Return how many rows a table has."""
        return int(str(self._read.simple(f"SELECT count(*) FROM {table.name}")[0][0]))

    def rows(self, table: MovedTable, after: Key | None) -> Iterator[bytes]:
        """Yield the rows of a table in the order of its key, those behind one of it."""
        where = "" if after is None else f" WHERE ({table.key}) > {_literals(after)}"
        what = f"COPY (SELECT {table.listed} FROM {table.name}{where} ORDER BY {table.key}) TO STDOUT (FORMAT binary)"
        held = self._read.in_transaction
        if held:
            self._read.simple("SAVEPOINT reading")  # who stops half-way cancels it, which would end the view
        try:
            yield from self._read.copy_out(what)
        finally:
            if held and self._read.is_open:
                self._read.simple("ROLLBACK TO reading; RELEASE reading")

    def unfit(self, table: MovedTable, most: int) -> list[tuple[Key, str]]:
        """Return nothing: PostgreSQL's texts have no NUL characters."""
        return []

    def size(self) -> int:
        """Return how many bytes it takes."""
        return int(str(self._read.simple("SELECT pg_database_size(current_database())")[0][0]))

    # -- writing -------------------------------------------------------------------------------------------------------

    def set_note(self, note: MoveNote | None) -> None:
        """Let it say something of a move, or nothing any more."""
        with self._transaction() as db:
            if note is None:
                notes.remove(db)
            else:
                notes.write(db, note)

    def leave(self, note: MoveNote) -> None:
        """Let nobody open it any more. Raises `BusyError` MOVE_CHANGED where somebody has written since `hold`."""
        self.let_go()
        with self._transaction() as db:
            db.simple("LOCK TABLE nodes IN ACCESS EXCLUSIVE MODE")
            if db.simple(_WRITTEN) != self._held:
                raise BusyError(
                    "MOVE_CHANGED",
                    f"moving {self.location}: another daycare has written to it meanwhile",
                    hint="stop that one, and do it again: what was copied is kept",
                )
            db.simple("UPDATE nodes SET epoch = epoch + 1, until = now()")  # whoever still had it writes no more
            notes.write(db, note)

    def alone(self) -> None:
        """Raise `StoreAwayError` STORE_IN_USE while a daycare works on it; one that was killed counts for some time."""
        deadline = time.monotonic() + OWNER_GONE_S
        while owners := self._read.simple("SELECT address FROM nodes WHERE until > now()"):
            if time.monotonic() > deadline:
                raise StoreAwayError(
                    "STORE_IN_USE",
                    f"moving {self.location}: a daycare works on it, on {owners[0][0]}",
                    hint="stop that one, and do it again: what was copied is kept",
                )
            time.sleep(_RETRY_S)

    def begin(self, note: MoveNote) -> None:
        """Let it be a target: no trigger counts, and no key is looked up in another table until `complete`."""
        before = self.note()
        with self._transaction() as db:
            held = before.held if before is not None else ""
            if not held:
                keys = db.simple(_KEYS)
                held = msgspec.json.encode(keys).decode()
                for table, name, _ in keys:
                    db.simple(f'ALTER TABLE "{table}" DROP CONSTRAINT "{name}"')
                for each in moved_tables():
                    db.simple(f"ALTER TABLE {each.name} DISABLE TRIGGER USER")
            notes.write(db, msgspec.structs.replace(note, held=held))

    def put(self, table: MovedTable, rows: Sequence[bytes], words: WordIndex | None) -> None:
        """Add rows, and their words to an index."""
        with self._transaction() as db:
            db.copy_in(f"COPY {table.name} ({table.listed}) FROM STDIN (FORMAT binary)", rows)
            if words is not None:
                words.add(cast(Any, db), list(map(decoder(table, key=True), rows)))

    def drop(self, table: MovedTable, keys: Sequence[Key], words: WordIndex | None) -> None:
        """Delete rows, and their words from an index."""
        with self._transaction() as db:
            if words is not None:
                words.drop(cast(Any, db), keys)
            for at in range(0, len(keys), _DROPPED):
                which = ", ".join(map(_literals, keys[at : at + _DROPPED]))
                db.simple(f"DELETE FROM {table.name} WHERE ({table.key}) IN (VALUES {which})")

    def complete(self) -> None:
        """Let keys and triggers work again, and numbers go on behind the last; in one transaction."""
        before = self.note()
        assert before is not None, "it was begun"
        with self._transaction() as db:
            for table, name, text in msgspec.json.decode(before.held or "[]"):
                try:
                    db.simple(f'ALTER TABLE "{table}" ADD CONSTRAINT "{name}" {text}')
                except StatementError as error:
                    raise BrokenError(
                        "MOVE_DIFFERS",
                        f"moving to {self.location}: a row of {table} names one of another table that is not there",
                        hint="daycare doctor of the source; please report it with the log",
                    ) from error
            for each in moved_tables():
                db.simple(f"ALTER TABLE {each.name} ENABLE TRIGGER USER")
            schema.number_again(db)
            notes.write(db, msgspec.structs.replace(before, held=""))

    def finish(self, note: MoveNote | None) -> None:
        """Let it be a database like any other."""
        self.set_note(note)

    def tidy(self) -> None:
        """Let the server look at what is in its tables, so that it plans well."""
        for table in moved_tables():
            self._writing().simple(f"ANALYZE {table.name}")

    def close(self) -> None:
        """Close it."""
        if self._write is not None:
            self._write.close()
        self._read.close()

    def _writing(self) -> CopyingConnection:
        if self._write is None:
            write = _connect(self._where)
            deadline = time.monotonic() + OTHER_GONE_S
            while write.simple(f"SELECT pg_try_advisory_lock({_LOCK})") != [("t",)]:
                if time.monotonic() > deadline:
                    write.close()
                    raise BusyError(
                        "MOVE_RUNS", f"moving to {self.location}: another move writes to it", hint="wait for that one"
                    )
                time.sleep(_RETRY_S)
            self._write = write
        return self._write

    @contextmanager
    def _transaction(self) -> Iterator[CopyingConnection]:
        db = self._writing()
        db.simple("BEGIN")
        try:
            yield db
            db.simple("COMMIT")
        except BaseException:
            with suppress(DaycareError):
                if db.is_open:
                    db.simple("ROLLBACK")
            raise


def open_source(location: str) -> ServerSide:
    """Open a database to read from. Raises `NotFoundError` STORE_MISSING, `BrokenError` for what cannot be moved."""
    with closing(_connect(ServerLocation(location))) as db:
        schema.refuse(db)
        if not _is_there(db):
            raise NotFoundError(
                "STORE_MISSING", f"moving {db.location.shown}: nothing of daycare is in it", hint="daycare init"
            )
        [(number,)] = db.simple("SELECT version FROM engine")
        _refuse_schema(db, int(str(number)))
    return ServerSide(location)


def said_in(location: str) -> MoveNote | None:
    """Return what a database says of a move."""
    with closing(_connect(ServerLocation(location))) as db:
        return notes.read(db, notes.OF_A_SERVER)


def look_at_target(location: str) -> MoveNote | None:
    """Return what a database that is to be written to says of a move.

    Raises `ConflictError` MOVE_TARGET_TAKEN for one that has rows of its own, and what opening it would.
    """
    with closing(_connect(ServerLocation(location))) as db:
        schema.refuse(db)
        if not _is_there(db):
            return None
        said = notes.read(db, notes.OF_A_SERVER)
        if said is None or said.state != "arriving":
            known = {name for (name,) in db.simple("SELECT tablename FROM pg_tables WHERE schemaname = 'daycare'")}
            for table in moved_tables():
                if table.name in known and db.simple(f"SELECT 1 FROM {table.name} OFFSET {table.first} LIMIT 1"):
                    raise ConflictError(
                        "MOVE_TARGET_TAKEN",
                        f"moving to {db.location.shown}: there is something in {table.name}",
                        hint="name a database that is empty; if what is there is not needed any more:"
                        " DROP SCHEMA daycare CASCADE",
                    )
        return said


def open_target(location: str) -> ServerSide:
    """Open a database to write to; its schema is made if it is not there."""
    look_at_target(location)
    with closing(_connect(ServerLocation(location))) as db:
        schema.prepare(db)
    return ServerSide(location)


def _is_there(db: CopyingConnection) -> bool:
    return db.simple("SELECT to_regclass('daycare.engine') IS NOT NULL") == [("t",)]


def _refuse_schema(db: CopyingConnection, number: int) -> None:
    known = migrations()[-1][0]
    if number > known:
        raise BrokenError(
            "STORE_FROM_FUTURE",
            f"moving {db.location.shown}: its schema is number {number}, this daycare knows up to {known}",
            hint="install the newer daycare again",
        )
    if number < known:
        raise ConflictError(
            "MOVE_OLD_SCHEMA",
            f"moving {db.location.shown}: its schema is number {number}, this daycare's {known}",
            hint="start this daycare on it first: daycare run",
        )


def _connect(where: ServerLocation) -> CopyingConnection:
    db = CopyingConnection(where, schema.dialect(), ANSWER_MAX_S)
    try:
        db.simple("SET idle_in_transaction_session_timeout = 0; SET statement_timeout = 0")
    except StatementError:
        db.close()
        raise
    return db


def _literals(key: Key) -> str:
    """Return a key as a statement has it; texts of a server have no NUL character."""
    return f"({', '.join(str(each) if isinstance(each, int) else _quoted(each) for each in key)})"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
