"""A connection that also sends and takes whole tables, as rows of the protocol's binary COPY."""

import select
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final

import psycopg
from psycopg import pq

from daycare.base.errors import StoreAwayError
from daycare.store.postgres.connection import PostgresConnection

_HEAD: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)  # no flags, nothing more
_END: Final = b"\xff\xff"


class CopyingConnection(PostgresConnection):
    """One connection; see there."""

    def copy_out(self, statement: str) -> Iterator[bytes]:
        """Yield the rows of a `COPY ... TO STDOUT (FORMAT binary)` as they come, each as the protocol has it.

        Who does not read to the end lets the server stop by closing this.
        """
        conn = self._copying(statement, pq.ExecStatus.COPY_OUT)
        ended = False
        begin = len(_HEAD)  # it comes with the first row
        try:
            while True:
                size, data = conn.get_copy_data(1)
                if size > 0:
                    row = bytes(data[begin:])
                    begin = 0
                    if row not in (_END, b""):
                        yield row
                elif size < 0:
                    ended = True
                    break
                else:
                    self._await(time.monotonic() + self.max_s, select.POLLIN)
                    conn.consume_input()
        except psycopg.OperationalError as error:
            raise self._lost(str(error)) from error
        finally:
            if not ended and self._conn is conn:
                self._cancel()
                with suppress(psycopg.OperationalError, StoreAwayError):
                    while conn.get_copy_data(0)[0] >= 0:
                        pass
                    self._results(self.max_s)
        self._copied(statement)

    def copy_in(self, statement: str, rows: Iterable[bytes]) -> None:
        """Run a `COPY ... FROM STDIN (FORMAT binary)` with rows as `copy_out` yields them."""
        conn = self._copying(statement, pq.ExecStatus.COPY_IN)
        try:
            conn.put_copy_data(_HEAD)
            for row in rows:
                while not conn.put_copy_data(row):
                    self._await(time.monotonic() + self.max_s, select.POLLIN | select.POLLOUT)
            conn.put_copy_data(_END)
            conn.put_copy_end(None)
        except psycopg.OperationalError as error:
            raise self._lost(str(error)) from error
        self._copied(statement)

    def _copying(self, statement: str, way: pq.ExecStatus) -> pq.abc.PGconn:
        conn = self._connected()
        try:
            conn.send_query(statement.encode())
            while conn.flush():
                self._await(time.monotonic() + self.max_s, select.POLLIN | select.POLLOUT)
            while conn.is_busy():
                self._await(time.monotonic() + self.max_s, select.POLLIN)
                conn.consume_input()
            result = conn.get_result()
        except psycopg.OperationalError as error:
            raise self._lost(str(error)) from error
        if result is None or result.status != way:
            refused = self._lost("it answered nothing") if result is None else self._refused(result, statement)
            if self._conn is conn:
                self._results(self.max_s)
            raise refused
        return conn

    def _copied(self, statement: str) -> None:
        for result in self._results(self.max_s):
            if result.status != pq.ExecStatus.COMMAND_OK:
                raise self._refused(result, statement)
