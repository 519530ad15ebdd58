"""What a statement costs, without a clock: the steps of SQLite's machine, which are the same on every computer."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import apsw
import apsw.ext
import pytest

from daycare.store.sqlite.store import Store

_ID: Final = "tests.vm"


class Steps(Counter[str]):
    """Steps by statement."""

    @property
    def all(self) -> int:
        """Those of all statements together."""
        return sum(self.values())

    def counting(self, db: apsw.Connection) -> list[str]:
        """Return the statements that count all entries of a table or an index, which is one step however many."""
        found = []
        for sql in self:
            explained = apsw.ext.query_info(db, sql, explain=True).explain or []
            found += [sql] if any(each.opcode == "Count" for each in explained) else []
        return found

    def __str__(self) -> str:
        return "\n".join(f"{steps:>9} {' '.join(sql.split())[:150]}" for sql, steps in self.most_common(8))


@contextmanager
def counted(store: Store) -> Iterator[Steps]:
    """Count what runs in the block: on the connections of a store, and on those that are opened meanwhile.

    A test that has a store on a server is left out: there are no steps to count.
    """
    if not isinstance(store._db, apsw.Connection):
        pytest.skip("the steps of SQLite's machine are counted")
    found = Steps()

    def ended(event: dict[str, Any]) -> None:
        found[event["sql"]] += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]

    def count(db: apsw.Connection) -> None:
        db.trace_v2(apsw.SQLITE_TRACE_PROFILE, ended, id=_ID)

    known = {id(db): db for db in (store._db, store._reader)}.values()
    for db in known:
        count(db)
    apsw.connection_hooks.append(count)
    try:
        yield found
    finally:
        apsw.connection_hooks.remove(count)
        for db in known:
            db.trace_v2(0, None, id=_ID)
