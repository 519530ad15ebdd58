"""What a turn costs in a long conversation, compared with one that has just begun, outside of the model.

A real process, whose model is a fake server in another one and answers at once. One person talks for `--turns` turns,
begins a new session, and talks on: in both as much is known of that person. Processor time of the daemon's process,
the median of forty turns at the end of the long conversation, and of as many around the tenth of later ones.
"""

import argparse
import random
from pathlib import Path
from typing import Any, Final

import trio

from .measure import median, rounded, say, scratch
from .soak import client, say_as, talked_with, words

_MEASURED: Final = 40
_BEFORE: Final = 5  # turns of a new session that are not measured
_SESSION: Final = 10  # turns of a new session that are


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--turns", type=int, default=300, help="turns of the long conversation")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Talk and return milliseconds and their ratio."""
    found = []
    for number in range(args.rounds):
        with scratch(args.dir.resolve()) as folder:
            found.append(trio.run(_talk, folder, args.turns, args.deadline))
        say(f"round {number + 1}: " + ", ".join(f"{name} {rounded(value)}" for name, value in found[-1].items()))
    return {"turns": args.turns, **{name: rounded(median([each[name] for each in found])) for name in found[0]}}


async def _talk(folder: Path, turns: int, deadline: float) -> dict[str, float]:
    dice = random.Random(1)
    async with talked_with(folder, 1, deadline) as pid, client(folder) as connection:

        async def turn() -> float:
            began = _cpu_ms(pid)
            await say_as(connection, "u0", words(dice))
            return _cpu_ms(pid) - began

        long = [await turn() for _ in range(turns)][-_MEASURED:]
        new: list[float] = []
        while len(new) < _MEASURED:
            await say_as(connection, "u0", "/reset")
            new += [await turn() for _ in range(_BEFORE + _SESSION)][_BEFORE:]
    long_ms, new_ms = median(long) or 0.0, median(new) or 1.0
    return {"turn_ms": long_ms, "tenth_turn_ms": new_ms, "ratio": long_ms / new_ms}


def _cpu_ms(pid: int) -> float:
    """Return the processor time of a process, to the microsecond."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e6
