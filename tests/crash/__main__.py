"""Kill a real daemon under load, again and again, and count what it lost, doubled, reordered or repeated.

    python -m tests.crash --kills 500 --seed 1 --mode kill --json
    python -m tests.crash --kills 300 --seed 1 --mode kill --workload delegation --json
    python -m tests.crash --kills 500 --seed 1 --mode kill --workload curation --json
    python -m tests.crash --kills 300 --seed 1 --mode kill --workload budget --json
    python -m tests.crash --kills 1000 --seed 1 --mode kill --workload cron --json
    python -m tests.crash --kills 300 --seed 1 --mode kill --workload approvals --json
    python -m tests.crash --kills 200 --seed 1 --mode syscall --json
    python -m tests.crash --images 2000 --seed 1 --mode powercut --json
    python -m tests.crash --between --operation cron,task --json

Progress goes to stderr; the exit code is 1 if a promise was broken. See doc/contribute/crash-campaign.md.
"""

import argparse
import json
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from daycare.testing import powercut
from daycare.testing.daemon_process import die_tidily
from tests.crash import between, campaign
from tests.crash.figures import Figures
from tests.crash.ledger import KINDS, OF_ASKING, OF_MEMORY, OF_MONEY, OF_RESULTS
from tests.crash.load import WORKLOADS
from tests.crash.operations import OPERATIONS

MODES = ("kill", "syscall", "powercut")


def main() -> int:
    parser = argparse.ArgumentParser(
        "python -m tests.crash", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mode", choices=MODES, default="kill")
    parser.add_argument("--workload", choices=sorted(WORKLOADS), default="messages", help="what people ask for")
    parser.add_argument("--kills", type=int, default=30, help="of the modes kill and syscall")
    parser.add_argument("--images", type=int, default=2000, help="of the mode powercut")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="campaigns at the same time, whose counts are added")
    parser.add_argument("--json", action="store_true", help="print the counts as JSON, as the last line")
    parser.add_argument("--between", action="store_true", help="die between any two commits of one operation")
    parser.add_argument("--operation", default="", help="of --between: " + ", ".join(OPERATIONS))
    parser.add_argument("--points", type=int, help="of --between: how many are drawn of each operation; without, all")
    parser.add_argument("--near", default="", help="of --between: only next to statements with these words of SQL")
    parser.add_argument("--first", action="store_true", help="of --between: stop at the first finding")
    chosen = parser.parse_args()
    if chosen.between:
        return _between(chosen)
    die_tidily()
    found = _power_cuts(chosen.images, chosen.seed) if chosen.mode == "powercut" else _kills(chosen)
    print(json.dumps(found) if chosen.json else "\n".join(f"{name}: {value}" for name, value in found.items()))
    kinds = (*KINDS, *OF_RESULTS, *OF_MEMORY, *OF_MONEY, *OF_ASKING, *powercut.KINDS)
    return int(any(found.get(kind) for kind in kinds))


def _between(chosen: argparse.Namespace) -> int:
    figures = between.run(
        chosen.seed,
        only=chosen.operation.split(",") if chosen.operation else (),
        points=chosen.points,
        jobs=chosen.jobs,
        first=chosen.first,
        near=chosen.near,
        report=campaign.say,
    )
    found = between.as_json(figures)
    print(json.dumps(found) if chosen.json else "\n".join(f"{name}: {value}" for name, value in found.items()))
    return int(figures.harm > 0)


def _power_cuts(images: int, seed: int) -> dict[str, Any]:
    return {"mode": "powercut", **powercut.run(images, seed, report=campaign.say)}


def _kills(chosen: argparse.Namespace) -> dict[str, Any]:
    jobs = max(1, min(chosen.jobs, chosen.kills))
    if jobs == 1:
        return campaign.run(chosen.mode, chosen.kills, chosen.seed, chosen.workload).as_json()
    total = Figures(chosen.mode, chosen.seed, workload=chosen.workload)
    shares = [chosen.kills // jobs + (number < chosen.kills % jobs) for number in range(jobs)]
    seeds = [chosen.seed * 1000 + number for number in range(jobs)]
    with ProcessPoolExecutor(jobs, get_context("spawn"), die_tidily) as pool:
        for figures in pool.map(campaign.run, [chosen.mode] * jobs, shares, seeds, [chosen.workload] * jobs):
            total.add(figures)
    return total.as_json() | {"jobs": jobs}


if __name__ == "__main__":
    sys.exit(main())
