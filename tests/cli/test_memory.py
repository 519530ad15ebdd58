"""`daycare memory` against the real daemon: one that lives as long as each command."""

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daycare.base.errors import InvalidError
from daycare.cli import memory as verbs
from daycare.cli.client import Client
from daycare.cli.command import Cli
from daycare.cli.main import _run
from daycare.ops.process import EmbeddedDaemon
from tests.cli.conftest import Daycare
from tests.memory import hostile


@pytest.fixture
def house(daycare: Daycare, home: Path) -> Path:
    done = daycare("init", "--yes", "--user-name", "Ann")
    assert done.returncode == 0, done.stderr
    return home


@pytest.fixture
def editor(home: Path, environment: dict[str, str]) -> Path:
    """A program that edits: what is written into it is a shell script over the file `$1`."""
    script = home / "editor"
    environment["EDITOR"] = f"sh {script}"
    environment["TMPDIR"] = str(home)
    return script


def test_a_document_is_edited_shown_explained_and_listed(house: Path, editor: Path, daycare: Daycare) -> None:
    editor.write_text('printf "Be kind.\\n" >> "$1"')
    done = daycare("memory", "edit", "SOUL.md", "--reason", "wish")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-2:] == ["+Be kind.", "saved SOUL.md as version 1 of the layer agent"]
    assert daycare("memory", "show", "SOUL.md").stdout == "Be kind.\n"
    assert json.loads(daycare("memory", "show", "SOUL.md", "--json").stdout)["layer"] == "agent"
    explained = daycare("memory", "explain", "SOUL.md").stdout.splitlines()
    assert explained[1].split()[:4] == ["read", "agent", "SOUL.md", "1"]
    assert explained[2].split()[:2] == ["user", "shared/SOUL.md"] and "never had it" in explained[2]
    listed = [line.split()[:2] for line in daycare("memory").stdout.splitlines()]
    assert ["SOUL.md", "agent"] in listed and ["AGENTS.md", "view"] in listed
    history = daycare("memory", "history", "SOUL.md").stdout
    assert "direct:ann" in history and "wish" in history
    assert daycare("memory", "search", "kindness").stdout.split() == ["SOUL.md", "Be", "kind."]
    assert not list(house.glob("SOUL-*")), "nothing is left of the edit"


def test_an_edit_that_changes_nothing_writes_nothing(house: Path, editor: Path, daycare: Daycare) -> None:
    editor.write_text("true")
    assert daycare("memory", "edit", "IDENTITY.md").stdout == "IDENTITY.md is as it was\n"
    assert len(json.loads(daycare("memory", "history", "IDENTITY.md", "--json").stdout)["versions"]) == 1


def test_an_edit_of_what_comes_from_behind_is_this_agents_own(house: Path, editor: Path, daycare: Daycare) -> None:
    editor.write_text('echo shared > "$1"')
    assert "layer user" in daycare("memory", "edit", "shared/SOUL.md").stdout
    editor.write_text('echo more >> "$1"')
    assert "layer agent" in daycare("memory", "edit", "SOUL.md").stdout
    assert daycare("memory", "show", "SOUL.md").stdout == "shared\nmore\n"
    assert daycare("memory", "show", "shared/SOUL.md").stdout == "shared\n"


def test_what_cannot_be_saved_is_kept_in_a_file(house: Path, editor: Path, daycare: Daycare) -> None:
    command = f"{sys.executable} -m daycare memory"
    editor.write_text('echo one > "$1"')
    assert daycare("memory", "edit", "SOUL.md").returncode == 0
    # While the file is open, somebody else saves another text.
    other = house / "other"
    other.write_text('echo theirs > "$1"')
    editor.write_text(f'EDITOR="sh {other}" {command} edit SOUL.md > /dev/null || exit 9\necho mine > "$1"')
    done = daycare("memory", "edit", "SOUL.md")
    assert done.returncode == 5 and "changed meanwhile" in done.stderr
    [kept] = house.glob("SOUL-*.md")
    assert f"is kept in {kept}" in done.stderr and kept.read_text() == "mine\n"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert daycare("memory", "show", "SOUL.md").stdout == "theirs\n"


@pytest.mark.parametrize(
    ("script", "code", "says"),
    [
        ("exit 3", 1, "exit code 3"),
        ('printf "\\377" > "$1"', 2, "utf-8"),
        ('head -c 200000 /dev/zero | tr "\\0" x > "$1"', 2, "200000 bytes"),
        ('rm "$1"', 2, "No such file"),
    ],
)
def test_an_edit_that_goes_wrong_says_why(
    house: Path, editor: Path, daycare: Daycare, script: str, code: int, says: str
) -> None:
    editor.write_text(script)
    done = daycare("memory", "edit", "SOUL.md")
    assert done.returncode == code and says in done.stderr and "SOUL-" in done.stderr


def test_an_editor_that_is_not_there_is_told(house: Path, environment: dict[str, str], daycare: Daycare) -> None:
    environment["VISUAL"] = "/nowhere/editor"
    done = daycare("memory", "edit", "SOUL.md")
    assert done.returncode == 2 and "/nowhere/editor" in done.stderr and "set $EDITOR" in done.stderr


def test_rm_and_undo(house: Path, editor: Path, daycare: Daycare) -> None:
    editor.write_text('echo one > "$1"')
    daycare("memory", "edit", "knowledge/plan.md")
    assert daycare("memory", "rm", "knowledge/plan.md").stdout.startswith("deleted knowledge/plan.md, version 2")
    assert daycare("memory", "show", "knowledge/plan.md").returncode == 3
    assert "-one" in daycare("memory", "diff", "knowledge/plan.md").stdout
    assert daycare("memory", "undo", "knowledge/plan.md").stdout == "knowledge/plan.md is as before, in version 3\n"
    assert daycare("memory", "undo", "knowledge/plan.md", "--version", "1").returncode == 5
    assert "+one" in daycare("memory", "diff", "knowledge/plan.md", "0", "1").stdout
    assert daycare("memory", "rm", "knowledge/none.md").returncode == 3


def test_export_and_import(house: Path, editor: Path, daycare: Daycare) -> None:
    editor.write_text('echo one > "$1"')
    daycare("memory", "edit", "SOUL.md")
    assert "written: agents/ann.direct/SOUL.md" in daycare("memory", "export").stdout
    file = house / "memory/agents/ann.direct/SOUL.md"
    file.write_text("mine\n")
    assert "changed on disk, not imported: agents/ann.direct/SOUL.md" in daycare("memory", "export").stdout
    assert "imported: agents/ann.direct/SOUL.md" in daycare("memory", "import").stdout
    daycare("memory", "edit", "SOUL.md")
    file.write_text("mine again\n")
    done = daycare("memory", "import")
    assert done.returncode == 5 and "-one" in done.stdout and "+mine again" in done.stdout
    assert "SOUL.store.md" in done.stdout and "merge each file" in done.stderr
    assert file.read_text() == "mine again\n"


def test_process_says_that_it_cannot_yet(house: Path, daycare: Daycare) -> None:
    done = daycare("memory", "process")
    assert done.returncode == 5 and "does not distil" in done.stderr


def test_invisible_characters_are_written_out_for_people(house: Path, editor: Path, daycare: Daycare) -> None:
    editor.write_text('printf "a\\342\\200\\256b\\033[2J" > "$1"')
    done = daycare("memory", "edit", "SOUL.md")
    assert "+a<U+202E>b<U+001B>[2J" in done.stdout
    assert daycare("memory", "show", "SOUL.md").stdout == "a\u202eb\x1b[2J", "a pipe gets what is stored"


# -- whoever tries -----------------------------------------------------------------------------------------------------

VERBS = ("show", "edit", "rm", "diff", "history", "undo", "explain")


@pytest.fixture
def served(house: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home with a daemon in this process, so that many commands are quick."""
    monkeypatch.setenv("EDITOR", "false")
    with EmbeddedDaemon(house, work=False):
        yield house


def call(home: Path, *words: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = _run(["memory", words[0], "--home", str(home), "--", *words[1:]], as_json=False)
    return code, out.getvalue(), err.getvalue()


def snapshot(home: Path) -> Any:
    client = Client(home / "daycare.sock")
    try:
        return client.call("GET", "/v1/memory")
    finally:
        client.close()


@pytest.mark.parametrize("verb", VERBS)
def test_no_hostile_path_leads_anywhere(served: Path, verb: str) -> None:
    before = snapshot(served)
    for path in hostile.PATHS:
        code, out, err = call(served, verb, path)
        assert (code, out) == (2, ""), (ascii(path), code, out, err)
        assert err.startswith("error: ") and ("expected" in err or "half of a pair" in err) and "hint: " in err
    assert snapshot(served) == before


def test_no_hostile_folder_is_listed(served: Path) -> None:
    for path in hostile.PATHS:
        if path not in hostile.FOLDERS:
            code, _, err = call(served, "list", path)
            assert code == 2 and "error: " in err, ascii(path)


@pytest.mark.parametrize("verb", ["edit", "rm", "undo"])
def test_views_are_written_under_no_spelling(served: Path, verb: str) -> None:
    before = snapshot(served)
    for path in hostile.VIEWS:
        code, _, err = call(served, verb, path)
        assert code == 2 and ("made when it is read" in err or "expected" in err), (ascii(path), err)
    assert snapshot(served) == before


def test_a_view_is_not_even_opened_in_an_editor(served: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(*_: Any, **__: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(subprocess, "run", opened)
    with pytest.raises(InvalidError):
        verbs.edit(Cli(served, False), "tools.json")
    assert os.environ["EDITOR"] == "false"
