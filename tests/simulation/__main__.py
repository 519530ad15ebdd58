"""`python -m tests.simulation --seed N --days D`: replay one seed, or run many until the first that fails."""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from random import SystemRandom

from .days import UnsoundError, quick_folder, simulate


def main() -> int:
    """Run the seeds one after the other; 1 if one fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="the first seed; without it a fresh one is drawn and printed")
    parser.add_argument("--seeds", type=int, default=1, help="how many, counted up from the first")
    parser.add_argument("--days", type=float, default=1.0, help="virtual days each")
    parser.add_argument("--threads", action="store_true", help="let the store write in a thread, as a daemon's does")
    parser.add_argument("--folder", type=Path, help="keep each run's files below this folder")
    args = parser.parse_args()
    first = args.seed if args.seed is not None else SystemRandom().randrange(2**32)
    for seed in range(first, first + args.seeds):
        began = time.perf_counter()
        try:
            with _folder(args.folder, seed) as folder:
                figures = simulate(seed, args.days, folder, threads=args.threads)
        except UnsoundError as error:
            print(error, file=sys.stderr)
            return 1
        print(json.dumps({"seconds": round(time.perf_counter() - began, 2)} | asdict(figures)), flush=True)
    return 0


@contextmanager
def _folder(kept: Path | None, seed: int) -> Iterator[Path]:
    if kept is not None:
        (kept / str(seed)).mkdir(parents=True)
        yield kept / str(seed)
    else:
        with quick_folder() as folder:
            yield folder


if __name__ == "__main__":
    sys.exit(main())
