"""What a capability keeps in the store: tables of its own, which the core knows by what is declared here."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple, TypeVar

import apsw

from daycare.base.clock import Clock
from daycare.store.sqlite.facts import Follower, Followers
from daycare.store.sqlite.readers import Readers
from daycare.store.sqlite.writer import Tx, Writer

T = TypeVar("T")

# That a path is at or below one of those that a purge removes. No table has a column `root`: `path` in it is always the
# outer one's.
PURGED_PATH: Final = (
    "EXISTS (SELECT 1 FROM purged_roots r WHERE {0} = r.root OR substr({0}, 1, length(r.root) + 1) = r.root || '/')"
)


class Table(NamedTuple):
    """A table. A purge looks for a person's rows by its columns `user`, `agent_id`, `path` and `payer`, or by `whose`.

    `called` is what people call its rows. An export takes them as records with the tag `exported`; or an import makes
    them `again`, which says from what; or it leaves them out: `why`, and the query over `temp.exported` that counts
    those which are worth telling people about as `what`.

    The numbers in its column `number`, if it has one, only grow, and so does what stands in `created_at`.

    `own` is the condition of what is an agent's own (its id is `?1`): it is deleted with the agent, which stays as long
    as there is some. `apart`: that, and a purge, is done by a follower which hears of it, and by nobody else. `watched`
    are tables of which answers stand in a `ReadCache`.
    """

    name: str
    called: str = ""
    exported: str = ""
    again: str = ""
    why: str = ""
    what: str = ""
    query: str = ""
    whose: str = ""
    own: str = ""
    number: str = ""
    apart: bool = False
    watched: bool = False


class WordIndex(NamedTuple):
    """Words that are kept of the rows of a table, for who writes such rows himself.

    `add` is given the open database and the keys of rows that have just come, `drop` of those that are about to go.
    """

    table: str
    add: Callable[[apsw.Connection, Sequence[tuple[Any, ...]]], None]
    drop: Callable[[apsw.Connection, Sequence[tuple[Any, ...]]], None]


class Rows:
    """Reads and writes the tables of a capability; each store has one of a class, see `Store.of`.

    `followers` are what it does in the transactions of the core, made once for each store. `is_done` is the condition
    that it needs a turn, whose row is `t`, no longer: until then no turn is deleted. `indexes` are made of its rows.
    `news` are what other nodes hear, of each kind, when a commit has some.
    """

    tables: ClassVar[tuple[Table, ...]] = ()
    followers: ClassVar[tuple[type[Follower], ...]] = ()
    is_done: ClassVar[str] = ""
    indexes: ClassVar[tuple[WordIndex, ...]] = ()
    news: ClassVar[tuple[Any, ...]] = ()

    def __init__(self, writer: Writer, reader: apsw.Connection, readers: Readers, clock: Clock) -> None:
        self._writer = writer
        self._reader = reader  # in the loop's thread
        self._readers = readers  # for other threads
        self._clock = clock

    @classmethod
    def inspected(cls, db: apsw.Connection) -> Mapping[str, Any]:
        """Return what a report about a database says of these tables: fields of `Inspection`."""
        return {}

    @classmethod
    def measured(cls, db: apsw.Connection) -> Mapping[str, Any]:
        """Return what is counted of these tables while the daemon runs: fields of `StoreMetrics`."""
        return {}

    async def _write(self, fn: Callable[[Tx], T], size: int = 0, user: str = "") -> T:
        """Run a function in a transaction, together with what others write; return once it is durable.

        `user` is whose rows it decides by; see `Writer.write`.
        """
        return await self._writer.write(fn, size, user)

    async def reading(self, read: Callable[[], T]) -> T:
        """Return what plain code returns that reads these tables; on a server others run while it waits.

        So not where these may see what it has half done. It is not cancelled in the midst.
        """
        return read()

    def _number(self, sql: str, *bindings: Any) -> int | None:
        """Return the first column of the first row, None where that is nothing."""
        row = self._reader.execute(sql, bindings).fetchone()
        return None if row is None or row[0] is None else int(str(row[0]))


def followers_of(rows: Sequence[type[Rows]]) -> Followers:
    """Return the followers of one store, in the order of the capabilities."""
    return Followers([follower() for each in rows for follower in each.followers])


def tables_of(rows: Sequence[type[Rows]]) -> tuple[Table, ...]:
    """Return the tables of capabilities."""
    return tuple(table for each in rows for table in each.tables)


def indexes_of(rows: Sequence[type[Rows]]) -> tuple[WordIndex, ...]:
    """Return the indexes of words of capabilities."""
    return tuple(index for each in rows for index in each.indexes)
