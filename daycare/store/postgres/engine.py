"""A store on a server, opened: a connection that writes, one of the loop's thread that reads, and some for others."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from typing import Any, Final, TypeVar, cast

import apsw
import outcome
import trio

from daycare.base.clock import Clock
from daycare.base.errors import BusyError, DaycareError, UnavailableError
from daycare.base.store_location import keep_password
from daycare.store.moving import note as notes
from daycare.store.postgres import schema
from daycare.store.postgres.connection import READ_MAX_S, PostgresConnection
from daycare.store.postgres.location import ServerLocation
from daycare.store.postgres.read_lines import PLAIN_MAX_S, LoopReader
from daycare.store.postgres.suspending import may_wait, suspend_methods
from daycare.store.postgres.writer import LEASE_S, Ownership, PostgresWriter
from daycare.store.share import Share
from daycare.store.sqlite.database import MEMORY
from daycare.store.sqlite.engine import Engine, watched
from daycare.store.sqlite.guard import Guard
from daycare.store.sqlite.mark import Mark
from daycare.store.sqlite.readers import Readers
from daycare.store.sqlite.rows import Rows, followers_of
from daycare.store.sqlite.watch import Watch

LOOK_S: Final = 1.0  # between two tries to reach a server that is away

T = TypeVar("T")


class ServerReaders(Readers):
    """Lends out connections to a server; what the loop's thread may wait for is read as all else is there."""

    def __init__(self, location: ServerLocation, guard: Guard, reader: LoopReader) -> None:
        super().__init__(MEMORY, None, guard)
        self._location = location
        self._reader = cast(apsw.Connection, reader)

    @contextmanager
    def lent(self) -> Iterator[apsw.Connection]:
        """Lend a connection for the length of the block, opened again if it was lost."""
        if may_wait():
            yield self._reader
            return
        with super().lent() as db:
            connection = cast(PostgresConnection, db)
            if not connection.is_open:
                connection.reopen()
            try:
                yield db
            finally:
                if connection.in_transaction:
                    with suppress(DaycareError):
                        connection.execute("ROLLBACK")

    def open(self) -> apsw.Connection:
        """Open a connection for whoever closes it."""
        return cast(apsw.Connection, PostgresConnection(self._location, schema.dialect()))


class ServerWatch(Watch):
    """Sees after the connections, and lets others see that this node lives."""

    def __init__(
        self, writer: PostgresWriter, readers: Readers, guard: Guard, reader: LoopReader, share: Share
    ) -> None:
        super().__init__(writer, readers, guard)
        self._node = writer
        self._share = share
        self._connection = reader.plain

    async def run(self) -> None:
        """Go on until closed."""
        beat_at = trio.current_time() + LEASE_S / 3
        with self._scope:
            while True:
                await trio.sleep(LOOK_S)
                self._report()
                self._end_if_back()
                if not self._connection.is_open:
                    with suppress(DaycareError):
                        await trio.to_thread.run_sync(self._connection.reopen)
                if trio.current_time() >= beat_at:
                    beat_at = trio.current_time() + LEASE_S / 3
                    with suppress(UnavailableError, BusyError):
                        await self._node.beat()

    def _end_if_back(self) -> None:
        """Let daycare start again where the server has lost commits: what it remembers is partly of these."""
        refusal = self._guard.refusal
        if refusal is not None and refusal.code == "STORE_WENT_BACK":
            self._share.ended("the database has lost commits")


class ServerEngine(Engine):
    """One open store on a server."""

    ownership: Ownership
    reads: LoopReader

    def offered(self, part: T) -> T:
        """Return a group of the store, whose operations let others run while they read."""
        suspend_methods(part)
        if isinstance(part, Rows):
            part.reading = partial(_to_its_end, part.reading)  # type: ignore[method-assign]
        return part

    async def run(self) -> None:
        """Serve reads until the writer has ended, and writes until it is closed."""
        with trio.CancelScope(shield=True):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.reads.run)
                await super().run()
                nursery.cancel_scope.cancel()

    def shut(self) -> None:
        """Let the next have it at once, and close the connections."""
        if self.guard.refusal is None:
            self.ownership.leave()
        super().shut()


def open_engine(location: str, clock: Clock, rows: Sequence[type[Rows]], inline: bool, vfs: str | None) -> Engine:
    """Open a database on a server, make its schema or bring it up to date, and take it for this node.

    Raises `BrokenError` for what an operator has to set right, `StoreAwayError` where the server does not answer, or
    STORE_IN_USE.
    """
    keep_password()
    where, followers = ServerLocation(location), followers_of(rows)
    with ExitStack() as opened:
        server = opened.enter_context(closing(PostgresConnection(where, schema.dialect())))
        notes.refuse(notes.read(server, notes.OF_A_SERVER), where.shown)
        schema.prepare(server)
        ownership = Ownership(server)
        ownership.claim()
        schema.number_again(server)
        db: Any = server
        db.execute("DELETE FROM forgetting")  # nothing of it is in files of ours
        followers.recover(db)
        mark = Mark(MEMORY, db, clock.now_ms())
        guard = Guard(MEMORY, mark, clock.now_ms)
        writer = PostgresWriter(
            db, where.shown, clock, guard, inline=inline, followers=followers, watched=watched(rows)
        )
        writer.own(ownership, mark)
        reader = opened.enter_context(closing(open_reader(where, inline=inline)))
        opened.pop_all()
    readers = ServerReaders(where, guard, reader)
    share = Share()
    watch = None if inline else ServerWatch(writer, readers, guard, reader, share)
    engine = ServerEngine(where.shown, db, cast(apsw.Connection, reader), readers, writer, guard, mark, watch)
    engine.ownership, engine.reads, engine.share = ownership, reader, share
    return engine


async def _to_its_end(reading: Callable[[Callable[[], T]], Awaitable[T]], read: Callable[[], T]) -> T:
    """Read in plain code, which may change what it reads for: it is not cancelled in the midst of that."""
    with trio.CancelScope(shield=True):
        found = await outcome.acapture(reading, read)
    return found.unwrap()


def open_reader(where: ServerLocation, *, inline: bool) -> LoopReader:
    """Open what the loop's thread reads with."""
    max_s = READ_MAX_S if inline else PLAIN_MAX_S
    return LoopReader(PostgresConnection(where, schema.dialect(), max_s), inline=inline)
