"""Plant faults into the running product, one at a time, and see each caught by what must catch it.

    python -m tests.mutants --jobs 2 --json
    python -m tests.mutants --only cron,wake-lost

First each slice runs as it is and must pass; then with each fault, and must fail. A fault that could not be planted,
that the slice did not come by, or that ends in an error of the planted code itself counts as uncaught.
"""

import argparse
import json
import random
import sys

from tests.mutants.campaign import run
from tests.mutants.table import MUTANTS


def main() -> int:
    """Run it; 1 if a fault was not caught."""
    parser = argparse.ArgumentParser(
        "python -m tests.mutants", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="names, or parts of them, or campaigns, with commas")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seed", type=int, help="the order in which they are planted; without, that of the table")
    parser.add_argument("--list", action="store_true", help="print the table and run nothing")
    parser.add_argument("--json", action="store_true", help="print one JSON object, as the last line")
    chosen = parser.parse_args()
    words = [word for word in chosen.only.split(",") if word]
    mutants = [
        it
        for it in MUTANTS
        if not words or any(word in (it.name, it.seen_by.campaign) or word in it.name for word in words)
    ]
    if chosen.seed is not None:
        random.Random(chosen.seed).shuffle(mutants)
    if chosen.list:
        for it in mutants:
            print(f"{it.name:24} {it.seen_by.campaign:11} {it.what}")
        return 0
    figures = run(mutants, chosen.jobs, lambda line: print(line, file=sys.stderr, flush=True))
    print(json.dumps(figures.as_json()) if chosen.json else "\n".join(figures.lines()))
    return int(bool(figures.uncaught or figures.unsound))


if __name__ == "__main__":
    sys.exit(main())
