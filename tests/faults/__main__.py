"""`python -m tests.faults --messages N --agents N --seed S --json`: run a campaign; exit status 1 if there was harm."""

import argparse
import random
import sys

import msgspec
import trio

from daycare.testing.daemon_process import die_tidily
from tests.faults.campaign import run


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--messages", type=int, default=500)
    parser.add_argument("--agents", type=int, default=32)
    parser.add_argument("--share", type=float, default=0.5, help="of the messages that meet faults")
    parser.add_argument("--seed", type=int, default=random.randrange(1, 2**31))
    parser.add_argument("--json", action="store_true", help="print one JSON object, for programs")
    args = parser.parse_args()
    die_tidily()
    print(f"seed {args.seed}", file=sys.stderr, flush=True)
    figures = trio.run(run, args.messages, args.agents, args.seed, args.share)
    found = msgspec.to_builtins(figures) | {"seed": args.seed}
    if args.json:
        print(msgspec.json.encode(found).decode())
    else:
        for name, value in found.items():
            print(f"{name:16} {value}")
    sys.exit(1 if figures.harm else 0)


if __name__ == "__main__":
    main()
