"""What a statement costs, without a clock: the steps of SQLite's machine, which are the same on every computer."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import apsw

from daycare.store.sqlite.store import SqliteStore

_ID: Final = "tests.vm"


class Steps(Counter[str]):
    """Steps by statement."""

    @property
    def all(self) -> int:
        """Those of all statements together."""
        return sum(self.values())

    def __str__(self) -> str:
        return "\n".join(f"{steps:>9} {' '.join(sql.split())[:150]}" for sql, steps in self.most_common(8))


@contextmanager
def counted(store: SqliteStore) -> Iterator[Steps]:
    """Count what runs in the block on the writer's connection and on that of the loop."""
    found = Steps()

    def ended(event: dict[str, Any]) -> None:
        found[event["sql"]] += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]

    connections = {id(db): db for db in (store._db, store._reader)}.values()
    for db in connections:
        db.trace_v2(apsw.SQLITE_TRACE_PROFILE, ended, id=_ID)
    try:
        yield found
    finally:
        for db in connections:
            db.trace_v2(0, None, id=_ID)
