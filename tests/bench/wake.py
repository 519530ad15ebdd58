"""Whether a message to a sleeping agent always wakes it, wakes it once, and how soon.

Many senders post to agents that fall asleep as soon as they have nothing to do, after random pauses, often several to
the same agent at the same moment. A message that is never handled is lost; an agent that wakes while it is awake, or
handles a message twice or while asleep, is a double activation.
"""

import argparse
import random
import time
from typing import Any

import trio

from . import product
from .measure import median, percentile, rounded, say, scratch

_CROWD = 8  # senders that now and then post to one agent in the same moment


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--messages", type=int, default=20_000, help="messages per round")
    parser.add_argument("--senders", type=int, default=64)
    parser.add_argument("--agents", type=int, default=200)
    parser.add_argument("--pause-ms", type=float, default=40.0, help="mean pause of a sender between two messages")
    parser.add_argument("--settle", type=float, default=30.0, help="seconds after which an unhandled message is lost")
    parser.add_argument("--seed", type=int, default=None, help="of the random choices; a fresh one is printed")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run the rounds. Faults are summed over all rounds, times are medians."""
    seed = args.seed if args.seed is not None else random.SystemRandom().randrange(2**32)
    say(f"seed {seed}")
    rounds = []
    for number in range(args.rounds):
        rounds.append(trio.run(_round, args, random.Random(f"{seed}/{number}")))
        say(f"round {number + 1}: {rounds[-1]}")
    result: dict[str, Any] = {name: sum(one[name] for one in rounds) for name in ("lost", "double_activations")}
    result |= {name: rounded(median([one[name] for one in rounds])) for name in ("p50_ms", "p99_ms")}
    return result | {name: sum(one[name] for one in rounds) for name in ("messages", "activations")} | {"seed": seed}


class _Witness(product.Watch):
    """Sees everything and judges it."""

    def __init__(self) -> None:
        self.accepted: dict[int, float] = {}
        self.handled: set[int] = set()
        self.active: set[int] = set()
        self.fresh: set[int] = set()
        self.waits: list[float] = []
        self.activations = 0
        self.doubles = 0

    def awake(self, agent: int) -> None:
        self.activations += 1
        self.doubles += agent in self.active
        self.active.add(agent)
        self.fresh.add(agent)

    def handling(self, agent: int, message: int) -> None:
        now = time.perf_counter()
        self.doubles += message in self.handled or agent not in self.active
        self.handled.add(message)
        if agent in self.fresh:  # only the message that woke it: later ones waited for a turn, not for a wake
            self.fresh.remove(agent)
            self.waits.append(now - self.accepted.get(message, now))

    def asleep(self, agent: int) -> None:
        self.active.discard(agent)


async def _round(args: argparse.Namespace, choose: random.Random) -> dict[str, Any]:
    witness = _Witness()
    with scratch(args.dir) as folder, trio.fail_after(args.deadline):
        async with product.mailroom(folder, args.agents, "x" * 100, witness) as room:
            async with trio.open_nursery() as nursery:
                for sender in range(args.senders):
                    share = range(sender, args.messages, args.senders)
                    nursery.start_soon(_send, room, witness, share, args, random.Random(choose.random()))
            with trio.move_on_after(args.settle):
                await room.settled()
    return {
        "lost": len(witness.accepted.keys() - witness.handled),
        "double_activations": witness.doubles,
        "p50_ms": _ms(percentile(witness.waits, 50)),
        "p99_ms": _ms(percentile(witness.waits, 99)),
        "messages": len(witness.accepted),
        "activations": witness.activations,
    }


async def _send(
    room: product.Mailroom, witness: _Witness, share: range, args: argparse.Namespace, choose: random.Random
) -> None:
    for message in share:
        match choose.randrange(4):
            case 0:  # meet others: all wait for the same tick of the clock and post to the agent that it names
                tick = args.pause_ms / 1000 * _CROWD / 2
                beat = int(trio.current_time() / tick) + 1
                await trio.sleep_until(beat * tick)
                agent = beat % args.agents
            case 1:  # hit the moment in which the agent falls asleep
                for _ in range(choose.randrange(40)):
                    await trio.lowlevel.checkpoint()
                agent = choose.randrange(args.agents)
            case _:
                await trio.sleep(choose.random() * args.pause_ms / 1000 * 2)
                agent = choose.randrange(args.agents)
        await room.send(agent, message)
        witness.accepted[message] = time.perf_counter()


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000
