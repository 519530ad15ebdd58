"""Tables of another program: of a SQLite file, or of a folder with one JSON file for each table.

A SQLite file is opened so that nothing is written beside it, either. Where its log of commits (`-wal`) holds something,
both are copied first, as reading that log would write. What the file says of itself is not trusted: only tables are
read, no views, and each query has a bound.
"""

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

from daycare.ops.importers.source import ImportSource, loads

Row = dict[str, Any]

COPIED_MAX_BYTES: Final = 4 * 1024**3  # of a database with a log of commits
VALUE_MAX_BYTES: Final = 16 * 1024 * 1024  # of one value
ROWS_MAX: Final = 2_000_000  # of one table
_STEPS: Final = 1_000_000  # of SQLite's machine between two looks at the bound
_LOOKS_MAX: Final = 20_000  # some minutes for one query
_COPY: Final = 1024 * 1024


class Tables:
    """What can be read of a database."""

    def columns(self, table: str) -> set[str]:
        """Return the names of a table's columns; empty: there is none."""
        raise NotImplementedError

    def rows(self, table: str, *, order: str = "", limit: int = ROWS_MAX) -> Iterator[Row]:
        """Yield rows, in the order of a column if it is there. What is damaged ends it, and is noted."""
        raise NotImplementedError


class SqliteTables(Tables):
    """Those of a SQLite file."""

    def __init__(self, connection: sqlite3.Connection, source: ImportSource, path: str) -> None:
        self._db = connection
        self._source = source
        self._path = path
        self._columns: dict[str, set[str]] = {}
        self._looks = 0

    def columns(self, table: str) -> set[str]:
        """Return the names of a table's columns; empty: there is none."""
        if table not in self._columns:
            try:
                found = self._db.execute(
                    "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ? AND sql NOT LIKE '%VIRTUAL%'",
                    (table,),
                ).fetchone()
                info = self._db.execute("SELECT name FROM pragma_table_info(?)", (table,)) if found else ()
                self._columns[table] = {str(row[0]) for row in info}
            except sqlite3.Error as error:
                self._source.note(self._path, f"is damaged: {error}")
                self._columns[table] = set()
        return self._columns[table]

    def rows(self, table: str, *, order: str = "", limit: int = ROWS_MAX) -> Iterator[Row]:
        """Yield rows, in the order of a column if it is there. What is damaged ends it, and is noted."""
        columns = sorted(self.columns(table))
        if not columns:
            return
        self._looks = 0
        self._db.set_progress_handler(self._look, _STEPS)
        names = ", ".join(map(_quoted, columns))
        sorted_by = f" ORDER BY {_quoted(order)}" if order in columns else ""
        try:
            query = f"SELECT {names} FROM {_quoted(table)}{sorted_by} LIMIT ?"  # noqa: S608 - names of its own columns
            with closing(self._db.execute(query, (limit + 1,))) as cursor:
                for number, row in enumerate(cursor):
                    if number >= limit:
                        self._source.note(f"{self._path} {table}", f"has over {limit:,} rows: the others are left")
                        return
                    yield dict(zip(columns, row, strict=True))
        except (sqlite3.Error, UnicodeDecodeError) as error:
            self._source.note(f"{self._path} {table}", f"is damaged: {error}; what came before was read")

    def _look(self) -> int:
        self._looks += 1
        return int(self._looks > _LOOKS_MAX)


class JsonTables(Tables):
    """Those of a folder with files `TABLE.jsonl`, a row on each line, or `TABLE.json`, a list of rows."""

    def __init__(self, source: ImportSource) -> None:
        self._source = source

    def columns(self, table: str) -> set[str]:
        """Return the names of the columns of its first row; empty: there is none."""
        first = next(self.rows(table, limit=1), None)
        return set(first or ())

    def rows(self, table: str, *, order: str = "", limit: int = ROWS_MAX) -> Iterator[Row]:
        """Yield rows, in the order of a column if it is there."""
        if self._source.has(f"{table}.jsonl"):
            found = self._source.lines(f"{table}.jsonl")
        else:
            whole = self._source.json(f"{table}.json")
            found = iter(whole if isinstance(whole, list) else ())
        rows: Iterator[Row] = (row for row in found if isinstance(row, dict))
        if order:
            rows = iter(sorted(rows, key=lambda row: _rank(row.get(order))))
        for number, row in enumerate(rows):
            if number >= limit:
                return
            yield row


@contextmanager
def opened(source: ImportSource, path: str) -> Iterator[Tables | None]:
    """Open the SQLite file at a path; None if there is none or it is no such file, which is noted."""
    with source.handle(path) as handle, tempfile.TemporaryDirectory(prefix="daycare-import-") as folder:
        if handle is None:
            yield None
            return
        by_handle = Path(f"/proc/self/fd/{handle}")  # nobody can put another file in its place
        uri = f"{(by_handle if by_handle.exists() else source.root / path).as_uri()}?mode=ro&immutable=1"
        with source.handle(f"{path}-wal") as log:
            if log is not None and os.fstat(log).st_size:
                copy = Path(folder) / "copy.db"
                if os.fstat(handle).st_size + os.fstat(log).st_size > COPIED_MAX_BYTES:
                    source.note(path, "is too large to be copied; end the program that uses it, and try again")
                    yield None
                    return
                _copy(handle, copy)
                _copy(log, copy.with_name("copy.db-wal"))
                uri = copy.as_uri()
        try:
            connection = sqlite3.connect(uri, uri=True)
        except sqlite3.Error as error:
            source.note(path, f"cannot be opened: {error}")
            yield None
            return
        with closing(connection):
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, VALUE_MAX_BYTES)
            connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
            try:
                connection.executescript("PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;")
                connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            except sqlite3.Error as error:
                source.note(path, f"is damaged: {error}")
                yield None
                return
            yield SqliteTables(connection, source, path)


def tree(value: Any) -> dict[str, Any]:
    """Return a JSON value of a column as a table: it stands there as text, or as itself."""
    if isinstance(value, str):
        try:
            value = loads(value)
        except (ValueError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}


def _copy(handle: int, to: Path) -> None:
    fd = os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as target, os.fdopen(os.dup(handle), "rb") as read:
        read.seek(0)
        while piece := read.read(_COPY):
            target.write(piece)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _rank(value: Any) -> tuple[int, float, str]:
    if isinstance(value, int | float) and abs(value) <= 2**63:
        return (0, float(value), "")
    return (1, 0.0, str(value)[:100])
