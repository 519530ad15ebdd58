"""Kill a daemon while it listens: `python -m tests.voice --kills 100 --seed 1 --json`."""

import argparse
import json
import random
import sys
import tempfile
from pathlib import Path

import trio

from daycare.testing.daemon_process import ThrowawayHome, die_tidily
from tests.voice.kills import BROKEN, Ears, kills


async def _run(folder: Path, count: int, seed: int) -> dict[str, object]:
    async with Ears.serve() as ears:
        return await kills(ThrowawayHome(folder, ""), ears, count, seed)


def main() -> int:
    """Run it; the exit code is 1 where a note was lost, doubled, or not charged once."""
    parser = argparse.ArgumentParser(prog="python -m tests.voice", description=__doc__)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    wish = parser.parse_args()
    die_tidily()
    with tempfile.TemporaryDirectory(prefix="dc-voice-") as folder:
        found = trio.run(_run, Path(folder), wish.kills, wish.seed)
    print(json.dumps(found, indent=None if wish.json else 2))
    return int(any(found[name] for name in BROKEN))


if __name__ == "__main__":
    sys.exit(main())
