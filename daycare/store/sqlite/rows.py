"""What a capability keeps in the store: tables of its own, which the core knows by what is declared here."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple, TypeVar

import apsw

from daycare.store.sqlite.facts import Follower, Followers
from daycare.store.sqlite.readers import Readers
from daycare.store.sqlite.writer import Tx, Writer

T = TypeVar("T")


class Table(NamedTuple):
    """A table. A purge looks for a person's rows by its columns `user`, `agent_id`, `path` and `payer`.

    `called` is what people call its rows. An export takes them as records with the tag `exported`; or leaves them out:
    `why`, and the query over `temp.exported` that counts those which are worth telling people about as `what`.
    """

    name: str
    called: str = ""
    exported: str = ""
    why: str = ""
    what: str = ""
    query: str = ""


class Rows:
    """Reads and writes the tables of a capability; each store has one of a class, see `Store.of`.

    `followers` are what it does in the transactions of the core, made once for each store.
    """

    tables: ClassVar[tuple[Table, ...]] = ()
    followers: ClassVar[tuple[type[Follower], ...]] = ()

    def __init__(self, writer: Writer, reader: apsw.Connection, readers: Readers) -> None:
        self._writer = writer
        self._reader = reader  # in the loop's thread
        self._readers = readers  # for other threads

    async def _write(self, fn: Callable[[Tx], T], size: int = 0) -> T:
        """Run a function in a transaction, together with what others write; return once it is durable."""
        return await self._writer.write(fn, size)

    def _number(self, sql: str, *bindings: Any) -> int | None:
        """Return the first column of the first row, None where that is nothing."""
        row = self._reader.execute(sql, bindings).fetchone()
        return None if row is None or row[0] is None else int(str(row[0]))


def followers_of(rows: Sequence[type[Rows]]) -> Followers:
    """Return the followers of one store, in the order of the capabilities."""
    return Followers([follower() for each in rows for follower in each.followers])
