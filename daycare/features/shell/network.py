"""The network of one command: hosts that config.toml names, by https, through a proxy of the daemon; nothing else.

The command's own network is empty. Its first process opens a listening socket there, which stays one of that network
whoever holds it, hands it out by the Unix socket that it was born with, and closes that. The daemon accepts on it: so
nothing but this command reaches the proxy, and it reaches nothing but the proxy.
"""

import os
import socket
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import trio

from daycare.public_network import NotPublicError, PublicNetwork

CONNECTIONS_MAX: Final = 16  # of one command at a time
PROXY_PORT: Final = 3128  # in the command's own network
HTTPS_PORT: Final = 443
ASKED_S: Final = 10.0  # within which a program says where it wants to

_HEAD_MAX_BYTES: Final = 8_192
_PIECE_BYTES: Final = 65_536
_TOLD_MAX: Final = 5
_PROXY: Final = f"http://127.0.0.1:{PROXY_PORT}"
ENVIRONMENT: Final = {"https_proxy": _PROXY, "HTTPS_PROXY": _PROXY, "http_proxy": _PROXY}
_OPEN: Final = f"""\
import os, socket, sys
door = socket.socket(fileno=int(sys.argv[1]))
listener = socket.create_server(("127.0.0.1", {PROXY_PORT}))
socket.send_fds(door, [b"x"], [listener.fileno()])
door.close()
listener.close()
os.execv(sys.argv[2], sys.argv[2:])
"""


def opening(door: int) -> list[str]:
    """Return the beginning of a command line: it hands the listening socket out by `door`, and becomes the rest."""
    without_input = ("/bin/sh", "-c", 'exec "$0" "$@" </dev/null')  # the open folder, with which Python does not start
    return [*without_input, os.path.realpath(sys.executable), "-I", "-S", "-c", _OPEN, str(door)]


def interpreter() -> str:
    """Return the folder that `opening` needs to be there."""
    return os.path.realpath(sys.base_prefix)


class HostProxy:
    """Connects a command with the hosts it may reach; `network` looks at where their names lead."""

    def __init__(self, hosts: Sequence[str], network: PublicNetwork) -> None:
        self._hosts = hosts
        self._network = network
        self._places = trio.CapacityLimiter(CONNECTIONS_MAX)
        self._refused: Counter[str] = Counter()

    def __str__(self) -> str:
        """What was refused, for the agent; empty if nothing was."""
        names = ", ".join(name for name, _ in self._refused.most_common(_TOLD_MAX))
        return f"not reached, as [shell] hosts does not name it: {names}" if names else ""

    def allows(self, host: str) -> bool:
        """Return whether a host may be reached: by its name, or as one below a name that begins with *."""
        host = host.lower().rstrip(".")
        return any(host.endswith(each[1:]) if each.startswith("*.") else host == each for each in self._hosts)

    async def serve(self, door: socket.socket) -> None:
        """Serve what a command asks for, until cancelled. `door` brings its listening socket."""
        door.setblocking(False)
        await trio.lowlevel.wait_readable(door)
        _, handles, _, _ = socket.recv_fds(door, 1, 1)
        if handles:  # else it has ended before it could
            listener = trio.socket.from_stdlib_socket(socket.socket(fileno=handles[0]))
            await trio.serve_listeners(self._handle, [trio.SocketListener(listener)])

    async def _handle(self, stream: trio.SocketStream) -> None:
        try:
            async with self._places, stream:
                with trio.move_on_after(ASKED_S) as asking:
                    head, more = await _head(stream)
                if not asking.cancelled_caught:
                    await self._connect(stream, head, more)
        except* (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # one side is gone: so is the connection

    async def _connect(self, stream: trio.SocketStream, head: bytes, more: bytes) -> None:
        host, refusal = self._wanted(head)
        if refusal:
            await stream.send_all(_answer(refusal))
            return
        try:
            there = await self._network.connect(host, HTTPS_PORT)
        except NotPublicError as refused:
            self._refused[host] += 1
            await stream.send_all(_answer(f"403 {refused.message}"))
        except OSError:
            await stream.send_all(_answer(f"502 {host} does not answer"))
        else:
            async with there:
                await stream.send_all(_answer("200 connected"))
                if more:
                    await there.send_all(more)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_pump, stream, there)
                    nursery.start_soon(_pump, there, stream)

    def _wanted(self, head: bytes) -> tuple[str, str]:
        """Return the host that is asked for, and why it is not reached, if it is not."""
        method, _, rest = head.partition(b" ")
        host, _, port = rest.split(b" ", 1)[0].decode("latin-1").rpartition(":")
        if method != b"CONNECT":
            return "", "405 only https is let through"
        if port != str(HTTPS_PORT) or not self.allows(host):
            self._refused[f"{host}:{port}"[:100]] += 1
            return "", "403 [shell] hosts in config.toml does not name it"
        return host.lower(), ""


@asynccontextmanager
async def network_of(
    hosts: Sequence[str], network: PublicNetwork | None = None
) -> AsyncIterator[tuple[int | None, HostProxy]]:
    """Give what a command needs to reach hosts: the handle for `opening`, None without hosts, and the proxy."""
    proxy = HostProxy(hosts, network or PublicNetwork())
    if not hosts:
        yield None, proxy
        return
    mine, theirs = socket.socketpair()
    with mine, theirs:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(proxy.serve, mine)
            yield theirs.fileno(), proxy
            nursery.cancel_scope.cancel()


async def _head(stream: trio.SocketStream) -> tuple[bytes, bytes]:
    found = b""
    while b"\r\n\r\n" not in found and len(found) < _HEAD_MAX_BYTES:
        if not (piece := await stream.receive_some(_HEAD_MAX_BYTES)):
            break
        found += piece
    head, _, more = found.partition(b"\r\n\r\n")
    return head, more


async def _pump(source: trio.SocketStream, target: trio.SocketStream) -> None:
    while data := await source.receive_some(_PIECE_BYTES):
        await target.send_all(data)
    await target.send_eof()


def _answer(status: str) -> bytes:
    words = "".join(char for char in status if char.isprintable())
    end = "" if status.startswith("200") else "Connection: close\r\nContent-Length: 0\r\n"
    return f"HTTP/1.1 {words}\r\n{end}\r\n".encode()
