"""The yardstick: the least that a durable inbox can be, on the same libraries and the same disk.

Group commit over one table under trio. Two durable operations for each message, an insert and a delete; no envelope,
no keys, no turns, no errors. What a product takes beyond this is the price of its promises.
"""

from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import apsw
import outcome
import trio

_INSERT = "INSERT INTO inbox (queue, text) VALUES (?, ?)"
_DELETE = "DELETE FROM inbox WHERE id = ?"
_PRAGMAS = ("journal_mode = WAL", "synchronous = FULL", "wal_autocheckpoint = 4000", "cache_size = -16384")


class Bare:
    """Queues of text in one SQLite file; each queue is worked off in order by a task of its own."""

    def __init__(self, location: Path, queues: int, text: str) -> None:
        self._db = apsw.Connection(str(location))
        for pragma in _PRAGMAS:
            self._db.execute(f"PRAGMA {pragma}").fetchall()
        self._db.execute("CREATE TABLE inbox (id INTEGER PRIMARY KEY, queue INTEGER, text TEXT)")
        self._text = text
        self._writes: deque[tuple[str, tuple[object, ...], trio.lowlevel.Task]] = deque()
        self._wake = trio.Event()
        self._closing = False
        self._boxes: list[deque[int]] = [deque() for _ in range(queues)]
        self._bells = [trio.Event() for _ in range(queues)]
        self._open = 0
        self._idle = trio.Event()

    async def send(self, queue: int, message: int) -> None:
        """Return once the message is durable."""
        self._open += 1
        row = await self._write(_INSERT, (queue, self._text))
        self._boxes[queue].append(row)
        self._bells[queue].set()

    async def settled(self) -> None:
        """Return once every message is acknowledged durably."""
        while self._open:
            self._idle = trio.Event()
            await self._idle.wait()

    async def work(self, queue: int) -> None:
        """Handle one queue, one message at a time, until cancelled."""
        box = self._boxes[queue]
        while True:
            self._bells[queue] = trio.Event()
            if not box:
                await self._bells[queue].wait()
            while box:
                await self._write(_DELETE, (box.popleft(),))
                self._open -= 1
                if not self._open:
                    self._idle.set()

    async def _write(self, sql: str, bindings: tuple[object, ...]) -> int:
        self._writes.append((sql, bindings, trio.lowlevel.current_task()))
        self._wake.set()
        # Not abortable: what was asked for is committed, as in the product.
        row: int = await trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.FAILED)
        return row

    async def run(self) -> None:
        """Commit whatever waits, again and again, until closed."""
        limiter = trio.CapacityLimiter(1)
        with trio.CancelScope(shield=True):
            while True:
                self._wake = trio.Event()
                if not self._writes:
                    if self._closing:
                        return
                    await self._wake.wait()
                await trio.lowlevel.cancel_shielded_checkpoint()  # lets released senders join this commit
                batch = [*self._writes]
                self._writes.clear()
                if batch:
                    rows = await trio.to_thread.run_sync(self._commit, batch, limiter=limiter)
                    for (_, _, task), row in zip(batch, rows, strict=True):
                        trio.lowlevel.reschedule(task, outcome.Value(row))

    def _commit(self, batch: list[tuple[str, tuple[object, ...], trio.lowlevel.Task]]) -> list[int]:
        rows = []
        execute = self._db.execute
        execute("BEGIN IMMEDIATE")
        for sql, bindings, _ in batch:
            execute(sql, bindings)
            rows.append(self._db.last_insert_rowid())
        execute("COMMIT")
        return rows

    def close(self) -> None:
        """Let `run` end."""
        self._closing = True
        self._wake.set()

    def shut(self) -> None:
        """Close the file."""
        self._db.close()


@asynccontextmanager
async def open_bare(folder: Path, queues: int, text: str) -> AsyncIterator[Bare]:
    """Run the yardstick in a folder for the length of the block."""
    bare = Bare(folder / "bare.db", queues, text)
    try:
        async with trio.open_nursery() as outer:
            outer.start_soon(bare.run)
            try:
                async with trio.open_nursery() as nursery:
                    for queue in range(queues):
                        nursery.start_soon(bare.work, queue)
                    yield bare
                    nursery.cancel_scope.cancel()
            finally:
                bare.close()
    finally:
        bare.shut()
