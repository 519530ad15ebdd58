"""What sleeping and awake agents cost in memory, and how soon a process with many of them is ready.

Each round starts two processes, one on a database without agents and one with all of them. Memory is what only the
process itself uses (USS); the difference of the two, divided by the number of agents, is the price of a sleeping one.
"""

import argparse
import gc
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import trio

from . import population, product
from .measure import median, rounded, rss_kib, say, scratch, uss_kib

_BACKLOG_S = 2.0  # what waits is being worked off for so long before the process is weighed


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--agents", type=int, default=100_000)
    parser.add_argument(
        "--waiting", type=int, default=100_000, help="unread messages at the start, spread over the agents"
    )
    parser.add_argument("--awake", type=int, default=1_000, help="agents woken to weigh them")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run the rounds and return kilobytes per agent, seconds and megabytes."""
    assert args.agents >= 2 * args.awake, "--agents must be at least twice --awake: as many warm the caches first"
    rounds = []
    with scratch(args.dir) as folder:
        say(f"building a database of {args.agents} agents")
        empty, full, loaded = folder / "empty.db", folder / "full.db", folder / "loaded.db"
        population.build(empty, 0)
        population.build(full, args.agents)
        population.build(loaded, args.agents, args.waiting)
        for number in range(args.rounds):
            rounds.append(_round(args, folder, empty, full, loaded))
            say(f"round {number + 1}: " + ", ".join(f"{name} {rounded(value)}" for name, value in rounds[-1].items()))
        size = loaded.stat().st_size
    result: dict[str, Any] = {name: rounded(median([one[name] for one in rounds])) for name in rounds[0]}
    return result | {"agents": args.agents, "waiting": args.waiting, "database_mb": rounded(size / 1e6, 1)}


def _round(args: argparse.Namespace, folder: Path, empty: Path, full: Path, loaded: Path) -> dict[str, float]:
    without = _child(folder, empty, 0, args.deadline)
    with_all = _child(folder, full, args.awake, args.deadline)
    with_backlog = _child(folder, loaded, 0, args.deadline)
    return {
        "asleep_kb": (with_all["uss_kib"] - without["uss_kib"]) / args.agents,
        "awake_kb": with_all["awake_kib"] / args.awake,
        "start_s": with_backlog["start_s"],
        "rss_mb": with_backlog["busy_rss_kib"] / 1024,
        "rss_quiet_mb": with_all["rss_kib"] / 1024,
        "start_empty_s": without["start_s"],
        "rss_empty_mb": without["rss_kib"] / 1024,
    }


def _child(folder: Path, template: Path, awake: int, deadline: float) -> dict[str, float]:
    """Start a process on a copy of a database and return what it found out about itself."""
    with scratch(folder) as home:
        shutil.copyfile(template, product.database(home))
        command = [sys.executable, "-m", f"{__package__}.scale", str(home.resolve()), str(awake)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=deadline, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"the process under test failed with status {done.returncode}:\n{done.stderr[-4000:]}")
    answer: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return answer


async def _weigh(home: Path, awake: int) -> dict[str, float]:
    begin = time.perf_counter()
    async with product.household(home) as household:
        start_s = time.perf_counter() - begin
        gc.collect()
        found = {"start_s": start_s, "uss_kib": uss_kib(), "rss_kib": rss_kib(), "awake_kib": 0.0}
        await trio.sleep(_BACKLOG_S)
        found["busy_rss_kib"] = rss_kib()
        if awake:
            # As many others first: caches of pages and statements are filled once, not by each agent.
            await household.wake(0, awake)
            gc.collect()
            before = uss_kib()
            await household.wake(awake, awake)
            gc.collect()
            found["awake_kib"] = uss_kib() - before
        return found


if __name__ == "__main__":
    print(json.dumps(trio.run(_weigh, Path(sys.argv[1]), int(sys.argv[2]))))
