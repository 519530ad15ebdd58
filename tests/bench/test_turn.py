"""The benchmark of the turn runs: one round of a few turns, with a real daemon."""

import argparse
import tempfile
from pathlib import Path

from tests.bench import turn


def test_a_few_turns_are_measured_and_counted() -> None:
    parser = argparse.ArgumentParser()
    turn.options(parser)
    args = parser.parse_args(["--turns", "2", "--clients", "1", "--only", "memory_off", "--settle", "0", "--warm", "1"])
    with tempfile.TemporaryDirectory(prefix="turn-") as folder:  # pytest's own are too long for a socket
        args.rounds, args.dir, args.deadline = 1, Path(folder), 60.0
        found = turn.run(args)
    measured, bare = found["memory_off_1"], found["bare"]
    assert measured["calls_per_turn"] == 1
    assert measured["model_bytes_per_turn"] > 5_000, "no prompt and no tools"
    assert measured["commits_per_turn"] > 1
    assert measured["sql_per_turn"] > measured["commits_per_turn"]
    assert min(measured[key] for key in ("turns_s", "p50_ms", "cpu_ms_per_turn", "rss_mb", "loop_hold_ms_max")) > 0
    assert measured["imported"] == 0, "a message waits for it"
    assert bare["call_ms"] > 0
    assert bare["commit_ms"] > 0
