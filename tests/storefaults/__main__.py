"""`python -m tests.storefaults --places N --seed S --json`: run a campaign; exit status 1 if there was harm."""

import argparse
import random
import sys

import msgspec

from tests.storefaults.campaign import run


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(prog="python -m tests.storefaults", description=__doc__)
    parser.add_argument("--places", default="all", help="how many are drawn, or `all` of them")
    parser.add_argument("--only", default="", help="an expression for their names, such as courier.py or ^write")
    parser.add_argument("--seed", type=int, default=random.randrange(1, 2**31))
    parser.add_argument("--json", action="store_true", help="print one JSON object, for programs")
    args = parser.parse_args()
    print(f"seed {args.seed}", file=sys.stderr, flush=True)
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
