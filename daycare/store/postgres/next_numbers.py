"""Which number the next new row of a table will get, so that a write need not wait to be told.

Only who may commit gives out any, so it is known as a rule. A wrong one does no harm: the server refuses the statement
that was sent with it, see `dialect.ADDS`.
"""

from collections.abc import Mapping


class NextNumbers:
    """The next number of each table, of those for which it is known."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}
        self._wanted: set[str] = set()

    @property
    def wanted(self) -> tuple[str, ...]:
        """The tables of which writes have wanted to know it."""
        return tuple(sorted(self._wanted))

    def get(self, table: str) -> int | None:
        """Return the next number of a table, None if it is not known."""
        self._wanted.add(table)
        return self._next.get(table)

    def given(self, table: str, number: int) -> None:
        """A row has got a number, or will have got it before another does."""
        self._next[table] = number + 1

    def unsure(self, table: str) -> None:
        """A row may get a number, which will be told."""
        self._next.pop(table, None)

    def read(self, numbers: Mapping[str, int]) -> None:
        """Take the next numbers of all tables."""
        self._next = dict(numbers)

    def forget(self) -> None:
        """Others may have given out numbers."""
        self._next.clear()
