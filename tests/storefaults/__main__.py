"""A database that fails; exit status 1 if there was harm.

    python -m tests.storefaults --places N --seed S --json
    python -m tests.storefaults --episodes N --seed S --jobs J --json

The first lets each place fail that uses it, the second the whole disk for a while: it fails now and then, is full, or
read-only.
"""

import argparse
import random
import sys

import msgspec

from daycare.testing.daemon_process import die_tidily
from tests.storefaults import episodes
from tests.storefaults.campaign import Figures, run


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.storefaults", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--episodes", type=int, help="how many days, each under other weather")
    parser.add_argument("--jobs", type=int, default=1, help="of the episodes, as many at a time")
    parser.add_argument("--places", default="all", help="how many are drawn, or `all` of them")
    parser.add_argument("--only", default="", help="an expression for their names, such as courier.py or ^write")
    parser.add_argument("--seed", type=int, default=random.randrange(1, 2**31))
    parser.add_argument("--json", action="store_true", help="print one JSON object, for programs")
    args = parser.parse_args()
    print(f"seed {args.seed}", file=sys.stderr, flush=True)
    if args.episodes is not None:
        die_tidily()
        figures: episodes.Figures | Figures = episodes.run(args.episodes, args.seed, args.jobs)
    else:
        figures = run(args.seed, None if args.places == "all" else int(args.places), args.only)
    found = msgspec.to_builtins(figures) | {"seed": args.seed}
    if args.json:
        print(msgspec.json.encode(found).decode())
    else:
        for name, value in found.items():
            print(f"{name:16} {value}")
    sys.exit(1 if figures.harm else 0)


if __name__ == "__main__":
    main()
