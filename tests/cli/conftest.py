"""A home directory with a daemon in it, and the real program as a subprocess."""

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import program
from tests.cli.fake_daemon import FakeDaemon

Daycare = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def home() -> Iterator[Path]:
    """A short path: a Unix socket's address holds about 100 bytes."""
    with tempfile.TemporaryDirectory(prefix="dc-") as folder:
        yield Path(folder)


@pytest.fixture
def fake(home: Path) -> Iterator[FakeDaemon]:
    with FakeDaemon(home) as daemon:
        yield daemon


@pytest.fixture
def environment(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "PYTHONPATH", "VIRTUAL_ENV")}
    return kept | {"DAYCARE_HOME": str(home), "TERM": "xterm", "LANG": "C.UTF-8", "TZ": "UTC", "HOME": str(home)}


@pytest.fixture
def daycare(environment: dict[str, str]) -> Daycare:
    def run(*arguments: str, stdin: str = "", deadline_s: float = 30.0) -> "subprocess.CompletedProcess[str]":
        return program.call(arguments, env=environment, stdin=stdin, deadline_s=deadline_s)

    return run
