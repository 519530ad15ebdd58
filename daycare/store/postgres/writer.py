"""The writer of a store on a server: each commit begins with its node's row, so that two owners never write.

The row's epoch says whose turn it is to write, and its `batch` is counted in each commit. Where a connection is lost
while a commit is on its way, nobody knows whether it has happened: the next connection takes the row for itself, which
waits for the old transaction, and sees by the number. So a write is never told to have failed and found done.
"""

import socket
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import groupby
from typing import Any, ClassVar, Final, cast

import apsw
import trio
from greenlet import GreenletExit

from daycare import __version__
from daycare.base.errors import BrokenError, DaycareError, StoreAwayError
from daycare.store.postgres import members
from daycare.store.postgres.connection import BoundStatement, PostgresConnection
from daycare.store.postgres.dialect import WRONG
from daycare.store.postgres.errors import StatementError
from daycare.store.postgres.lockstep import GuessError, Lockstep, OpeningError, SpoiledError, WriteLane
from daycare.store.postgres.next_numbers import NextNumbers
from daycare.store.postgres.schema import number_again
from daycare.store.postgres.versions import newest, refuse_future
from daycare.store.records import Commit
from daycare.store.sqlite.mark import Mark
from daycare.store.sqlite.read_cache import TableVersions
from daycare.store.sqlite.write import Write
from daycare.store.sqlite.writer import Tx, Writer, WriterCache

BEGIN: Final[tuple[str, tuple[Any, ...]]] = ("BEGIN IMMEDIATE", ())
LEASE_S: Final = 10  # after which a node that does not answer counts as gone
NODE: Final = "main"

_OVER: Final = ("STORE_FENCED", "STORE_WENT_BACK")
_RETRY_S: Final = 0.25
_CAREFUL: Final = 50  # commits without guesses after a wrong one: repeated messages cost little, however many come
_SETTLE_AT_CLOSE_S: Final = 15.0  # that the end waits for a server to say what has happened
_CLAIM: Final = (
    "INSERT INTO nodes (node, epoch, batch, until, backend, version, address, schema)"
    " VALUES ('main', 1, 0, now() + interval '{lease} s', pg_backend_pid(), '{version}', '{address}', {schema})"
    " ON CONFLICT (node) DO UPDATE SET epoch = nodes.epoch + 1, until = excluded.until, backend = excluded.backend,"
    " version = excluded.version, address = excluded.address, schema = excluded.schema, state = 'alive',"
    f" working = false RETURNING epoch, batch, {members.GONE}"
)
_OWNED: Final = (  # by one that works alone, or by nodes
    "SELECT address FROM nodes WHERE state = 'alive' AND until > now()"
    " AND (node <> 'main' OR EXISTS (SELECT 1 FROM pg_stat_activity WHERE pid = backend))"
)
_FENCE: Final = (  # an error where another has the row, so that nothing that is sent with it is committed
    "WITH own AS (UPDATE nodes SET batch = ?, until = now() + interval '10 s' WHERE node = 'main' AND epoch = ?"
    " RETURNING batch) SELECT 1 / count(*) FROM own"
)
_RENEW: Final = (
    "UPDATE nodes SET until = now() + interval '{lease} s' WHERE node = 'main' AND epoch = {epoch} RETURNING epoch"
)
_AGAIN: Final = (
    "UPDATE nodes SET epoch = epoch + 1, backend = pg_backend_pid()"
    " WHERE node = 'main' AND epoch = {epoch} RETURNING epoch, batch"
)


class TouchedTables(TableVersions):
    """Counts changes by what statements say that they change: nobody else changes anything."""

    def _watch(self, db: apsw.Connection, tables: Any) -> None:
        connection = cast(PostgresConnection, db)
        connection.watched, connection.touched = frozenset(tables), self._touch


class _NotHappenedError(StoreAwayError):
    """A connection was lost on the way to a commit, which has not happened: it can be tried again."""


class Ownership:
    """The row of this node: who writes, and how many commits there were."""

    def __init__(self, db: PostgresConnection) -> None:
        self._db = db
        self.epoch = self.batch = 0
        self.gone = 0  # commits that were acknowledged before this start, and that the server had lost

    def claim(self) -> None:
        """Take the row. Raises `StoreAwayError` STORE_IN_USE where another daycare has it, and is alive."""
        deadline = time.monotonic() + 1.5 * LEASE_S
        while owners := self._try_to_claim():
            if time.monotonic() > deadline:
                raise StoreAwayError(
                    "STORE_IN_USE",
                    f"opening {self._db.location.shown}: another daycare works on it, on {owners[0][0]}",
                    hint="stop that one, or give this one a database of its own",
                )
            time.sleep(_RETRY_S)

    def _try_to_claim(self) -> list[tuple[Any, ...]]:
        """Take the row, unless somebody has the database: those are returned."""
        db = self._db
        db.simple("BEGIN")
        try:
            db.simple(members.JOINING)
            if owners := db.simple(_OWNED):
                return owners
            db.simple(members.BURY)
            refuse_future(db, as_node=False)  # nodes may have migrated it meanwhile
            claim = _CLAIM.format(lease=LEASE_S, version=__version__, address=host_name(), schema=newest())
            [(epoch, batch, gone)] = db.simple(claim)
            db.simple("COMMIT")
        finally:
            if db.in_transaction:
                db.simple("ROLLBACK")
        self.epoch, self.batch, self.gone = int(str(epoch)), int(str(batch)), int(str(gone))
        return []

    def renew(self) -> bool:
        """Show that this node lives; return whether it is still its turn."""
        return bool(self._db.simple(_RENEW.format(lease=LEASE_S, epoch=self.epoch)))

    def fence(self) -> None:
        """Begin a transaction's part of the row: nobody takes it before the end. Raises STORE_FENCED."""
        if self._db.execute(_FENCE, (self.batch + 1, self.epoch)).fetchone() is None:
            raise fenced(self._db)
        self.batch += 1

    def leave(self) -> None:
        """Let the next have it at once."""
        with suppress(StoreAwayError, StatementError):
            self._db.simple(
                f"UPDATE nodes SET until = now(), state = 'left' WHERE node = 'main' AND epoch = {self.epoch}"
            )

    def reopen(self) -> bool:
        """Connect again, and return whether the commit with the next number has happened.

        Raises `StoreAwayError`: the server is still away, STORE_FENCED, or STORE_WENT_BACK.
        """
        self._db.reopen()
        rows = self._db.simple(_AGAIN.format(epoch=self.epoch))
        if not rows:
            self._db.close()
            raise fenced(self._db)
        self.epoch, batch = int(str(rows[0][0])), int(str(rows[0][1]))
        if (gone := self.batch - batch) > 0:
            self._db.simple(f"UPDATE nodes SET {members.losing(gone)} WHERE node = 'main'")
            self._db.close()
            raise members.went_back(self._db, gone)
        happened = batch > self.batch
        self.batch = batch
        return happened


def host_name() -> str:
    """Return the name of this machine, as it is written into a statement."""
    return "".join(char for char in socket.gethostname() if char.isalnum() or char in ".-")


def fenced(db: PostgresConnection) -> StoreAwayError:
    """Return the refusal of one whose place another has taken."""
    return StoreAwayError(
        "STORE_FENCED",
        f"using the database {db.location.shown}: another daycare has taken it over; nothing is written from here",
        hint="stop one of the two: each needs a database of its own",
    )


class _LaneTx(Tx):
    """What a write may use: it goes on with what is so as a rule, see `WriteLane`."""

    __slots__ = ("_lane",)

    def __init__(self, lane: WriteLane, tx: Tx, memory: WriterCache) -> None:
        super().__init__(cast(apsw.Connection, lane), tx.now, memory)
        self.commit = tx.commit
        self._lane = lane

    def insert(self, sql: str, bindings: tuple[Any, ...]) -> int | None:
        return self._lane.insert(sql, bindings)

    def changes_one(self, sql: str, bindings: tuple[Any, ...]) -> bool:
        return self._lane.changes_one(sql, bindings)

    def rare(self, sql: str, bindings: tuple[Any, ...]) -> tuple[Any, ...] | None:
        return self._lane.rare(sql, bindings)


class PostgresWriter(Writer):
    """Runs writes as the one on SQLite does; see there."""

    _versions: ClassVar[type[TableVersions]] = TouchedTables
    _opening: Sequence[BoundStatement] = ()  # what begins the transaction, as long as nothing of it was sent
    leaves_pages: ClassVar = False
    asks_whose: ClassVar = True

    def own(self, ownership: Ownership, mark: Mark) -> None:
        """Write as this node from now on; `mark` is told of what the server had lost before."""
        self._ownership = ownership
        if ownership.gone:
            mark.lose({"commit": ownership.gone}, self._clock.now_ms())
        self._numbers = NextNumbers()
        self._careful = 0  # commits that are still to do without guesses
        self._server = cast(PostgresConnection, self._db)

    async def beat(self) -> None:
        """Let the others see that this node lives."""
        await self.alone(self._renew)

    def _renew(self, db: apsw.Connection) -> None:
        if not self._server.is_open:
            self._ownership_again()
        if not self._ownership.renew():
            self._fenced()

    def _run_batch(self, batch: list[Write[Any]]) -> Commit | None:
        try:
            return super()._run_batch(batch)
        except StatementError as error:  # of what runs in no transaction
            raise _of_all(error) from error
        except _NotHappenedError:
            return super()._run_batch(batch)
        except StoreAwayError:
            if self._server.is_open or self._guard.refusal is not None:
                raise
            self._ownership_again()
            return super()._run_batch(batch)  # nothing of it has happened

    def _ready(self) -> None:
        """See to it that a commit can begin: over a connection, with what is remembered as it is."""
        self._guard.check()
        if not self._server.is_open:
            self._ownership_again()
        if self._undone:
            self._restore()

    def _begin(self) -> Tx:
        self._ready()
        own = self._ownership
        self._opening = self._bound(BEGIN, (_FENCE, (own.batch + 1, own.epoch)))
        return Tx(self._db, self._clock.now_ms(), self.memory)

    def _bound(self, *calls: tuple[str, tuple[Any, ...]]) -> list[BoundStatement]:
        return [self._server.bind(sql, bindings) for sql, bindings in calls]

    def _carry_out(self, tx: Tx, todo: Sequence[Write[Any]]) -> Write[Any] | None:
        """Run those of one user one after another, those of several side by side, and what names no user alone."""
        self._careful = max(0, self._careful - 1)
        try:
            return self._try(tx, todo)
        except GuessError:
            self._careful = _CAREFUL
            self._undo()
            tx.commit = self._begin().commit
            return self._try(tx, todo)

    def _try(self, tx: Tx, todo: Sequence[Write[Any]]) -> Write[Any] | None:
        opening, self._opening = self._opening, []
        self._lockstep = Lockstep(self._server, opening, self._numbers, guesses=not self._careful)
        try:
            for each in _together(todo):
                self._lockstep.run([partial(self._run_lane, tx, writes) for writes in each])
            self._end()
        except SpoiledError as refused:
            refused.owner.error = refused.error
            return cast("Write[Any]", refused.owner)
        except OpeningError as refused:
            if isinstance(refused.error, StatementError) and refused.error.state == WRONG:
                self._opening_refused()
            raise _of_all(refused.error) from refused
        return None

    def _opening_refused(self) -> None:
        self._fenced()

    def _fenced(self) -> None:
        """Raise why nothing is written from here any more."""
        self._guard.refusal = fenced(self._server)
        self._guard.check()

    def _run_lane(self, tx: Tx, writes: Sequence[Write[Any]], lane: WriteLane) -> None:
        own = _LaneTx(lane, tx, self.memory)
        for write in writes:
            lane.begin(write)
            error = write.carry_out(own)
            if error is None:
                continue
            lost = isinstance(error, StoreAwayError) and not self._server.is_open
            if lost or isinstance(error, SpoiledError | GreenletExit):
                raise error  # it is about the server or the batch
            if lane.has_changed():
                raise SpoiledError(write, error)

    def _end(self) -> None:
        """Commit, together with the last statements of the writes."""
        try:
            self._lockstep.send(self._bound(*self._said(), ("COMMIT", ())))
        except StoreAwayError as lost:
            if self._server.is_open:
                raise
            if not self._happened(lost):
                raise _NotHappenedError(lost.code, lost.message, hint=lost.hint) from lost
            self.versions.touch(*self._lockstep.tables & self._server.watched)  # the answers that say so were lost
            return
        except BrokenError as error:
            raise _of_all(error) from error
        self._ownership.batch += 1

    def _said(self) -> Sequence[tuple[str, tuple[Any, ...]]]:
        """Return what is written last, about all that was written."""
        return ()

    def _undo(self) -> None:
        self._undone = True
        with suppress(StoreAwayError, StatementError):
            self._restore()

    def _restore(self) -> None:
        if self._server.is_open:
            if self._server.in_transaction:
                self._server.execute("ROLLBACK")
            self._numbers.read(number_again(self._server))
            self.memory.load(self._db)
            self._undone = False

    def _happened(self, lost: StoreAwayError) -> bool:
        """Return whether a commit has happened whose answer was lost, as soon as the server says so."""
        ends_at: float | None = None
        while True:
            try:
                return self._ownership_again()
            except StoreAwayError as still:
                if self._guard.refusal is not None:
                    raise
                if self._closing:
                    ends_at = ends_at or time.monotonic() + _SETTLE_AT_CLOSE_S
                    if time.monotonic() > ends_at:
                        raise
                if not self.inline:
                    trio.from_thread.run_sync(self.report, still)
                time.sleep(_RETRY_S)

    def _ownership_again(self) -> bool:
        self._numbers.forget()
        try:
            happened = self._ownership.reopen()
        except BrokenError as error:  # such as a password that was changed
            raise _of_all(error) from error
        except StoreAwayError as error:
            if error.code in _OVER:
                self._guard.refusal = error
            raise
        if not happened:
            self._undone = True  # what is remembered may be of what has not happened
        return happened


def _together(todo: Iterable[Write[Any]]) -> Iterator[list[list[Write[Any]]]]:
    """Yield what may run side by side, one after another: writes by their users, or those that name nobody."""
    for named, writes in groupby(todo, lambda write: bool(write.user)):
        if named:
            lanes: dict[str, list[Write[Any]]] = {}
            for write in writes:
                lanes.setdefault(write.user, []).append(write)
            yield list(lanes.values())
        else:
            yield [list(writes)]


def _of_all(error: DaycareError) -> StoreAwayError:
    """Return what is wrong with the server as a refusal that is over once that is mended."""
    return StoreAwayError(error.code, error.message, hint=error.hint)
