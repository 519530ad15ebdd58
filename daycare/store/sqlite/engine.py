"""What is open of a store: its connections, the writer, and what sees after the file."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from typing import TypeVar

import apsw

from daycare.base.clock import Clock
from daycare.store.share import Share
from daycare.store.sqlite import scrub
from daycare.store.sqlite.database import MEMORY, connect_reader, describing, file_of, open_writer
from daycare.store.sqlite.guard import Guard
from daycare.store.sqlite.mark import Mark
from daycare.store.sqlite.people import PEOPLE, SECRETS
from daycare.store.sqlite.readers import Readers
from daycare.store.sqlite.rows import Rows, followers_of, tables_of
from daycare.store.sqlite.summaries import SUMMARIES
from daycare.store.sqlite.watch import Watch
from daycare.store.sqlite.writer import Writer

T = TypeVar("T")


class Engine:
    """One open store; `location` is where, as it may be shown. `share` says whose work is done here.

    `reader` belongs to the loop's thread; of a database in memory it is the writing one, `db`.
    """

    def __init__(
        self,
        location: str,
        db: apsw.Connection,
        reader: apsw.Connection,
        readers: Readers,
        writer: Writer,
        guard: Guard,
        mark: Mark,
        watch: Watch | None,
    ) -> None:
        self.location = location
        self.db = db
        self.reader = reader
        self.readers = readers
        self.writer = writer
        self.guard = guard
        self.mark = mark
        self.watch = watch
        self.share = Share()

    def offered(self, part: T) -> T:
        """Return a group of the store as others are to have it."""
        return part

    async def run(self) -> None:
        """Serve writes until the writer is closed."""
        await self.writer.run()

    def shut(self) -> None:
        """Close it, after its writer has ended; what is open of a file that is gone is rescued first."""
        self.guard.look()
        if self.guard.is_gone and self.guard.rescued is None:
            self.guard.rescue(self.db)
        self.readers.close()
        if self.reader is not self.db:
            self.reader.close()
        self.mark.close()
        self.db.close()


Open = Callable[[str, Clock, Sequence[type[Rows]], bool, "str | None"], Engine]


def open_engine(location: str, clock: Clock, rows: Sequence[type[Rows]], inline: bool, vfs: str | None) -> Engine:
    """Open a file, or a database in memory. `inline` and `vfs` are those of `open_store`."""
    file, followers = file_of(location), followers_of(rows)
    with ExitStack() as opened:
        db = opened.enter_context(closing(open_writer(file, vfs)))
        with describing(location):
            scrub.recover(db)
            followers.recover(db)
            mark = opened.enter_context(closing(Mark(location, db, clock.now_ms())))
            guard = Guard(location, mark, clock.now_ms)
            writer = Writer(
                db,
                location,
                clock,
                guard,
                inline=inline or location == MEMORY,
                followers=followers,
                watched=watched(rows),
            )
        reader = db
        if location != MEMORY:
            reader = opened.enter_context(closing(connect_reader(file, vfs, guard.heed)))
        opened.pop_all()
    readers = Readers(file, vfs, guard)
    watch = None if location == MEMORY else Watch(writer, readers, guard)
    return Engine(location, db, reader, readers, writer, guard, mark, watch)


def watched(rows: Sequence[type[Rows]]) -> tuple[str, ...]:
    """Return the tables of which answers stand in a `ReadCache`."""
    return (*PEOPLE, SECRETS, SUMMARIES, *(table.name for table in tables_of(rows) if table.watched))
