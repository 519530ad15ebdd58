"""A store that a command has to itself: no daemon works on it."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import ClassVar

import apsw

from daycare.store.sqlite.database import describing, open_writer


class LoneStore:
    """What a command may use of it. `leaves_pages`: what is deleted stays in a file's bytes for a while."""

    leaves_pages: ClassVar = True

    def __init__(self, db: apsw.Connection) -> None:
        self.db = db

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit what the block has written, all of it or nothing."""
        self._begin()
        try:
            yield
            self.db.execute("COMMIT")
        finally:
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")

    def _begin(self) -> None:
        self.db.execute("BEGIN IMMEDIATE; PRAGMA defer_foreign_keys = ON").fetchall()


@contextmanager
def lone_file(location: str) -> Iterator[LoneStore]:
    """Open a file, whose home the caller has locked."""
    with describing(location), closing(open_writer(location)) as db:
        yield LoneStore(db)
