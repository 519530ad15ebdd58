"""`python -m tests.attacks --seed S --json`: attack a daemon on loopback; exit 1 when something got through."""

import argparse
import random
import sys

import msgspec

from tests.attacks.campaign import run


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(prog="python -m tests.attacks", description=__doc__)
    parser.add_argument("--seed", type=int, default=random.randrange(1, 2**31))
    parser.add_argument("--routes", type=int, default=None, help="at so many routes, all without it")
    parser.add_argument("--guesses", type=int, default=10_000, help="wrong tokens")
    parser.add_argument("--slow", type=int, default=200, help="connections that never say what they want")
    parser.add_argument("--json", action="store_true", help="print one JSON object, for programs")
    args = parser.parse_args()
    print(f"seed {args.seed}", file=sys.stderr, flush=True)
    found = run(args.seed, routes=args.routes, guesses=args.guesses, slow=args.slow)
    if args.json:
        print(msgspec.json.format(msgspec.json.encode(found)).decode())
    else:
        for name, value in found.items():
            print(f"{name:12} {value}")
    sys.exit(1 if found["harm"] else 0)


if __name__ == "__main__":
    main()
