"""A WebSocket as the parts of the daemon see it: what may be said on it, by whom, and how it ends.

The socket itself (`routes_socket.py`) knows no capability: each part brings the messages that it takes, marked like
endpoints with who may send them, and says on its own what it has to say.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from enum import IntEnum
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, Protocol

import msgspec
import trio

from daycare.api.callers import Caller
from daycare.api.documents import RequestDocument
from daycare.base.errors import DaycareError

if TYPE_CHECKING:
    from starlette.websockets import WebSocket

WS_SEND_S: Final = 10.0  # a peer that takes no message for so long is cut off

_encode = msgspec.json.Encoder().encode

MessageId = Annotated[str, msgspec.Meta(max_length=64)]


class CloseCode(IntEnum):
    """Why we close a socket; those from 4000 on are ours. The RFC's 1009 is for a message that is too long."""

    STOPPING = 1001  # the daemon stops
    NOT_TEXT = 1003
    DEFECT = 1011
    TOKEN_ENDED = 4401  # revoked, expired, or its user was removed
    SILENT = 4408  # no sign of life came back
    SLOW = 4429  # events were lost that the client did not take in time


class ClientMessage(RequestDocument, frozen=True, kw_only=True, tag_field="type"):
    """Base of what clients send. What answers it carries its `id`."""

    id: MessageId = ""


class ServerMessage(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """Base of what the daemon sends."""


class Ok(ServerMessage, frozen=True, kw_only=True, tag="ok"):
    """What the message of this id asked for is done. `cursor` is where a subscription begins."""

    id: str
    cursor: int | None = None


class SocketRefusal(ServerMessage, frozen=True, kw_only=True, tag="error"):
    """What the message of this id asked for is not done, as the API's errors say it; the socket stays open."""

    id: str
    code: str
    message: str
    hint: str = ""
    retry_after_s: float | None = None


class SocketLink(Protocol):
    """The connection below a socket. `heard_at` is when anything came from its peer, in the loop's time."""

    heard_at: float

    def take_plain(self) -> None:
        """Negotiate no compression, before the socket is accepted."""

    async def ping(self) -> None:
        """Ask the peer for a sign of life."""

    def cut(self) -> None:
        """Close it at once; who sends on it goes on."""


class Socket:
    """One open socket. `caller` is who opened it."""

    nursery: trio.Nursery  # of all that runs while it is open

    def __init__(self, websocket: "WebSocket", caller: Caller, link: SocketLink) -> None:
        self.caller = caller
        self.link = link
        self.close: tuple[int, str] | None = None  # how it is to be closed; None: its peer has gone
        self._websocket = websocket
        self._sending = trio.Lock()

    async def send(self, message: ServerMessage) -> None:
        """Send a message, after those before it. One that is not taken within `WS_SEND_S` ends the socket."""
        async with self._sending, taken_within(WS_SEND_S, self.link):
            await self._websocket.send_text(_encode(message).decode())

    async def ping(self) -> None:
        """Ask the peer for a sign of life."""
        async with self._sending, taken_within(WS_SEND_S, self.link):
            await self.link.ping()

    def start(self, do: Callable[..., Awaitable[None]], *arguments: Any) -> None:
        """Let something run as long as the socket is open. It may raise no `DaycareError`."""
        self.nursery.start_soon(do, *arguments)

    def end(self, code: int, reason: str) -> None:
        """Let the socket end."""
        self.close = (code, reason)
        self.nursery.cancel_scope.cancel()

    def gone(self) -> None:
        """Hear that nobody is there any more."""
        self.nursery.cancel_scope.cancel()


class Heard(NamedTuple):
    """A message that clients may send. `do` is marked like an endpoint; what `changes` nothing, readers may send."""

    kind: type[ClientMessage]
    do: Callable[[Any], Awaitable[None]]
    changes: bool = True


class SocketPart:
    """What one part of the daemon does on one socket; each method is optional."""

    def messages(self) -> Sequence[Heard]:
        """Return what it takes. One message is done after the other: what takes long is left to `Socket.start`."""
        return ()

    async def run(self) -> None:
        """Say what it has to say by itself, until cancelled."""


@asynccontextmanager
async def taken_within(seconds: float, link: SocketLink) -> AsyncIterator[None]:
    """Cut the connection when what the block sends is not taken in time: by itself it would wait, even if cancelled."""
    watching = trio.CancelScope(shield=True)

    async def cut() -> None:
        with watching:
            await trio.sleep(seconds)
            link.cut()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(cut)
        try:
            yield
        finally:
            watching.cancel()


def refusal(about: str, error: DaycareError) -> SocketRefusal:
    """Return what a client is told of an error."""
    return SocketRefusal(
        id=about, code=error.code, message=error.message, hint=error.hint, retry_after_s=error.retry_after_s
    )
