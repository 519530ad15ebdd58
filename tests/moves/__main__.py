"""`python -m tests.moves --kills 50 --seed 7 --json`: moves that are killed, and what came of them."""

import argparse
import json
import tempfile
import time
from pathlib import Path

from tests import postgres
from tests.moves.campaign import Campaign


def main() -> None:
    """Run a campaign and print its figures."""
    asked = argparse.ArgumentParser(prog="python -m tests.moves")
    asked.add_argument("--kills", type=int, default=50)
    asked.add_argument("--messages", type=int, default=2_000)
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--json", action="store_true")
    given = asked.parse_args()
    print(f"seed {given.seed}", flush=True) if not given.json else None
    began = time.process_time()
    try:
        with tempfile.TemporaryDirectory(prefix="daycare-moves-") as folder:
            found = Campaign(Path(folder), postgres.empty_database, given.messages, given.kills, given.seed).run()
    finally:
        postgres.drop_all()
    found = {"seed": given.seed, "messages": given.messages, **found, "own_s": round(time.process_time() - began, 1)}
    print(json.dumps(found) if given.json else "\n".join(f"{name}: {value}" for name, value in found.items()))


if __name__ == "__main__":
    main()
