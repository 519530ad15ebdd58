"""Reads of the loop's thread: they go out over a few connections, and others run until the answers are there.

Who finds a line free asks over it by itself. What waits for one goes out together as soon as one is free, in one round
trip. A read is asked again over a new connection where its own was lost, as it changes nothing.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Final

import apsw
import outcome
import trio

from daycare.base.errors import BrokenError, BusyError, DaycareError, StoreAwayError, UnavailableError
from daycare.store.postgres.connection import READ_MAX_S, BoundStatement, PostgresConnection, StatementAnswer
from daycare.store.postgres.cursor import Blob, Cursor
from daycare.store.postgres.errors import away
from daycare.store.postgres.read_connection import ReadConnection, of_one
from daycare.store.postgres.suspending import may_wait, suspended, wait_for

LINES_MAX: Final = 3  # connections: so many slow reads but one, and others wait for none of them
WAITING_MAX: Final = 1_000  # reads that wait for a line: some hundred turns begin at once
PLAIN_MAX_S: Final = 1.0  # that a read may hold the loop which nobody can wait for: see several-machines.md
_TOGETHER_MAX: Final = 64  # in a round trip: what they return is made into rows without a pause
_TRIES_MAX: Final = LINES_MAX + 2  # one outage breaks all; a statement that ends its connection each time is told of
_RETRY_S: Final = 0.25  # between two tries to reach a server that is away ...
_RETRY_LATER_S: Final = 1.0  # ... and once nobody waits for it any more
_LOOK_S: Final = 0.25  # between two looks whether somebody has waited too long


class _Read:
    """A statement that somebody waits for."""

    __slots__ = ("bindings", "since", "sql", "task", "tries")

    def __init__(self, sql: str, bindings: Any) -> None:
        self.sql = sql
        self.bindings = bindings
        self.since = trio.current_time()
        self.task: trio.lowlevel.Task | None = trio.lowlevel.current_task()
        self.tries = 0

    def forget(self, _: object) -> trio.lowlevel.Abort:
        """Nobody waits for it any more; the answer, if one comes, is for nobody."""
        self.task = None
        return trio.lowlevel.Abort.SUCCEEDED

    def end_with(self, answer: outcome.Outcome[StatementAnswer]) -> None:
        """Let go on who waits for it, with this answer."""
        if self.task is not None:
            trio.lowlevel.reschedule(self.task, answer)
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
        self._out: set[_Read] = set()  # those that went out together
        self._lines: list[ReadConnection] = []
        self._idle: list[ReadConnection] = []  # of these
        self._nursery: trio.Nursery | None = None
        self._closed = False
        self._work = trio.Event()  # somebody waits for something
        self._away: StoreAwayError | None = None
        self._away_at = 0.0

    # -- as a connection is used ---------------------------------------------------------------------------------------

    def execute(self, sql: str, bindings: Any = ()) -> Cursor:
        """Run a statement that reads."""
        if may_wait():
            return wait_for(self._in_place(sql, bindings) if self._inline else self._ask(sql, bindings))
        return self.plain.execute(sql, bindings)

    def blob_open(self, schema: str, table: str, column: str, number: int, writable: bool) -> Blob:
        """Return the bytes of one value, to be read a part at a time."""
        return Blob(self.execute(self.plain.dialect.value_of(table, column), (number,)).get or b"")

    def txn_state(self, schema: str) -> int:
        """Return that no query is open: its rows were all read."""
        return apsw.SQLITE_TXN_NONE

    def fts5_tokenizer(self, name: str, args: list[str]) -> apsw.FTS5Tokenizer:
        """Return what makes words of a text."""
        return self.plain.fts5_tokenizer(name, args)

    def set_progress_handler(self, handler: Callable[[], bool] | None, steps: int = 0) -> None:
        """Have `handler` called while a statement of plain code is waited for; it is given up once that is true."""
        self.plain.set_progress_handler(handler, steps)

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
        return not self._closed and any(line.since is not None for line in self._lines)

    async def _in_place(self, sql: str, bindings: Any) -> Cursor:
        await trio.lowlevel.checkpoint()
        return self.plain.execute(sql, bindings)

    async def _ask(self, sql: str, bindings: Any) -> Cursor:
        if self._closed:
            raise self._over()
        if len(self._queue) >= WAITING_MAX:
            raise BusyError("STORE_BUSY", "the store has too many reads waiting", retry_after_s=1.0)
        if self._away is not None and trio.current_time() - self._away_at > READ_MAX_S:
            raise _copy(self._away)
        read = _Read(sql, bindings)
        self._work.set()
        if self._idle and self._idle[-1].knows(sql) and self._nursery is not None:
            try:
                return await self._ask_alone(self._idle.pop(), sql, bindings)
            except StoreAwayError:
                if self._closed:  # which has ended the wait
                    raise self._over() from None
                if trio.current_time() - read.since > READ_MAX_S:
                    raise
                read.tries = 1
        self._queue.append(read)
        self._see_to_it()
        answer: StatementAnswer = await trio.lowlevel.wait_task_rescheduled(read.forget)
        return Cursor(answer.rows)

    async def _ask_alone(self, line: ReadConnection, sql: str, bindings: Any) -> Cursor:
        try:
            call = line.bind(sql, bindings)
            line.since = trio.current_time()
            answer = await line.ask(call)
        except trio.Cancelled:
            if self._nursery is None or self._closed:
                line.drop()
            else:
                self._nursery.start_soon(self._finish, line)
            raise
        except StoreAwayError as lost:
            self._noted_away(lost)
            self._give_back(line)
            raise
        except BaseException:
            line.drop()  # it may be in the midst of an answer
            self._give_back(line)
            raise
        self._give_back(line)
        self._away = None
        return Cursor(answer.unwrap().rows)

    # -- the lines -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Answer reads until cancelled."""
        try:
            async with trio.open_nursery() as self._nursery:
                try:
                    self._see_to_it()  # who was here before
                    while True:
                        await self._work.wait()
                        await trio.sleep(_LOOK_S)
                        self._tell_the_late()
                finally:
                    self._closed = True
        finally:
            for line in self._lines:
                line.hang_up()
            for read in (*self._queue, *self._out):
                read.end_with(outcome.Error(self._over()))

    def _tell_the_late(self) -> None:
        """Let nobody wait for longer than a read may take."""
        latest = trio.current_time() - READ_MAX_S
        for line in self._lines:
            if line.since is not None and line.since < latest:
                line.hang_up()
        for read in (*self._queue, *self._out):
            if read.since < latest:
                why = self._away or away(self.plain.location, f"no answer within {READ_MAX_S:g} s")
                read.end_with(outcome.Error(_copy(why)))
        self._queue = deque(read for read in self._queue if read.task is not None)
        if not self._queue and not self.is_asked:
            self._work = trio.Event()

    def _over(self) -> UnavailableError:
        return UnavailableError("STORE_CLOSED", f"reading from {self.plain.location.shown}: the store was closed")

    def _see_to_it(self) -> None:
        """Let a line take what waits. Where all are busy, the first that is not any more does."""
        if not self._queue or self._nursery is None:
            return
        if self._idle:
            self._nursery.start_soon(self._serve, self._idle.pop())
        elif len(self._lines) < LINES_MAX:
            self._lines.append(ReadConnection(self.plain.location, self.plain.dialect, READ_MAX_S, opens=False))
            self._nursery.start_soon(self._serve, self._lines[-1])

    def _give_back(self, line: ReadConnection) -> None:
        line.since = None
        if self._has_work_for(line) and self._nursery is not None and not self._closed:
            self._nursery.start_soon(self._serve, line)
        else:
            self._idle.append(line)

    def _has_work_for(self, line: ReadConnection) -> bool:
        """Whether somebody waits, or the line is to find out when a server that is away is back."""
        return bool(self._queue) or (self._away is not None and not line.is_open)

    async def _finish(self, line: ReadConnection) -> None:
        """Make a line ready for others whose answer nobody waits for any more."""
        try:
            await suspended(line.finish())
        except StoreAwayError as lost:
            self._noted_away(lost)
        except BaseException:
            line.drop()
            raise
        self._give_back(line)

    async def _serve(self, line: ReadConnection) -> None:
        """Answer what waits, over a line that is nobody else's; begin with opening it where that is to be done."""
        while self._has_work_for(line):
            if not line.is_open and not await self._open(line):
                continue
            reads = [self._queue.popleft() for _ in range(min(len(self._queue), _TOGETHER_MAX))]
            self._out.update(reads)
            line.since = trio.current_time()
            try:
                await suspended(self._answer(line, [read for read in reads if read.task is not None]))
            except BaseException:
                line.drop()  # it is in the midst of an answer
                raise
            line.since = None
            self._out.difference_update(reads)
        self._idle.append(line)

    async def _open(self, line: ReadConnection) -> bool:
        try:
            await trio.to_thread.run_sync(line.reopen)
        except (StoreAwayError, BrokenError) as error:
            self._noted_away(error)
            await trio.sleep(_RETRY_S if self._queue else _RETRY_LATER_S)
            return False
        self._away = None
        return True

    async def _answer(self, line: ReadConnection, reads: list[_Read]) -> None:
        """Ask for what these want; what a lost connection leaves open waits again."""
        calls: list[tuple[_Read, BoundStatement]] = []
        try:
            for read in reads:
                call = of_one(outcome.capture(line.bind, read.sql, read.bindings))
                if isinstance(call, outcome.Error):
                    read.end_with(call)
                else:
                    calls.append((read, call.unwrap()))
            answers = line.answers([call for _, call in calls]) if calls else ()
            for (read, _), answer in zip(calls, answers, strict=True):
                read.end_with(answer)
            self._away = None
        except StoreAwayError as lost:
            self._noted_away(lost)
            for read in reversed(reads):
                read.tries += 1
                if read.tries >= _TRIES_MAX:
                    read.end_with(outcome.Error(_copy(lost)))
                elif read.task is not None:
                    self._queue.appendleft(read)

    def _noted_away(self, error: DaycareError) -> None:
        if self._away is None:
            self._away_at = trio.current_time()
        self._away = _copy(error)


def _copy(error: DaycareError) -> StoreAwayError:
    """Return what is wrong with the server as a refusal that is over once that is mended, for one more who waits."""
    return StoreAwayError(error.code, error.message, hint=error.hint, retry_after_s=1.0)
