"""The addresses of `[api] listen`: opened, and closed, as the settings say at the moment."""

import errno
from typing import Final

import trio
from starlette.types import ASGIApp

from daycare.api.callers import Callers
from daycare.api.guard import NetworkGuard
from daycare.api.server import ApiConnections
from daycare.observe import log
from daycare.settings import Live

LISTEN_RETRY_S: Final = 10.0  # before an address that is in use is tried again

_BACKLOG: Final = 128


class NetworkListening:
    """Serves `app` to those who may call it on each address that is set; the log tells what cannot be opened."""

    def __init__(self, app: ASGIApp, callers: Callers, live: Live) -> None:
        self.connections = ApiConnections(NetworkGuard(app, callers, live))
        self._live = live
        self._changed = trio.Event()
        live.watch(lambda config: config.api.listen, self._change)
        live.watch(lambda config: config.api.insecure, self._change)

    def _change(self) -> None:
        self._changed.set()

    async def run(self, serving: trio.Nursery) -> None:
        """Listen until cancelled; connections go on in `serving`."""
        while True:
            self._changed = trio.Event()
            async with trio.open_nursery() as nursery:
                for address in self._live.now.api.addresses:
                    nursery.start_soon(self._listen, address, serving)
                await self._changed.wait()
                nursery.cancel_scope.cancel()

    async def _listen(self, address: tuple[str, int], serving: trio.Nursery) -> None:
        told = False
        while True:
            try:
                listeners = await trio.open_tcp_listeners(address[1], host=address[0], backlog=_BACKLOG)
            except OSError as error:
                if not told:
                    reason = error.strerror or str(error)
                    hint = "choose another port in [api] listen" if error.errno == errno.EADDRINUSE else ""
                    log.logger().error("api.unheard", address=spelled(address), reason=reason, hint=hint)
                told = True
                await trio.sleep(LISTEN_RETRY_S)
                continue
            log.logger().info("api.listening", address=spelled(address))
            wrapped = [self.connections.listening(listener) for listener in listeners]
            await trio.serve_listeners(self.connections.serve, wrapped, handler_nursery=serving)


def spelled(address: tuple[str, int]) -> str:
    """Return an address as people write it."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
