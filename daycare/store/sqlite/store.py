"""Opening a SQLite store: a file, or `memory:` for tests and trials."""

from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager, closing

import trio

from daycare.base.clock import Clock, SystemClock
from daycare.base.errors import DaycareError
from daycare.store.records import Commit
from daycare.store.sqlite import budgets, lives, removal, scrub
from daycare.store.sqlite.agents import Agents
from daycare.store.sqlite.approvals import Approvals
from daycare.store.sqlite.behaviours import Behaviours
from daycare.store.sqlite.cron import Cron
from daycare.store.sqlite.database import MEMORY, describing, file_of, open_reader, open_writer
from daycare.store.sqlite.dead import DeadLetters
from daycare.store.sqlite.documents import Documents
from daycare.store.sqlite.exports import Exports
from daycare.store.sqlite.files import Files
from daycare.store.sqlite.heartbeats import Heartbeats
from daycare.store.sqlite.inbox import Inbox
from daycare.store.sqlite.intake import Intake
from daycare.store.sqlite.ledger import Ledger
from daycare.store.sqlite.measures import Gauges
from daycare.store.sqlite.memories import Memories
from daycare.store.sqlite.outbox import Outbox
from daycare.store.sqlite.people import People, Secrets
from daycare.store.sqlite.readers import Readers
from daycare.store.sqlite.signals import Signals
from daycare.store.sqlite.strangers import Strangers
from daycare.store.sqlite.summaries import Summaries
from daycare.store.sqlite.tasks import Tasks
from daycare.store.sqlite.timers import Timers
from daycare.store.sqlite.turns import Turns
from daycare.store.sqlite.upkeep import Upkeep
from daycare.store.sqlite.writer import Writer


class SqliteStore:
    """The store's groups over one writing and one reading connection; see `contract.Store`."""

    def __init__(self, location: str, clock: Clock, *, inline: bool, vfs: str | None = None) -> None:
        file = file_of(location)
        with ExitStack() as opened:
            self._db = opened.enter_context(closing(open_writer(file, vfs)))
            self._reader = opened.enter_context(closing(open_reader(location, self._db, vfs)))
            with describing(location):
                scrub.recover(self._db)
                budgets.recover(self._db)
                self._writer = Writer(self._db, location, clock, inline=inline or location == MEMORY)
            opened.pop_all()
        self._readers = Readers(file, vfs)
        parts = (self._writer, self._reader)
        self.location = location
        self.people = People(*parts, removal.remove)
        self.secrets = Secrets(*parts)
        self.agents = Agents(*parts, lives.spawn, lives.set_state)
        self.inbox = Inbox(*parts)
        self.turns = Turns(*parts)
        self.summaries = Summaries(*parts)
        self.outbox = Outbox(*parts)
        self.files = Files(*parts, self._readers)
        self.documents = Documents(*parts, self._readers)
        self.memories = Memories(*parts, self._readers, clock)
        self.approvals = Approvals(*parts)
        self.budgets = budgets.Budgets(*parts)
        self.timers = Timers(*parts)
        self.exports = Exports(self._writer, file, vfs)
        self.cron = Cron(*parts)
        self.tasks = Tasks(*parts)
        self.signals = Signals(*parts)
        self.heartbeats = Heartbeats(*parts)
        self.behaviours = Behaviours(*parts)
        self.upkeep = Upkeep(*parts)
        self.gauges = Gauges(self._writer, self._readers)
        self.commits = self._writer.commits
        self.dead = DeadLetters(*parts)
        self.ledger = Ledger(*parts, self._readers)
        self.intake = Intake(*parts)
        self.strangers = Strangers(*parts)

    def subscribe(
        self, listener: Callable[[Commit], None], trouble: Callable[[DaycareError | None], None] | None = None
    ) -> None:
        """Have `listener` called after each commit, before its callers continue; `trouble` when commits fail."""
        self._writer.listener = listener
        if trouble is not None:
            self._writer.trouble = trouble

    async def run(self) -> None:
        """Serve writes until `close`."""
        await self._writer.run()

    def pulse(self) -> int | None:
        """Return a number that grows while writes get on, None while there are none."""
        return self._writer.pulse()

    def close(self) -> None:
        """Let `run` end after what is queued."""
        self._writer.close()

    def shut(self) -> None:
        """Close the files; call after `run` returned."""
        self._readers.close()
        if self._reader is not self._db:
            self._reader.close()
        self._db.close()


@asynccontextmanager
async def open_store(
    location: str, clock: Clock | None = None, *, inline: bool = False, vfs: str | None = None
) -> AsyncIterator[SqliteStore]:
    """Open a store and serve it for the length of the block; what was written inside is durable at its end.

    `inline` commits in the calling task without a worker thread, for tests on virtual time, where a thread would let
    the clock jump. Raises `BrokenError` for a file that is corrupt or from a newer daycare.
    """
    store = SqliteStore(location, clock or SystemClock(), inline=inline, vfs=vfs)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.run)
            try:
                yield store
            finally:
                store.close()
    finally:
        store.shut()
