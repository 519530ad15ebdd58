"""Let several nodes on one PostgreSQL fail in every way, and count what was lost, doubled or owned twice.

    python -m tests.nodes --json --episodes 50 --seed 1
    python -m tests.nodes --json --episodes 20 --seed 1 --mutant no-epoch

Progress goes to stderr; the exit code is 1 if a promise was broken. See doc/operate/several-machines.md.
"""

import argparse
import json
from typing import Final

import trio

from daycare.testing.daemon_process import die_tidily
from tests.nodes.campaign import CAMPAIGN_LEASE_S, EPISODES, Campaign
from tests.nodes.crowd import PAUSE_S
from tests.nodes.judge import KINDS

MUTANTS: Final = ("no-epoch", "no-notify", "never-unsure", "own-clock", "free-cursor", "never-happened")


def main() -> int:
    parser = argparse.ArgumentParser(
        "python -m tests.nodes", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--episodes", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--senders", type=int, default=12)
    parser.add_argument("--mutant", choices=MUTANTS, default="", help="a rule that is missing")
    parser.add_argument("--skew-s", type=int, default=0, help="how far two nodes' clocks are off, one each way")
    parser.add_argument("--only", choices=sorted(EPISODES), default="", help="episodes of one kind")
    parser.add_argument("--lease-s", type=float, default=CAMPAIGN_LEASE_S, help="of each node")
    parser.add_argument("--pause-s", type=float, default=PAUSE_S, help="between two messages of all senders together")
    parser.add_argument("--json", action="store_true", help="print the counts as JSON, as the last line")
    chosen = parser.parse_args()
    die_tidily()
    campaign = Campaign(
        chosen.episodes,
        chosen.seed,
        senders=chosen.senders,
        mutant=chosen.mutant,
        skew_ms=1000 * chosen.skew_s,
        only=chosen.only,
        lease_s=chosen.lease_s,
        pause_s=chosen.pause_s,
    )
    found = trio.run(campaign.run)
    print(json.dumps(found) if chosen.json else "\n".join(f"{name}: {value}" for name, value in found.items()))
    return int(any(found[kind] for kind in KINDS))


if __name__ == "__main__":
    raise SystemExit(main())
