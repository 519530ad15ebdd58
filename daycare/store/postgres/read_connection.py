"""A connection that reads, for which others run while it waits."""

import select
from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

import outcome
import psycopg
import trio
from psycopg import pq

from daycare.base.errors import StoreAwayError
from daycare.store.postgres.connection import BoundStatement, PostgresConnection, StatementAnswer
from daycare.store.postgres.suspending import may_wait, wait_for

_SENDING_S: Final = 0.05  # while a statement is sent, whether the server wants to be heard first

T = TypeVar("T")


class ReadConnection(PostgresConnection):
    """A connection, for which others run while it waits, where one may; it waits until it is `hung_up`.

    `since` is when it was asked for what it is to answer now.
    """

    since: float | None = None

    def _await(self, deadline: float, events: int) -> None:
        if not may_wait():
            super()._await(deadline, events)
        elif not wait_for(_ready(self._connected().socket, events)):
            raise self._late()

    async def ask(self, call: BoundStatement) -> outcome.Outcome[StatementAnswer]:
        """Run a statement. Cancelled, the rest of the answer is still to come: `finish`."""
        conn = self._connected()
        self.trips += 1
        try:
            conn.send_query_prepared(call.prepared.name, call.values, call.prepared.binary, 1)
            while conn.flush():
                if not await _ready(conn.socket, select.POLLIN | select.POLLOUT):
                    raise self._late()
                conn.consume_input()
            found = None
            while True:
                while conn.is_busy():
                    if not await _ready(conn.socket, select.POLLIN):
                        raise self._late()
                    conn.consume_input()
                result = conn.get_result()
                if result is None:
                    break
                found = result
        except psycopg.OperationalError as error:
            raise self._lost(str(error)) from error
        if found is None:
            raise self._lost("it answered nothing")
        return self._answered(call, found)

    async def finish(self) -> None:
        """Wait for what is left of an answer that nobody wants."""
        self._results(self.max_s)

    def answers(self, calls: Sequence[BoundStatement]) -> Iterator[outcome.Outcome[StatementAnswer]]:
        """Run statements in one round trip, each by itself; yield the answers as they come."""
        conn = self._connected()
        self.trips += 1
        try:
            conn.enter_pipeline_mode()
            for call in calls:
                conn.send_query_prepared(call.prepared.name, call.values, call.prepared.binary, 1)
                conn.pipeline_sync()
            for call in calls:
                yield self._answered(call, self._until_sync()[0])
            conn.exit_pipeline_mode()
        except psycopg.OperationalError as error:
            raise self._lost(str(error)) from error

    def _answered(self, call: BoundStatement, result: pq.abc.PGresult) -> outcome.Outcome[StatementAnswer]:
        return of_one(outcome.capture(self._answer, call, result))

    def hang_up(self) -> None:
        """Let whoever waits for it wait no longer."""
        if self._conn is not None:
            trio.lowlevel.notify_closing(self._conn.socket)

    def drop(self) -> None:
        """Give up the connection, in whatever state it is."""
        self._drop()

    def _late(self) -> StoreAwayError:
        return self._lost(f"no answer within {self.max_s:g} s")


def of_one(result: outcome.Outcome[T]) -> outcome.Outcome[T]:
    """Return what came of one statement; raise what is about the connection, or about none."""
    if isinstance(result, outcome.Error) and (
        isinstance(result.error, StoreAwayError) or not isinstance(result.error, Exception)
    ):
        raise result.error
    return result


async def _ready(socket: int, events: int) -> bool:
    """Wait until a connection can go on; return whether it can, and was not hung up."""
    try:
        if events == select.POLLIN:
            await trio.lowlevel.wait_readable(socket)
        else:
            with trio.move_on_after(_SENDING_S):
                await trio.lowlevel.wait_writable(socket)
    except trio.ClosedResourceError:
        return False
    return True
