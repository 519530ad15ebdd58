"""Command line: `python -m tests.openapi [--seed S] [--examples N] [--phases ...] [--json]`; fails if anything does."""

import argparse
import json
import random
import sys

from tests.openapi import campaign

parser = argparse.ArgumentParser(prog="python -m tests.openapi", description=__doc__)
parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**31))
parser.add_argument("--examples", type=int, default=50, help="requests for each operation and phase, at most")
parser.add_argument("--phases", default=campaign.PHASES)
parser.add_argument("--json", action="store_true", help="what was found, as one document")
args = parser.parse_args()

found = campaign.run(seed=args.seed, examples=args.examples, phases=args.phases)
cases, operations = found["test_cases"], found["operations"]
print(found.pop("output"), file=sys.stderr)
if args.json:
    kept = ("seed", "running_time", "operations", "test_cases", "failures", "errors")
    print(json.dumps({name: found[name] for name in kept}))
else:
    print(
        f"seed {args.seed}: {operations['tested']} operations, {cases['generated']} requests,"
        f" {cases['unique_failures']} failures, {cases['errored']} errors, {found['running_time']:.0f} s"
    )
raise SystemExit(bool(found["failures"] or found["errors"]))
