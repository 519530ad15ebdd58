"""The tables that are moved: all but the indexes of words, which are made of them."""

from contextlib import closing
from functools import cache
from typing import Final, NamedTuple

import apsw

from daycare.store.sqlite import database
from daycare.store.sqlite.packing import PACKED
from daycare.store.sqlite.sql import fetch

_MADE: Final = (
    "sqlite_",
    "documents_text",
    "memory_words",
    "memory_postings",
)  # what these begin with is made by itself


class MovedTable(NamedTuple):
    """A table: its columns with those of the primary key first, of which there are `keys`.

    `kinds` are the types of the columns: INTEGER, TEXT or BLOB. `first` is how many rows a new database has in it.
    `packed` are the columns whose texts a file has packed; rows are moved with the texts.
    """

    name: str
    columns: tuple[str, ...]
    kinds: tuple[str, ...]
    keys: int
    first: int
    packed: frozenset[str] = frozenset()

    @property
    def listed(self) -> str:
        """The columns as statements have them."""
        return ", ".join(f'"{each}"' for each in self.columns)

    @property
    def read(self) -> str:
        """The columns as a statement reads them from a file."""
        return ", ".join(map(self.text_of, self.columns))

    @property
    def marks(self) -> str:
        """The values as a statement writes them to a file."""
        return ", ".join("packed(?)" if each in self.packed else "?" for each in self.columns)

    def text_of(self, column: str) -> str:
        """Return what a column is read by from a file."""
        return f'unpacked("{column}")' if column in self.packed else f'"{column}"'

    @property
    def key(self) -> str:
        """The columns of the primary key as statements have them."""
        return ", ".join(f'"{each}"' for each in self.columns[: self.keys])

    @property
    def texts(self) -> tuple[str, ...]:
        """The columns that hold text."""
        return tuple(each for each, kind in zip(self.columns, self.kinds, strict=True) if kind == "TEXT")


@cache
def moved_tables() -> tuple[MovedTable, ...]:
    """Return the tables, in the order in which they were made."""
    with closing(apsw.Connection(":memory:")) as db:
        database.migrate(db, database.MEMORY)
        names = fetch(db, "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY rowid")
        return tuple(_table(db, name) for (name,) in names if not name.startswith(_MADE))


def _table(db: apsw.Connection, name: str) -> MovedTable:
    columns = fetch(db, f"SELECT name, type, pk FROM pragma_table_info('{name}') ORDER BY pk = 0, pk, cid")
    [(first,)] = fetch(db, f"SELECT count(*) FROM {name}")
    return MovedTable(
        name=name,
        columns=tuple(column for column, _, _ in columns),
        kinds=tuple(kind for _, kind, _ in columns),
        keys=sum(1 for _, _, place in columns if place),
        first=first,
        packed=frozenset(column for table, column in PACKED if table == name),
    )
