"""What the network door costs beside the Unix socket: requests a second, how long one waits, and memory of streams.

A real daemon with the offline responder, a fresh one each round. Clients send one request after the other, each on a
connection of its own, over the socket and over TCP with a token, one way right after the other. A message is only
committed and acknowledged; what waits is answered before the next clock runs.
"""

import argparse
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import trio

from daycare.api.rates import API_CALLS_BURST
from daycare.ops.setup import initialise
from tests.network.conftest import free_port

from . import product
from .measure import median, median_ratio, percentile, rounded, rss_kib, say, scratch
from .turn_daemon import Client, Daemon, daemon

_WAYS: Final = ("socket", "tcp")
_POLL_S: Final = 0.02
_STREAM: Final = "GET /v1/events HTTP/1.1\r\nHost: localhost\r\n{}\r\n"


class _Call(NamedTuple):
    """A request that is measured."""

    name: str
    method: str
    path: str
    body: Any


_CALLS: Final = (
    _Call("get", "GET", "/v1/can?subject=/ann/direct&action=message", None),
    _Call("post", "POST", "/v1/messages", {"text": "hello"}),
)


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--requests", type=int, default=150, help=f"of each client, below {API_CALLS_BURST}")
    parser.add_argument("--streams", type=int, default=100, help="streams of events that are open at once")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run the rounds and return rates, milliseconds, megabytes, and ratios of TCP to the socket."""
    rounds = []
    for number in range(args.rounds):
        with scratch(args.dir.resolve()) as folder:
            home, port = folder / "home", free_port()
            home.mkdir(mode=0o700)
            initialise(home, user_id="ann")
            config = home / "config.toml"
            config.write_text(config.read_text("utf-8") + f'\n[api]\nlisten = "127.0.0.1:{port}"\n', "utf-8")
            rounds.append(trio.run(_round, home, port, args, number))
        say(f"round {number + 1}: " + ", ".join(f"{name} {rounded(value)}" for name, value in rounds[-1].items()))
    columns = {name: [one[name] for one in rounds] for name in rounds[0]}
    result = {name: rounded(median(values)) for name, values in columns.items()}
    for call in _CALLS:
        for figure in ("requests_s", "p50_ms"):
            tcp, socket = (columns[f"{call.name}_{figure}_{way}"] for way in ("tcp", "socket"))
            result[f"{call.name}_{figure}_vs_socket"] = rounded(median_ratio(tcp, socket))
    return result


async def _round(home: Path, port: int, args: argparse.Namespace, number: int) -> dict[str, float | None]:
    with trio.fail_after(args.deadline):
        async with daemon(home, args.deadline) as running:
            door = _Door(running, port)
            found: dict[str, float | None] = dict(await _memory(door, args.streams))
            for call in _CALLS:
                for way in _WAYS if number % 2 else reversed(_WAYS):
                    found |= await _measured(door, call, way, args)
            return found


class _Door:
    """Both ways into a daemon."""

    def __init__(self, running: Daemon, port: int) -> None:
        self.pid = running.pid
        self._client = running.client  # a connection that says nothing for long is closed
        self._socket = str(product.control_socket(running.home))
        self.port = port
        self._tokens = 0

    @asynccontextmanager
    async def open(self, way: str) -> AsyncIterator[tuple[trio.abc.Stream, str]]:
        """Connect; yield the stream and the header with which to call."""
        if way == "socket":
            async with await trio.open_unix_socket(self._socket) as stream:
                yield stream, ""
        else:
            header = await self.token()
            async with await trio.open_tcp_stream("127.0.0.1", self.port) as stream:
                yield stream, header

    async def token(self) -> str:
        """Return the header of a token that nobody has used yet."""
        self._tokens += 1
        async with self._client() as client:
            made = await client.call("POST", "/v1/tokens", {"name": f"bench-{self._tokens}", "may": "operator"})
        return f"Authorization: Bearer {made['token']}\r\n"

    async def settled(self) -> None:
        """Wait until nothing waits."""
        async with self._client() as client:
            while (await client.call("GET", "/v1/status"))["inbox_waiting"]:
                await trio.sleep(_POLL_S)


async def _memory(door: _Door, streams: int) -> dict[str, float]:
    """Return what the daemon takes, and what it takes with so many readers of its events."""
    async with door.open("tcp") as (stream, header):
        await Client(stream).call("GET", "/v1/status", headers=header)  # the first call imports
    before = rss_kib(door.pid)
    header = await door.token()
    async with AsyncExitStack() as stack:
        for _ in range(streams):
            opened = await stack.enter_async_context(await trio.open_tcp_stream("127.0.0.1", door.port))
            await opened.send_all(_STREAM.format(header).encode())
            found = b""
            while b": daycare" not in found:
                found += await opened.receive_some()
        opened_kib = rss_kib(door.pid)
    return {
        "rss_mb": before / 1024,
        "rss_streams_mb": opened_kib / 1024,
        "stream_kb": (opened_kib - before) / streams,
    }


async def _measured(door: _Door, call: _Call, way: str, args: argparse.Namespace) -> dict[str, float | None]:
    waits: list[float] = []
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(door.open(way)) for _ in range(args.clients)]
        begin = time.perf_counter()
        async with trio.open_nursery() as nursery:
            for stream, header in clients:
                nursery.start_soon(partial(_send, Client(stream), call, header, args.requests, waits))
        took = time.perf_counter() - begin
    await door.settled()
    return {
        f"{call.name}_requests_s_{way}": len(waits) / took,
        f"{call.name}_p50_ms_{way}": _ms(percentile(waits, 50)),
        f"{call.name}_p99_ms_{way}": _ms(percentile(waits, 99)),
    }


async def _send(client: Client, call: _Call, header: str, count: int, waits: list[float]) -> None:
    for _ in range(count):
        begin = time.perf_counter()
        await client.call(call.method, call.path, call.body, header)
        waits.append(time.perf_counter() - begin)


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000
