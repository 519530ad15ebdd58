"""What is seen to while nobody asks: the file is where it was, the log of commits is brought in, pages are read.

A home in which little happens would live in its log for days otherwise, and a damaged page that nobody needs would be
found when the last good backup has made room for newer ones.
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import trio

from daycare.base.errors import BusyError, DaycareError, UnavailableError
from daycare.base.limits import START_CHECK_MAX_BYTES
from daycare.store.sqlite.guard import Guard
from daycare.store.sqlite.readers import Readers
from daycare.store.sqlite.writer import Writer

LOOK_S: Final = 4.0  # at the file; where nothing was written since the last look, the log is brought into it
SETTLE_MAX_S: Final = 60.0  # for that, where something is written all the time, or somebody reads the log for long
RESCUE_RETRY_S: Final = 60.0  # a disk without room for a second copy may have some by then
CHECK_FIRST_S: Final = 60.0  # after the start, of a file that was too large to be read then
CHECK_EVERY_S: Final = 86_400.0
CHECK_PAUSE_S: Final = 1.0  # between two tables: a view of the database is held for one at a time
_STEPS: Final = 20_000  # of SQLite's machine, some ms, after which others may have the disk for as long
_PAUSE_MAX_S: Final = 0.1

T = TypeVar("T")


class Watch:
    """Sees after one open database."""

    def __init__(self, writer: Writer, readers: Readers, guard: Guard) -> None:
        self._writer = writer
        self._readers = readers
        self._guard = guard
        self._scope = trio.CancelScope()
        self._over = threading.Event()
        self._told = ""  # the refusal that was reported last
        self._rescue_at = self._settle_at = self._settled_at = 0.0
        self._seen = 0  # commits in the log at the last look
        self._resumed = 0.0

    async def run(self) -> None:
        """Go on until closed."""
        with self._scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._check)
                while self._guard.rescued is None:  # after that nothing changes any more
                    await trio.sleep(LOOK_S)
                    with suppress(UnavailableError, BusyError):  # the store refuses for now: the next look is soon
                        await self._look()

    def close(self) -> None:
        """Let `run` end."""
        self._over.set()
        self._scope.cancel()

    async def _look(self) -> None:
        guard, now = self._guard, trio.current_time()
        guard.look()
        self._report()
        if guard.is_gone and now >= self._rescue_at:
            self._rescue_at = now + RESCUE_RETRY_S
            await self._writer.alone(guard.rescue)
            self._report()
        elif guard.refusal is None and self._is_due(now):
            await self._writer.alone(guard.settle)
            self._settle_at = now + SETTLE_MAX_S if guard.unsettled else 0.0  # each try lets commits wait for readers

    def _report(self) -> None:
        refusal = self._guard.refusal
        if refusal is not None and str(refusal) != self._told:
            self._told = str(refusal)
            self._writer.report(refusal)

    def _is_due(self, now: float) -> bool:
        """Whether nothing was written since the last look, or nothing brought in for long."""
        seen, self._seen = self._seen, self._guard.unsettled
        if not self._seen:
            self._settled_at = now
        return (
            bool(self._seen)
            and now >= self._settle_at
            and (self._seen == seen or now - self._settled_at >= SETTLE_MAX_S)
        )

    # -- pages ---------------------------------------------------------------------------------------------------------

    async def _check(self) -> None:
        """Read every table once a day, and soon after the start where the start did not."""
        await trio.sleep(CHECK_FIRST_S if self._is_large() else CHECK_EVERY_S)
        while self._guard.refusal is None:
            with suppress(DaycareError):  # it cannot be read now, which whoever needs it tells; or it is closed
                for table in await self._apart(self._tables):
                    await self._apart(partial(self._check_table, table))
                    await trio.sleep(CHECK_PAUSE_S)
            await trio.sleep(CHECK_EVERY_S)

    def _is_large(self) -> bool:
        with suppress(OSError):
            return Path(self._guard.location).stat().st_size > START_CHECK_MAX_BYTES
        return False

    def _tables(self) -> list[str]:
        with self._readers.lent() as db:
            rows = db.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0")
            return [str(name) for (name,) in rows]

    def _check_table(self, table: str) -> None:
        """Read a table with its indexes."""
        with self._readers.lent() as db:
            db.set_progress_handler(self._pace, _STEPS)
            try:
                [(answer,), *_] = db.execute(f'PRAGMA quick_check("{table}")').fetchall()
            finally:
                db.set_progress_handler(None)
        if answer != "ok":
            self._guard.doubt(str(answer))

    def _pace(self) -> bool:
        """Let others have the disk for as long as it was used here."""
        began, self._resumed = self._resumed, time.monotonic()
        if not self._writer.inline:
            self._over.wait(min(self._resumed - began, _PAUSE_MAX_S))
        self._resumed = time.monotonic()
        return self._over.is_set()

    async def _apart(self, work: Callable[[], T]) -> T:
        return work() if self._writer.inline else await trio.to_thread.run_sync(work)
