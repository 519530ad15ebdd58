"""Plant each fault of the table into a running daemon, and see whether its campaign catches it.

    python -m tests.planted --seed 1 --json
    python -m tests.planted --only bridge,files_are_empty

Progress goes to stderr; the exit code is 1 if a fault was not caught, or a campaign found something without one.
"""

import argparse
import json
import random
import sys
import time
from unittest.mock import patch

import trio

from daycare.testing.daemon_process import die_tidily
from tests.planted.table import TABLE, Outcome, Planted, run, sound
from tests.telegram.campaign import running
from tests.telegram.campaign.report import say
from tests.telegram.campaign.warm import Kennel


def main() -> int:
    """Run them and print what came of each."""
    parser = argparse.ArgumentParser(
        "python -m tests.planted", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="names of faults or campaigns, with commas")
    parser.add_argument("--seed", type=int, default=random.randrange(1, 2**31))
    parser.add_argument("--jobs", type=int, default=4, help="campaigns at a time: most of what they do is to wait")
    parser.add_argument("--json", action="store_true", help="print what was found as JSON, as the last line")
    chosen = parser.parse_args()
    die_tidily()
    say(f"seed {chosen.seed}")
    only = set(filter(None, chosen.only.split(",")))
    if unknown := only - {name for each in TABLE for name in (each.name, each.campaign)}:
        parser.error(f"no such fault or campaign: {', '.join(sorted(unknown))}")
    wanted = [each for each in TABLE if not only or only & {each.name, each.campaign}]
    began = time.monotonic()
    with Kennel(pace=False) as kennel, patch.object(running, "DaemonProcess", kennel.start):
        outcomes, false = trio.run(_all, wanted, chosen.seed, chosen.jobs)
    missed = [f"{each.fault.name} ({each.fault.campaign})" for each in outcomes if not each.caught]
    if chosen.json:
        figures = {"seed": chosen.seed, "planted": len(outcomes), "missed": missed, "without_a_fault": false}
        more = {"seconds": round(time.monotonic() - began), "faults": [each.as_json() for each in outcomes]}
        print(json.dumps(figures | more))
    else:
        for each in outcomes:
            print(f"{'caught' if each.caught else 'MISSED'}  {each.fault.campaign:8} {each.fault.name}")
        print(f"found without a fault: {false}")
    return int(bool(missed or any(false.values())))


async def _all(wanted: list[Planted], seed: int, jobs: int) -> tuple[list[Outcome], dict[str, int]]:
    """Run the campaigns with their faults, and each one without."""
    free = trio.CapacityLimiter(jobs)
    outcomes: list[Outcome] = []
    false: dict[str, int] = {}

    async def one(fault: Planted) -> None:
        async with free:
            outcome = await run(fault, seed)
        outcomes.append(outcome)
        say(f"{'caught' if outcome.caught else 'MISSED'}  {fault.campaign} {fault.name}")

    async def without(name: str) -> None:
        async with free:
            false[name] = len(await sound(name, seed))

    async with trio.open_nursery() as nursery:
        for name in {fault.campaign: None for fault in wanted}:
            nursery.start_soon(without, name)
        for fault in wanted:
            nursery.start_soon(one, fault)
    return sorted(outcomes, key=lambda each: TABLE.index(each.fault)), false


if __name__ == "__main__":
    sys.exit(main())
