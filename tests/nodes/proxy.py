"""A line between a node and the server, which can be cut: both ways, one way, or with every connection on it.

It can also break in the one moment in which the node cannot know whether what it wrote is there: when the server has
committed, and its answer is under way.
"""

from contextlib import suppress
from typing import Final, Literal

import trio

Way = Literal["open", "cut", "deaf", "mute"]  # mute: the node says nothing to the server; deaf: it hears nothing
_CHUNK: Final = 65_536
_COMMITTED: Final = b"C\x00\x00\x00\x0bCOMMIT\x00"  # the server's word that a commit has happened


class Proxy:
    """Listens on a port of loopback, and hands on to a Unix socket. What is held back while it is cut comes later.

    What the server says comes `delay_s` later, as across a network.
    """

    def __init__(self, target: str, delay_s: float = 0.0) -> None:
        self._target = target
        self._delay_s = delay_s
        self.port = 0
        self._way: Way = "open"
        self._changed = trio.Event()
        self._lines: set[trio.CancelScope] = set()
        self._loses = False  # the answer to the next commit

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled."""
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self.port = listeners[0].socket.getsockname()[1]
        await trio.serve_listeners(self._serve, listeners, task_status=task_status)  # type: ignore[arg-type]

    def lead_to(self, target: str) -> None:
        """Hand new connections on to another socket."""
        self._target = target

    def turn(self, way: Way) -> None:
        """Cut the line, or mend it."""
        self._way = way
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    async def lose_answer(self, within_s: float) -> bool:
        """Break the line that the answer to the next commit comes over; return whether there was one in time."""
        self._loses = True
        with trio.move_on_after(within_s):
            while self._loses:
                await trio.sleep(0.005)
            return True
        self._loses = False
        return False

    def break_lines(self) -> None:
        """End every connection."""
        for scope in list(self._lines):
            scope.cancel()

    async def _serve(self, node: trio.SocketStream) -> None:
        with trio.CancelScope() as scope:
            self._lines.add(scope)
            try:
                with suppress(trio.BrokenResourceError, trio.ClosedResourceError, OSError):
                    async with await trio.open_unix_socket(self._target) as server, trio.open_nursery() as nursery:
                        nursery.start_soon(self._carry, node, server, "mute", nursery.cancel_scope)
                        nursery.start_soon(self._carry, server, node, "deaf", nursery.cancel_scope)
            finally:
                self._lines.discard(scope)
        with trio.move_on_after(1, shield=True):
            await node.aclose()

    async def _carry(self, source: trio.SocketStream, to: trio.SocketStream, when: Way, end: trio.CancelScope) -> None:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while data := await source.receive_some(_CHUNK):
                while self._way in ("cut", when):
                    await self._changed.wait()
                if self._delay_s and when == "deaf":
                    await trio.sleep(self._delay_s)
                if self._loses and when == "deaf" and _COMMITTED in data:
                    self._loses = False
                    break
                await to.send_all(data)
        end.cancel()
