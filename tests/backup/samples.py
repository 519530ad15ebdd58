"""Databases of every schema there ever was, each with rows in every table."""

import json
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from types import MappingProxyType

import apsw

from daycare.store.sqlite import database

JSON = {
    "config": '{"budget": {"day": 1}, "permissions": {"may": []}, "personality": "calm"}',
    "extra": None,
    "messages": '[{"role":"user","parts":[{"type":"text","text":"hello"}],"at_ms":5,"sender":"direct:ann"}]',
    "seqs": "[1]",
    "provenance": "[]",
    "findings": "[]",
    "deliveries": "[]",
    "progress": "[]",
    "spec": "{}",
    "limits": "{}",
    "raises": "{}",
    "state": {"agents": "living", "history": "done", "approvals": "pending", "signals": "fired", "tasks": "done"},
    "kind": {"users": "person", "agents": "agent", "inbox": "text"},
}
_INDEXES = ("memory_words", "memory_postings", "documents_text")
_NUMBER = {"users": None}


def sample(file: Path, number: int, *, each: int = 3) -> dict[str, int]:
    """Make a database as the migrations up to `number` left it; return how many rows each table has."""
    with closing(apsw.Connection(str(file))) as db:
        for pragma in ("auto_vacuum = INCREMENTAL", "journal_mode = WAL", "foreign_keys = ON"):
            db.execute(f"PRAGMA {pragma}").fetchall()
        for known, _, sql in database.migrations()[:number]:
            db.execute(f"BEGIN; {sql}; PRAGMA user_version = {known}; COMMIT").fetchall()
        db.execute("BEGIN")
        for table in tables(db):
            for row in range(1, each + 1):
                _insert(db, table, row)
        db.execute("COMMIT")
    return counts(file)


def tables(db: apsw.Connection) -> list[str]:
    """Return the tables that hold rows by themselves."""
    found = db.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND sql IS NOT NULL ORDER BY name DESC")
    names = [str(name) for (name,) in found]
    return [name for name in names if not name.startswith(("sqlite_", *_INDEXES))]


def counts(file: Path) -> dict[str, int]:
    """Return how many rows each table has."""
    with closing(apsw.Connection(str(file))) as db:
        return {name: int(str(db.execute(f"SELECT count(*) FROM {name}").get)) for name in tables(db)}


def everything(file: Path) -> dict[str, list[str]]:
    """Return every row of every table, by table."""
    with closing(apsw.Connection(str(file))) as db:
        return {
            name: sorted(json.dumps(row, default=repr) for row in db.execute(f"SELECT * FROM {name}"))
            for name in tables(db)
        }


def leave(db: apsw.Connection, table: str, of: dict[str, object], words: str) -> bool:
    """Put a row into a table that is of somebody, as far as its columns say whose a row is; False if none does.

    `of` has the values of such columns. Texts that may be anything are `words`.
    """
    names = {str(name): str(kind) for _, name, kind, *_ in db.execute(f"PRAGMA table_info({table})").fetchall()}
    if not names.keys() & of.keys():
        return False
    own = {name: value for name, value in of.items() if name in names}
    free = {name: words for name, kind in names.items() if kind == "TEXT" and name not in (*JSON, *own)}
    _insert(db, table, 1, {**free, **own})
    return True


def _insert(db: apsw.Connection, table: str, row: int, given: Mapping[str, object] = MappingProxyType({})) -> None:
    columns, values = [], []
    for _, column, kind, _, default, _ in db.execute(f"PRAGMA table_info({table})").fetchall():
        name = str(column)
        if name not in given and (name == "parent" or (default is not None and name not in JSON)):
            continue
        columns.append(name)
        values.append(given[name] if name in given else _value(table, name, str(kind), row))
    slots = ", ".join("?" for _ in values)
    db.execute(f"INSERT OR IGNORE INTO {table} ({', '.join(columns)}) VALUES ({slots})", values)


def _value(table: str, name: str, kind: str, row: int) -> object:
    if name in JSON:
        known = JSON[name]
        if not isinstance(known, dict):
            return known
        if table in known:
            return known[table]
    if table == "users" and name == "removed_at":
        return None  # an upgrade ends what is left of people who were removed
    if name == "user":
        return f"users-{row}" if table != "users" else None
    if table == "users" and name == "id":
        return f"users-{row}"
    if kind == "TEXT":
        return f"{table}-{name}-{row}"
    return f"{table}{row}".encode() if kind == "BLOB" else row
