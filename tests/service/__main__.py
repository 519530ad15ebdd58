"""Tell a busy daemon to end, again and again, and count what it lost, doubled or left behind, and how long it took.

    python -m tests.service --stops 300 --seed 1 --json

Progress goes to stderr; the exit code is 1 if a promise was broken. See doc/operate/service.md.
"""

import argparse
import json
import sys

from daycare.testing.daemon_process import die_tidily
from tests.service import campaign


def main() -> int:
    parser = argparse.ArgumentParser(
        "python -m tests.service", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--stops", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON, as the last line")
    chosen = parser.parse_args()
    die_tidily()
    figures, stopper = campaign.run(chosen.stops, chosen.seed)
    found = figures.as_json() | stopper.summary()
    print(json.dumps(found) if chosen.json else "\n".join(f"{name}: {value}" for name, value in found.items()))
    return int(bool(campaign.broken(figures, stopper)))


if __name__ == "__main__":
    sys.exit(main())
