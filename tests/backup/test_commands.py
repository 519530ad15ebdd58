"""The commands, as programs: with a daemon and without one, and what they say to people."""

import json
import os
import pty
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from daycare.store.sqlite import database
from tests import program
from tests.backup.homes import WORDS, rows
from tests.backup.samples import sample
from tests.stored import unpacked_in


class Machine:
    """Somebody at a machine with a home."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "h"
        kept = {name: value for name, value in os.environ.items() if name in ("PATH", "PYTHONPATH", "VIRTUAL_ENV")}
        self.environment = kept | {"DAYCARE_HOME": str(self.home), "LANG": "C.UTF-8", "TZ": "UTC"}

    def __call__(self, *arguments: str, code: int = 0, answer: str | None = None) -> str:
        command = [sys.executable, "-m", "daycare", *arguments]
        if answer is not None:
            return self._at_terminal(command, answer, code)
        done = program.call(arguments, env=self.environment, cwd=self.folder, deadline_s=120)
        assert done.returncode == code, done.stderr + done.stdout
        return done.stdout if code == 0 else done.stderr

    def _at_terminal(self, command: list[str], answer: str, code: int) -> str:
        ours, theirs = pty.openpty()
        with subprocess.Popen(
            command, env=self.environment, cwd=self.folder, stdin=theirs, stdout=subprocess.PIPE, text=True
        ) as process:
            os.write(ours, answer.encode())
            told = process.communicate(timeout=60)[0]
        os.close(ours)
        os.close(theirs)
        assert process.returncode == code, told
        return told

    def running(self) -> program.Started:
        """Start a daemon and wait until it answers."""
        process = program.start(["run"], env=self.environment, cwd=self.folder)
        while '"working": true' not in self("status", "--json"):
            assert process.poll() is None
        return process


@pytest.fixture
def ann() -> Iterator[Machine]:
    """A short path: a Unix socket's address holds about 100 bytes."""
    with tempfile.TemporaryDirectory(prefix="dc-") as name:
        machine = Machine(Path(name))
        machine("init", "--yes", "--user", "ann")
        yield machine


def test_a_home_is_backed_up_while_it_works_and_restored_elsewhere(ann: Machine) -> None:
    ann("keys", "list")
    with ann.running() as process:
        ann("send", "My favourite colour is teal.", "--wait")
        made = json.loads(ann("backup", "one", "--json"))
        assert (made["with_key"], made["encrypted"], made["counts"]["messages"]) == (False, False, 1)
        assert (ann.folder / "one").stat().st_mode & 0o777 == 0o600
        assert "not in it: daycare.key" in ann("backup")
        [by_default] = (ann.home / "backups").iterdir()
        assert by_default.name.startswith("daycare-") and by_default.suffix == ".daycare-backup"
        assert "there is one" in ann("backup", "one", code=5)
        assert "stop it first: daycare stop" in ann("restore", "one", "--force", code=75)
        assert "stop it first: daycare stop" in ann("rollback", "--yes", code=75)
        assert "stop it first: daycare stop" in ann("purge", "--user", "bob", "--yes", code=75)
        ann("stop")
        assert process.wait(20) == 0
    assert "--to DIR" in ann("restore", "one", code=5)
    assert ann("restore", "one", "--dry-run").splitlines()[1].startswith("would restore: 1 person")
    assert "restored: 1 person" in ann("restore", "one", "--to", "other")
    other = str(ann.folder / "other")
    assert "teal" in ann("--home", other, "send", "What is my favourite colour?", "--wait")
    assert "this home was restored" in ann("--home", other, "status")
    assert "this home was restored" in ann("--home", other, "doctor")


def test_a_sealed_backup_of_a_home_without_a_daemon(ann: Machine) -> None:
    (ann.folder / "words").write_text(WORDS + "\n")
    (ann.folder / "disk").mkdir()
    made = json.loads(ann("backup", "disk", "--passphrase-file", "words", "--json"))
    assert made["with_key"] and made["encrypted"] and Path(made["file"]).parent.name == "disk"
    assert "there is no terminal" in ann("restore", made["file"], "--dry-run", code=2)
    assert "would restore" in ann("restore", made["file"], "--dry-run", "--passphrase-file", "words")
    assert "it does not exist" in ann("--home", "nowhere", "backup", code=3)
    assert not list(ann.home.glob(".backup-*"))


def test_a_schedule_is_written_into_the_settings(ann: Machine) -> None:
    before = (ann.home / "config.toml").read_text()
    assert "every 24h into" in ann("backup", "disk", "--every", "24h", "--keep", "3")
    text = (ann.home / "config.toml").read_text()
    assert text.startswith(before) and f'folder = "{ann.folder / "disk"}"' in text
    assert "no problem found" in ann("config", "check")
    assert "every 24h, none yet" in ann("status")
    assert "no backups are made" in ann("backup", "--every", "off")
    assert "such as 24h" in ann("backup", "--every", "now", code=2)


def test_going_back_shows_what_would_be_lost_and_asks(ann: Machine) -> None:
    newest = database.migrations()[-1][0]
    for left in ann.home.glob("daycare.db*"):
        left.unlink()
    sample(ann.home / "daycare.db", newest - 1)
    database.open_writer(str(ann.home / "daycare.db")).close()
    told = ann("rollback", code=2)
    assert f"from schema number {newest} to number {newest - 1}" in told and "0 messages" in told
    ann("rollback", answer="n\n", code=130)
    assert rows(ann.home / "daycare.db", "PRAGMA user_version") == [(newest,)]
    assert "the newer one is" in ann("rollback", answer="y\n")
    assert rows(ann.home / "daycare.db", "PRAGMA user_version") == [(newest - 1,)]


def test_a_person_is_purged_only_when_their_name_is_typed(ann: Machine) -> None:
    ann("users", "add", "ben", "--name", "Ben")
    ann("send", "--user", "ben", "the zanzibarquokka", "--wait")
    assert "1 message" in ann("purge", "--user", "ben", code=2)
    ann("purge", "--user", "ben", answer="y\n", code=130)
    stored = b"".join(file.read_bytes() for file in ann.home.glob("daycare.db*"))
    assert b"zanzibarquokka" in stored + unpacked_in(stored)
    assert "purged ben" in ann("purge", "--user", "ben", answer="ben\n")
    left = b"".join(file.read_bytes() for file in ann.home.glob("daycare.*") if file.is_file())
    assert b"zanzibarquokka" not in left + unpacked_in(left)
    assert "an operator cannot be removed" in ann("purge", "--user", "ann", "--yes", code=4)
