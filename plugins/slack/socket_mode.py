"""Socket Mode: a WebSocket to Slack over which envelopes come; each is acknowledged once it is committed.

Slack replaces connections as it likes: a `disconnect` says so. Then another one is opened, while this one still brings
what is under way. An envelope that was not acknowledged comes again, perhaps over another connection, so nothing is
lost between two; what comes twice is known by its key.
"""

import math
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
import trio
from trio_websocket import ConnectionClosed, HandshakeError, WebSocketConnection, wrap_client_stream
from wsproto.utilities import ProtocolError

from daycare.base.error_boundary import causes
from daycare.base.errors import BusyError, DaycareError, UnavailableError
from daycare.messenger.json_paths import at, text_at
from daycare.messenger.text import one_line
from daycare_plugins.slack.client import SlackApi
from daycare_plugins.slack.health import SlackMonitor
from daycare_plugins.slack.intake import Payload

CONNECT_S: Final = 15.0
HELLO_S: Final = 15.0
PING_S: Final = 20.0  # between two pings of ours
PONG_S: Final = 10.0
DRAIN_S: Final = 30.0  # for so long a connection is read that another one has replaced
CLOSE_S: Final = 2.0
WAITING_MAX: Final = 200  # envelopes that were read and not committed; then Slack has to wait
BATCH_MAX: Final = 50
MESSAGE_MAX_BYTES: Final = 4 * 1024 * 1024

Take = Callable[[Sequence[Payload]], Awaitable[None]]


class _Link:
    """One connection, until another one has to take its place. `error` is why, if not because Slack asked for it."""

    def __init__(self) -> None:
        self.over = trio.Event()
        self.error: DaycareError | None = None

    def end(self, error: DaycareError | None = None) -> None:
        if not self.over.is_set():
            self.error = error
            self.over.set()


class SocketMode:
    """Receives for one workspace, until cancelled. `prepare` is done before each connection."""

    def __init__(
        self, api: SlackApi, take: Take, monitor: SlackMonitor, prepare: Callable[[], Awaitable[None]]
    ) -> None:
        self._api = api
        self._take = take
        self._monitor = monitor
        self._prepare = prepare

    async def run(self) -> None:
        """Receive. Whatever happens to the connection or the store, it goes on."""
        async with trio.open_nursery() as nursery:
            while True:
                link = _Link()
                nursery.start_soon(self._serve, link)
                await link.over.wait()
                if link.error is not None:
                    await trio.sleep(self._monitor.trouble(link.error))

    async def _serve(self, link: _Link) -> None:
        """Open a connection and take in what it brings. Raises nothing: how it ended is told to `link`."""
        try:
            await self._prepare()
            url = await self._api.open_link()
            async with _connected(url) as socket:
                await self._receive(socket, link)
        except* DaycareError as errors:
            link.end(next(each for each in causes(errors) if isinstance(each, DaycareError)))
        except* trio.TooSlowError:
            link.end(UnavailableError("SLACK_STALLED", "receiving from Slack: it did not answer in time"))
        except* (ConnectionClosed, HandshakeError, ProtocolError, OSError, trio.BrokenResourceError):
            # A ping that comes while it is being closed is such an error of the protocol, of our own side.
            link.end(UnavailableError("SLACK_LOST", "receiving from Slack: the connection broke"))

    async def _receive(self, socket: WebSocketConnection, link: _Link) -> None:
        put, waiting = trio.open_memory_channel[tuple[str, Payload]](WAITING_MAX)
        failure: DaycareError | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._ping, socket, nursery.cancel_scope, link)
            nursery.start_soon(self._commit, socket, waiting)
            try:
                await self._read(socket, put, link)
            except ConnectionClosed:
                failure = UnavailableError("SLACK_LOST", "receiving from Slack: the connection broke")
            link.end(failure)
            nursery.cancel_scope.cancel()

    async def _read(
        self, socket: WebSocketConnection, put: trio.MemorySendChannel[tuple[str, Payload]], link: _Link
    ) -> None:
        with trio.fail_after(HELLO_S) as patience:
            while True:
                message = await socket.get_message()
                envelope = _decoded(message)
                kind = text_at(envelope, "type")
                if kind == "hello":
                    self._monitor.up()
                    patience.deadline = math.inf
                elif kind == "disconnect":
                    if text_at(envelope, "reason") == "link_disabled":
                        link.end(_switched_off())
                        return
                    link.end()
                    patience.deadline = trio.current_time() + DRAIN_S
                elif number := text_at(envelope, "envelope_id"):
                    await put.send((number, Payload(kind, at(envelope, "payload"))))

    async def _commit(
        self, socket: WebSocketConnection, waiting: trio.MemoryReceiveChannel[tuple[str, Payload]]
    ) -> None:
        """Commit what was read, in order, and only then acknowledge it."""
        async for first in waiting:
            batch = [first]
            while len(batch) < BATCH_MAX:
                try:
                    batch.append(waiting.receive_nowait())
                except trio.WouldBlock:
                    break
            while True:
                try:
                    await self._take([payload for _, payload in batch])
                    break
                except (BusyError, UnavailableError) as error:
                    await trio.sleep(self._monitor.trouble(error))
            self._monitor.up()
            for number, _ in batch:
                try:
                    await socket.send_message(msgspec.json.encode({"envelope_id": number}).decode())
                except ConnectionClosed:
                    return  # they come again, and are known

    async def _ping(self, socket: WebSocketConnection, scope: trio.CancelScope, link: _Link) -> None:
        """Notice a connection over which nothing comes any more."""
        while True:
            await trio.sleep(PING_S)
            try:
                with trio.fail_after(PONG_S):
                    await socket.ping()
            except ConnectionClosed:
                return
            except trio.TooSlowError:
                link.end(
                    UnavailableError("SLACK_STALLED", f"receiving from Slack: no answer to a ping within {PONG_S:g} s")
                )
                scope.cancel()
                return


@asynccontextmanager
async def _connected(url: str) -> AsyncIterator[WebSocketConnection]:
    """Connect, and leave nothing open, however it ends. Raises `TooSlowError`, `HandshakeError` and `OSError`."""
    parts = urlsplit(url)
    host, port, secure = parts.hostname or "", parts.port, parts.scheme == "wss"
    resource = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
    stream: trio.abc.Stream
    with trio.fail_after(CONNECT_S) as patience:
        if secure:
            stream = await trio.open_ssl_over_tcp_stream(host, port or 443, ssl_context=ssl.create_default_context())
        else:
            stream = await trio.open_tcp_stream(host, port or 80)
        try:
            async with trio.open_nursery() as nursery:
                netloc = parts.netloc.rpartition("@")[2]
                socket = await wrap_client_stream(nursery, stream, netloc, resource, max_message_size=MESSAGE_MAX_BYTES)
                patience.deadline = math.inf
                yield socket
                with trio.move_on_after(CLOSE_S):
                    await socket.aclose()
                nursery.cancel_scope.cancel()
        finally:
            await trio.aclose_forcefully(stream)


def _switched_off() -> BusyError:
    return BusyError(
        "SLACK_LINK",
        "receiving from Slack: Socket Mode was switched off",
        hint="switch it on again in the app's settings",
        retry_after_s=60.0,
    )


def _decoded(message: Any) -> object:
    """Return an envelope; what is none is as if it had not come: nothing acknowledges it."""
    try:
        return msgspec.json.decode(message)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {"type": one_line(str(message), 40)}
