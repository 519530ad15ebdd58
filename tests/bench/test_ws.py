"""A short slice of the measurement of WebSockets: nothing is lost without a word, whatever it costs."""

import argparse
import tempfile
from pathlib import Path

from . import ws


def test_what_clients_have_seen_and_were_told_to_have_missed_is_all_there_was() -> None:
    parser = argparse.ArgumentParser()
    ws.options(parser)
    args = parser.parse_args(["--clients", "8", "--slow", "2", "--rate", "400", "--seconds", "3", "--nap", "1"])
    with tempfile.TemporaryDirectory(prefix="ws-") as folder:  # pytest's own are too long for a socket
        args.dir, args.deadline = Path(folder), 60.0
        found = ws.run(args)
    assert found["lost"] == 0, f"seed {found['seed']}: {found}"
    assert found["delivered"] + found["missed_and_told"] >= 8 * found["published"] >= 8 * 1_200, found
