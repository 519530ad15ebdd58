"""What a storm of agents costs the others: how long people wait for answers, in the same run with and without it.

People write to their own agents at a steady pace. In one half of each round, groups of agents that answer every message
by writing to all others of their group are set off all the while: pairs that loop, or with `--fan 2` three that beget
ever more. The model answers at once, so what is measured is the daemon.
"""

import argparse
import gc
import time
from typing import Any

import trio

from daycare.base.clock import SystemClock
from daycare.config import Config, ModelsSection, ProviderSection
from daycare.plugin import Completion, InferRequest
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.scripted import Scripted, call, say

from .measure import median, percentile, rounded, scratch
from .measure import say as tell

LIMIT_RATIO = 1.5  # what others may wait at the 99th percentile, against the same run without the storm


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--people", type=int, default=20, help="agents that people talk with")
    parser.add_argument("--per-second", type=float, default=10.0, help="messages of all people together")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each half of a round")
    parser.add_argument("--groups", type=int, default=1, help="groups of agents that keep each other busy")
    parser.add_argument("--fan", type=int, default=1, help="messages that each of their messages begets")
    parser.add_argument("--every", type=float, default=10.0, help="seconds after which each group is set off again")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run the rounds and return milliseconds, and the ratio of the two 99th percentiles."""
    rounds = []
    for number in range(args.rounds + 1):
        gc.collect()
        one = trio.run(_round, args)
        if number:  # the first warms imports and caches
            rounds.append(one)
            tell(f"round {number}: " + ", ".join(f"{name} {rounded(value)}" for name, value in one.items()))
    columns = {name: [one[name] for one in rounds] for name in rounds[0]}
    found = {name: rounded(median(values)) for name, values in columns.items()}
    return {"p99_ratio": found.pop("ratio"), "p99_ratio_limit": LIMIT_RATIO, **found}


async def _round(args: argparse.Namespace) -> dict[str, float]:
    with scratch(args.dir) as folder, trio.fail_after(args.deadline):
        config = Config(
            models=ModelsSection(default="scripted/model"), providers={"scripted": ProviderSection(kind="scripted")}
        )
        async with open_daemon(
            folder, Scripted(_brain), location="daycare.db", config=config, clock=SystemClock(), inline=False
        ) as house:
            people = [f"/ann/agent/p{n}" for n in range(args.people)]
            groups = [[f"/ann/agent/g{group}-{n}" for n in range(args.fan + 1)] for group in range(args.groups)]
            for path in (*people, *(path for group in groups for path in group)):
                await house.agent(path)
            await _half(args, house, people, [], seconds=1.0)  # warms this house
            waits = {storm: await _half(args, house, people, groups if storm else []) for storm in (False, True)}
            await trio.sleep(1)  # for what is kept of the last ones
            storms = sum("storm.stopped" in event for event in await house.store.ledger.events(limit=10_000))
    calm, stormy = percentile(waits[False], 99) or 0.0, percentile(waits[True], 99) or 0.0
    return {
        "ratio": stormy / calm,
        "calm_p50_ms": 1000 * (percentile(waits[False], 50) or 0.0),
        "calm_p99_ms": 1000 * calm,
        "storm_p50_ms": 1000 * (percentile(waits[True], 50) or 0.0),
        "storm_p99_ms": 1000 * stormy,
        "storms_stopped": storms,
    }


async def _half(
    args: argparse.Namespace,
    house: TestDaemon,
    people: list[str],
    groups: list[list[str]],
    seconds: float | None = None,
) -> list[float]:
    """Let people talk for a while; return how long each waited for an answer."""
    waits: list[float] = []
    count = round((seconds or args.seconds) * args.per_second)
    async with trio.open_nursery() as nursery:
        for group in groups:
            nursery.start_soon(_set_off, house, group, args.every)
        async with trio.open_nursery() as talking:
            begin = trio.current_time()
            for number in range(count):
                await trio.sleep_until(begin + number / args.per_second)
                talking.start_soon(_talk, house, people[number % len(people)], waits)
        nursery.cancel_scope.cancel()
    return waits


async def _talk(house: TestDaemon, path: str, into: list[float]) -> None:
    begin = time.perf_counter()
    await house.talk("hello", path=path)
    into.append(time.perf_counter() - begin)


async def _set_off(house: TestDaemon, group: list[str], every_s: float) -> None:
    while True:
        await house.say(f"storm {' '.join(group)}", path=group[0])
        await trio.sleep(every_s)


def _brain(request: InferRequest) -> Completion:
    """Answer people with a word, and each message about a storm with one to each of the others."""
    last = request.messages[-1]
    if last.role == "tool" or "storm " not in last.text:
        return say("hello")
    group = last.text.partition("storm ")[2].split()
    others = [path for path in group if f"Your address is {path}" not in request.system]
    text = f"storm {' '.join(group)}"
    return call(*(("send_message", {"to": path, "text": text}) for path in others))
