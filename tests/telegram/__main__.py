"""Long campaigns of the Telegram connection: a real daemon, a fake Telegram on a real socket, and a judge.

    python -m tests.telegram --mode receive --updates 10000 --chats 50 --kills 30 --seed 1 --json
    python -m tests.telegram --mode send --kills 300 --seed 1 --json
    python -m tests.telegram --mode flood --answers 1000 --chats 50 --seed 1 --json
    python -m tests.telegram --mode outage --minutes 10 --seed 1 --json
    python -m tests.telegram --mode approve --kills 100 --seed 1 --json

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
from tests.telegram.campaign import approve, flood, outage, receive, send

MODES: Final = ("receive", "send", "flood", "outage", "approve")
CHATS: Final = {"receive": 50, "send": 1, "flood": 50, "outage": 5}
KILLS: Final = {"receive": 30, "send": 300, "approve": 100}


def main() -> int:
    """Run a campaign and print what it found."""
    parser = argparse.ArgumentParser(
        "python -m tests.telegram", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mode", choices=MODES, default="receive")
    parser.add_argument("--updates", type=int, default=10_000, help="of the mode receive")
    parser.add_argument("--answers", type=int, default=1_000, help="of the mode flood")
    parser.add_argument("--minutes", type=float, default=10.0, help="of the outage")
    parser.add_argument("--kills", type=int, help="of the modes receive (30), send (300), approve (100)")
    parser.add_argument(
        "--chats", type=int, help="50; of the mode send 1, of outage 5, of approve a sixth of the kills"
    )
    parser.add_argument("--seed", type=int, default=random.randrange(1, 2**31))
    parser.add_argument("--json", action="store_true", help="print what was found as JSON, as the last line")
    chosen = parser.parse_args()
    die_tidily()
    print(f"seed {chosen.seed}", file=sys.stderr, flush=True)
    chats = chosen.chats or CHATS.get(chosen.mode, 0)
    kills = KILLS.get(chosen.mode, 0) if chosen.kills is None else chosen.kills
    campaigns = {
        "receive": partial(receive.run, chosen.updates, chats, kills, chosen.seed),
        "send": partial(send.run, kills, chats, chosen.seed),
        "flood": partial(flood.run, chosen.answers, chats, chosen.seed),
        "outage": partial(outage.run, 60 * chosen.minutes, chats, chosen.seed),
        "approve": partial(approve.run, kills, chats, chosen.seed),
    }
    report = trio.run(campaigns[chosen.mode])
    found = report.as_json()
    print(json.dumps(found) if chosen.json else "\n".join(f"{name}: {value}" for name, value in found.items()))
    return int(bool(report.harm))


if __name__ == "__main__":
    sys.exit(main())
