"""The one place where rows become durable: group commit.

Whatever queued while the last commit ran is the next one; there is no linger, but for what `may_wait`. A write that was
queued is carried out even if its caller is cancelled meanwhile: the caller then does not know, and repeats under the
same key.

A batch runs wholly in the writer thread: with only COMMIT there, the pages travel between two cores' caches, which
costs a quarter of the throughput.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Final, NoReturn, TypeVar

import apsw
import msgspec
import trio

from daycare.base.bounded import Bounded
from daycare.base.clock import Clock
from daycare.base.errors import BusyError, DaycareError, StoreAwayError, UnavailableError
from daycare.base.limits import COMMIT_MAX_BYTES, LIVING_CACHE_MAX_PATHS
from daycare.observe.metrics import SHORT_S, Histogram
from daycare.store.records import Commit
from daycare.store.sqlite.database import described, is_of_an_index
from daycare.store.sqlite.facts import F, Followers
from daycare.store.sqlite.guard import Guard
from daycare.store.sqlite.mark import newest_in
from daycare.store.sqlite.read_cache import TableVersions
from daycare.store.sqlite.write import Write

COMMIT_MAX_OPERATIONS: Final = 1_024  # one group commit; larger batches gain nothing measurable
COMMIT_LATER_S: Final = 0.1  # that a write which may wait does so: where much happens, others commit long before
WRITE_QUEUE_MAX: Final = 16_384  # writes waiting for the writer thread: 16 batches, about a second of work

T = TypeVar("T")

_BEAT_STEPS = 1_000_000  # of SQLite's machine, a tenth of a second: long work on the whole file is seen to get on

_LACKS: Final = "SELECT 1 WHERE ?1 = '' /* nodes: OR NOT mine(?1) */"
# What one write can do wrong by itself; every other SQLite error is the disk's and concerns the whole batch.
_OF_ONE_WRITE = (
    apsw.ConstraintError,
    apsw.SQLError,
    apsw.MismatchError,
    apsw.TooBigError,
    apsw.RangeError,
    apsw.BindingsError,
)


class WriterCache:
    """What the writer remembers between commits to save lookups: exact as of the last one, reloaded after an undo.

    `waiting` counts the unread messages of each agent that has some, `unread` those of all. `living` maps paths to the
    agents seen lately, `sessions` agents to their current session. `letters` counts the dead letters of each share,
    `letters_all` those of all. What capabilities remember is their followers'.
    """

    def __init__(self, db: apsw.Connection, followers: Followers) -> None:
        self.followers = followers
        self.waiting: dict[str, int] = {}
        self.unread = 0
        self.living: Bounded[str, str] = Bounded(LIVING_CACHE_MAX_PATHS)
        self.sessions: Bounded[str, int] = Bounded(LIVING_CACHE_MAX_PATHS)
        self.letters: dict[str, int] = {}
        self.letters_all = 0
        self.several = False  # nodes write here
        self.to_bucket = False  # bytes of new files belong in a bucket
        self.load(db)

    def load(self, db: apsw.Connection) -> None:
        """Read the counts again and forget the paths."""
        self.distrust(None)
        for load in self.loads:
            load(db)

    @property
    def loads(self) -> Sequence[Callable[[apsw.Connection], None]]:
        """What `load` reads, in parts of which none needs another."""
        return (self._count_waiting, *self.followers.loads, self.count_letters)

    def _count_waiting(self, db: apsw.Connection) -> None:
        rows = db.execute("SELECT agent_id, count(*) FROM inbox WHERE state = 0 GROUP BY agent_id")
        self.waiting = {str(agent_id): int(str(count)) for agent_id, count in rows}
        self.unread = sum(self.waiting.values())

    def distrust(self, heard: Commit | None) -> None:
        """Forget what `loads` do not read again and may be otherwise: all, or what others changed as was `heard`."""
        if heard is None or heard.people:
            self.living.clear()
            self.sessions.clear()
        elif heard.agents:
            for path in [path for path, agent_id in self.living.items() if agent_id in heard.agents]:
                del self.living[path]
            for agent_id in heard.agents:
                self.sessions.pop(agent_id, None)
        self.followers.distrust(heard)

    def count_letters(self, db: apsw.Connection) -> None:
        """Count the dead letters of each share again."""
        rows = db.execute("SELECT share, count(*) FROM dead_letters GROUP BY share")
        self.letters = {str(share): int(str(count)) for share, count in rows}
        self.letters_all = sum(self.letters.values())

    def count_unread(self, agent_id: str, change: int) -> None:
        """Count messages of an agent that wait from now on, or wait no longer."""
        self.unread += change
        left = self.waiting.get(agent_id, 0) + change
        if left > 0:
            self.waiting[agent_id] = left
        else:
            self.waiting.pop(agent_id, None)

    def forget(self, agent_id: str, path: str) -> None:
        """Forget an agent whose state or session changes."""
        self.living.pop(path, None)
        self.sessions.pop(agent_id, None)


class Tx:
    """What a write may use: the connection inside an open transaction, the time, and the notes for the listener."""

    __slots__ = ("_heeds", "commit", "db", "memory", "now", "run")

    def __init__(
        self, db: apsw.Connection, now: int, memory: WriterCache, run: Callable[..., object] | None = None
    ) -> None:
        self.db = db
        self.run = run or db.execute  # runs one statement for its effect
        self._heeds = memory.followers.heeds
        self.now = now
        self.memory = memory
        self.commit = Commit(posted=[], completed=[], connectors=set(), timers=False, dead=[], unheard=0, agents=set())

    def one(self, sql: str, bindings: tuple[Any, ...] = ()) -> tuple[Any, ...] | None:
        """Run one statement and return its first row."""
        row: tuple[Any, ...] | None = self.db.execute(sql, bindings).fetchone()
        return row

    # What these come to as a rule is what a write on a server goes on with, before the answer is there. Where it is not
    # so, the transaction is undone and done again: as slow as it is rare.

    def insert(self, sql: str, bindings: tuple[Any, ...]) -> int | None:
        """Add one row, as a rule; return its number, None where its key is there and `ON CONFLICT` does nothing."""
        self.run(sql, bindings)
        return self.db.last_insert_rowid() if self.db.changes() else None

    def changes_one(self, sql: str, bindings: tuple[Any, ...]) -> bool:
        """Change one row, as a rule; return whether that is so, and not none."""
        self.run(sql, bindings)
        return self.db.changes() > 0

    def rare(self, sql: str, bindings: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """Return the first row of a query that finds none, as a rule."""
        return self.one(sql, bindings)

    def holds(self, role: str) -> bool:
        """Whether this is the node that runs a part which only one of several may run; see `Share`."""
        return not self.memory.several or self.rare(_LACKS, (f"role:{role}",)) is None

    def tell(self, fact: msgspec.Struct) -> None:
        """Tell the followers what has become true in this transaction."""
        for heed in self._heeds.get(type(fact), ()):
            heed(self, fact)

    def of(self, kind: type[F]) -> F:
        """Return a follower."""
        return self.memory.followers.of(kind)


def user_of(*paths: str) -> str:
    """Return the user of agents at some paths, as `Writer.write` is told; "" for those of several."""
    if len(paths) == 1:
        return paths[0].split("/", 2)[1]
    users = {path.split("/", 2)[1] for path in paths}
    return users.pop() if len(users) == 1 else ""


class Writer:
    """Runs writes in the order they were asked for, many to a commit.

    `listener` is called in the loop's thread after each commit and before any caller of it continues, so that nothing
    is durable and unannounced when a caller was cancelled. `trouble` is called with an error when a commit fails, and
    with None when one succeeds again. Changes of the `watched` tables are counted in `versions`.
    """

    _versions: ClassVar[type[TableVersions]] = TableVersions
    leaves_pages: ClassVar = True  # of a file of ours, in which what was deleted may still be read
    asks_whose: ClassVar = False  # it makes use of the `user` of writes

    def __init__(
        self,
        db: apsw.Connection,
        location: str,
        clock: Clock,
        guard: Guard,
        *,
        inline: bool,
        followers: Followers,
        watched: Sequence[str] = (),
    ) -> None:
        self._db = db
        self._location = location
        self._guard = guard
        self._clock = clock
        self.inline = inline
        self._queue: deque[Write[Any]] = deque()
        self._queued_bytes = 0
        self._queued_alone = 0  # how many of them
        self._wake = trio.Event()
        self._is_urgent = False  # of what is queued something is
        self._closing = False
        self._ended = False
        self._undone = False  # the last transaction was given up and `memory` may be wrong
        self._committing = False
        self._beats = 0
        self.commits = Histogram("daycare_store_commit_seconds", "Commits of the store", SHORT_S)
        db.set_progress_handler(self._beat, _BEAT_STEPS)
        self.memory = WriterCache(db, followers)
        self._limiter = trio.CapacityLimiter(1)
        self.listener: Callable[[Commit], None] = lambda commit: None
        self.trouble: Callable[[DaycareError | None], None] = lambda error: None
        self._troubled = False
        self.versions = self._versions(db, watched, at_once=inline)

    async def write(self, fn: Callable[[Tx], T], size: int = 0, user: str = "", *, may_wait: bool = False) -> T:
        """Run `fn` in the next commit and return its value after it is durable.

        An error that `fn` raises undoes only its own changes. `size` in bytes bounds a commit. `user` says that it
        decides by rows of this user only: on a server, statements of those of others may come between its own. One that
        `may_wait` makes no commit by itself for `COMMIT_LATER_S`: it goes with the next one that is made. Raises
        `BusyError` when too many writes wait, `UnavailableError` when the disk refuses.
        """
        if self.inline:
            # In this order writes take effect as they were asked for; other tasks run before the caller goes on.
            await trio.lowlevel.checkpoint_if_cancelled()
            done = self._write_inline(fn, user)
            await trio.lowlevel.cancel_shielded_checkpoint()
            return done
        write = Write(fn, size, trio.lowlevel.current_task(), user)
        if self._ended or len(self._queue) >= WRITE_QUEUE_MAX:
            self._refuse()
        self._queue.append(write)
        self._queued_bytes += size
        if not may_wait:
            self._is_urgent = True
            self._wake.set()
        elif len(self._queue) == 1:
            self._wake.set()
        value: T = await trio.lowlevel.wait_task_rescheduled(write.forget)
        return value

    async def alone(self, fn: Callable[[apsw.Connection], T]) -> T:
        """Run `fn` between two commits, in no transaction, and return its value: for what is about the whole file.

        It may raise SQLite's errors only.
        """
        if self.inline:
            await trio.lowlevel.checkpoint_if_cancelled()
            try:
                done = fn(self._db)
            except apsw.Error as error:
                raise self._guard.heed(error) from error
            await trio.lowlevel.cancel_shielded_checkpoint()
            return done
        write = Write(fn, 0, trio.lowlevel.current_task(), alone=True)
        if self._ended or len(self._queue) >= WRITE_QUEUE_MAX:
            self._refuse()
        self._queue.append(write)
        self._queued_alone += 1
        self._is_urgent = True
        self._wake.set()
        value: T = await trio.lowlevel.wait_task_rescheduled(write.forget)
        return value

    def _refuse(self) -> NoReturn:
        if self._ended:
            raise UnavailableError("STORE_CLOSED", f"writing to {self._location}: the store was closed")
        raise BusyError("STORE_BUSY", "the store has too many writes waiting", retry_after_s=1.0)

    def pulse(self) -> int | None:
        """Return a number that grows while writes get on, None while there are none."""
        return self._beats if self._committing or self._queue else None

    def _beat(self) -> bool:
        self._beats += 1
        return False  # go on

    def close(self) -> None:
        """Let `run` return once the queue is empty."""
        self._closing = True
        self._wake.set()

    async def run(self) -> None:
        """Commit until closed; shielded, so that what was queued is durable before the store goes away."""
        with trio.CancelScope(shield=True):
            while True:
                self._wake = trio.Event()  # before looking at the queue: a write between the two is seen either way
                if not self._queue:
                    if self._closing:
                        self._ended = True
                        return
                    await self._wake.wait()
                if not self._is_urgent and not self._closing:
                    self._wake = trio.Event()
                    with trio.move_on_after(COMMIT_LATER_S):
                        await self._wake.wait()
                # Two turns of the loop let the senders that the last commit released join this one.
                await trio.lowlevel.cancel_shielded_checkpoint()
                await trio.lowlevel.cancel_shielded_checkpoint()
                batch = self._take()
                self._is_urgent = bool(self._queue)
                if batch:
                    self._committing = True
                    await self._commit(batch)
                    self._committing = False
                    self._beats += 1

    def _take(self) -> list[Write[Any]]:
        queue = self._queue
        if not self._queued_alone and self._queued_bytes < COMMIT_MAX_BYTES and len(queue) <= COMMIT_MAX_OPERATIONS:
            batch = list(queue)
            queue.clear()
            self._queued_bytes = 0
            return batch
        batch, size = [], 0
        while queue and len(batch) < COMMIT_MAX_OPERATIONS and size < COMMIT_MAX_BYTES:
            if batch and queue[0].alone:
                break
            write = queue.popleft()
            batch.append(write)
            size += write.size
            if write.alone:
                self._queued_alone -= 1
                break
        self._queued_bytes -= size
        return batch

    async def _commit(self, batch: list[Write[Any]]) -> None:
        committed: Commit | None = None
        failure: DaycareError | None = None
        began = time.perf_counter()
        try:
            committed = await trio.to_thread.run_sync(self._run_batch, batch, limiter=self._limiter)
        except apsw.Error as error:
            failure = self._guard.heed(error)
        except StoreAwayError as refusal:
            failure = refusal
        self.commits.observe(time.perf_counter() - began)
        self.versions.count()  # before anybody goes on: they look for what they have written
        if failure is not None or committed is not None:
            self.report(failure)
        if committed is not None:
            self._announce(committed)
        reschedule = trio.lowlevel.reschedule
        for write in batch:
            if write.task is not None:
                if failure is not None:
                    write.error = _copy(failure)
                reschedule(write.task, write)  # type: ignore[arg-type]

    def _announce(self, commit: Commit) -> None:
        self.listener(commit)

    def _run_batch(self, batch: list[Write[Any]]) -> Commit | None:
        """Run in the writer thread: all writes but those that raise, in one transaction."""
        if batch[0].alone:
            if self._undone:
                self._restore()
            batch[0].value = batch[0].fn(self._db)
            return None
        todo = list(batch)
        try:
            while True:
                tx = self._begin()
                spoiled = self._carry_out(tx, todo)
                if spoiled is None:
                    return tx.commit
                self._undo()
                todo.remove(spoiled)
        except (apsw.Error, StoreAwayError):
            self._undo()
            raise

    def _write_inline(self, fn: Callable[[Tx], T], user: str = "") -> T:
        write = Write(fn, 0, None, user)
        try:
            tx = self._begin()
            kept = self._carry_out(tx, [write]) is None
            if not kept:
                self._undo()
        except (apsw.Error, StoreAwayError) as error:
            self._undo()
            failure = self._guard.heed(error) if isinstance(error, apsw.Error) else error
            self.report(failure)
            raise failure from error
        self.report(None)
        if kept:
            self._announce(tx.commit)
        return write.unwrap()

    def _begin(self) -> Tx:
        self._guard.check()
        if self._undone:
            self._restore()
        self._db.execute("BEGIN IMMEDIATE")
        cursor = self._db.cursor()  # one for all statements: to make each its own takes a sixth of what they take
        return Tx(self._db, self._clock.now_ms(), self.memory, cursor.execute)

    def _carry_out(self, tx: Tx, todo: Sequence[Write[Any]]) -> Write[Any] | None:
        """Run writes and commit; return the one that failed halfway, if any: it has to be done again without it."""
        total_changes = self._db.total_changes
        for write in todo:
            before = total_changes()
            error = write.carry_out(tx)
            if error is not None and self._spoils(write, error, before):
                return write
        self._end()
        return None

    def _end(self) -> None:
        self._guard.look(log=False)  # whoever is answered relies on the file that is at the path
        self._guard.check()
        newest = newest_in(self._db)
        self._db.execute("COMMIT")
        self._guard.committed(newest)

    def _spoils(self, write: Write[Any], error: BaseException, before: int) -> bool:
        """Whether a write failed halfway, so that the transaction has to be undone and run without it.

        Most refusals come before the first change and cost nothing; a savepoint for each write would cost two
        statements, as much as the write itself.
        """
        if isinstance(error, apsw.Error):
            if not isinstance(error, _OF_ONE_WRITE) and not is_of_an_index(error):
                raise error
            write.error = described(self._location, error)
        return self._db.total_changes() != before

    def _undo(self) -> None:
        self._undone = True
        with suppress(apsw.Error):  # a disk in trouble: the next write tries again
            self._restore()

    def _restore(self) -> None:
        if self._db.in_transaction:  # SQLite rolls back by itself on some errors
            self._db.execute("ROLLBACK")
        self.memory.load(self._db)
        self._undone = False

    def report(self, failure: DaycareError | None) -> None:
        """Tell `trouble` that nothing is written because of `failure`, or for None that it is again."""
        if failure is not None or self._troubled:
            self._troubled = failure is not None
            self.trouble(failure)


def _copy(error: DaycareError) -> DaycareError:
    return type(error)(error.code, error.message, hint=error.hint, retry_after_s=1.0)
