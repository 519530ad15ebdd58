"""The schema on PostgreSQL: made of the one that the migrations make in SQLite, and kept up to date by the same files.

So there is one text of it. What SQLite has otherwise is put in other words: types, keys with a number of their own,
triggers. Indexes of words are tables of another kind, see `words`.
"""

import hashlib
import re
from collections.abc import Sequence
from functools import cache
from typing import Final

import apsw

from daycare import __version__
from daycare.base.errors import BrokenError
from daycare.store.postgres import members, versions, words
from daycare.store.postgres.connection import PostgresConnection
from daycare.store.postgres.dialect import NUMBERED, Dialect, TableFacts, table_of
from daycare.store.postgres.functions import FUNCTIONS, ONCE
from daycare.store.sqlite import database
from daycare.store.sqlite.sql import fetch

OLDEST: Final = 14  # major version of the server
_LOCK: Final = 0x6461796361  # so that two that start at once do not both make the schema

_SHADOW: Final = re.compile(r"(documents_text|memory_words|memory_postings)")
_TRIGGER: Final = re.compile(
    r"CREATE TRIGGER (?P<name>\w+) AFTER (?P<event>INSERT|DELETE|UPDATE(?: OF [\w, ]+?)?) ON (?P<table>\w+)"
    r"(?: WHEN (?P<when>.*?))? BEGIN (?P<body>.*) END",
    re.DOTALL,
)
_OURS: Final = """
CREATE TABLE engine (version bigint NOT NULL, functions text NOT NULL);
CREATE TABLE nodes (
    node text PRIMARY KEY,
    epoch bigint NOT NULL,  -- another one as soon as somebody else writes in its place
    batch bigint NOT NULL,  -- of commits, counted in each of them: whether one has happened can be seen
    until timestamptz NOT NULL,  -- by the server's clock
    backend bigint NOT NULL,
    version text NOT NULL,
    address text NOT NULL
);
"""


@cache
def _original() -> apsw.Connection:
    """Return a database in memory with the schema that the migrations make."""
    made = apsw.Connection(":memory:")
    database.migrate(made, database.MEMORY)
    return made


@cache
def tables() -> dict[str, TableFacts]:
    """Return what is to be known of each table."""
    db = _original()
    found: dict[str, TableFacts] = {}
    for (name,) in fetch(db, "SELECT name FROM sqlite_schema WHERE type = 'table'"):
        if _SHADOW.match(name):
            continue
        info = fetch(db, f"SELECT name, type, pk FROM pragma_table_info('{name}') ORDER BY cid")
        keys = tuple(column for column, _, pk in sorted(info, key=lambda row: row[2]) if pk)
        [(sql,)] = fetch(db, "SELECT sql FROM sqlite_schema WHERE name = ?", (name,))
        number = keys[0] if NUMBERED.search(sql) else ""
        unique = fetch(
            db, f"SELECT name FROM pragma_index_list('{name}') WHERE \"unique\" AND origin <> 'pk' AND NOT partial"
        )
        once = keys
        if number and unique:
            once = tuple(
                column
                for (column,) in fetch(db, f"SELECT name FROM pragma_index_info('{unique[0][0]}') ORDER BY seqno")
            )
        flags = frozenset(column for column, kind, _ in info if kind.upper() == "INTEGER")
        found[name] = TableFacts(tuple(column for column, _, _ in info), number, once, flags)
    return found


@cache
def dialect() -> Dialect:
    """Return what translates statements about these tables."""
    return Dialect(tables())


def translated(sql: str) -> list[str]:
    """Return what a statement of the schema is in PostgreSQL: nothing for an index of words."""
    text = " ".join(line.split("--")[0].strip() for line in sql.strip().splitlines()).strip()
    if "VIRTUAL TABLE" in text or not text:
        return []
    if match := _TRIGGER.match(text):
        body = "; ".join(dialect().translate(each).text for each in dialect().script(match["body"]))
        when = f" WHEN ({dialect().condition(match['when'])})" if match["when"] else ""
        name = match["name"]
        return [
            f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body}; RETURN NULL; END $$",
            f"CREATE TRIGGER {name} AFTER {match['event']} ON {match['table']} FOR EACH ROW{when}"
            f" EXECUTE FUNCTION {name}()",
        ]
    if text.startswith(("CREATE TABLE", "ALTER TABLE")):
        return [re.sub(r"(REFERENCES \w+ \(\w+\))", r"\1 DEFERRABLE", table_of(text))]
    return [dialect().translate(text).text]


def _everything() -> list[str]:
    """Return the statements that make the schema, and the rows that are there from the first."""
    db = _original()
    made = []
    for name, table, sql in fetch(db, "SELECT name, tbl_name, sql FROM sqlite_schema WHERE sql IS NOT NULL"):
        if not _SHADOW.match(str(name)) and not _SHADOW.match(str(table)) and not str(name).startswith("sqlite_"):
            made += translated(str(sql))
    for name, table in tables().items():
        if name == "sqlite_sequence":
            continue
        for row in fetch(db, f"SELECT * FROM {name}"):
            values = ", ".join(str(each) if isinstance(each, int) else f"'{each}'" for each in row)
            columns = ", ".join('"user"' if each == "user" else each for each in table.columns)
            made.append(f"INSERT INTO {name} ({columns}) VALUES ({values})")
    return made


def prepare(db: PostgresConnection, node: str = "") -> list[str]:
    """Make the schema, or bring it up to date, in one transaction; return the names of the migrations applied.

    A `node` may work on a newer one that says so. Raises `BrokenError` for a server that is too old, a database of
    another encoding or from a newer daycare, `StoreAwayError` NODE_VERSION while nodes work that are too old for it.
    """
    refuse(db)
    known = database.migrations()
    ours = members.TABLES + members.FUNCTIONS
    mark = hashlib.sha256((FUNCTIONS + ONCE + words.FUNCTIONS + ours + versions.COLUMNS).encode()).hexdigest()[:16]
    db.simple("BEGIN")
    try:
        db.simple(f"SELECT pg_advisory_xact_lock({_LOCK})")
        if not is_there(db):
            missing: Sequence[tuple[int, str, str]] = known
            db.simple("CREATE SCHEMA IF NOT EXISTS daycare")
            db.simple(FUNCTIONS + ONCE + _OURS)
            db.simple(";\n".join(_everything()) + ";" + words.TABLES + words.FUNCTIONS)
            db.simple(ours)
            db.simple(f"INSERT INTO engine VALUES ({versions.newest()}, '{mark}'); {versions.COLUMNS}")
            db.simple(f"UPDATE engine SET release = '{__version__}'")
        else:
            missing = _bring_up_to_date(db, node, known, mark, ours)
        db.simple("COMMIT")
    except BaseException:
        if db.is_open:
            db.simple("ROLLBACK")
        raise
    return [name for _, name, _ in missing]


def _bring_up_to_date(
    db: PostgresConnection, node: str, known: Sequence[tuple[int, str, str]], mark: str, ours: str
) -> Sequence[tuple[int, str, str]]:
    """Apply what is missing, and return it. Functions are those of the newest release that has worked here."""
    if not db.simple("SELECT 1 FROM pg_attribute WHERE attrelid = 'daycare.engine'::regclass AND attname = 'oldest'"):
        db.simple(versions.COLUMNS)
    versions.refuse_future(db, as_node=bool(node))
    [(text, functions, release)] = db.simple("SELECT version, functions, release FROM engine")
    missing = [each for each in known if each[0] > int(str(text))]
    if missing:
        db.simple(members.JOINING)  # who joins after this sees what it must know
        oldest = versions.nodes_from(missing)
        versions.refuse_older_nodes(db, oldest, node)
        db.simple(f"UPDATE engine SET version = {known[-1][0]}, oldest = greatest(oldest, {oldest})")
    if functions != mark and not versions.is_older(str(release)):
        db.simple(FUNCTIONS + words.FUNCTIONS + ours + versions.COLUMNS)
        db.simple(f"UPDATE engine SET functions = '{mark}', release = '{__version__}'")
    for _, _, sql in missing:
        for part in _statements(sql):
            for each in translated(part):
                db.simple(each)
    return missing


def _statements(script: str) -> list[str]:
    """Return the statements of a migration; those of a trigger's body stay in it."""
    found: list[str] = []
    for part in dialect().script(script):
        if found and found[-1].upper().lstrip().startswith("CREATE TRIGGER") and not found[-1].endswith("END"):
            found[-1] += "; " + part
        else:
            found.append(part)
    return found


def is_there(db: PostgresConnection) -> bool:
    """Whether a daycare has made its schema in a database."""
    return db.simple("SELECT to_regclass('daycare.engine')")[0][0] is not None


def refuse(db: PostgresConnection) -> None:
    """Raise `BrokenError` for a server that is too old, or a database of another encoding."""
    [(number, encoding, base)] = db.simple(
        "SELECT current_setting('server_version_num'), current_setting('server_encoding'), current_database()"
    )
    if int(str(number)) < OLDEST * 10_000:
        raise BrokenError(
            "STORE_TOO_OLD",
            f"opening {db.location.shown}: the server is PostgreSQL {int(str(number)) // 10_000}",
            hint=f"use PostgreSQL {OLDEST} or newer",
        )
    if encoding != "UTF8":
        raise BrokenError(
            "STORE_ENCODING",
            f"opening {db.location.shown}: the database is in {encoding}, and not in UTF8",
            hint=f"make another: createdb -T template0 -E UTF8 {base}",
        )


def number_again(db: PostgresConnection) -> dict[str, int]:
    """Let numbers go on from the last row that is there: those of a transaction that was undone are given again.

    Returns the next of each table.
    """
    [row] = db.simple(numbering())
    return {name: int(str(number)) for name, number in zip(numbered(), row, strict=True)}


@cache
def numbered() -> tuple[str, ...]:
    """Return the tables whose rows get numbers."""
    return tuple(name for name, table in tables().items() if table.number)


@cache
def numbering() -> str:
    """Return the statement that lets the numbers of each of these go on from its last row, and returns the next."""
    each = (
        f"(SELECT setval({_sequence(name)}, coalesce({last}, 1), {last} IS NOT NULL) + CAST({last} IS NOT NULL AS int)"
        f" FROM {name})"
        for name in numbered()
        for last in [f"max({tables()[name].number})"]
    )
    return f"SELECT {', '.join(each)}"


@cache
def next_numbers(names: tuple[str, ...]) -> str:
    """Return the statement that reads the next number of each of these tables."""
    return f"SELECT {', '.join(f'coalesce(pg_sequence_last_value({_sequence(name)}) + 1, 1)' for name in names)}"


def _sequence(name: str) -> str:
    return f"CAST(pg_get_serial_sequence('daycare.{name}', '{tables()[name].number}') AS regclass)"
