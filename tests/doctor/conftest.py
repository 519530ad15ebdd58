"""Real homes, made once and copied, to be broken on purpose."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from daycare.ops.setup import initialise
from daycare.store.home import Home
from tests.cli.fake_daemon import FakeDaemon


@pytest.fixture(scope="session")
def pattern() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="dc-") as folder:
        place = Path(folder) / "home"
        initialise(place, user_name="Ann", user_id="ann", zone="Europe/Berlin")
        for file in place.iterdir():
            file.chmod(0o600)
        yield place


@pytest.fixture
def home(pattern: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    """A short path: a Unix socket's address holds about 100 bytes. No units and files of whoever runs the tests."""
    with tempfile.TemporaryDirectory(prefix="dc-") as folder:
        person = Path(folder) / "person"
        person.mkdir()
        monkeypatch.setenv("HOME", str(person))
        monkeypatch.setenv("XDG_CONFIG_HOME", str(person / "config"))
        shutil.copytree(pattern, Path(folder) / "h")
        yield Home(Path(folder) / "h")


@pytest.fixture
def fake(home: Home) -> Iterator[FakeDaemon]:
    with FakeDaemon(home.path) as daemon:
        home.socket.chmod(0o600)
        yield daemon


@pytest.fixture
def programs(home: Home, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Let the only programs on PATH be those of a test: shell scripts by name."""
    folder = home.path.parent / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def add(name: str, script: str) -> None:
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)

    return add
