"""The rows of a statement, used as apsw's cursors are."""

import io
from collections.abc import Iterator
from typing import Any

Row = tuple[Any, ...]


class Cursor:
    """The rows of one statement, all of them."""

    __slots__ = ("_at", "_rows")

    def __init__(self, rows: list[Row]) -> None:
        self._rows = rows
        self._at = 0

    def __iter__(self) -> Iterator[Row]:
        return self

    def __next__(self) -> Row:
        if self._at >= len(self._rows):
            raise StopIteration
        self._at += 1
        return self._rows[self._at - 1]

    def fetchone(self) -> Row | None:
        """Return the next row."""
        return next(self, None)

    def fetchall(self) -> list[Row]:
        """Return the rows that are left."""
        rows, self._rows = self._rows[self._at :] if self._at else self._rows, []
        return rows

    @property
    def get(self) -> Any:
        """Return the only value of the only row, None for none."""
        row = self.fetchone()
        return row[0] if row is not None and len(row) == 1 else row

    def close(self) -> None:
        """Forget the rows that are left."""
        self._rows = []


class Blob(io.BytesIO):
    """The bytes of one value."""
