"""Processes that speak with servers: one that has loaded the library forks each, which takes no time and little room.

It is started with the first server that is needed, and ends when none has been for a while.
"""

import os
import signal
import socket
import sys
from array import array
from contextlib import suppress
from subprocess import DEVNULL
from typing import Final

import trio

from daycare.base.errors import UnavailableError

FORK_S: Final = 60.0  # with the library loaded, on a busy machine
LINGER_S: Final = 60.0  # without any server
STOP_S: Final = 4.0  # for a host to end with its server

_READ_BYTES: Final = 64 * 1024
_FD: Final = array("i").itemsize


class HostProcess:
    """One of them, by its pipes."""

    def __init__(self, given: int, taken: int, errors: int, handle: int | None) -> None:
        self.given = trio.lowlevel.FdStream(given)
        self.taken = trio.lowlevel.FdStream(taken)
        self.errors = trio.lowlevel.FdStream(errors)
        self._handle = handle  # of the process itself: no other one is ever meant by it

    async def end(self) -> None:
        """Let it end in order, or make it."""
        await self.given.aclose()
        with trio.move_on_after(STOP_S):
            while await self.taken.receive_some(_READ_BYTES):  # it must not wait for somebody to read
                pass
        await self.taken.aclose()
        await self.errors.aclose()
        if self._handle is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)
            os.close(self._handle)


class McpHosts:
    """Begins them. `tend` runs beside."""

    def __init__(self) -> None:
        self._forks: trio.Process | None = None
        self._control: trio.socket.SocketType | None = None
        self._lock = trio.Lock()
        self._running = 0
        self._moved = trio.Event()  # one has begun or ended

    async def begin(self) -> HostProcess:
        """Return a new one; `over` is to be called once it has ended. Raises `UnavailableError` MCP_DOWN."""
        ours, theirs = zip(*(os.pipe() for _ in range(3)), strict=True)
        (given_out, given), (taken, taken_in), (errors, errors_in) = zip(ours, theirs, strict=True)
        try:
            handle = await self._forked((given_out, taken_in, errors_in))
        except BaseException:
            for each in (given, taken, errors):
                os.close(each)
            raise
        finally:
            for each in (given_out, taken_in, errors_in):
                os.close(each)
        self._count(1)
        return HostProcess(given, taken, errors, handle)

    def over(self) -> None:
        """Take note that one has ended."""
        self._count(-1)

    async def tend(self) -> None:
        """End what forks them when none is needed, until cancelled; then at once."""
        try:
            while True:
                moved = self._moved
                with trio.move_on_after(LINGER_S if not self._running else float("inf")) as quiet:
                    await moved.wait()
                if quiet.cancelled_caught:
                    async with self._lock:
                        if not self._running:
                            await self._end()
                    await moved.wait()
        finally:
            with trio.CancelScope(shield=True):
                await self._end()

    def _count(self, more: int) -> None:
        self._running += more
        self._moved.set()
        self._moved = trio.Event()

    async def _forked(self, pipes: tuple[int, int, int]) -> int | None:
        """Have one forked at the ends of three pipes; return the handle of its process, where systems have such."""
        async with self._lock:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + FORK_S):  # half of it is no use
                try:
                    if self._forks is None or self._forks.poll() is not None:
                        await self._start()
                    assert self._control is not None
                    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", pipes).tobytes())
                    await self._control.sendmsg([b"f"], [rights])
                    said, more, _, _ = await self._control.recvmsg(1, socket.CMSG_SPACE(_FD))
                    if said:
                        handles = array("i", more[0][2]) if more else array("i")
                        return handles[0] if handles else None
                except OSError:
                    pass
            await self._end()
        raise UnavailableError("MCP_DOWN", "starting a process for a server: it does not begin", retry_after_s=10)

    async def _start(self) -> None:
        await self._end()
        ours, theirs = socket.socketpair()
        with theirs:
            self._control = trio.socket.from_stdlib_socket(ours)
            self._forks = await trio.lowlevel.open_process(
                [sys.executable, "-P", "-m", "daycare.features.mcp.host", str(theirs.fileno())],
                stdin=DEVNULL,
                stdout=DEVNULL,
                stderr=DEVNULL,
                env={"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8"},
                cwd=os.sep,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    async def _end(self) -> None:
        """End it; those that it has forked go on."""
        forks, control = self._forks, self._control
        self._forks = self._control = None
        if control is not None:
            control.close()
        if forks is not None:
            forks.kill()
            await forks.wait()
