"""The two sides of a move, whatever the engine of each is."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from daycare.store.moving.note import MoveNote
from daycare.store.moving.row_format import Key, Nul
from daycare.store.moving.tables import MovedTable
from daycare.store.sqlite.rows import WordIndex


class Side(Protocol):
    """A database that is read; `location` is where it is, as it may be shown. `nul` is how its texts are read."""

    location: str
    nul: Nul

    def note(self) -> MoveNote | None:
        """Return what it says of a move."""

    def set_note(self, note: MoveNote | None) -> None:
        """Let it say something of a move, or nothing any more."""

    def hold(self) -> None:
        """Let all that is read until `let_go` be of this moment."""

    def let_go(self) -> None:
        """Let what is read be of now."""

    def count(self, table: MovedTable) -> int:
        """Return how many rows a table has."""

    def rows(self, table: MovedTable, after: Key | None) -> Iterator[bytes]:
        """Yield the rows of a table in the order of its key, those behind one of it."""

    def unfit(self, table: MovedTable, most: int) -> list[tuple[Key, str]]:
        """Return keys of rows that have a NUL character in a text, and the column."""

    def size(self) -> int:
        """Return how many bytes it takes."""

    def alone(self) -> None:
        """Raise `StoreAwayError` STORE_IN_USE while a daycare works on it."""

    def leave(self, note: MoveNote) -> None:
        """Let nobody open it any more. Raises `BusyError` where somebody has written since `hold`."""

    def close(self) -> None:
        """Close it."""


class TargetSide(Side, Protocol):
    """A database that is written."""

    def begin(self, note: MoveNote) -> None:
        """Make the schema if it is not there, and let what keeps rows consistent wait until `complete`."""

    def put(self, table: MovedTable, rows: Sequence[bytes], words: WordIndex | None) -> None:
        """Add rows, and their words to an index."""

    def drop(self, table: MovedTable, keys: Sequence[Key], words: WordIndex | None) -> None:
        """Delete rows, and their words from an index."""

    def complete(self) -> None:
        """Let it keep its rows consistent by itself again. Raises `BrokenError` MOVE_DIFFERS where they are not."""

    def finish(self, note: MoveNote | None) -> None:
        """Let it be a database like any other, which says this; what it says is on the disk."""

    def tidy(self) -> None:
        """Do what lets it be quick, once nobody waits any more."""
