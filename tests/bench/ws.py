"""Live events to many WebSockets: how late they come, what they cost, and that none is lost without a word.

Clients read all events that a daemon in another process publishes. Some stop reading now and then, for long enough that
the daemon sends them away: they connect again and go on behind their last cursor. What each has seen and what it was
told to have missed must be all that there was.
"""

import argparse
import json
import os
import random
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import trio

from .measure import percentile, rounded, say, scratch

if TYPE_CHECKING:
    from trio_websocket import WebSocketConnection

_START_S: Final = 60.0
_LAGS_EVERY: Final = 16  # of so many events the lateness of one is kept


class _At(msgspec.Struct):
    at_ms: int = 0


class _Event(msgspec.Struct):
    cursor: int
    event: _At


class _Message(msgspec.Struct):
    type: str
    cursor: int = 0
    missed: int = 0
    events: list[_Event] = []


_decode = msgspec.json.Decoder(_Message).decode


class _Reader:
    """A client, and what it has seen."""

    def __init__(self, port: int, token: str, naps: list[float]) -> None:
        self.position = -1  # the last cursor
        self.seen = self.missed = self.gaps = self.dropped = 0
        self.unexplained = 0  # cursors that are neither seen nor in a gap: there must be none
        self.lags_ms: list[int] = []
        self.codes: Counter[int] = Counter()
        self._port = port
        self._token = token
        self._naps = naps  # how long it reads before it naps, and for how long, in turn

    async def run(self, begin: int, last: list[int], opened: trio.Event) -> None:
        """Read until the last cursor, which becomes known meanwhile."""
        from trio_websocket import ConnectionClosed, HandshakeError, open_websocket

        self.position = begin
        while not last or self.position < last[0]:
            try:
                async with open_websocket(
                    "127.0.0.1",
                    self._port,
                    "/v1/ws",
                    use_ssl=False,
                    subprotocols=["daycare.v1"],
                    extra_headers=[(b"Authorization", f"Bearer {self._token}".encode())],
                    message_queue_size=1,
                    max_message_size=8 * 1024 * 1024,
                ) as connection:
                    wish = {"type": "subscribe", "id": "s", "after": self.position}
                    await connection.send_message(json.dumps(wish))
                    opened.set()
                    await self._read(connection, last)
            except ConnectionClosed as closed:
                self.dropped += 1
                self.codes[closed.reason.code if closed.reason is not None else 1006] += 1
            except (HandshakeError, OSError):
                await trio.sleep(0.1)

    async def _read(self, connection: "WebSocketConnection", last: list[int]) -> None:
        awake_until = trio.current_time() + self._naps[0] if self._naps else float("inf")
        while not last or self.position < last[0]:
            if trio.current_time() >= awake_until and len(self._naps) > 1:
                await trio.sleep(self._naps[1])
                del self._naps[:2]
                awake_until = trio.current_time() + self._naps[0] if self._naps else float("inf")
            with trio.move_on_after(1):
                self._take(_decode(await connection.get_message()))

    def _take(self, message: _Message) -> None:
        if message.type == "gap":
            self.gaps += 1
            self.missed += message.missed
            self.unexplained += abs(message.cursor - self.position - message.missed)
            self.position = message.cursor
        elif message.type == "events":
            now_ms = time.time_ns() // 1_000_000
            for event in message.events:
                self.unexplained += abs(event.cursor - self.position - 1)
                self.position = event.cursor
            self.seen += len(message.events)
            self.lags_ms += [now_ms - it.event.at_ms for it in message.events[::_LAGS_EVERY]]


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--slow", type=int, default=5, help="of these, those that stop reading now and then")
    parser.add_argument("--rate", type=float, default=1_000.0, help="events a second, each for all clients")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--nap", type=float, default=15.0, help="seconds that a slow client does not read")
    parser.add_argument("--seed", type=int, default=None, help="of when they stop")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run one round, whatever `--rounds` says: it lasts as long as it is asked to."""
    seed = random.randrange(2**32) if args.seed is None else args.seed
    say(f"seed {seed}")
    with scratch(args.dir) as folder, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        arguments = [str(folder / "home"), str(port), str(args.rate), str(args.seconds)]
        child = subprocess.Popen(
            [sys.executable, "-m", f"{__package__}.ws_daemon", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"HOME": str(folder)},
        )
        try:
            return {"seed": seed, **trio.run(_measure, args, child, port, random.Random(seed))}
        finally:
            assert child.stdin is not None and child.stdout is not None
            child.stdin.close()
            child.wait(30)
            child.stdout.close()


async def _measure(
    args: argparse.Namespace, child: "subprocess.Popen[str]", port: int, chance: random.Random
) -> dict[str, Any]:
    assert child.stdout is not None and child.stdin is not None
    with trio.fail_after(_START_S):
        hello = json.loads(await trio.to_thread.run_sync(child.stdout.readline))
    readers = [
        _Reader(port, hello["tokens"][number % 2], _naps(args, chance) if number < args.slow else [])
        for number in range(args.clients)
    ]
    last: list[int] = []
    begin = await _cursor(port, hello["tokens"][0])
    with trio.fail_after(args.seconds + args.deadline):
        async with trio.open_nursery() as nursery:
            opened = [trio.Event() for _ in readers]
            for reader, event in zip(readers, opened, strict=True):
                nursery.start_soon(reader.run, begin, last, event)
            for event in opened:
                await event.wait()
            await trio.sleep(1)  # their subscriptions have begun
            cpu = _cpu_s(child.pid)
            started = time.monotonic()
            child.stdin.write("go\n")
            child.stdin.flush()
            told = json.loads(await trio.to_thread.run_sync(child.stdout.readline))
            took = time.monotonic() - started
            last.append(told["last"])
        cpu = _cpu_s(child.pid) - cpu
    quick = [lag for reader in readers[args.slow :] for lag in reader.lags_ms]
    published = told["last"] - begin
    lost = sum(it.unexplained + abs(it.position - begin - it.seen - it.missed) for it in readers)
    return {
        "rounds": 1,
        "clients": args.clients,
        "slow": args.slow,
        "published": published,
        "seconds": rounded(took, 1),
        "delivered": sum(reader.seen for reader in readers),
        "lost": lost,
        "quick_dropped": sum(reader.dropped for reader in readers[args.slow :]),
        "slow_dropped": sum(reader.dropped for reader in readers[: args.slow]),
        "close_codes": {str(code): count for code, count in sum((it.codes for it in readers), Counter()).items()},
        "gaps": sum(reader.gaps for reader in readers),
        "missed_and_told": sum(reader.missed for reader in readers),
        "late_p50_ms": percentile(quick, 50),
        "late_p99_ms": percentile(quick, 99),
        "daemon_cpu_s": rounded(cpu, 1),
        "rss_mib_alone": rounded(hello["pid_rss_kib"] / 1024, 1),
        "rss_mib_with_sockets": rounded(told["rss_kib_sockets"] / 1024, 1),
        "rss_mib_at_the_end": rounded(told["rss_kib_end"] / 1024, 1),
    }


def _naps(args: argparse.Namespace, chance: random.Random) -> list[float]:
    """Return when a slow client reads, and when it does not: two naps, if there is time."""
    awake = [chance.uniform(0.05, 0.15) * args.seconds for _ in range(2)]
    return [awake[0], args.nap, awake[1], args.nap]


async def _cursor(port: int, token: str) -> int:
    """Return the cursor of now."""
    from trio_websocket import open_websocket

    headers = [(b"Authorization", f"Bearer {token}".encode())]
    async with open_websocket(
        "127.0.0.1", port, "/v1/ws", use_ssl=False, subprotocols=["daycare.v1"], extra_headers=headers
    ) as connection:
        return _decode(await connection.get_message()).cursor


def _cpu_s(pid: int) -> float:
    """Return the seconds of processor that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
