"""`python -m tests.injection --seed S --json`: let others order every effect; exit 1 when one came about unasked."""

import argparse
import random
import sys

import msgspec

from tests.injection.campaign import BENIGN, run


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(prog="python -m tests.injection", description=__doc__)
    parser.add_argument("--seed", type=int, default=random.randrange(1, 2**31))
    parser.add_argument("--cases", type=int, default=None, help="so many injections, all without it")
    parser.add_argument("--benign", type=int, default=BENIGN, help="so many honest tasks")
    parser.add_argument("--json", action="store_true", help="print one JSON object, for programs")
    args = parser.parse_args()
    print(f"seed {args.seed}", file=sys.stderr, flush=True)
    found = run(args.seed, count=args.cases, honest=args.benign, report=lambda line: print(line, file=sys.stderr))
    if args.json:
        print(msgspec.json.format(msgspec.json.encode(found)).decode())
    else:
        for name, value in found.items():
            print(f"{name:20} {value}")
    sys.exit(1 if found["harm"] else 0)


if __name__ == "__main__":
    main()
