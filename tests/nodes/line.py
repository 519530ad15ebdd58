"""A proxy with a loop of its own, in a thread: a daemon in this process that is held up does not hold it up, too."""

import threading
from typing import Final

import trio

from tests.nodes.proxy import Proxy, Way
from tests.nodes.server import DATABASE

_DEADLINE_S: Final = 60.0


class Line:
    """A line to the server at a Unix socket, until `end`; its answers come `delay_s` later."""

    def __init__(self, socket: str, delay_s: float = 0.0) -> None:
        self._proxy = Proxy(socket, delay_s)
        self._is_there = threading.Event()
        self._thread = threading.Thread(target=trio.run, args=(self._run,), daemon=True)
        self._thread.start()
        assert self._is_there.wait(_DEADLINE_S)

    async def _run(self) -> None:
        self._token, self._over = trio.lowlevel.current_trio_token(), trio.Event()
        async with trio.open_nursery() as nursery:
            await nursery.start(self._proxy.run)
            self._is_there.set()
            await self._over.wait()
            nursery.cancel_scope.cancel()

    def address(self, database: str = DATABASE) -> str:
        """Return the address of a database at this end of it."""
        return f"postgresql://postgres@127.0.0.1:{self._proxy.port}/{database}?sslmode=disable&gssencmode=disable"

    def turn(self, way: Way) -> None:
        """See `Proxy`."""
        self._token.run_sync_soon(self._proxy.turn, way)

    def break_lines(self) -> None:
        """See `Proxy`."""
        self._token.run_sync_soon(self._proxy.break_lines)

    def end(self) -> None:
        """End it, and every connection."""
        self._token.run_sync_soon(self._over.set)
        self._thread.join(_DEADLINE_S)
