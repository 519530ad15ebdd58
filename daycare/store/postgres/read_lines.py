"""Reads of the loop's thread: they go out together over a few connections, and others run until the answers are there.

Who reads while a line is busy waits for the next one that is free; whatever waits then goes out at once, in one round
trip. A read is asked again over a new connection where its own was lost, as it changes nothing.
"""

import select
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

import apsw
import outcome
import psycopg
import trio
from psycopg import pq

from daycare.base.errors import BrokenError, BusyError, DaycareError, StoreAwayError, UnavailableError
from daycare.store.postgres.connection import (
    READ_MAX_S,
    BoundStatement,
    PostgresConnection,
    StatementAnswer,
    blob_of,
)
from daycare.store.postgres.cursor import Blob, Cursor
from daycare.store.postgres.errors import away
from daycare.store.postgres.suspending import may_wait, suspended, wait_for

LINES_MAX: Final = 3  # connections: so many slow reads, and others behind them still wait for none
WAITING_MAX: Final = 1_000  # reads that wait for a line: some hundred turns begin at once
PLAIN_MAX_S: Final = 1.0  # that a read may hold the loop which nobody can wait for: see several-machines.md
_TOGETHER_MAX: Final = 64  # in a round trip: what they return is made into rows without a pause
_TRIES_MAX: Final = 3  # a statement that ends its connection each time is told of
_RETRY_S: Final = 0.25  # between two tries to reach a server that is away ...
_RETRY_LATER_S: Final = 1.0  # ... and once nobody waits for it any more
_LOOK_S: Final = 0.05  # while a statement is sent, whether the server wants to be heard first


class ReadConnection(PostgresConnection):
    """A connection, for which others run while it waits, where one may."""

    def _await(self, deadline: float, events: int) -> None:
        if not may_wait():
            super()._await(deadline, events)
        elif not wait_for(_ready(self._connected().socket, deadline, events)):
            raise self._lost(f"no answer within {self.max_s:g} s")

    def answers(self, calls: Sequence[BoundStatement]) -> Iterator[StatementAnswer | DaycareError]:
        """Run statements in one round trip, each by itself; yield the answers as they come."""
        conn = self._connected()
        try:
            if len(calls) == 1:
                conn.send_query_prepared(calls[0].prepared.name, calls[0].values, calls[0].prepared.binary, 1)
                self.trips += 1
                yield self._answered(calls[0], self._result(self.max_s))
                return
            conn.enter_pipeline_mode()
            for call in calls:
                conn.send_query_prepared(call.prepared.name, call.values, call.prepared.binary, 1)
                conn.pipeline_sync()
            self.trips += 1
            for call in calls:
                yield self._answered(call, self._until_sync()[0])
            conn.exit_pipeline_mode()
        except psycopg.OperationalError as error:
            raise self._lost(str(error)) from error

    def _answered(self, call: BoundStatement, result: pq.abc.PGresult) -> StatementAnswer | DaycareError:
        try:
            return self._answer(call, result)
        except StoreAwayError:
            raise
        except DaycareError as refused:
            return refused

    def drop(self) -> None:
        """Give up the connection, in whatever state it is."""
        self._drop()


class _Read:
    """A statement that somebody waits for."""

    __slots__ = ("bindings", "sql", "task", "tries")

    def __init__(self, sql: str, bindings: Any, task: trio.lowlevel.Task) -> None:
        self.sql = sql
        self.bindings = bindings
        self.task: trio.lowlevel.Task | None = task
        self.tries = 0

    def forget(self, _: object) -> trio.lowlevel.Abort:
        """Nobody waits for it any more; the answer, if one comes, is for nobody."""
        self.task = None
        return trio.lowlevel.Abort.SUCCEEDED

    def end_with(self, answer: StatementAnswer | DaycareError) -> None:
        """Let go on who waits for it, with this answer."""
        self.end(outcome.Error(answer) if isinstance(answer, DaycareError) else outcome.Value(Cursor(answer.rows)))

    def end(self, result: outcome.Outcome[Cursor]) -> None:
        """Let go on who waits for it."""
        if self.task is not None:
            trio.lowlevel.reschedule(self.task, result)
            self.task = None


class LoopReader:
    """The connection of the loop's thread, as it is used: see `PostgresConnection`.

    Where what reads may wait, it does so for the lines. `plain` is the connection for the rest, which holds the loop
    up; with `inline` that is for all, and a read only lets others run before.
    """

    filename = ""
    open_vfs = ""

    def __init__(self, plain: PostgresConnection, *, inline: bool) -> None:
        self.plain = plain
        self._inline = inline
        self._queue: deque[_Read] = deque()
        self._lines: list[ReadConnection] = []
        self._free = 0  # of these wait for a read
        self._called = False  # one of them is on its way to the queue
        self._asked = trio.Event()
        self._answering = 0
        self._nursery: trio.Nursery | None = None
        self._closed = False
        self._away: StoreAwayError | None = None
        self._away_at = 0.0

    # -- as a connection is used ---------------------------------------------------------------------------------------

    def execute(self, sql: str, bindings: Any = ()) -> Cursor:
        """Run a statement that reads."""
        if may_wait():
            return wait_for(self._checked(sql, bindings) if self._inline else self._ask(sql, bindings))
        return self.plain.execute(sql, bindings)

    def blob_open(self, schema: str, table: str, column: str, number: int, writable: bool) -> Blob:
        """Return the bytes of one value, to be read a part at a time."""
        return blob_of(self.execute(self.plain.value_of(table, column), (number,)))

    def txn_state(self, schema: str) -> int:
        """Return that no query is open: its rows were all read."""
        return apsw.SQLITE_TXN_NONE

    def fts5_tokenizer(self, name: str, args: list[str]) -> apsw.FTS5Tokenizer:
        """Return what makes words of a text."""
        return self.plain.fts5_tokenizer(name, args)

    @property
    def trips(self) -> int:
        """Return how many round trips reads have taken."""
        return self.plain.trips + sum(line.trips for line in self._lines)

    def close(self) -> None:
        """Close what is open, after `run` has ended."""
        self.plain.close()
        for line in self._lines:
            line.close()

    # -- who waits -----------------------------------------------------------------------------------------------------

    @property
    def is_asked(self) -> bool:
        """Whether an answer of the server is waited for."""
        return self._answering > 0

    async def _checked(self, sql: str, bindings: Any) -> Cursor:
        await trio.lowlevel.checkpoint()
        return self.plain.execute(sql, bindings)

    async def _ask(self, sql: str, bindings: Any) -> Cursor:
        if self._closed:
            raise self._over()
        if len(self._queue) >= WAITING_MAX:
            raise BusyError("STORE_BUSY", "the store has too many reads waiting", retry_after_s=1.0)
        if self._away is not None and trio.current_time() - self._away_at > READ_MAX_S:
            raise _copy(self._away)
        read = _Read(sql, bindings, trio.lowlevel.current_task())
        self._queue.append(read)
        self._call_one()
        with trio.move_on_after(READ_MAX_S):
            return cast(Cursor, await trio.lowlevel.wait_task_rescheduled(read.forget))
        raise _copy(self._away or away(self.plain.location, f"no answer within {READ_MAX_S:g} s"))

    # -- the lines -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Answer reads until cancelled."""
        try:
            async with trio.open_nursery() as self._nursery:
                self._call_one()  # for who was here before
                await trio.sleep_forever()
        finally:
            self._closed = True
            while self._queue:
                self._queue.popleft().end(outcome.Error(self._over()))

    def _over(self) -> UnavailableError:
        return UnavailableError("STORE_CLOSED", f"reading from {self.plain.location.shown}: the store was closed")

    def _call_one(self) -> None:
        """See to it that a line takes what waits. Where all are busy, the first that is not any more does."""
        if not self._queue or self._called or self._nursery is None:
            return
        if self._free:
            self._called = True
            self._asked.set()
        elif len(self._lines) < LINES_MAX:
            self._called = True
            self._lines.append(line := ReadConnection(self.plain.location, self.plain.dialect, READ_MAX_S, opens=False))
            self._nursery.start_soon(self._serve, line)

    async def _serve(self, line: ReadConnection) -> None:
        while True:
            while not self._queue and (line.is_open or self._away is None):
                await self._wait_for_reads()
            if not line.is_open and not await self._open(line):
                continue
            reads = [self._queue.popleft() for _ in range(min(len(self._queue), _TOGETHER_MAX))]
            self._called = False
            self._call_one()
            self._answering += 1
            try:
                await suspended(self._answer(line, [read for read in reads if read.task is not None]))
            except BaseException:
                line.drop()  # it is in the midst of an answer
                raise
            finally:
                self._answering -= 1

    async def _wait_for_reads(self) -> None:
        if self._asked.is_set():
            self._asked = trio.Event()
        self._free += 1
        try:
            await self._asked.wait()
        finally:
            self._free -= 1

    async def _open(self, line: ReadConnection) -> bool:
        try:
            await trio.to_thread.run_sync(line.reopen)
        except (StoreAwayError, BrokenError) as error:
            if self._away is None:
                self._away_at = trio.current_time()
            self._away = _copy(error)
            await trio.sleep(_RETRY_S if self._queue else _RETRY_LATER_S)
            return False
        self._away = None
        return True

    async def _answer(self, line: ReadConnection, reads: list[_Read]) -> None:
        """Ask for what these want; what a lost connection leaves open waits again."""
        calls: list[tuple[_Read, BoundStatement]] = []
        try:
            for read in reads:
                try:
                    calls.append((read, line.bind(read.sql, read.bindings)))
                except StoreAwayError:
                    raise
                except DaycareError as error:
                    read.end(outcome.Error(error))
            answers = line.answers([call for _, call in calls]) if calls else ()
            for (read, _), answer in zip(calls, answers, strict=True):
                read.end_with(answer)
            self._away = None
        except StoreAwayError as lost:
            for read in reversed(reads):
                read.tries += 1
                if read.tries >= _TRIES_MAX:
                    read.end(outcome.Error(_copy(lost)))
                elif read.task is not None:
                    self._queue.appendleft(read)


async def _ready(socket: int, deadline: float, events: int) -> bool:
    """Wait until a connection can go on; return whether it can."""
    left = deadline - time.monotonic()
    if left <= 0:
        return False
    if events != select.POLLIN:
        with trio.move_on_after(min(left, _LOOK_S)):
            await trio.lowlevel.wait_writable(socket)
        return True
    with trio.move_on_after(left):
        await trio.lowlevel.wait_readable(socket)
        return True
    return False


def _copy(error: DaycareError) -> StoreAwayError:
    """Return what is wrong with the server as a refusal that is over once that is mended, for one more who waits."""
    return StoreAwayError(error.code, error.message, hint=error.hint, retry_after_s=1.0)
