"""Reading connections for other threads: a few stay open, because opening one costs as much as a search."""

from collections.abc import Iterator
from contextlib import contextmanager

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

    @contextmanager
    def lent(self) -> Iterator[apsw.Connection]:
        """Lend a connection for the length of the block."""
        try:
            db = self._idle.pop()
        except IndexError:
            db = self.open()
        try:
            yield db
        finally:
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
