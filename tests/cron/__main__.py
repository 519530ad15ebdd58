"""Let a year of scheduled jobs pass, and say what became of each time.

    python -m tests.cron --days 365 --seed 1 --json

The exit code is 1 if a time was lost or handled twice, or if there was a storm.
"""

import argparse
import json
import sys

from tests.cron.days import simulate
from tests.simulation.days import quick_folder


def main() -> int:
    parser = argparse.ArgumentParser(
        "python -m tests.cron", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--days", type=float, default=365.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print the counts as JSON")
    chosen = parser.parse_args()
    with quick_folder() as folder:
        figures = simulate(chosen.seed, chosen.days, folder)
    found = figures.as_json() | {"wrong": figures.wrong[:20]}
    print(json.dumps(found) if chosen.json else "\n".join(f"{name}: {value}" for name, value in found.items()))
    return int(bool(figures.lost or figures.twice or figures.storms or figures.wrong))


if __name__ == "__main__":
    sys.exit(main())
