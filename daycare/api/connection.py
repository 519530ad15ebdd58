"""One connection: Hypercorn serves it, with strict heads, in time, and to an end once its client has closed it."""

import socket as sockets
from contextlib import suppress
from math import inf
from typing import Final

import trio

from daycare.api.http1 import (
    MAX_RECV,
    AppWrapper,
    Closed,
    Config,
    ConnectionState,
    Event,
    H11Protocol,
    RawData,
    TCPServer,
    Updated,
    WorkerContext,
    WSStream,
)
from daycare.api.strict_http import StrictConnection

API_MESSAGE_MAX_CHARS: Final = 256 * 1024  # of a WebSocket: as much as a body
API_SAID_S: Final = 1.0  # for a client to hear why its socket ends
API_IDLE_S: Final = 60.0  # a connection without a request is closed
API_HANDSHAKE_S: Final = 10.0  # for TLS to begin
API_HEAD_S: Final = 10.0  # from the first byte of a request's head to its last: a program sends it in one piece

_PING: Final = b"\x89\x00"  # a WebSocket's frame
_HAS_LENGTH: Final = b"\r\ncontent-length: "


def hypercorn_config() -> Config:
    """Return what Hypercorn is to do."""
    config = Config()
    config.errorlog = None
    config.include_server_header = False
    config.keep_alive_timeout = API_IDLE_S
    config.websocket_max_message_size = API_MESSAGE_MAX_CHARS
    config.ssl_handshake_timeout = API_HANDSHAKE_S
    return config


class ApiConnection(TCPServer):
    """A connection that ends when its client closes it, and not only when it would have been idle for too long.

    `idle` holds connections without a request, the one that is so for the longest first. The head of an answer goes out
    with the begin of its body: Hypercorn alone would wake the client for each of them, and send nothing at the end.
    """

    _head = b""  # of an answer whose body comes at once

    def __init__(
        self,
        app: AppWrapper,
        config: Config,
        context: WorkerContext,
        stream: "trio.SocketStream | trio.SSLStream[trio.SocketStream]",
        transport: trio.SocketStream,
        idle: "dict[ApiConnection, None]",
    ) -> None:
        super().__init__(app, config, context, ConnectionState({"link": self}), stream)  # type: ignore[arg-type]
        self.heard_at = trio.current_time()  # when anything came
        self.transport = transport
        self.idle = idle

    async def protocol_send(self, event: Event) -> None:
        """Take note of the begin and the end of requests."""
        if isinstance(event, Updated):
            self.idle.pop(self, None)
            if event.idle:
                self.idle[self] = None
        elif isinstance(event, RawData):
            data, self._head = self._head + event.data, b""
            if event.data.startswith(b"HTTP/1.1 ") and _HAS_LENGTH in event.data:
                self._head = data
                return
            if not data:
                return
            event = RawData(data=data)
        elif self._head:  # it ends, and no body came
            await super().protocol_send(RawData(data=self._head))
        await super().protocol_send(event)

    async def _read_data(self) -> None:
        """Pass on what comes until it ends, or the head of a request is late."""
        http = self.protocol.protocol
        assert isinstance(http, H11Protocol)
        http.connection = strict = StrictConnection()
        deadline = inf
        while True:
            try:
                with trio.fail_at(deadline):
                    data = await self.stream.receive_some(MAX_RECV)
            except (trio.ClosedResourceError, trio.BrokenResourceError, trio.TooSlowError):
                break
            self.heard_at = trio.current_time()
            await self.protocol.handle(RawData(bytes(data)))
            if not data:
                break
            if (socket := self._socket) is not None and socket.buffer.length > socket.buffer.max_length:
                await self._forget()  # Hypercorn has said that it is too long, and would keep what follows all the same
                break
            deadline = min(deadline, trio.current_time() + API_HEAD_S) if strict.head_begun else inf
        await self.protocol.handle(Closed())
        await self.idle_task.stop()

    @property
    def _socket(self) -> WSStream | None:
        stream = getattr(self.protocol.protocol, "stream", None)
        return stream if isinstance(stream, WSStream) else None

    async def _forget(self) -> None:
        """Read on for a moment: closed with something unread, a client would not hear why."""
        with trio.move_on_after(API_SAID_S), suppress(trio.ClosedResourceError, trio.BrokenResourceError):
            while await self.stream.receive_some(MAX_RECV):
                pass

    def take_plain(self) -> None:
        """Negotiate no compression in a WebSocket: a few bytes could become more than there is memory."""
        if (socket := self._socket) is not None:
            socket.handshake.extensions = None

    async def ping(self) -> None:
        """Ask the peer of a WebSocket for a sign of life."""
        await self.protocol_send(RawData(data=_PING))

    def cut(self) -> None:
        """Close it at once; who sends on it goes on."""
        with suppress(OSError):  # its client has just closed it
            self.transport.socket.shutdown(sockets.SHUT_RDWR)
