"""Statements made of parts: what is read of a table as structs, rows that are added, marks for values that are bound.

Parts are constants of the store. What comes from outside is none, but bound: a test looks at every statement for that.
"""

from array import array
from collections.abc import Callable, Collection
from typing import Any, Final, Generic, TypeVar

import apsw

T = TypeVar("T")


class Select(Generic[T]):
    """Reads `columns` of `tables` (one, or a join) and makes a struct of each row."""

    def __init__(self, columns: str, tables: str, read: Callable[[tuple[Any, ...]], T]) -> None:
        self._statement = f"SELECT {columns} FROM {tables} WHERE"
        self._read = read

    def find(self, db: apsw.Connection, where: str, bindings: tuple[Any, ...] = ()) -> list[T]:
        """Return the rows that fit a condition; what says in which order and how many stands behind it."""
        return list(map(self._read, fetch(db, f"{self._statement} {where}", bindings)))

    def one(self, db: apsw.Connection, where: str, bindings: tuple[Any, ...] = ()) -> T | None:
        """Return the first row that fits."""
        row = db.execute(f"{self._statement} {where}", bindings).fetchone()
        return None if row is None else self._read(row)


def insert_into(table: str, columns: Collection[str], rows: int = 1) -> str:
    """Return the statement that adds so many rows."""
    row = f"({marks(columns)})"
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES {', '.join([row] * rows)}"


def delete_older(table: str, key: str, ended: str) -> str:
    """Return the statement that deletes rows that ended before ?1, ?3 of them at most; now it is ?2.

    The newest row stays, so that its number is never given to another. So does what was committed after a row that is
    young: it only looks old, as the clock was behind.
    """
    return (
        f"DELETE FROM {table} WHERE {key} IN (SELECT {key} FROM {table} WHERE {ended} < ?1 AND {key} <"
        f" coalesce((SELECT {key} FROM {table} WHERE {ended} BETWEEN ?1 AND ?2 ORDER BY {key} LIMIT 1),"
        f" (SELECT max({key}) FROM {table})) ORDER BY {key} LIMIT ?3)"
    )


def marks(values: Collection[object], each: str = "?") -> str:
    """Return a mark for each value, or a row of marks, as `IN (...)` takes them; for none what nothing is equal to.

    So not for `NOT IN`, and where there may be none not for rows.
    """
    return ", ".join([each] * len(values)) or "NULL"  # PostgreSQL takes no empty list


class Those(list[int]):
    """Numbers as a table for `SELECT value FROM carray(?)`."""


those: Final = Those


def bound(cursor: apsw.Cursor, place: int, value: Any) -> object:
    """Return what SQLite takes for a value that it does not know."""
    if isinstance(value, Those):
        return apsw.carray(array("q", value) or array("q", (-1,)))  # an empty one is refused
    raise TypeError(f"a value of a statement is of no type that is stored: {type(value).__name__}")


def fetch(db: apsw.Connection, sql: str, bindings: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Run a statement and return its rows."""
    rows: list[tuple[Any, ...]] = db.execute(sql, bindings).fetchall()
    return rows
