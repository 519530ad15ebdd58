"""The reference servers in a real daemon, and kills around calls: `python -m tests.mcp --json`.

What needs npm is left out where it is not installed, and told so.
"""

import argparse
import json
import random
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import trio

from daycare.testing.daemon_process import die_tidily
from tests.mcp.driven import servers
from tests.mcp.killed import campaign


def main() -> int:
    """Run them; the exit code is 1 where a server did not answer, or a call was made twice or lost."""
    parser = argparse.ArgumentParser(prog="python -m tests.mcp", description=__doc__)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=1, help="daemons that are killed at the same time")
    parser.add_argument("--only", choices=("servers", "kills"))
    parser.add_argument("--json", action="store_true")
    wish = parser.parse_args()
    die_tidily()
    result: dict[str, object] = {}
    bad = False
    with tempfile.TemporaryDirectory() as folder:
        if wish.only != "kills":
            said = result["servers"] = trio.run(servers, _folder(folder, "servers"))
            bad |= any(isinstance(each, dict) and not each["ok"] for each in said.values())
        if wish.only != "servers":
            shares = [wish.kills // wish.jobs + (n < wish.kills % wish.jobs) for n in range(wish.jobs)]
            folders = [_folder(folder, f"kills{n}") for n in range(wish.jobs)]
            with ProcessPoolExecutor(wish.jobs, get_context("spawn"), die_tidily) as pool:
                found = list(pool.map(campaign, folders, shares, [wish.seed + n for n in range(wish.jobs)]))
            result["kills"] = found
            bad |= any(each[kind] for each in found for kind in ("twice", "lost", "untold", "waiting"))
    print(json.dumps(result, indent=None if wish.json else 2))
    return int(bad)


def _folder(above: str, name: str) -> Path:
    made = Path(above) / name
    made.mkdir()
    return made


if __name__ == "__main__":
    sys.exit(main())
