"""`/v1/ws`: one socket for events, answers as they come and decisions. Many bounds, no capability.

A peer that takes nothing, or says nothing when it is asked for a sign of life, is cut off: it can connect again, and go
on behind the last cursor that it has.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Final, TypeVar

import msgspec
import trio
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket

from daycare import __version__
from daycare.api.callers import Caller, admits, caller_of, deciders
from daycare.api.errors import NotAllowedError, log_defect
from daycare.api.services import Services
from daycare.api.socket_chat import Chatting
from daycare.api.socket_events import LiveSubscriptions
from daycare.api.sockets import (
    CloseCode,
    Heard,
    MessageId,
    ServerMessage,
    Socket,
    SocketPart,
    refusal,
    taken_within,
)
from daycare.base.errors import BusyError, DaycareError, InvalidError

SUBPROTOCOL: Final = "daycare.v1"
WS_SOCKETS_MAX: Final = 128  # open at the same time: half of the connections stay for requests
WS_OF_TOKEN_MAX: Final = 64  # of these with one token
WS_PING_S: Final = 20.0
WS_SILENCE_S: Final = 60.0  # three pings without an answer, or anything else
WS_CLOSE_S: Final = 1.0  # for the last message to be taken
WS_BURST: Final = 200.0  # messages of a client at once ...
WS_PER_S: Final = 50.0  # ... and for long; what comes faster has to wait

T = TypeVar("T")


class SocketHello(ServerMessage, frozen=True, kw_only=True, tag="hello"):
    """The first message. `cursor` is that of the newest event; `user` and `may` are what the token is good for."""

    version: str
    cursor: int
    user: str
    may: str


class Pong(ServerMessage, frozen=True, kw_only=True, tag="pong"):
    """The answer to `ping`."""

    id: str


class _Head(msgspec.Struct, frozen=True):
    """What each message has."""

    type: Annotated[str, msgspec.Meta(max_length=64)]
    id: MessageId = ""
    request_id: MessageId = ""  # names it where it has no id


class SocketRoutes:
    """`/v1/ws`."""

    def __init__(self, services: Services, closing: trio.Event) -> None:
        self._services = services
        self._closing = closing
        self._open: Counter[str] = Counter()  # by the names of tokens

    def routes(self) -> list[WebSocketRoute]:
        """Return the routes of this file."""
        return [WebSocketRoute("/v1/ws", self.attend)]

    @deciders
    async def attend(self, websocket: WebSocket) -> None:
        """Serve one socket to its end."""
        caller = caller_of(websocket)
        self._check(websocket, caller)
        link = websocket.scope["state"]["link"]
        link.take_plain()
        socket = Socket(websocket, caller, link)
        self._open[caller.name] += 1
        try:
            await websocket.accept(SUBPROTOCOL)
            await self._talk(websocket, socket)
        finally:
            self._open -= Counter((caller.name,))

    def _check(self, websocket: WebSocket, caller: Caller) -> None:
        """Raise what keeps a socket from being opened."""
        if SUBPROTOCOL not in websocket.scope["subprotocols"] or websocket.scope["http_version"] != "1.1":
            raise InvalidError(
                "SUBPROTOCOL_NEEDED",
                f"opening a WebSocket: here {SUBPROTOCOL} is spoken, over HTTP/1.1",
                hint=f"send Sec-WebSocket-Protocol: {SUBPROTOCOL}",
            )
        of_token = bool(caller.name) and self._open[caller.name] >= WS_OF_TOKEN_MAX
        if of_token or self._open.total() >= WS_SOCKETS_MAX:
            whose = "of this token" if of_token else "of the daemon"
            raise BusyError("SOCKETS_FULL", f"opening a WebSocket: all {whose} are in use", retry_after_s=WS_SILENCE_S)

    async def _talk(self, websocket: WebSocket, socket: Socket) -> None:
        """Let the parts of the daemon talk with a client until one of both ends it."""
        parts: list[SocketPart] = [
            LiveSubscriptions(socket, self._services.bus),
            Chatting(socket, self._services),
            *(part for feature in self._services.features for part in feature.on_socket(socket)),
        ]
        heard = {str(it.kind.__struct_config__.tag): it for part in parts for it in part.messages()}
        try:
            async with trio.open_nursery() as socket.nursery:
                socket.start(self._until_stopped, socket)
                socket.start(_ping, socket)
                await socket.send(self._hello(socket.caller))
                for part in parts:
                    socket.start(part.run)
                await _listen(websocket, socket, heard)
        except* Exception as errors:  # noqa: BLE001 - a defect of one socket must not end the connection unsaid
            log_defect("a WebSocket", errors)
            socket.close = CloseCode.DEFECT, "a defect in daycare: daycare logs"
        if socket.close is not None:
            async with taken_within(WS_CLOSE_S, socket.link):
                await websocket.close(*socket.close)

    def _hello(self, caller: Caller) -> SocketHello:
        user = caller.user or self._services.owner
        return SocketHello(version=__version__, cursor=self._services.bus.cursor, user=user, may=caller.may)

    async def _until_stopped(self, socket: Socket) -> None:
        await self._closing.wait()
        socket.end(CloseCode.STOPPING, "the daemon stops")


async def _listen(websocket: WebSocket, socket: Socket, heard: Mapping[str, Heard]) -> None:
    """Do what the client asks for, one after the other, until it has gone."""
    left, at = WS_BURST, trio.current_time()
    while True:
        message = await websocket.receive()
        if message["type"] == "websocket.disconnect":
            socket.gone()
            return
        if (text := message.get("text")) is None:
            socket.end(CloseCode.NOT_TEXT, "messages are JSON, as text")
            return
        await _heed(socket, heard, text)
        now = trio.current_time()
        left, at = min(WS_BURST, left + (now - at) * WS_PER_S) - 1, now
        if left < 0:
            await trio.sleep(-left / WS_PER_S)


async def _heed(socket: Socket, heard: Mapping[str, Heard], text: str) -> None:
    """Do what one message asks for, or say why not."""
    about = ""
    try:
        head = _read(text, _Head)
        about = head.id or head.request_id
        if head.type == "ping":
            await socket.send(Pong(id=about))
            return
        it = heard.get(head.type)
        if it is None or (socket.caller.own_only and not admits(socket.caller, "POST", it.do)):
            raise InvalidError(
                "MESSAGE_UNKNOWN", f"reading a message: none is called {head.type}", hint="doc/extend/websocket.md"
            )
        if not admits(socket.caller, "POST" if it.changes else "GET", it.do):
            raise NotAllowedError(
                "TOKEN_READS",
                f"{head.type}: this token may read, and change nothing",
                hint="daycare tokens add NAME --may operator",
            )
        await it.do(_read(text, it.kind))
    except DaycareError as error:
        await socket.send(refusal(about, error))


def _read(text: str, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise InvalidError("MESSAGE_INVALID", f"reading a message: {error}", hint="doc/extend/websocket.md") from None


async def _ping(socket: Socket) -> None:
    """Ask for a sign of life in silence, and end the socket if there is none."""
    while True:
        silent_s = trio.current_time() - socket.link.heard_at
        if silent_s >= WS_SILENCE_S:
            socket.end(CloseCode.SILENT, f"no sign of life for {WS_SILENCE_S:g} s")
            return
        if silent_s >= WS_PING_S:
            await socket.ping()
        await trio.sleep(WS_PING_S)
