"""The commands, as programs: a home's agent into a file, and into another home."""

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from daycare.features.exports.sealed import is_sealed
from tests import program

WORK = "/ann/agent/work"
WORDS = "correct horse battery staple"


class Person:
    """Somebody with a home on a machine."""

    def __init__(self, folder: Path, user: str) -> None:
        folder.mkdir()
        kept = {name: value for name, value in os.environ.items() if name in ("PATH", "PYTHONPATH", "VIRTUAL_ENV")}
        self.home = folder
        self._environment = kept | {"DAYCARE_HOME": str(folder / "h"), "LANG": "C.UTF-8", "TZ": "UTC"}
        self("init", "--yes", "--user", user)

    def __call__(self, *arguments: str, code: int = 0) -> str:
        done = program.call(arguments, env=self._environment, cwd=self.home, deadline_s=120)
        assert done.returncode == code, done.stderr + done.stdout
        return done.stdout if code == 0 else done.stderr


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path: a Unix socket's address holds about 100 bytes."""
    with tempfile.TemporaryDirectory(prefix="dc-") as name:
        yield Path(name)


def test_an_agent_moves_to_another_home_under_a_passphrase(folder: Path) -> None:
    ann = Person(folder / "a", "ann")
    ann("agents", "create", WORK, "description=does the work")
    ann("send", WORK, "My favourite colour is teal.", "--wait")
    (ann.home / "words").write_text(WORDS + "\n")
    made = json.loads(ann("export", WORK, "work.daycare", "--passphrase-file", "words", "--json"))
    file = ann.home / "work.daycare"
    assert (made["encrypted"], made["bytes"], made["taken"]["turn"]) == (True, file.stat().st_size, 1)
    assert is_sealed(file.read_bytes()) and file.stat().st_mode & 0o777 == 0o600
    assert "there is one" in ann("export", WORK, "work.daycare", code=5)
    assert "no such agent" in ann("export", "/ann/agent/nobody", "other.daycare", code=3)
    assert not (ann.home / "other.daycare").exists(), "what was not written whole is not there"

    bob = Person(folder / "b", "bob")
    (bob.home / "words").write_text("something else entirely")
    wrong = bob("import", str(file), "--as", "/bob/agent/moved", "--passphrase-file", "words", code=2)
    assert "passphrase is wrong" in wrong
    assert "there is no terminal" in bob("import", str(file), "--as", "/bob/agent/moved", code=2)
    changed = bytearray(file.read_bytes())
    changed[-1] ^= 1
    (bob.home / "changed").write_bytes(changed)
    words = ann.home / "words"
    told = bob("import", "changed", "--as", "/bob/agent/moved", "--passphrase-file", str(words), code=2)
    assert "chunk 0 was changed" in told
    assert "No such file" in bob("import", "nothing", "--as", "/bob/agent/moved", code=2)

    right = ("import", str(file), "--as", "/bob/agent/moved", "--passphrase-file", str(words))
    planned = bob(*right, "--dry-run")
    assert planned.startswith("would import /ann/agent/work as /bob/agent/moved")
    done = bob(*right)
    assert "1 turn" in done and "shared documents" in done
    assert "teal" in bob("agents", "show", "/bob/agent/moved")
    assert "lives there" in bob(
        "import", str(file), "--as", "/bob/agent/moved", "--passphrase-file", str(words), code=5
    )

    assert bob("clone", "/bob/agent/moved", "/bob/agent/twin").startswith("cloned")
    assert "teal" in bob("agents", "show", "/bob/agent/twin")
    assert "no such agent" in bob("clone", "/bob/agent/gone", "/bob/agent/other", code=3)
