"""The messenger behind the fake bridge: it stays while bridges come and go, and knows all that was said and sent."""

import json
import socket
import struct
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trio

from daycare.base import bridge


@dataclass(frozen=True)
class SentText:
    """Something that the bridge has sent."""

    key: str
    to: str
    text: str
    mark: str
    receipt: str
    at: float
    files: tuple[dict[str, Any], ...] = ()


@dataclass
class FakePlatform:
    """What people say is kept until a bridge has it. What has the key of something that was sent is not sent again."""

    path: Path
    sent: list[SentText] = field(default_factory=list)
    repeats: int = 0  # of keys that were known already
    shown: list[dict[str, Any]] = field(default_factory=list)
    waiting: dict[str, dict[str, Any]] = field(default_factory=dict)
    on_acknowledged: list[Callable[[Sequence[str]], None]] = field(default_factory=list)  # called with ids
    took: list[str] = field(default_factory=list)
    obeyed: list[str] = field(default_factory=list)  # orders
    connections: int = 0
    bridge_pid: int = 0
    connected: trio.Event = field(default_factory=trio.Event)
    _stream: trio.SocketStream | None = None
    _giving: trio.Lock = field(default_factory=trio.Lock)
    _news: trio.Event = field(default_factory=trio.Event)
    _orders: list[dict[str, Any]] = field(default_factory=list)
    _receipts: dict[str, str] = field(default_factory=dict)
    _count: int = 0

    # -- for tests -----------------------------------------------------------------------------------------------------

    def say(self, sender: str, text: str, **more: Any) -> str:
        """Let somebody say something; return its id."""
        self._count += 1
        frame = bridge.Said(id=more.pop("id", f"m{self._count}"), sender=sender, text=text, **more)
        return self.tell(frame)

    def tell(self, frame: bridge.Said | bridge.Reacted | bridge.Deleted | bridge.Unread | bridge.Moved) -> str:
        """Let something happen; return its id."""
        self.waiting[frame.id] = bridge.plain(frame)
        self._news.set()
        return frame.id

    def order(self, do: str, **more: Any) -> None:
        """Let the bridge that is there do something."""
        self._orders.append({"do": do, **more})
        self._news.set()

    def texts(self, to: str = "") -> list[str]:
        """Return what was sent to somebody, or to all."""
        return [one.text for one in self.sent if to in ("", one.to)]

    # -- serving -------------------------------------------------------------------------------------------------------

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled."""
        self.path.unlink(missing_ok=True)
        with trio.socket.socket(trio.socket.AF_UNIX) as listening:
            await listening.bind(str(self.path))
            listening.listen()
            listener = trio.SocketListener(listening)
            async with trio.open_nursery() as nursery:
                task_status.started()
                while True:
                    stream = await listener.accept()
                    nursery.start_soon(self._serve, stream)

    async def _serve(self, stream: trio.SocketStream) -> None:
        lines = bridge.Lines()
        self._stream = stream
        self.connections += 1
        try:
            async with stream, trio.open_nursery() as nursery:
                nursery.start_soon(self._push, stream)
                while data := await stream.receive_some(65_536):
                    for line in lines.feed(data):
                        await self._heard(json.loads(line), stream)
                nursery.cancel_scope.cancel()
        except* (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        if self._stream is stream:
            self._stream = None

    async def _give(self, stream: trio.SocketStream, what: dict[str, Any]) -> None:
        async with self._giving:
            await stream.send_all(json.dumps(what).encode() + b"\n")

    async def _push(self, stream: trio.SocketStream) -> None:
        """Give what waits to a bridge, each once in a connection, and orders."""
        given: set[str] = set()
        while True:
            self._news = trio.Event()
            for id_, frame in list(self.waiting.items()):
                if id_ not in given:
                    given.add(id_)
                    await self._give(stream, {"message": frame})
            while self._orders:
                await self._give(stream, self._orders.pop(0))
            await self._news.wait()

    async def _heard(self, told: dict[str, Any], stream: trio.SocketStream) -> None:
        if "hello" in told:
            self.bridge_pid = _peer(stream)
            self.connected.set()
        elif "took" in told:
            self.took.append(told["took"])
            self.waiting.pop(told["took"], None)
        elif "obeyed" in told:
            self.obeyed.append(told["obeyed"])
        elif "acknowledged" in told:
            for listener in self.on_acknowledged:
                listener(told["acknowledged"])
        elif "shown" in told:
            self.shown.append(told["shown"])
        elif "send" in told:
            receipt = self._take(told["send"])
            await self._give(stream, {"sent": told["send"]["key"], "receipt": receipt})

    def _take(self, wish: dict[str, Any]) -> str:
        if (known := self._receipts.get(wish["key"])) is not None:
            self.repeats += 1
            return known
        receipt = f"p{len(self.sent) + 1}"
        self._receipts[wish["key"]] = receipt
        files = tuple(wish.get("files", ()))
        self.sent.append(
            SentText(wish["key"], wish["to"], wish["text"], wish["mark"], receipt, trio.current_time(), files)
        )
        return receipt


def _peer(stream: trio.SocketStream) -> int:
    """Return who is at the other end, by its number here; in a sandbox it calls itself by another."""
    told = stream.socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", told)[0])


@asynccontextmanager
async def platform(path: Path) -> AsyncGenerator[FakePlatform, None]:
    """Open a platform at the path of a socket."""
    made = FakePlatform(path)
    async with trio.open_nursery() as nursery:
        await nursery.start(made.run)
        yield made
        nursery.cancel_scope.cancel()
