"""The store on PostgreSQL against the one in a file: messages a second, round trips, and one message alone.

64 senders, each of which waits until its message is durable before it sends the next; 100 agents, each of a user of its
own; 1 KB each. A message counts when it is accepted durably, handled, and acknowledged durably. The server is the one
that DAYCARE_TEST_POSTGRES names, else one of the test extra on the disk tested, with its own settings. What the server
adds to a whole turn is told as `turn_...`, see `postgres_turns`.
"""

import argparse
import gc
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import trio

from . import postgres_turns, product
from .measure import median, median_ratio, percentile, rounded, say, scratch
from .servers import a_server, new_database

_STEPS: Final = 3  # durable ones of a message: accepted, begun, ended


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--messages", type=int, default=10_000, help="messages per round")
    parser.add_argument("--senders", type=int, default=64)
    parser.add_argument("--agents", type=int, default=100)
    parser.add_argument("--bytes", type=int, default=1024, help="size of a message")
    parser.add_argument("--turns", type=int, default=100, help="turns of a whole daemon, one after another; 0: none")
    parser.add_argument("--delay-ms", type=float, default=0.0, help="that the server's answers come later in these")
    parser.add_argument("--alone", type=int, default=300, help="messages that are sent one after another")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run the rounds and return ratios and rates."""
    found: dict[str, list[dict[str, float | None]]] = {"sqlite": [], "postgresql": []}
    with scratch(args.dir) as folder, a_server(folder) as server:
        turns = [
            postgres_turns.measure(folder, server, args.turns, args.delay_ms)
            for _ in range(args.rounds if args.turns else 0)
        ]
        for number in range(args.rounds + 1 if args.messages else 0):
            order = ["sqlite", "postgresql"] if number % 2 else ["postgresql", "sqlite"]
            for engine in order:
                gc.collect()
                place = (lambda: _new_file(folder)) if engine == "sqlite" else (lambda: new_database(server))
                one = trio.run(_drive, place, args)
                if number:  # the first is to warm up
                    found[engine].append(one)
                    say(f"round {number} {engine}: {one}")
    files, servers = found["sqlite"], found["postgresql"]
    result: dict[str, Any] = {key: rounded(median([each[key] for each in turns])) for key in (turns or [{}])[0]}
    result |= {
        "vs_sqlite": rounded(median_ratio(_all(servers, "rate"), _all(files, "rate"))),
        "alone_vs_sqlite": rounded(median_ratio(_all(servers, "alone_p50_ms"), _all(files, "alone_p50_ms"))),
    }
    for engine, rounds in found.items():
        result[engine] = {key: rounded(median(_all(rounds, key))) for key in (rounds or [{}])[0]}
    return result


def _all(rounds: list[dict[str, float | None]], key: str) -> list[float | None]:
    return [each[key] for each in rounds]


async def _drive(place: Callable[[], str], args: argparse.Namespace) -> dict[str, float | None]:
    location = place()
    text = "x" * args.bytes
    with trio.fail_after(args.deadline):
        async with product.mailroom_of_many(location, args.agents, text) as room:
            begin, used, trips, commits = time.perf_counter(), _cpu_s(), room.trips, room.commits
            async with trio.open_nursery() as nursery:
                for sender in range(args.senders):
                    nursery.start_soon(_send, room, args, sender)
            await room.settled()
            took, cpu = time.perf_counter() - begin, _cpu_s() - used
            commits, trips = room.commits - commits, room.trips - trips
            alone = []
            for message in range(args.alone):
                begin = time.perf_counter()
                await room.send(message % args.agents, args.messages + message)
                await room.settled()
                alone.append(1000 * (time.perf_counter() - begin))
    return {
        "rate": args.messages / took,
        "process_us": 1e6 * cpu / args.messages,
        "messages_a_commit": _STEPS * args.messages / commits,
        "trips_a_message": trips / args.messages,
        "trips_a_commit": trips / commits,
        "alone_p50_ms": percentile(alone, 50),
        "alone_p99_ms": percentile(alone, 99),
    }


async def _send(room: product.Mailroom, args: argparse.Namespace, sender: int) -> None:
    for message in range(sender, args.messages, args.senders):
        await room.send(message % args.agents, message)


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _new_file(folder: Path) -> str:
    return str(folder / f"{time.monotonic_ns()}.db")
