"""How a server is reached: a program over its pipes, or a URL whose address is looked at and pinned.

In the host's process only. What comes is bounded before the library sees it.
"""

import os
import signal
import ssl
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from ipaddress import ip_address, ip_network
from typing import IO, Final

import anyio
import certifi
import httpx2
import mcp_types as types
import trio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client._transport import TransportStreams
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage

from daycare.base.addresses import Network, is_public
from daycare.features.mcp.frames import McpOpen
from daycare.features.mcp.host.sandbox import server_command

LINE_MAX_BYTES: Final = 4 * 1024 * 1024  # of a message over a pipe, or in one answer over HTTP
STOP_S: Final = 2.0  # for a program to end by itself once its input has ended
RESOLVE_S: Final = 5.0
CONNECT_S: Final = 5.0
SILENT_S: Final = 300.0  # of a stream of events

_READ_BYTES: Final = 64 * 1024
_SAID_MAX_CHARS: Final = 300


class TooLongError(Exception):
    """A server has sent more at once than it may."""


# == a program =========================================================================================================


class Program:
    """A server that is started. `ended` is set once it says nothing more; `code` is how it left then."""

    def __init__(self, told: McpOpen, says: Callable[[str], None]) -> None:
        self._told = told
        self._says = says
        self.ended = trio.Event()
        self.code: int | None = None

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[TransportStreams]:
        """Start it and speak with it over its pipes; it ends with the block.

        Raises `OSError` where it cannot be started. It is forked from this thread, with which the kernel ends its
        sandbox.
        """
        with server_command(self._told) as command:
            process = subprocess.Popen(  # noqa: S603, ASYNC220
                command.words,
                env=command.env,
                cwd=command.folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=command.handles,
                start_new_session=True,
            )
            try:
                async with self._over(process) as streams:
                    yield streams
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                self.code = process.wait()

    @asynccontextmanager
    async def _over(self, process: "subprocess.Popen[bytes]") -> AsyncIterator[TransportStreams]:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        given, taken, log = (_stream(each) for each in (process.stdin, process.stdout, process.stderr))
        heard, hears = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        wanted, wants = anyio.create_memory_object_stream[SessionMessage](0)
        async with given, taken, log, heard, hears, wanted, wants, trio.open_nursery() as nursery:
            nursery.start_soon(self._read, taken, heard)
            nursery.start_soon(self._write, wants, given)
            nursery.start_soon(self._follow, log)
            try:
                yield hears, wanted
            finally:
                with trio.CancelScope(shield=True, deadline=trio.current_time() + STOP_S):
                    await given.aclose()
                    while process.poll() is None:  # noqa: ASYNC110 -- a process has no event that all systems know
                        await trio.sleep(0.01)
                nursery.cancel_scope.cancel()

    async def _read(
        self, stream: trio.abc.ReceiveStream, heard: MemoryObjectSendStream[SessionMessage | Exception]
    ) -> None:
        async with heard:
            async for line in _lines(stream):
                try:
                    message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValueError:
                    self._says(f"no message: {line[:100].decode(errors='replace')}")
                    continue
                await heard.send(SessionMessage(message))
        self.ended.set()

    async def _write(self, wants: MemoryObjectReceiveStream[SessionMessage], stream: trio.abc.SendStream) -> None:
        async for each in wants:
            line = each.message.model_dump_json(by_alias=True, exclude_unset=True)
            try:
                await stream.send_all(line.encode() + b"\n")
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                self.ended.set()
                return

    async def _follow(self, stream: trio.abc.ReceiveStream) -> None:
        async for line in _lines(stream):
            self._says(line.decode(errors="replace")[:_SAID_MAX_CHARS])


def _stream(pipe: IO[bytes]) -> trio.lowlevel.FdStream:
    with pipe:
        return trio.lowlevel.FdStream(os.dup(pipe.fileno()))


async def _lines(stream: trio.abc.ReceiveStream) -> AsyncIterator[bytes]:
    """Yield lines. Raises `TooLongError` for one that is too long."""
    held = bytearray()
    while data := await stream.receive_some(_READ_BYTES):
        *whole, rest = (held + data).split(b"\n") if b"\n" in data else (held + data,)
        for line in whole:
            if line.strip():
                yield bytes(line)
        held = bytearray(rest)
        if len(held) > LINE_MAX_BYTES:
            raise TooLongError(f"it has sent a line of over {LINE_MAX_BYTES >> 20} MiB")


# == a URL =============================================================================================================


@asynccontextmanager
async def url(told: McpOpen, auth: httpx2.Auth | None = None) -> AsyncIterator[TransportStreams]:
    """Speak with a server over streamable HTTP."""
    headers = {"Authorization": f"Bearer {told.token}"} if told.token else {}
    timeout = httpx2.Timeout(told.deadline_s, read=SILENT_S)
    pinned = PinnedTransport([ip_network(each) for each in told.networks])
    async with (
        httpx2.AsyncClient(transport=pinned, headers=headers, timeout=timeout, auth=auth, trust_env=False) as client,
        streamable_http_client(told.url, http_client=client, max_sse_event_size=LINE_MAX_BYTES) as streams,
    ):
        yield streams


class PinnedTransport(httpx2.AsyncHTTPTransport):
    """Reaches public addresses, and those of some networks, and connects to the very address that was looked at."""

    def __init__(self, networks: list[Network]) -> None:
        super().__init__(verify=ssl.create_default_context(cafile=certifi.where()), trust_env=False)
        self._networks = networks

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request. Raises `httpx2.ConnectError` for what is not to be reached."""
        place = request.url
        refused = httpx2.ConnectError(f"{place.host} has no address", request=request)
        for address in await self._addresses(request):
            pinned = httpx2.Request(
                request.method,
                place.copy_with(host=address),
                headers=request.headers,
                stream=request.stream,
                extensions={**request.extensions, "sni_hostname": place.host},
            )
            try:
                return _bounded(await super().handle_async_request(pinned))
            except httpx2.ConnectError as error:  # nothing was sent
                refused = error
        raise refused

    async def _addresses(self, request: httpx2.Request) -> list[str]:
        host = request.url.host
        try:
            with trio.fail_after(RESOLVE_S):
                found = await trio.socket.getaddrinfo(host, request.url.port or 443, type=trio.socket.SOCK_STREAM)
        except (OSError, UnicodeError, trio.TooSlowError):
            raise httpx2.ConnectError(f"{host} is not known", request=request) from None
        addresses = list(dict.fromkeys(str(each[4][0]).partition("%")[0] for each in found))
        if not all(map(self._may_reach, addresses)):
            raise httpx2.ConnectError(f"{host} is not on the public Internet: [mcp.NAME] private", request=request)
        return addresses

    def _may_reach(self, text: str) -> bool:
        address = ip_address(text)
        return is_public(address) or any(address in network for network in self._networks)


def _bounded(response: httpx2.Response) -> httpx2.Response:
    """Return a response whose body ends with an error past the bound; a stream of events has one for each event."""
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        return response
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    response.stream = _BoundedStream(response.stream)
    return response


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for part in self._inner:
            size += len(part)
            if size > LINE_MAX_BYTES:
                raise httpx2.ReadError(f"it has sent over {LINE_MAX_BYTES >> 20} MiB")
            yield part

    async def aclose(self) -> None:
        await self._inner.aclose()
