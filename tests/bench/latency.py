"""How long a sender waits for a durable accept, alone and in a crowd, and how long the loop keeps others waiting.

Alone: one message at a time, each beside a bare append and fdatasync of 4 KB in the same folder. In a crowd: 64
senders at once, while another task times its turns of the loop.
"""

import argparse
import gc
import time
from typing import Any

import trio

from . import product
from .measure import DiskProbe, median, median_ratio, percentile, rounded, sample_lag, say, scratch


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--singles", type=int, default=500, help="messages sent one at a time, per round")
    parser.add_argument("--messages", type=int, default=10_000, help="messages sent in the crowd, per round")
    parser.add_argument("--senders", type=int, default=64)
    parser.add_argument("--agents", type=int, default=100)
    parser.add_argument("--bytes", type=int, default=1024, help="size of a message")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run the rounds and return milliseconds and the ratio to the disk."""
    rounds = []
    for number in range(args.rounds + 1):
        gc.collect()
        one = trio.run(_round, args)
        if number:  # the first warms imports and caches
            rounds.append(one)
            say(f"round {number}: " + ", ".join(f"{name} {rounded(value)} ms" for name, value in one.items()))
    columns = {name: [one[name] for one in rounds] for name in rounds[0]}
    result: dict[str, Any] = {"p50_vs_fdatasync": rounded(median_ratio(columns["p50_ms"], columns["fdatasync_p50_ms"]))}
    return result | {name: rounded(median(values)) for name, values in columns.items()}


async def _round(args: argparse.Namespace) -> dict[str, float | None]:
    alone: list[float] = []
    disk: list[float] = []
    crowd: list[float] = []
    lag: list[float] = []
    with scratch(args.dir) as folder, trio.fail_after(args.deadline):
        probe = DiskProbe(folder)
        async with product.mailroom(folder, args.agents, "x" * args.bytes) as room:
            for message in range(args.singles):
                disk.append(probe.sample())
                await _timed(room, message % args.agents, message, alone)
                await room.settled()  # the handler's own commits must not stand in the next sample's way
            async with trio.open_nursery() as nursery:
                nursery.start_soon(sample_lag, lag)
                async with trio.open_nursery() as senders:
                    for sender in range(args.senders):
                        senders.start_soon(_send, room, args, sender, crowd)
                await room.settled()
                nursery.cancel_scope.cancel()
        probe.close()
    return {
        "p50_ms": _ms(percentile(alone, 50)),
        "p99_ms": _ms(percentile(alone, 99)),
        "fdatasync_p50_ms": _ms(percentile(disk, 50)),
        "fdatasync_p99_ms": _ms(percentile(disk, 99)),
        "crowd_p50_ms": _ms(percentile(crowd, 50)),
        "crowd_p99_ms": _ms(percentile(crowd, 99)),
        "loop_lag_p50_ms": _ms(percentile(lag, 50)),
        "loop_lag_p99_ms": _ms(percentile(lag, 99)),
    }


async def _send(room: product.Mailroom, args: argparse.Namespace, sender: int, into: list[float]) -> None:
    for number in range(sender, args.messages, args.senders):
        message = args.singles + number
        await _timed(room, message % args.agents, message, into)


async def _timed(room: product.Mailroom, agent: int, message: int, into: list[float]) -> None:
    begin = time.perf_counter()
    await room.send(agent, message)
    into.append(time.perf_counter() - begin)


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000
