"""A long campaign of bridges: kills, freezes and garbage of a bridge's process while messages flow both ways.

    python -m tests.bridge --kills 200 --seed 1 --json

Progress goes to stderr; the exit code is 1 if a promise was broken. See doc/extend/bridge.md.
"""

import argparse
import json
import random
import sys
from functools import partial

import trio

from daycare.testing.daemon_process import die_tidily
from tests.bridge import campaign


def main() -> int:
    """Run the campaign and print what it found."""
    parser = argparse.ArgumentParser(
        "python -m tests.bridge", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.randrange(1, 2**31))
    parser.add_argument(
        "--sandboxed", action="store_true", help="run all bridges in bubblewrap, not every second daemon's"
    )
    parser.add_argument("--json", action="store_true", help="print what was found as JSON, as the last line")
    chosen = parser.parse_args()
    die_tidily()
    print(f"seed {chosen.seed}", file=sys.stderr, flush=True)
    report = trio.run(partial(campaign.run, chosen.kills, chosen.seed, sandboxed=chosen.sandboxed))
    found = report.as_json()
    print(json.dumps(found) if chosen.json else campaign.as_text(found))
    return int(bool(report.harm))


if __name__ == "__main__":
    sys.exit(main())
