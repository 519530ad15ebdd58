"""`python -m tests.hostile --inputs N --only KIND,... --seed S --jobs N --json`: run the campaign; exit 1 on harm."""

import argparse
import random
import sys
import time

import msgspec

from tests.hostile.campaign import KINDS, replay, run
from tests.hostile.held import HELD_MAX_MS


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("--inputs", type=int, default=200_000, help="of all kinds together")
    parser.add_argument("--only", default="", help=f"kinds, with commas: {', '.join(KINDS)}")
    parser.add_argument("--seed", type=int, default=random.randrange(1, 2**31))
    parser.add_argument("--input", default="", help="with --only KIND: this one again, or these: K or K-L")
    parser.add_argument("--held-ms", type=float, default=HELD_MAX_MS, help="to hold the loop for longer is harm")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--json", action="store_true", help="print one JSON object, for programs")
    args = parser.parse_args()
    only = [word for word in args.only.split(",") if word] or list(KINDS)
    if unknown := set(only) - set(KINDS):
        parser.error(f"no such kind: {', '.join(sorted(unknown))}")
    print(f"seed {args.seed}", file=sys.stderr, flush=True)
    began = time.monotonic()
    if args.input:
        if len(only) != 1:
            parser.error("--input needs --only KIND")
        first, _, last = args.input.partition("-")
        figures = replay(only[0], args.seed, range(int(first), int(last or first) + 1), args.held_ms)
    else:
        figures = run(args.seed, args.inputs, only, args.jobs, args.held_ms)
    found = msgspec.to_builtins(figures) | {"seconds": round(time.monotonic() - began, 1)}
    if args.json:
        print(msgspec.json.format(msgspec.json.encode(found)).decode())
    else:
        for name, value in found.items():
            print(f"{name:16} {value}")
    sys.exit(1 if figures.failures else 0)


if __name__ == "__main__":
    main()
