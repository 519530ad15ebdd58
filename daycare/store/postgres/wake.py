"""Letting other nodes know at once that there is something to look at. What gets lost they find a second later."""

from contextlib import suppress
from typing import Final

import psycopg
import trio

from daycare.base.errors import DaycareError
from daycare.store.postgres import schema
from daycare.store.postgres.connection import PostgresConnection
from daycare.store.postgres.location import ServerLocation

COALESCE_S: Final = 0.005  # commits of so long after a word are the next one
_AGAIN_S: Final = 1.0
_CHANNEL: Final = "daycare"


class _Listening(PostgresConnection):
    @property
    def socket(self) -> int:
        return self._connected().socket

    def heard(self) -> list[bytes]:
        """Return what has come."""
        conn = self._connected()
        try:
            conn.consume_input()
        except psycopg.OperationalError as error:
            raise self._lost(str(error)) from error
        found = []
        while (notice := conn.notifies()) is not None:
            found.append(notice.extra)
        return found


class WakeLine:
    """Speaks to the other nodes, and hears them; each over a connection of its own, which is made again when lost.

    `committed` and `shards` are set when another node has committed something, or given shards away.
    """

    def __init__(self, location: ServerLocation, node: str) -> None:
        self._location = location
        self._node = node
        self.committed = trio.Event()
        self.shards = trio.Event()
        self._to_say = trio.Event()
        self._of_shards = False

    def say(self, *, shards: bool = False) -> None:
        """Let the others look: for commits, or also for `shards`."""
        self._of_shards = self._of_shards or shards
        self._to_say.set()

    async def speak(self) -> None:
        """Tell the others, until cancelled."""
        line: PostgresConnection | None = None
        try:
            while True:
                await self._to_say.wait()
                self._to_say = trio.Event()
                what, self._of_shards = "shards" if self._of_shards else "commits", False
                with suppress(DaycareError):
                    line = await trio.to_thread.run_sync(self._spoken, line, f"{self._node} {what}")
                await trio.sleep(COALESCE_S)
        finally:
            if line is not None:
                line.close()

    def _spoken(self, line: PostgresConnection | None, words: str) -> PostgresConnection:
        if line is None:
            line = PostgresConnection(self._location, schema.dialect())
            line.simple("SET synchronous_commit = off")
        elif not line.is_open:
            line.reopen()
        line.simple(f"NOTIFY {_CHANNEL}, '{words}'")
        return line

    async def hear(self) -> None:
        """Hear the others, until cancelled."""
        while True:
            with suppress(DaycareError):
                await self._hear()
            await trio.sleep(_AGAIN_S)

    async def _hear(self) -> None:
        line = await trio.to_thread.run_sync(self._listening)
        try:
            while True:
                await trio.lowlevel.wait_readable(line.socket)
                for words in line.heard():
                    node, _, what = words.decode().partition(" ")
                    if node != self._node:
                        self.committed.set()
                        if what != "commits":
                            self.shards.set()
        finally:
            line.close()

    def _listening(self) -> _Listening:
        line = _Listening(self._location, schema.dialect())
        line.simple(f"LISTEN {_CHANNEL}")
        return line
