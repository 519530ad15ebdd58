"""Serving the API on a Unix socket that only its owner can open.

Hypercorn's own `serve` cannot be ended while a client does not read: its sends are shielded from cancellation. So
the connections are accepted here and each is handed to Hypercorn, and what hangs is closed when the time is up.
"""

import errno
import os
import socket as sockets
import stat
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, Protocol

import msgspec
import trio
from starlette.applications import Starlette
from starlette.types import ASGIApp

from daycare.api.connection import ApiConnection, hypercorn_config
from daycare.api.errors import log_defect
from daycare.api.http1 import ASGIWrapper, WorkerContext
from daycare.base.errors import ConflictError, UnavailableError
from daycare.observe import log

API_CONNECTIONS_MAX: Final = 256  # open at the same time; a window holds one or two
API_ADDRESS_CONNECTIONS_MAX: Final = 128  # of those from one address, so that one leaves room for others
API_CLOSE_S: Final = 1.0  # for answers on their way when the daemon stops; streams end at once

_EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_EXHAUSTED_PAUSE_S: Final = 0.25  # before accepting again: what is busy closes something meanwhile
_TOLD_EVERY_S: Final = 60.0
_FULL: Final = msgspec.json.encode(
    {
        "error": {
            "code": "API_FULL",
            "message": f"call the daemon: of its {API_CONNECTIONS_MAX} connections none is left for you",
            "hint": "end some windows or programs that use it, then try again",
            "retry_after_s": 1.0,
        }
    }
)
_FULL_ANSWER: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nconnection: close\r\n"
    b"content-length: %d\r\n\r\n%b" % (len(_FULL), _FULL)
)


async def serve(
    app: Starlette,
    socket: Path,
    shutdown: trio.Event,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    *,
    network: "Network | None" = None,
) -> None:
    """Serve `app` on the Unix socket until `shutdown`, then for at most API_CLOSE_S more; the socket file is removed.

    `network` serves it elsewhere, too.

    The caller holds the home's lock: a socket file that is there was left by a daemon that died. Raises
    `ConflictError` for any other file, `UnavailableError` when the socket cannot be bound.
    """
    listener = trio.SocketListener(trio.socket.from_stdlib_socket(_bind(socket)))
    connections = ApiConnections(app)
    everywhere = [connections] if network is None else [connections, network.connections]
    async with trio.open_nursery() as serving:
        try:
            async with trio.open_nursery() as accepting:
                local = [connections.listening(listener)]
                accepting.start_soon(partial(trio.serve_listeners, connections.serve, local, handler_nursery=serving))
                if network is not None:
                    accepting.start_soon(network.run, serving)
                task_status.started()
                await shutdown.wait()
                accepting.cancel_scope.cancel()
            app.state.closing.set()
            async with trio.open_nursery() as closing:
                for each in everywhere:
                    closing.start_soon(each.close)
        finally:
            for each in everywhere:
                each.cut()
            serving.cancel_scope.cancel()
            _unbind(socket)


class Network(Protocol):
    """Serves the API elsewhere than on its socket."""

    connections: "ApiConnections"

    async def run(self, serving: trio.Nursery) -> None:
        """Accept connections until cancelled; they go on in `serving`."""
        ...


class Transports(Protocol):
    """What is done with connections of the network: how they are encrypted, and how many an address may have."""

    def wrapped(self, stream: trio.SocketStream) -> "trio.SocketStream | trio.SSLStream[trio.SocketStream] | None":
        """Return what a connection is read from and written to, None where it cannot be encrypted as it should be."""
        ...

    def bounded(self, address: str) -> bool:
        """Whether connections of an address are those of one caller."""
        ...


class ApiConnections:
    """The open connections, each served by Hypercorn."""

    def __init__(self, app: ASGIApp, transports: Transports | None = None) -> None:
        self._config = hypercorn_config()
        self._app = ASGIWrapper(app)  # type: ignore[arg-type]
        self._transports = transports
        self._context = WorkerContext(None)
        self._open: dict[trio.SocketStream, str] = {}  # with their addresses
        self._idle: dict[ApiConnection, None] = {}
        self._last_gone = trio.Event()

    async def serve(self, stream: trio.SocketStream) -> None:
        """Serve one connection to its end. Its trouble is nobody else's."""
        address = "" if self._transports is None else _address(stream)
        wrapped = stream if self._transports is None else self._transports.wrapped(stream)
        if wrapped is None:
            return stream.socket.close()
        full = len(self._open) >= API_CONNECTIONS_MAX
        if (self._crowded(address) and not self.give_way(address)) or (full and not self.give_way()):
            return await _refuse(stream, plain=wrapped is stream)
        self._open[stream] = address
        connection = ApiConnection(self._app, self._config, self._context, wrapped, stream, self._idle)
        self._idle[connection] = None
        try:
            await connection
        except* (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the client went away
        except* Exception as errors:  # noqa: BLE001 - a defect of one connection must not end the daemon
            log_defect("a connection", errors)
        finally:
            del self._open[stream]
            self._idle.pop(connection, None)
            self._last_gone.set()
            stream.socket.close()  # Hypercorn leaves it open where TLS did not begin

    def _crowded(self, address: str) -> bool:
        """Whether an address has as many connections as one may."""
        if self._transports is None or not self._transports.bounded(address):
            return False
        return sum(each == address for each in self._open.values()) >= API_ADDRESS_CONNECTIONS_MAX

    def listening(self, listener: trio.SocketListener) -> trio.abc.Listener[trio.SocketStream]:
        """Return a listener that makes room where there is none."""
        return _Listening(listener, self)

    def give_way(self, address: str | None = None) -> bool:
        """Let the connection end that has been without a request for the longest, if any (of an address) has none."""
        oldest = next((each for each in self._idle if address in (None, self._open.get(each.transport))), None)
        if oldest is None:
            return False
        del self._idle[oldest]
        oldest.cut()
        return True

    async def close(self) -> None:
        """Let answers that are on their way arrive, for at most API_CLOSE_S; idle connections close at once."""
        await self._context.terminated.set()
        with trio.move_on_after(API_CLOSE_S):
            while self._open:
                self._last_gone = trio.Event()
                await self._last_gone.wait()

    def cut(self) -> None:
        """Close what is still open; whoever sends on it fails."""
        for stream in self._open:
            stream.socket.close()


class _Listening(trio.abc.Listener[trio.SocketStream]):
    """Accepts connections, also where the process has no descriptor left: idle ones give way, and it is tried again."""

    def __init__(self, listener: trio.SocketListener, connections: ApiConnections) -> None:
        self._listener = listener
        self._connections = connections
        self._told_at = float("-inf")

    async def accept(self) -> trio.SocketStream:
        """Return the next connection."""
        while True:
            try:
                return await self._listener.accept()
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                if trio.current_time() >= self._told_at + _TOLD_EVERY_S:
                    log.logger().error("api.exhausted", reason=error.strerror, hint="daycare doctor; raise ulimit -n")
                    self._told_at = trio.current_time()
                self._connections.give_way()
                await trio.sleep(_EXHAUSTED_PAUSE_S)

    async def aclose(self) -> None:
        """Stop listening."""
        await self._listener.aclose()


async def _refuse(stream: trio.SocketStream, *, plain: bool) -> None:
    """Say why nothing is answered: a connection that is only closed looks like a daemon that went away."""
    async with stream:
        if plain:
            with trio.move_on_after(API_CLOSE_S), suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await stream.send_all(_FULL_ANSWER)


def _address(stream: trio.SocketStream) -> str:
    """Return where a connection comes from, "" for one that is gone."""
    try:
        return str(stream.socket.getpeername()[0])
    except OSError:
        return ""


def _bind(path: Path) -> sockets.socket:
    """Return a listening socket of mode 0600. Until `listen` nobody can connect, so never with wider rights."""
    listening = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
    try:
        if path.exists() or path.is_symlink():
            if not stat.S_ISSOCK(path.lstat().st_mode):
                raise ConflictError(
                    "SOCKET_IN_THE_WAY",
                    f"listening on {path}: a file of that name is no socket",
                    hint=f"move it away: mv {path} {path}.old",
                )
            path.unlink()
        listening.bind(os.fspath(path))
        path.chmod(0o600)
        listening.listen(API_CONNECTIONS_MAX)
    except OSError as error:
        listening.close()
        raise UnavailableError(
            "SOCKET_UNUSABLE",
            f"listening on {path}: {error.strerror or error}",
            hint="the home must be a folder of yours on a local disk",
        ) from error
    except ConflictError:
        listening.close()
        raise
    return listening


def _unbind(path: Path) -> None:
    path.unlink(missing_ok=True)
