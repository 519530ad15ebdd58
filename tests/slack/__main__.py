"""Long campaigns of the Slack connection: a real daemon, a fake workspace on real sockets, and a judge.

    python -m tests.slack --mode receive --events 10000 --rooms 40 --kills 100 --seed 1 --json
    python -m tests.slack --mode send --kills 200 --seed 1 --json
    python -m tests.slack --mode render --documents 3000 --seed 1 --json

Progress goes to stderr; the exit code is 1 if a promise was broken. See doc/contribute/crash-campaign.md.
"""

import argparse
import json
import random
import sys
from functools import partial
from typing import Final

import trio

from daycare.testing.daemon_process import die_tidily
from tests.slack.campaign import receive, render, send

ROOMS: Final = {"receive": 40, "send": 1}
KILLS: Final = {"receive": 100, "send": 200}


def main() -> int:
    """Run a campaign and print what it found."""
    parser = argparse.ArgumentParser(
        "python -m tests.slack", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mode", choices=("receive", "send", "render"), default="receive")
    parser.add_argument("--events", type=int, default=10_000, help="of the mode receive")
    parser.add_argument("--documents", type=int, default=3_000, help="of the mode render")
    parser.add_argument("--kills", type=int, help="100 of the mode receive, 200 of send")
    parser.add_argument("--rooms", type=int, help="40; of the mode send 1")
    parser.add_argument("--seed", type=int, default=random.randrange(1, 2**31))
    parser.add_argument("--json", action="store_true", help="print what was found as JSON, as the last line")
    chosen = parser.parse_args()
    die_tidily()
    print(f"seed {chosen.seed}", file=sys.stderr, flush=True)
    if chosen.mode == "render":
        report = render.run(chosen.documents, chosen.seed)
    else:
        rooms = chosen.rooms or ROOMS[chosen.mode]
        kills = KILLS[chosen.mode] if chosen.kills is None else chosen.kills
        receiving = partial(receive.run, chosen.events, rooms, kills, chosen.seed)
        report = trio.run(receiving if chosen.mode == "receive" else partial(send.run, kills, rooms, chosen.seed))
    found = report.as_json()
    print(json.dumps(found) if chosen.json else "\n".join(f"{name}: {value}" for name, value in found.items()))
    return int(bool(report.harm))


if __name__ == "__main__":
    sys.exit(main())
