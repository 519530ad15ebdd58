"""Copying what one database has and another has not, until they are equal row by row.

Nothing is noted of how far it is: both sides are read in the order of their keys, and only what differs is written. So
it goes on from wherever an earlier try ended, and a second time it only brings what has changed.

What differs goes from the target first, from all tables, and then what is missing comes: no row of before is in the
way of a new one.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Final, NamedTuple, cast

import msgspec

from daycare.base.errors import BrokenError
from daycare.store.moving.row_format import Key, decoder
from daycare.store.moving.side import Side, TargetSide
from daycare.store.moving.tables import MovedTable, moved_tables
from daycare.store.sqlite.rows import WordIndex

BATCH_ROWS: Final = 2_000  # with one commit
BATCH_BYTES: Final = 4 * 1024 * 1024
_WRONG_MAX: Final = 50_000  # rows that differ, whose keys are in memory at a time
_TELL_ROWS: Final = 5_000

Tell = Callable[[str, int], None]
"""Hears of a table, and of how many rows were read since the last time."""


class MovedRows(msgspec.Struct, frozen=True, kw_only=True):
    """A table that is the same on both sides: its rows, the hash of all of them, and how many had to be copied."""

    table: str
    rows: int
    sha256: str
    copied: int


class _Equal(NamedTuple):
    """The beginning of a table in which nothing differs: its last key, its rows, and their hash."""

    after: Key | None
    rows: int
    hash: "hashlib._Hash"


class Copier:
    """Copies from a source to a target. `indexes` are those of words, by the table that they are made of."""

    def __init__(
        self,
        source: Side,
        target: TargetSide,
        indexes: Sequence[WordIndex],
        tell: Tell = lambda table, rows: None,
    ) -> None:
        self._source = source
        self._target = target
        self._indexes: Mapping[str, WordIndex] = {each.table: each for each in indexes}
        self._tell = tell

    def bring(self) -> int:
        """Copy what differs; return how many rows that were. The source holds still."""
        starts = self._prune()
        return sum(self._fill(table, starts[table.name]) for table in moved_tables() if table.name in starts)

    def settle(self) -> tuple[MovedRows, ...]:
        """Copy what differs, and return once every row of every table was read from both and was equal.

        Raises `BrokenError` MOVE_DIFFERS where the target does not keep what is written to it.
        """
        found: dict[str, _Equal] = {}
        starts = self._prune(found)
        done = []
        for table in moved_tables():
            copied = 0
            if table.name in starts:
                begin = found[table.name]
                copied = self._fill(table, starts[table.name])
                equal, differs, _ = self._compared(table, begin)
                if differs:
                    raise BrokenError(
                        "MOVE_DIFFERS",
                        f"moving to {self._target.location}: {table.name} is not what was written to it, behind"
                        f" {equal.after}",
                        hint="another program may write to it: end that, and do it again",
                    )
                found[table.name] = equal
            it = found[table.name]
            done.append(MovedRows(table=table.name, rows=it.rows, sha256=it.hash.hexdigest(), copied=copied))
        return tuple(done)

    def _prune(self, found: dict[str, _Equal] | None = None) -> dict[str, Key | None]:
        """Delete from the target what the source has not; return the tables in which rows are missing, and from where.

        `found` gets the beginning of each table that is equal.
        """
        starts: dict[str, Key | None] = {}
        for table in moved_tables():
            equal = _Equal(None, 0, hashlib.sha256())
            while True:
                wrong: list[Key] = []
                equal, differs, more = self._compared(table, equal, wrong)
                if wrong:
                    self._target.drop(table, wrong, self._indexes.get(table.name))
                if not more:
                    break
            if differs:
                starts[table.name] = equal.after
            if found is not None:
                found[table.name] = equal
        return starts

    def _compared(self, table: MovedTable, begin: _Equal, wrong: list[Key] | None = None) -> tuple[_Equal, bool, bool]:
        """Compare a table from a place on.

        Return up to where it is equal, whether anything differs behind that, and whether there may be more that is
        wrong. `wrong` gets the keys of rows that the target has and the source has not, or has otherwise.
        """
        key = decoder(table, key=True)
        hashed, rows, last = begin.hash.copy(), begin.rows, None
        differs = more = False
        read = 0
        with (
            closing(self._rows(self._source, table, begin.after)) as mine,
            closing(self._rows(self._target, table, begin.after)) as theirs,
        ):
            ours, its = next(mine, None), next(theirs, None)
            while ours is not None or its is not None:
                read += 1
                if read % _TELL_ROWS == 0:
                    self._tell(table.name, _TELL_ROWS)
                if ours is not None and ours == its:
                    if not differs:
                        hashed.update(ours)
                        rows += 1
                        last = ours
                    ours, its = next(mine, None), next(theirs, None)
                    continue
                differs = True
                if its is None or wrong is None:
                    break
                if len(wrong) >= _WRONG_MAX:
                    more = True
                    break
                behind = key(its)
                ahead = None if ours is None else key(ours)
                if ahead is not None and ahead < behind:
                    ours = next(mine, None)
                    continue
                wrong.append(behind)
                its = next(theirs, None)
                if ahead == behind:
                    ours = next(mine, None)
        self._tell(table.name, read % _TELL_ROWS)
        return _Equal(begin.after if last is None else key(last), rows, hashed), differs, more

    def _fill(self, table: MovedTable, after: Key | None) -> int:
        """Add to a table what is missing behind a place; return how many rows that were."""
        words = self._indexes.get(table.name)
        batch: list[bytes] = []
        size = copied = 0

        def put() -> None:
            nonlocal size, copied
            self._target.put(table, batch, words)
            copied += len(batch)
            self._tell(table.name, len(batch))
            batch.clear()
            size = 0

        with (
            closing(self._rows(self._source, table, after)) as mine,
            closing(self._rows(self._target, table, after)) as theirs,
        ):
            its = next(theirs, None)
            for ours in mine:
                if ours == its:
                    its = next(theirs, None)
                    continue
                batch.append(ours)
                size += len(ours)
                if len(batch) >= BATCH_ROWS or size >= BATCH_BYTES:
                    put()
            if batch:
                put()
        return copied

    @staticmethod
    def _rows(side: Side, table: MovedTable, after: Key | None) -> "_Rows":
        return cast(_Rows, side.rows(table, after))


class _Rows(Iterator[bytes]):
    """A generator: it is closed where it is not read to its end."""

    def close(self) -> None:
        """End it."""
