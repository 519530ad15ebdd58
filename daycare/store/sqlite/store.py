"""The store, a file or `memory:` for tests and trials, and what it promises in all of its groups.

- A write is durable when its call returns, and other calls see it from then on. The writes of one store take effect
  in the order they were asked for; `seq`, `turn` and `no` are numbers that grow in the order of commit and are never
  given out twice.
- A cancelled write may still be carried out, never in part. Whoever needs to know repeats it under the same key.
- A write that raises has changed nothing, and nothing of what was written beside it.
- Any write may raise `BusyError` (too many writes wait; nothing was queued) or `UnavailableError` (the disk or the
  server refuses; nothing was acknowledged, and the same call works again once the trouble is over). Stored data that
  cannot be read raises `BrokenError`.
- Reads change nothing, are bounded by their `limit` and return structs of `records`; numbers of rows are opaque.

One process at a time owns a store's agents: the store does not arbitrate between two owners of one turn.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

import trio

from daycare.base.clock import Clock, SystemClock
from daycare.base.errors import DaycareError
from daycare.store.records import Commit
from daycare.store.sqlite import lives, removal
from daycare.store.sqlite.agents import Agents
from daycare.store.sqlite.behaviours import BehaviourStore
from daycare.store.sqlite.dead import DeadLetters
from daycare.store.sqlite.engine import Open, open_engine
from daycare.store.sqlite.files import Files
from daycare.store.sqlite.inbox import Inbox
from daycare.store.sqlite.intake import IntakeStore
from daycare.store.sqlite.ledger import Ledger
from daycare.store.sqlite.mark import Loss
from daycare.store.sqlite.metrics import StoreMetricsReader
from daycare.store.sqlite.outbox import Outbox
from daycare.store.sqlite.people import PeopleStore, Secrets
from daycare.store.sqlite.rows import Rows, tables_of
from daycare.store.sqlite.strangers import Strangers
from daycare.store.sqlite.summaries import Summaries
from daycare.store.sqlite.tails import Tails
from daycare.store.sqlite.timers import Timers
from daycare.store.sqlite.turns import TurnStore
from daycare.store.sqlite.upkeep import UpkeepStore

T = TypeVar("T")


class Store:
    """Everything durable, in groups over one writing and one reading connection.

    `rows` are those of capabilities. Their followers are told of what becomes true in this order. `engine` opens it.
    """

    def __init__(
        self,
        location: str,
        clock: Clock,
        rows: Sequence[type[Rows]] = (),
        *,
        inline: bool,
        vfs: str | None = None,
        engine: Open | None = None,
    ) -> None:
        self._engine = opened = (engine or open_engine)(location, clock, rows, inline, vfs)
        self._db, self._reader, self._readers = opened.db, opened.reader, opened.readers
        self._writer, self._guard, self._mark, self._watch = opened.writer, opened.guard, opened.mark, opened.watch
        parts, offered = (self._writer, self._reader), opened.offered
        self.location = opened.location
        self.share = opened.share
        self.people = offered(PeopleStore(*parts, removal.remove))
        self.secrets = offered(Secrets(*parts))
        self.agents = offered(Agents(*parts, lives.spawn, lives.set_state))
        self.inbox = offered(Inbox(*parts))
        self._tails = Tails()
        self.turns = offered(TurnStore(*parts, self._tails))
        self.summaries = offered(Summaries(*parts, self._tails))
        self.outbox = offered(Outbox(*parts))
        self.files = offered(Files(*parts, self._readers))
        self.timers = offered(Timers(*parts))
        self.tables = tables_of(rows)
        self._make: Callable[[type[Rows]], Rows] = lambda kind: offered(kind(*parts, self._readers, clock))
        self._rows: dict[type, Rows] = {kind: self._make(kind) for kind in rows}
        self.behaviours = offered(BehaviourStore(*parts))
        self.upkeep = offered(UpkeepStore(*parts, rows))
        self.metrics = offered(StoreMetricsReader(self._writer, self._readers, rows))
        self.commits = self._writer.commits
        self.dead = offered(DeadLetters(*parts))
        self.ledger = offered(Ledger(*parts, self._readers))
        self.intake = offered(IntakeStore(*parts))
        self.strangers = offered(Strangers(*parts))
        self._listener: Callable[[Commit], None] = lambda commit: None
        self._writer.listener = self._heard

    def subscribe(
        self, listener: Callable[[Commit], None], trouble: Callable[[DaycareError | None], None] | None = None
    ) -> None:
        """Have `listener` called in the loop's thread after each commit, in order, before its writers continue.

        A commit whose writers were all cancelled is announced, too. `trouble` is called with an error when a commit
        fails and with None when one succeeds again. One subscriber; a second replaces the first.
        """
        self._listener = listener
        if trouble is not None:
            self._writer.trouble = trouble

    def _heard(self, commit: Commit) -> None:
        self._tails.committed(commit)  # before those who then look for what it has made true
        self._listener(commit)

    def of(self, kind: type[T]) -> T:
        """Return what reads and writes the tables of a capability, by its class."""
        rows = self._rows.get(kind)
        if rows is None:
            rows = self._rows[kind] = self._undeclared(kind)
        assert isinstance(rows, kind)
        return rows

    def _undeclared(self, kind: type) -> Rows:
        """Make what reads the tables of others and keeps nothing, so that nobody but who asks for it has to load it."""
        assert issubclass(kind, Rows) and not (kind.tables or kind.followers or kind.indexes or kind.news), kind
        return self._make(kind)

    @property
    def lost(self) -> Loss | None:
        """What was found missing at this start or an earlier one."""
        return self._mark.lost

    def told_of_loss(self) -> None:
        """Note that the operator knows of it."""
        self._mark.tell()

    @property
    def rescuing(self) -> bool:
        """Whether what is open of a database that is gone is still to be written elsewhere."""
        return self._guard.is_gone and self._guard.tries == 0

    def doubt(self, damage: str) -> None:
        """Hear of damage that was found in a copy's original: nothing is written any more."""
        self._guard.doubt(damage)

    def trusted(self) -> None:
        """Raise `StoreAwayError` STORE_GONE or STORE_CORRUPT where nothing is written any more, and nothing to copy."""
        self._guard.look()
        self._guard.check()

    async def run(self) -> None:
        """Serve reads and writes until `close`."""
        await self._engine.run()

    async def watch(self) -> None:
        """See after the file until `close`."""
        if self._watch is not None:
            await self._watch.run()

    def pulse(self) -> int | None:
        """Return a number that grows while writes get on, None while there are none."""
        return self._writer.pulse()

    def close(self) -> None:
        """Let `run` end after what is queued, and `watch` at once."""
        if self._watch is not None:
            self._watch.close()
        self._writer.close()

    def shut(self) -> None:
        """Close the files; call after `run` returned."""
        self._engine.shut()


@asynccontextmanager
async def open_store(
    location: str,
    clock: Clock | None = None,
    rows: Sequence[type[Rows]] = (),
    *,
    inline: bool = False,
    vfs: str | None = None,
    engine: Open | None = None,
) -> AsyncIterator[Store]:
    """Open a store and serve it for the length of the block; what was written inside is durable at its end.

    `inline` commits in the calling task without a worker thread, for tests on virtual time, where a thread would let
    the clock jump. Raises `BrokenError` for a file that is corrupt or from a newer daycare.
    """
    store = Store(location, clock or SystemClock(), rows, inline=inline, vfs=vfs, engine=engine)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.run)
            nursery.start_soon(store.watch)
            try:
                yield store
            finally:
                store.close()
    finally:
        store.shut()
