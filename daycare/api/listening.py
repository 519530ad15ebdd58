"""The addresses of `[api] listen`: opened, and closed, as the settings say at the moment."""

import errno
from typing import Final

import trio
from starlette.applications import Starlette
from starlette.routing import Route

from daycare.api.callers import Callers, is_anybodys
from daycare.api.certificates import Certificates
from daycare.api.guard import NetworkGuard
from daycare.api.peers import Peers
from daycare.api.server import ApiConnections
from daycare.base.loopback import is_loopback
from daycare.observe import log
from daycare.settings import Live

LISTEN_RETRY_S: Final = 10.0  # before an address that is in use, or a certificate, is tried again

_BACKLOG: Final = 128


class NetworkListening:
    """Serves `app` to those who may call it on each address that is set; the log tells what cannot be opened.

    Other machines reach it only once a token exists.
    """

    def __init__(self, app: Starlette, callers: Callers, live: Live) -> None:
        self._peers = Peers(live)
        self._certificates = Certificates(live)
        self._callers = callers
        self._live = live
        self._app = app
        self._anybodys: list[Route] = []
        self.connections = ApiConnections(NetworkGuard(app, callers, live, self._peers, self._anybodys), self)
        self._changed = trio.Event()
        live.watch(lambda config: (config.api.listen, config.api.cert, config.api.key), self._change)

    def _change(self) -> None:
        self._changed.set()

    def wrapped(self, stream: trio.SocketStream) -> "trio.SocketStream | trio.SSLStream[trio.SocketStream] | None":
        """Return what a connection is read from and written to, None where it cannot be encrypted as it should be."""
        if not self._certificates.wanted:
            return stream
        context = self._certificates.context()
        return None if context is None else trio.SSLStream(stream, context, server_side=True, https_compatible=True)

    def bounded(self, address: str) -> bool:
        """Whether connections of an address are those of one caller: not a proxy's."""
        return not self._peers.trusted(address)

    async def run(self, serving: trio.Nursery) -> None:
        """Listen until cancelled; connections go on in `serving`."""
        while True:
            self._changed = trio.Event()
            if self._live.now.api.addresses:
                await self._know_routes()
            async with trio.open_nursery() as nursery:
                for address in self._live.now.api.addresses:
                    nursery.start_soon(self._listen, address, serving)
                await self._changed.wait()
                nursery.cancel_scope.cancel()

    async def _know_routes(self) -> None:
        await self._app.state.late.complete()
        routes = self._app.router.routes
        self._anybodys[:] = [each for each in routes if isinstance(each, Route) and is_anybodys(each.endpoint)]

    async def _listen(self, address: tuple[str, int], serving: trio.Nursery) -> None:
        if not is_loopback(address[0]):
            await self._callers.wait_for_one(lambda: _tell(address, "no token exists", "daycare tokens add NAME"))
        told = False
        while True:
            if self._certificates.wanted and self._certificates.context() is None:  # which tells why
                await trio.sleep(LISTEN_RETRY_S)
                continue
            try:
                listeners = await trio.open_tcp_listeners(address[1], host=address[0], backlog=_BACKLOG)
            except OSError as error:
                if not told:
                    hint = "choose another port in [api] listen" if error.errno == errno.EADDRINUSE else ""
                    _tell(address, error.strerror or str(error), hint)
                told = True
                await trio.sleep(LISTEN_RETRY_S)
                continue
            log.logger().info("api.listening", address=spelled(address), tls=self._certificates.wanted)
            wrapped = [self.connections.listening(listener) for listener in listeners]
            await trio.serve_listeners(self.connections.serve, wrapped, handler_nursery=serving)


def spelled(address: tuple[str, int]) -> str:
    """Return an address as people write it."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _tell(address: tuple[str, int], reason: str, hint: str) -> None:
    log.logger().error("api.unheard", address=spelled(address), reason=reason, hint=hint)
