"""What was read of small tables that change seldom, kept in the loop's thread until one of them changes."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import apsw

from daycare.base.bounded import Bounded

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class TableVersions:
    """A number for each of some tables, which is another one as soon as rows of it have changed: whoever did it, how.

    `count` says that a transaction is over, in the loop's thread; `at_once`: all happens there, and is counted as it
    happens.
    """

    def __init__(self, db: apsw.Connection, tables: Sequence[str], *, at_once: bool) -> None:
        self._numbers = dict.fromkeys(tables, 0)
        self._touched: set[str] = set()  # by a transaction that is not over
        self._at_once = at_once
        self._watch(db, tables)

    def _watch(self, db: apsw.Connection, tables: Sequence[str]) -> None:
        """Have `_touch` called with the names of tables that change."""
        db.create_scalar_function("touch", self._touch, 1, flags=apsw.SQLITE_INNOCUOUS)
        for table in tables:
            for change in ("INSERT", "UPDATE", "DELETE"):
                db.execute(
                    f"CREATE TEMP TRIGGER watch_{table}_{change} AFTER {change} ON main.{table}"
                    f" BEGIN SELECT touch('{table}'); END"
                )

    def of(self, tables: Sequence[str]) -> tuple[int, ...]:
        """Return the numbers of some of the tables."""
        return tuple(self._numbers[table] for table in tables)

    @property
    def touched(self) -> frozenset[str]:
        """Which tables a transaction that is not over has changed."""
        return frozenset(self._touched)

    def touch(self, *tables: str) -> None:
        """Hear that tables have changed elsewhere."""
        self._touch(*tables)

    def count(self) -> None:
        """Count what was changed."""
        for table in self._touched:
            self._numbers[table] += 1
        self._touched.clear()

    def _touch(self, *tables: Any) -> None:
        self._touched.update(tables)
        if self._at_once:
            self.count()


class ReadCache(Generic[K, V]):
    """At most `most` answers to one kind of question about `tables`, as long as their `versions` stay.

    What somebody writes is seen by everybody before that write returns. Nothing is kept that was read while a query of
    the `reader` was still open, as it may see what was there when that began; or while tables changed.
    """

    def __init__(self, versions: TableVersions, reader: apsw.Connection, *tables: str, most: int) -> None:
        self._versions = versions
        self._reader = reader
        self._tables = tables
        self._seen: tuple[int, ...] = ()
        self._known: Bounded[K, V] = Bounded(most)

    def get(self, key: K, read: Callable[[], V]) -> V:
        """Return what is known, else what `read` returns now."""
        self._look()
        if key in self._known:
            return self._known[key]
        return self._read((key,), lambda _: {key: read()})[key]

    def get_all(self, keys: Sequence[K], read: Callable[[Sequence[K]], Mapping[K, V]]) -> dict[K, V]:
        """Return what is known of each, and what `read` returns now for those of which nothing is."""
        self._look()
        found = {key: self._known[key] for key in keys if key in self._known}
        if unknown := [key for key in keys if key not in found]:
            found.update(self._read(unknown, read))
        return found

    def forget(self) -> None:
        """Know nothing any more."""
        self._known.clear()

    def _look(self) -> None:
        seen = self._versions.of(self._tables)
        if seen != self._seen:
            self._known.clear()
            self._seen = seen

    def _read(self, keys: Sequence[K], read: Callable[[Sequence[K]], Mapping[K, V]]) -> Mapping[K, V]:
        seen = self._seen
        current = self._reader.txn_state("main") == apsw.SQLITE_TXN_NONE
        values = read(keys)
        if current and self._versions.of(self._tables) == seen:  # on a server others run while one reads
            self._known.update(values)
        return values
