"""Reading connections for other threads: a few stay open, because opening one costs as much as a search."""

from contextlib import AbstractContextManager

import apsw

from daycare.store.sqlite.database import connect_reader
from daycare.store.sqlite.guard import Guard

_KEPT_MAX = 4  # threads that search at the same time; more than the machine has cores gains nothing


class Readers:
    """Lends out connections, each to one thread at a time."""

    def __init__(self, file: str, vfs: str | None, guard: Guard) -> None:
        self._file = file
        self._vfs = vfs
        self._guard = guard
        self._idle: list[apsw.Connection] = []  # pop and append are atomic
        self._closed = False

    def lent(self) -> AbstractContextManager[apsw.Connection]:
        """Lend a connection for the length of a block."""
        return _Loan(self)

    def take(self) -> apsw.Connection:
        """Return a connection that nobody else uses."""
        try:
            return self._idle.pop()
        except IndexError:
            return self.open()

    def give_back(self, db: apsw.Connection) -> None:
        """Keep a connection for the next one who reads, or close it."""
        if self._closed or len(self._idle) >= _KEPT_MAX:
            db.close()
        else:
            self._idle.append(db)

    def open(self) -> apsw.Connection:
        """Open a connection for whoever closes it. Raises `StoreAwayError` where it would be another database's."""
        self._guard.look()
        if self._guard.is_gone:
            self._guard.check()
        return connect_reader(self._file, self._vfs, self._guard.heed)

    def close(self) -> None:
        """Close what is not lent out; the rest is closed when it comes back."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()


class _Loan(AbstractContextManager[apsw.Connection]):
    """A connection as a block has it. (No generator: with one a small read takes half as long again.)"""

    def __init__(self, readers: Readers) -> None:
        self._readers = readers

    def __enter__(self) -> apsw.Connection:
        self._db = self._readers.take()
        return self._db

    def __exit__(self, *_: object) -> None:
        self._readers.give_back(self._db)
