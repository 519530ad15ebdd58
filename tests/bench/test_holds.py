"""What a daemon does for the first time holds nobody else up: a real daemon, with a bot and the dashboard."""

import argparse
import tempfile
from pathlib import Path

import pytest

from tests.bench import holds


@pytest.fixture(scope="module")
def found() -> dict[str, dict[str, object]]:
    """What `holds` finds in one round."""
    parser = argparse.ArgumentParser()
    holds.options(parser)
    args = parser.parse_args(["--memories", "50", "--after", "0.1"])
    with tempfile.TemporaryDirectory(prefix="holds-") as folder:  # pytest's own are too long for a socket
        args.rounds, args.dir, args.deadline = 1, Path(folder), 60.0
        return holds.run(args)


def test_the_loop_imports_nothing_once_the_daemon_is_ready(found: dict[str, dict[str, object]]) -> None:
    assert found["imported"] == {}, "import it in a thread, or before the daemon is ready"


def test_everything_is_done_for_the_first_time_and_again(found: dict[str, dict[str, object]]) -> None:
    assert found["first"].keys() == found["again"].keys() >= {"message", "approval", "telegram", "cron", "page /"}
