"""A home directory with a daemon in it, and the real program in a process of its own."""

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from daycare.api.client import Client, pause
from daycare.cli.home import takes_turns
from daycare.store.home import Home
from tests import program
from tests.cli.fake_daemon import FakeDaemon
from tests.terminal import Terminal, Terminals

Daycare = Callable[..., "subprocess.CompletedProcess[str]"]
START_S = 20.0


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


@pytest.fixture
def terminals(environment: dict[str, str]) -> Iterator[Terminals]:
    """Give a person at the program in a terminal, who has left when the test has ended."""
    with ExitStack() as stack:
        yield lambda *arguments, **more: stack.enter_context(Terminal(environment, *arguments, **more))


@pytest.fixture(scope="session")
def home_of_ann(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home whose operator is Ann, in Berlin: to be copied."""
    home = tmp_path_factory.mktemp("ann")
    arguments = ("init", "--yes", "--user-name", "Ann", "--zone", "Europe/Berlin")
    done = program.call(arguments, env={"DAYCARE_HOME": str(home), "TZ": "UTC"}, deadline_s=30)
    assert done.returncode == 0, done.stderr
    return home


@pytest.fixture
def running(environment: dict[str, str], home: Path) -> Iterator[program.Started]:
    """`daycare run` of the home; what it logs is shown when the test fails."""
    with program.start(["run"], env=environment) as process:
        yield process
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        print(process.said()[1][-5_000:])


def wait_until_it_works(home: Path) -> None:
    """Wait until a `daycare run` of this home takes turns."""
    client = Client(Home(home).socket)
    give_up = time.monotonic() + START_S
    while (status := client.status()) is None or status["mode"] != "run" or not takes_turns(status):
        assert time.monotonic() < give_up, status
        pause(0.05)
    client.close()
