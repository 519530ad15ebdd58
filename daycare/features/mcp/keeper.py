"""Keeps a server: started when somebody needs it, ended when nobody did for a while, left alone when it only fails.

A server that crashes is not started until it is needed again, and then not before its time: 0.5 s after the first
crash, twice as long after each further one, and a quarter of an hour once it has only failed five times.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final, Literal

import trio

from daycare.base.error_boundary import error_boundary
from daycare.base.errors import BusyError, DaycareError, UnavailableError
from daycare.base.mcp_settings import McpServer
from daycare.features.mcp.connection import CallEars, McpConnection
from daycare.features.mcp.frames import McpAnswer, McpResult

CONNECT_S: Final = 60.0  # an interpreter with a large library, on a busy machine
WAITED_S: Final = 40.0  # for it by one call, and
PLACE_S: Final = 15.0  # for others to end: with its own time that is less than a tool has
BACKOFF_S: Final = 0.5
BACKOFF_MAX_S: Final = 60.0
FAILS_MAX: Final = 5  # in a row, after which it is
ALONE_S: Final = 900.0  # left alone for so long
STEADY_S: Final = 60.0  # a life of that length, or one in which a call was answered, is no failure
IDLE_LOOK_S: Final = 1.0

KeeperState = Literal["asleep", "starting", "up", "failed", "left_alone"]


class McpKeeper:
    """Keeps one. `connect` makes each connection; `noted` hears when its state changes."""

    def __init__(
        self, name: str, settings: McpServer, connect: Callable[[], McpConnection], noted: Callable[[], None]
    ) -> None:
        self.name = name
        self.settings = settings
        self.problem = ""  # how the last life ended, if that was no good end
        self.fails = 0  # in a row
        self._connect = connect
        self._noted = noted
        self._connection: McpConnection | None = None
        self._wanted = trio.Event()
        self._changed = trio.Event()  # of its state
        self._lives = 0
        self._retry_at = float("-inf")
        self._calls = trio.CapacityLimiter(settings.calls_max)

    @property
    def state(self) -> KeeperState:
        """How it is now."""
        if self._connection is not None:
            return "up" if self._connection.ready.is_set() else "starting"
        if self.fails >= FAILS_MAX and trio.current_time() < self._retry_at:
            return "left_alone"
        return "failed" if self.fails else "asleep"

    @property
    def retry_in_s(self) -> float:
        """Seconds until it may be started."""
        return max(0.0, self._retry_at - trio.current_time())

    async def run(self) -> None:
        """Keep it until cancelled. Raises nothing."""
        while True:
            await self._wanted.wait()
            self._wanted = trio.Event()
            began = trio.current_time()
            why, well = await self._live()
            if well or trio.current_time() - began >= STEADY_S:
                self.fails = 0
            self.problem = why
            if why:
                self.fails += 1
                delay_s = min(BACKOFF_S * 2 ** (self.fails - 1), BACKOFF_MAX_S)
                self._retry_at = trio.current_time() + (ALONE_S if self.fails >= FAILS_MAX else delay_s)
            self._lives += 1
            self._note()

    async def again(self) -> None:
        """Forget its failures; one that runs has ended then."""
        lives = self._lives
        if self._connection is not None:
            self._connection.finish("")
        while self._connection is not None and self._lives == lives:
            await self._changed.wait()
        self.fails, self._retry_at, self.problem = 0, float("-inf"), ""

    async def connected(self) -> McpConnection:
        """Return the connection, begun if there is none. Raises `UnavailableError` MCP_DOWN."""
        if self._connection is None:
            if self.retry_in_s > 0:
                raise self._down()
            self._wanted.set()
        lives = self._lives
        with trio.move_on_after(WAITED_S):
            while self._connection is None or not self._connection.ready.is_set():
                await self._changed.wait()
                if self._lives != lives:
                    raise self._down()
            return self._connection
        raise UnavailableError("MCP_DOWN", f"starting {self.name}: it takes long", retry_after_s=30)

    async def call(
        self,
        tool: str,
        digest: str,
        arguments: dict[str, Any],
        ears: Callable[[Callable[[McpAnswer], None]], CallEars],
    ) -> McpResult:
        """Call a tool; `ears` get what passes on answers of people.

        Raises as `connected` and as `McpConnection.call`, and `BusyError` MCP_BUSY.
        """
        connection = await self.connected()
        with trio.move_on_after(PLACE_S) as late:
            await self._calls.acquire()
        if late.cancelled_caught:
            raise BusyError("MCP_BUSY", f"using {self.name}: {self.settings.calls_max} calls run already")
        try:
            timeout_s = self.settings.timeout_s
            answer = partial(connection.answer, deadline_s=timeout_s)
            return await connection.call(tool, digest, arguments, timeout_s, ears(answer))
        finally:
            self._calls.release()

    def _down(self) -> UnavailableError:
        if self.state == "left_alone":
            more, hint = f"it only fails and is left alone for {self.retry_in_s / 60:.0f} min", "daycare mcp restart"
            return UnavailableError(
                "MCP_DOWN", f"using {self.name}: {more} ({self.problem}); nothing was done", hint=f"{hint} {self.name}"
            )
        return UnavailableError(
            "MCP_DOWN",
            f"using {self.name}: {self.problem or 'it was ended'}; nothing was done",
            retry_after_s=self.retry_in_s,
        )

    # == one life ======================================================================================================

    async def _live(self) -> tuple[str, bool]:
        """Run it until it ends; return why, "" where nobody needed it, and whether it was of use."""
        connection: McpConnection | None = None
        why = ""
        try:
            with error_boundary("MCP_CRASHED", f"running {self.name}"):
                connection = self._connection = self._connect()
                self._note()
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._watch, connection)
                    why = await connection.run()
                    nursery.cancel_scope.cancel()
        except DaycareError as error:
            why = error.message
        finally:
            self._connection = None
        return why, connection is not None and connection.answered > 0

    def _note(self) -> None:
        self._changed.set()
        self._changed = trio.Event()
        self._noted()

    async def _watch(self, connection: McpConnection) -> None:
        """Note when it is ready; end it when it does not get so, or is not needed."""
        with trio.move_on_after(CONNECT_S):
            await connection.ready.wait()
        if not connection.ready.is_set():
            connection.finish(f"it was not ready within {CONNECT_S:g} s")
            return
        self._note()
        connection.idle_since = trio.current_time()
        while self.settings.idle_s:
            await trio.sleep_until(max(connection.idle_since + self.settings.idle_s, trio.current_time() + IDLE_LOOK_S))
            if not connection.busy and trio.current_time() - connection.idle_since >= self.settings.idle_s:
                connection.finish("")
                return
