"""How many messages a second pass both durable borders, against the least that could and against other queues.

64 senders, each of which waits until its message is durable before it sends the next; 100 agents; 1 KB each. A message
counts when it is accepted durably, handled, and acknowledged durably.
"""

import argparse
import gc
import importlib.metadata
import platform
import time
from pathlib import Path
from typing import Any, Protocol

import apsw
import trio

from . import peers, product
from .bare import open_bare
from .measure import DiskProbe, median, median_ratio, rounded, say, scratch

# Messages for each peer, so that one round of it takes a second or a few; redis-py looks slower in short rounds.
_SHARE = {"redis_always": 0.5, "redis_raw": 1.0, "huey": 0.1, "litequeue": 0.1, "dbos_sqlite": 0.02, "dbos_wal": 0.02}

_SYNCS = 200  # samples of the disk alone


class _Room(Protocol):
    async def send(self, agent: int, message: int) -> None: ...

    async def settled(self) -> None: ...


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--messages", type=int, default=20_000, help="messages per round (slow peers send fewer)")
    parser.add_argument("--senders", type=int, default=64)
    parser.add_argument("--agents", type=int, default=100)
    parser.add_argument("--bytes", type=int, default=1024, help="size of a message")
    parser.add_argument("--peers", type=_names, default=list(_SHARE), help="comma-separated; empty for none")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run the rounds and return ratios and rates."""
    wanted = [name for name in args.peers if _runs_here(name)]
    load = peers.Load(args.messages, args.senders, args.agents, args.bytes)
    rates: dict[str, list[float | None]] = {name: [] for name in ("bare", "product", *wanted)}
    spent: dict[str, list[float | None]] = {"bare": [], "product": []}
    _measure("product", args.dir, load.scaled(0.1), args.deadline)  # warm: imports, page cache, CPU clock
    _measure("bare", args.dir, load.scaled(0.1), args.deadline)
    for number in range(args.rounds):
        order = ["bare", "product", *wanted]
        if number % 2:
            order.reverse()  # what drifts with time favours each side in turn
        for name in order:
            rate, cpu_us = _measure(name, args.dir, load.scaled(_SHARE.get(name, 1.0)), args.deadline)
            rates[name].append(rate)
            if name in spent:
                spent[name].append(cpu_us)
            say(f"round {number + 1} {name}: {rounded(rates[name][-1], 1)} messages/s")
    ours = rates["product"]
    result: dict[str, Any] = {
        f"vs_{name}": rounded(median_ratio(ours, rates[name])) if name in rates else None for name in ("bare", *_SHARE)
    }
    result["rates"] = {name: rounded(median(rates.get(name, [])), 1) for name in ("product", "bare", *_SHARE)}
    result["cpu_vs_bare"] = rounded(median_ratio(spent["bare"], spent["product"]))
    result["cpu_us"] = {name: rounded(median(each), 1) for name, each in spent.items()}
    result["fdatasync_ms"] = rounded(_sync_ms(args.dir))
    result["versions"] = _versions()
    return result


def _names(text: str) -> list[str]:
    names = [name for name in text.split(",") if name]
    unknown = [name for name in names if name not in _SHARE]
    if unknown:
        raise argparse.ArgumentTypeError(f"no peer {', '.join(unknown)}; there are {', '.join(_SHARE)}")
    return names


def _runs_here(name: str) -> bool:
    why = peers.missing(name)
    if why is not None:
        say(f"{name} is left out: {why}")
    return why is None


def _measure(name: str, parent: Path, load: peers.Load, deadline: float) -> tuple[float, float | None]:
    """Return messages a second and, of what runs in this process, its microseconds of processor time for each."""
    gc.collect()
    with scratch(parent) as folder:
        if name in _SHARE:
            return peers.measure(name, folder, load, deadline), None
        return trio.run(_drive, name, folder, load, deadline)


def _sync_ms(parent: Path) -> float | None:
    with scratch(parent) as folder:
        probe = DiskProbe(folder)
        times = [1000 * probe.sample() for _ in range(_SYNCS)]
        probe.close()
    return median(times)


async def _drive(name: str, folder: Path, load: peers.Load, deadline: float) -> tuple[float, float]:
    opened = open_bare if name == "bare" else product.mailroom
    with trio.fail_after(deadline):
        async with opened(folder, load.queues, load.text) as room:
            begin, worked = time.perf_counter(), time.process_time()
            async with trio.open_nursery() as nursery:
                for sender in range(load.senders):
                    nursery.start_soon(_send, room, load, sender)
            await room.settled()
            took_s, spent_s = time.perf_counter() - begin, time.process_time() - worked
            return load.messages / took_s, 1e6 * spent_s / load.messages


async def _send(room: _Room, load: peers.Load, sender: int) -> None:
    for message in range(sender, load.messages, load.senders):
        await room.send(message % load.queues, message)


def _versions() -> dict[str, str | None]:
    found: dict[str, str | None] = {"python": platform.python_version(), "sqlite": apsw.sqlite_lib_version()}
    for name in ("trio", "apsw", "redis", "hiredis", "huey", "litequeue", "dbos"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    found["redis-server"] = peers.redis_version()
    return found
