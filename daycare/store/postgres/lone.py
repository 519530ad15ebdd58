"""A database on a server that a command has to itself, as a daemon has it."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import ClassVar, cast

import apsw

from daycare.base.store_location import keep_password
from daycare.store.moving import note as notes
from daycare.store.postgres import schema
from daycare.store.postgres.connection import PostgresConnection
from daycare.store.postgres.location import ServerLocation
from daycare.store.postgres.writer import Ownership
from daycare.store.sqlite.lone import LoneStore


class LoneServer(LoneStore):
    """One of which the command has taken the row of who writes."""

    leaves_pages: ClassVar = False

    def __init__(self, db: PostgresConnection, ownership: Ownership) -> None:
        super().__init__(cast(apsw.Connection, db))
        self._ownership = ownership

    def _begin(self) -> None:
        super()._begin()
        self._ownership.fence()  # and nobody takes the row before the commit


@contextmanager
def lone_server(location: str) -> Iterator[LoneStore]:
    """Open a database on a server. Raises `StoreAwayError` STORE_IN_USE where somebody works on it."""
    keep_password()
    where = ServerLocation(location)
    with closing(PostgresConnection(where, schema.dialect())) as db:
        notes.refuse(notes.read(db, notes.OF_A_SERVER), where.shown)
        schema.prepare(db)
        ownership = Ownership(db)
        ownership.claim()
        try:
            schema.number_again(db)
            db.execute("DELETE FROM forgetting")  # nothing of it is in files of ours
            yield LoneServer(db, ownership)
        finally:
            ownership.leave()
