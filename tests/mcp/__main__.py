"""The reference servers in a real daemon, and kills around calls: `python -m tests.mcp --json`.

What needs npm is left out where it is not installed, and told so.
"""

import argparse
import json
import random
import sys
import tempfile
from pathlib import Path

import trio

from daycare.testing.daemon_process import die_tidily
from tests.mcp.driven import kills, servers


def main() -> int:
    """Run them; the exit code is 1 where a server did not answer, or a call was made twice or lost."""
    parser = argparse.ArgumentParser(prog="python -m tests.mcp", description=__doc__)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--kills", type=int, default=20)
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
            told = result["kills"] = trio.run(kills, _folder(folder, "kills"), wish.kills, wish.seed)
            bad |= bool(told["twice"] or told["lost"])
    print(json.dumps(result, indent=None if wish.json else 2))
    return int(bad)


def _folder(above: str, name: str) -> Path:
    made = Path(above) / name
    made.mkdir()
    return made


if __name__ == "__main__":
    sys.exit(main())
