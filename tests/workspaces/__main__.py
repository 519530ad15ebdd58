"""Hostile paths, races and kills by the thousand: `python -m tests.workspaces --json --seed 1`."""

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.workspaces.hostile import escapes, kills, race


def main() -> int:
    """Run them; the exit code is 1 where something got out or was lost."""
    parser = argparse.ArgumentParser(prog="python -m tests.workspaces", description=__doc__)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--paths", type=int, default=5_000)
    parser.add_argument("--races", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    wish = parser.parse_args()
    result: dict[str, object] = {"seed": wish.seed}
    bad = 0
    trials: dict[str, Callable[[Path], tuple[int, list[str]]]] = {
        "paths": lambda root: escapes(root, wish.seed, wish.paths),
        "races": lambda root: race(root, wish.races),
        "kills": lambda root: kills(root, wish.kills, wish.seed),
    }
    for name, trial in trials.items():
        with tempfile.TemporaryDirectory() as folder:
            tried, found = trial(Path(folder))
        bad += len(found)
        result[name] = {"tried": tried, "escapes": len(found), "found": found[:10]}
    print(json.dumps(result) if wish.json else "\n".join(f"{name}: {told}" for name, told in result.items()))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
