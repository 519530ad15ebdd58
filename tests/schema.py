"""New databases whose schema is copied from one that the migrations made: running them takes ten times as long."""

from functools import cache
from typing import Final

import apsw

from daycare.store.sqlite import database
from daycare.store.sqlite.database import migrate

_PLAIN: Final = "unix"  # another file system is there to watch, or to fail at, what is written


def copied(db: apsw.Connection, location: str) -> list[str]:
    """Do as `migrate` does: all the same for a database that is not new, or where something else is tried."""
    known = database.migrations()
    if db.pragma("user_version") or db.open_vfs != _PLAIN or known != _migrations():
        return migrate(db, location)
    with db.backup("main", _made(), "main") as copy:
        copy.step()
    return [name for _, name, _ in known]


_migrations: Final = cache(database.migrations)


@cache
def _made() -> apsw.Connection:
    made = apsw.Connection(":memory:")
    made.execute("PRAGMA auto_vacuum = INCREMENTAL")
    migrate(made, database.MEMORY)
    return made
