"""Serving the API on a Unix socket that only its owner can open.

Hypercorn's own `serve` cannot be ended while a client does not read: its sends are shielded from cancellation. So
the connections are accepted here and each is handed to Hypercorn, and what hangs is closed when the time is up.
"""

import os
import socket as sockets
import stat
from functools import partial
from pathlib import Path

import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ConnectionState
from starlette.applications import Starlette

from daycare.api.errors import log_defect
from daycare.base.errors import ConflictError, UnavailableError
from daycare.base.limits import API_CLOSE_S, API_CONNECTIONS_MAX, API_IDLE_S


async def serve(
    app: Starlette,
    socket: Path,
    shutdown: trio.Event,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve `app` on the Unix socket until `shutdown`, then for at most API_CLOSE_S more; the socket file is removed.

    The caller holds the home's lock: a socket file that is there was left by a daemon that died. Raises
    `ConflictError` for any other file, `UnavailableError` when the socket cannot be bound.
    """
    listener = trio.SocketListener(trio.socket.from_stdlib_socket(_bind(socket)))
    connections = _Connections(app)
    async with trio.open_nursery() as serving:
        try:
            async with trio.open_nursery() as accepting:
                accepting.start_soon(
                    partial(trio.serve_listeners, connections.serve, [listener], handler_nursery=serving)
                )
                task_status.started()
                await shutdown.wait()
                accepting.cancel_scope.cancel()
            app.state.closing.set()
            await connections.close()
        finally:
            connections.cut()
            serving.cancel_scope.cancel()
            _unbind(socket)


class _Connection(TCPServer):
    """A connection that ends when its client closes it, and not only when it would have been idle for too long."""

    async def _read_data(self) -> None:
        await super()._read_data()
        await self.idle_task.stop()


class _Connections:
    """The open connections, each served by Hypercorn."""

    def __init__(self, app: Starlette) -> None:
        self._config = Config()
        self._config.errorlog = None
        self._config.include_server_header = False
        self._config.keep_alive_timeout = API_IDLE_S
        self._app = ASGIWrapper(app)  # type: ignore[arg-type]
        self._context = WorkerContext(None)
        self._open: set[trio.SocketStream] = set()
        self._last_gone = trio.Event()

    async def serve(self, stream: trio.SocketStream) -> None:
        """Serve one connection to its end. Its trouble is nobody else's."""
        if len(self._open) >= API_CONNECTIONS_MAX:
            return await stream.aclose()
        self._open.add(stream)
        try:
            await _Connection(self._app, self._config, self._context, ConnectionState({}), stream)  # type: ignore[arg-type]
        except* (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the client went away
        except* Exception as errors:  # noqa: BLE001 - a defect of one connection must not end the daemon
            log_defect("a connection", errors)
        finally:
            self._open.discard(stream)
            self._last_gone.set()

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
