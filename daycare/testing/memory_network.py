"""A network in memory for httpx: clients of a server in the same process, on virtual time and without sockets."""
# ruff: noqa: ASYNC109 -- the signatures are httpcore's

import math
import ssl
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from ssl import SSLContext
from typing import Any

import httpcore
import httpx
import trio
import trio.testing


class MemoryNetwork(httpcore.AsyncNetworkBackend):
    """Connects clients, whatever host they name, to `serve`, which is run in `nursery` for each connection.

    With `broken` set, connecting fails with this error: `httpcore.ConnectError` for names that are not found, hosts
    that refuse and certificates that do not fit. After `connect_delay_s` a connection stands, or it fails.

        network = MemoryNetwork(fake.serve_stream, nursery)
        client = httpx.AsyncClient(transport=network.transport())
    """

    def __init__(self, serve: Callable[[trio.abc.Stream], Awaitable[object]], nursery: trio.Nursery) -> None:
        self.broken: Exception | None = None
        self.connect_delay_s = 0.0
        self.connections = 0
        self._serve = serve
        self._nursery = nursery

    def transport(self, **options: Any) -> httpx.AsyncHTTPTransport:
        """Return a transport of httpx over this network; `options` are those of `httpcore.AsyncConnectionPool`."""
        transport = httpx.AsyncHTTPTransport(trust_env=False, verify=False)
        unused = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # else each connection would read all certificates, for 40 ms
        transport._pool = httpcore.AsyncConnectionPool(network_backend=self, **{"ssl_context": unused} | options)
        return transport

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect."""
        with _within(timeout, httpcore.ConnectTimeout):
            await trio.sleep(self.connect_delay_s)
        if self.broken is not None:
            raise self.broken
        self.connections += 1
        mine, theirs = trio.testing.memory_stream_pair()
        self._nursery.start_soon(self._serve, theirs)
        return _Stream(mine)

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.AsyncNetworkStream:
        """Refuse: there are no files in this network."""
        raise httpcore.ConnectError(f"no socket at {path}")

    async def sleep(self, seconds: float) -> None:
        """Wait on trio's clock."""
        await trio.sleep(seconds)


@contextmanager
def _within(seconds: float | None, error: type[Exception]) -> Iterator[None]:
    """Turn the passing of a time into an error of httpcore's."""
    with trio.move_on_after(math.inf if seconds is None else seconds) as scope:
        yield
    if scope.cancelled_caught:
        raise error(f"nothing came within {seconds} s")


class _Stream(httpcore.AsyncNetworkStream):
    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        try:
            with _within(timeout, httpcore.ReadTimeout):
                return bytes(await self._stream.receive_some(max_bytes))
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise httpcore.ReadError(str(error)) from error

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        try:
            with _within(timeout, httpcore.WriteTimeout):
                await self._stream.send_all(buffer)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise httpcore.WriteError(str(error)) from error

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self, ssl_context: SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        return self  # nobody listens in

    def get_extra_info(self, info: str) -> Any:
        return None
