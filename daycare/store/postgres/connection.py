"""A connection to the server that is used as those to a file are: statements of the store, rows as tuples.

It speaks libpq's protocol itself: each statement is prepared once, values and rows are binary, and every wait ends. A
connection belongs to one thread at a time.
"""

import select
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Final, NamedTuple

import apsw
import psycopg
from psycopg import pq

from daycare.base.errors import DaycareError, StoreAwayError
from daycare.store.postgres import words
from daycare.store.postgres.cursor import Blob, Cursor, Row
from daycare.store.postgres.dialect import Dialect, Statement
from daycare.store.postgres.errors import StatementError, away, refusal
from daycare.store.postgres.location import ServerLocation
from daycare.store.postgres.wire import DECODERS, ENCODERS, TEXT, Decode, Encode, type_of

READ_MAX_S: Final = 5.0  # that somebody waits for a statement that reads, before its server counts as away
WRITE_MAX_S: Final = 30.0
CONNECT_MAX_S: Final = 5
_PREPARED_MAX: Final = 1_000  # of one connection; some statements are made as they are needed
_RETIRED_MAX: Final = 100
_TOGETHER_MAX: Final = 500  # statements of one kind in a round trip
_WAIT_MS: Final = 500  # between two looks whether the wait is to end
_NEAR: Final = 200  # characters of a statement about the place that is wrong
_UNTYPED: Final = ("42P18", "42804", "42725", "42883", "42846")  # values whose types the statement does not say
_stems = threading.local()


class _Prepared:
    """A statement that the server knows by name."""

    __slots__ = ("binary", "decoders", "encoders", "name", "statement")

    def __init__(self, statement: Statement, name: bytes, encoders: list[Encode]) -> None:
        self.statement = statement
        self.name = name
        self.encoders = encoders
        self.binary = [1] * len(encoders)
        self.decoders: list[Decode] | None = None


class BoundStatement(NamedTuple):
    """A statement and its values, as the server gets them."""

    prepared: _Prepared
    values: list[bytes | None]


class StatementAnswer(NamedTuple):
    """What came of a statement: how many rows it changed, the number of its new row, its rows; None: no such thing."""

    changes: int | None
    number: int | None
    rows: list[Row]


class PostgresConnection:
    """One connection; statements raise `StoreAwayError` where the server is away, and it is opened again by `reopen`.

    What a statement did wrong by itself raises `StatementError`. `touched` is told which watched table one changes.
    One that `opens` not by itself is lost at first.
    """

    filename = ""  # there is none
    open_vfs = ""

    def __init__(
        self, location: ServerLocation, dialect: Dialect, max_s: float = WRITE_MAX_S, *, opens: bool = True
    ) -> None:
        self.location = location
        self.dialect = dialect
        self.max_s = max_s
        self.touched: Callable[[str], None] | None = None
        self.watched: frozenset[str] = frozenset()
        self._beat: Callable[[], bool] | None = None
        self.trips = 0  # round trips for statements
        self._changes = self._total = self._last = 0
        self._names = 0
        self._prepared: OrderedDict[str, _Prepared] = OrderedDict()
        self._retired: deque[str] = deque()
        self._conn: pq.abc.PGconn | None = None
        self._poll = select.poll()
        if opens:
            self.reopen()

    # -- as apsw has it ------------------------------------------------------------------------------------------------

    def execute(self, sql: str, bindings: Any = ()) -> Cursor:
        """Run a statement; a script of several has no values."""
        found = Cursor([])
        for part in self.parts(sql):
            call = self.bind(part, bindings)
            conn = self._connected()
            try:
                conn.send_query_prepared(call.prepared.name, call.values, call.prepared.binary, 1)
            except _LIBPQ as error:
                raise self._lost(str(error)) from error
            self.trips += 1
            answer = self._answer(call, self._result(self.max_s))
            self._note(answer)
            found = Cursor(answer.rows)
        return found

    def executemany(self, sql: str, many: Iterable[Sequence[Any]]) -> Cursor:
        """Run a statement with each of these values."""
        values = iter(many)
        while calls := [self.bind(sql, each) for each in islice(values, _TOGETHER_MAX)]:
            for answer in self.execute_all(calls):
                if isinstance(answer, DaycareError):
                    raise answer
                self._note(answer)
        return Cursor([])

    def _note(self, answer: StatementAnswer) -> None:
        if answer.changes is not None:
            self._changes = answer.changes
            self._total += answer.changes
        if answer.number is not None:
            self._last = answer.number

    def changes(self) -> int:
        """Return how many rows the last statement changed that could change some."""
        return self._changes

    def total_changes(self) -> int:
        """Return how many rows were changed since the connection is there."""
        return self._total

    def last_insert_rowid(self) -> int:
        """Return the number of the row that was added last."""
        return self._last

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self._conn is not None and self._conn.transaction_status not in _IDLE

    @property
    def failed(self) -> bool:
        """Whether the open transaction takes no more statements, as one of them was refused."""
        return self._conn is not None and self._conn.transaction_status == pq.TransactionStatus.INERROR

    def blob_open(self, schema: str, table: str, column: str, number: int, writable: bool) -> Blob:
        """Return the bytes of one value, to be read a part at a time."""
        return Blob(self.execute(self.dialect.value_of(table, column), (number,)).get or b"")

    def txn_state(self, schema: str) -> int:
        """Return that no query is open: its rows were all read."""
        return apsw.SQLITE_TXN_NONE

    def fts5_tokenizer(self, name: str, args: list[str]) -> apsw.FTS5Tokenizer:
        """Return what makes words of a text: SQLite's, whatever has the rows."""
        if not hasattr(_stems, "db"):
            _stems.db = apsw.Connection(":memory:")
        found: apsw.FTS5Tokenizer = _stems.db.fts5_tokenizer(name, args)
        return found

    def _stems(self, text: str) -> list[str]:
        tokenizer = self.fts5_tokenizer("porter", ["unicode61"])
        found: Any = tokenizer(
            text.encode(), apsw.FTS5_TOKENIZE_DOCUMENT, None, include_offsets=False, include_colocated=False
        )
        return list(found)

    def set_progress_handler(self, handler: Callable[[], bool] | None, steps: int = 0) -> None:
        """Have `handler` called while a statement is waited for; it is given up once that is true."""
        self._beat = handler

    def set_busy_timeout(self, ms: int) -> None:
        """Nothing is locked for long."""

    def close(self) -> None:
        """Close it; nothing can be asked any more."""
        self._drop()
        self._closed = True

    # -- of the server -------------------------------------------------------------------------------------------------

    _closed = False

    @property
    def is_open(self) -> bool:
        """Whether the server was there when it was last asked."""
        return self._conn is not None

    @property
    def backend(self) -> int:
        """Return the number of the server's process."""
        return self._connected().backend_pid

    def reopen(self) -> None:
        """Connect again. Raises `StoreAwayError` or, for what an operator has to set right, `BrokenError`."""
        self._drop()
        deadline = time.monotonic() + CONNECT_MAX_S
        conn = pq.PGconn.connect_start(self.location.conninfo())
        try:
            while True:
                if conn.status == pq.ConnStatus.BAD:
                    raise refusal(self.location, _said(conn))
                step = conn.connect_poll()
                if step == pq.PollingStatus.OK:
                    break
                if step == pq.PollingStatus.FAILED:
                    raise refusal(self.location, _said(conn))
                waiting = select.poll()
                waiting.register(conn.socket, select.POLLIN if step == pq.PollingStatus.READING else select.POLLOUT)
                if not waiting.poll(max(0, round((deadline - time.monotonic()) * 1000))):
                    raise away(self.location, f"no answer within {CONNECT_MAX_S} s")
        except BaseException:
            conn.finish()
            raise
        conn.nonblocking = 1
        self._poll = select.poll()
        self._poll.register(conn.socket, select.POLLIN)
        self._conn = conn  # at last: another thread may look whether it is there

    def simple(self, script: str) -> list[Row]:
        """Run a script of the engine's own, in one round trip; return the rows of its last statement as texts."""
        conn = self._connected()
        try:
            conn.send_query(script.encode())
        except _LIBPQ as error:
            raise self._lost(str(error)) from error
        rows: list[Row] = []
        failure: Exception | None = None
        for result in self._results(self.max_s):
            if result.status not in _GOOD:
                failure = failure or self._refused(result, script)
            elif result.nfields:
                rows = [
                    tuple(_as_text(result.get_value(row, column)) for column in range(result.nfields))
                    for row in range(result.ntuples)
                ]
        if failure is not None:
            raise failure
        return rows

    def _connected(self) -> pq.abc.PGconn:
        if self._conn is None:
            raise away(self.location, "the connection was lost")
        return self._conn

    # -- statements that go out together -------------------------------------------------------------------------------

    def parts(self, sql: str) -> Sequence[str]:
        """Return the statements of a script, each to be run by itself."""
        if sql in self._prepared or ";" not in sql:
            return (sql,)
        parts = self.dialect.script(sql)
        return parts if len(parts) > 1 else (sql,)

    def knows(self, sql: str) -> bool:
        """Whether a statement is prepared: to `bind` it asks the server nothing."""
        return sql in self._prepared

    def bind(self, sql: str, bindings: Any) -> BoundStatement:
        """Return a statement with its values; it is prepared with the first of them."""
        prepared = self._prepared.get(sql) or self._prepare(sql, bindings)
        statement = prepared.statement
        if statement.stems:
            bindings = words.stemmed(bindings, statement.stems, self._stems)
        values = [encode(bindings[at]) for encode, at in zip(prepared.encoders, statement.order, strict=True)]
        return BoundStatement(prepared, values)

    def execute_all(self, calls: Sequence[BoundStatement]) -> list[StatementAnswer | DaycareError]:
        """Run statements in one round trip; return the answers. The first that is refused is the last that has one.

        What is outside of a transaction is one.
        """
        conn = self._connected()
        try:
            conn.enter_pipeline_mode()
            for call in calls:
                conn.send_query_prepared(call.prepared.name, call.values, call.prepared.binary, 1)
            conn.pipeline_sync()
            results = self._until_sync()
            conn.exit_pipeline_mode()
        except _LIBPQ as error:
            raise self._lost(str(error)) from error
        self.trips += 1
        found: list[StatementAnswer | DaycareError] = []
        for call, result in zip(calls, results, strict=False):
            if result.status not in _GOOD:
                found.append(self._refused(result, call.prepared.statement.text))
                break
            found.append(self._answer(call, result))
        return found

    def _until_sync(self) -> list[pq.abc.PGresult]:
        conn = self._connected()
        found: list[pq.abc.PGresult] = []
        self._flush(time.monotonic() + self.max_s)
        while True:
            if conn.is_busy():
                deadline = time.monotonic() + self.max_s
                while conn.is_busy():
                    self._await(deadline, select.POLLIN)
                    conn.consume_input()
            result = conn.get_result()
            if result is not None:
                if result.status == pq.ExecStatus.PIPELINE_SYNC:
                    return found
                found.append(result)
            if conn.status == pq.ConnStatus.BAD:
                raise self._lost(_said(conn))

    def _answer(self, call: BoundStatement, result: pq.abc.PGresult) -> StatementAnswer:
        statement = call.prepared.statement
        if result.status not in _GOOD:
            raise self._refused(result, statement.text)
        changes = None
        if statement.changes:
            changes = result.command_tuples or 0
            if changes and statement.changes in self.watched and self.touched is not None:
                self.touched(statement.changes)
        if result.nfields == 0:
            return StatementAnswer(changes, None, [])
        rows = self._rows(call.prepared, result)
        if statement.numbered:
            return StatementAnswer(changes, rows[-1][0] if rows else None, [])
        return StatementAnswer(changes, None, rows)

    def _prepare(self, sql: str, bindings: Any) -> _Prepared:
        statement = self.dialect.translate(sql)
        self._names += 1
        name = b"d%d" % self._names
        typed = [type_of(bindings[at]) for at in statement.order]
        if sql in self.dialect.typed:
            types = self._described(name, statement, typed)
        else:
            inside = self.in_transaction and not self.failed
            if inside:
                self.simple("SAVEPOINT prepared")
            try:
                types = self._described(name, statement, None)
            except StatementError as error:
                if error.state not in _UNTYPED or (self.failed and not inside):
                    raise
                if inside:
                    self.simple("ROLLBACK TO prepared")
                types = self._described(name, statement, typed)
                self.dialect.typed.add(sql)
            if inside:
                self.simple("RELEASE prepared")
        prepared = _Prepared(statement, name, [ENCODERS.get(each, ENCODERS[TEXT]) for each in types])
        self._prepared[sql] = prepared
        if len(self._prepared) > _PREPARED_MAX:
            _, old = self._prepared.popitem(last=False)
            self._retired.append(old.name.decode())  # it may be in a call that was not sent yet
            if len(self._retired) > _RETIRED_MAX:
                self.simple(f"DEALLOCATE {self._retired.popleft()}")
        return prepared

    def _described(self, name: bytes, statement: Statement, types: list[int] | None) -> list[int]:
        """Prepare a statement, and ask of what types its values are: two answers in one round trip."""
        conn = self._connected()
        try:
            conn.send_prepare(name, statement.text.encode(), types)
            prepared = self._result(self.max_s)
            if prepared.status not in _GOOD:
                raise self._refused(prepared, statement.text)
            conn.send_describe_prepared(name)
        except _LIBPQ as error:
            raise self._lost(str(error)) from error
        described = self._result(self.max_s)
        if described.status not in _GOOD:
            raise self._refused(described, statement.text)
        return [described.param_type(at) for at in range(described.nparams)]

    def _rows(self, prepared: _Prepared, result: pq.abc.PGresult) -> list[Row]:
        decoders = prepared.decoders
        if decoders is None:
            decoders = prepared.decoders = [DECODERS[result.ftype(at)] for at in range(result.nfields)]
        get, columns = result.get_value, list(enumerate(decoders))
        return [
            tuple([None if (raw := get(row, at)) is None else decode(raw) for at, decode in columns])
            for row in range(result.ntuples)
        ]

    def _result(self, max_s: float) -> pq.abc.PGresult:
        """Return the answer to one statement."""
        found = self._results(max_s)
        if not found:
            raise self._lost("it answered nothing")
        return found[-1]

    def _results(self, max_s: float) -> list[pq.abc.PGresult]:
        conn = self._connected()
        deadline = time.monotonic() + max_s
        found: list[pq.abc.PGresult] = []
        try:
            self._flush(deadline)
            while True:
                while conn.is_busy():
                    self._await(deadline, select.POLLIN)
                    conn.consume_input()
                result = conn.get_result()
                if result is None:
                    return found
                found.append(result)
                if conn.status == pq.ConnStatus.BAD:
                    raise self._lost(_said(conn))
        except _LIBPQ as error:
            raise self._lost(str(error)) from error

    def _flush(self, deadline: float) -> None:
        conn = self._connected()
        while conn.flush():
            self._await(deadline, select.POLLIN | select.POLLOUT)
            conn.consume_input()

    def _await(self, deadline: float, events: int) -> None:
        conn = self._connected()
        if events != select.POLLIN:
            self._poll.modify(conn.socket, events)
        try:
            while not self._poll.poll(_WAIT_MS):
                if self._beat is not None and self._beat():
                    self._cancel()
                if time.monotonic() > deadline:
                    raise self._lost(f"no answer within {self.max_s:g} s")
        finally:
            if events != select.POLLIN:
                self._poll.modify(conn.socket, select.POLLIN)

    def _cancel(self) -> None:
        with suppress(*_LIBPQ):
            self._connected().get_cancel().cancel()

    def _lost(self, why: str) -> StoreAwayError:
        self._drop()
        return away(self.location, why)

    def _refused(self, result: pq.abc.PGresult, sql: str = "") -> DaycareError:
        state = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
        said = (result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b"").decode(errors="replace")
        if self._conn is not None and self._conn.status == pq.ConnStatus.BAD:
            self._drop()
        place = int(result.error_field(pq.DiagnosticField.STATEMENT_POSITION) or 0)
        return refusal(self.location, said, state, sql[max(0, place - _NEAR) : place + _NEAR])

    def _drop(self) -> None:
        if self._conn is not None:
            self._conn.finish()
            self._conn = None
        self._prepared.clear()
        self._retired.clear()


_LIBPQ: Final = (psycopg.OperationalError,)
_GOOD: Final = {pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK, pq.ExecStatus.EMPTY_QUERY}
_IDLE: Final = (pq.TransactionStatus.IDLE, pq.TransactionStatus.UNKNOWN)


def _said(conn: pq.abc.PGconn) -> str:
    return conn.error_message.decode(errors="replace").strip()


def _as_text(raw: bytes | None) -> str | None:
    return None if raw is None else raw.decode()
