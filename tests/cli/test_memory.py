"""`daycare memory` against the real daemon."""

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer.main

from daycare.api.client import Client
from daycare.base.errors import DaycareError, InvalidError
from daycare.cli import memory as verbs
from daycare.cli.command import Cli, fail
from daycare.ops.setup import initialise
from daycare.process import EmbeddedDaemon
from tests.chance import sliced
from tests.cli.conftest import Daycare
from tests.memory import hostile

COMMAND = typer.main.get_command(verbs.app)  # once: building all commands takes longer than running one


@dataclass
class Done:
    """What a command came to."""

    returncode: int
    stdout: str
    stderr: str


Run = Callable[..., Done]


@pytest.fixture
def house(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home with a daemon in this process, so that many commands are quick."""
    initialise(home, user_name="Ann")
    monkeypatch.setenv("TMPDIR", str(home))
    monkeypatch.setattr("tempfile.tempdir", str(home))
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", "false")
    with EmbeddedDaemon(home, work=False):
        yield home


@pytest.fixture
def editor(house: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that edits: what is written into it is a shell script over the file `$1`."""
    script = house / "editor"
    monkeypatch.setenv("EDITOR", f"sh {script}")
    return script


@pytest.fixture
def memory(house: Path) -> Run:
    """Run one verb as the program does."""

    def run(verb: str = "list", *words: str) -> Done:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = COMMAND.main([verb, "--home", str(house), *words], standalone_mode=False) or 0
            except DaycareError as error:
                code = fail(error, as_json=False)
        return Done(code, out.getvalue(), err.getvalue())

    return run


def test_the_program_has_the_verbs(daycare: Daycare) -> None:
    assert daycare("init", "--yes", "--user-name", "Ann").returncode == 0
    listed = daycare("memory")
    assert listed.returncode == 0 and "IDENTITY.md" in listed.stdout, listed.stderr
    refused = daycare("memory", "show", "../../etc/passwd")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("error: reading the document path '../../etc/passwd': expected")


def test_a_document_is_edited_shown_explained_and_listed(house: Path, editor: Path, memory: Run) -> None:
    assert "You are a helpful assistant." in memory("show", "SOUL.md").stdout, "everybody's, to begin with"
    editor.write_text('printf "Be kind.\\n" > "$1"')
    done = memory("edit", "SOUL.md", "--reason", "wish")
    assert done.returncode == 0, done.stderr
    saved = "saved SOUL.md as version 1 of the layer agent, which /ann/direct alone reads"
    assert done.stdout.splitlines()[-2:] == ["+Be kind.", saved]
    assert memory("show", "SOUL.md").stdout == "Be kind.\n"
    assert json.loads(memory("show", "SOUL.md", "--json").stdout)["layer"] == "agent"
    explained = memory("explain", "SOUL.md").stdout.splitlines()
    assert explained[1].split()[:4] == ["read", "agent", "SOUL.md", "1"]
    assert explained[2].split()[:2] == ["user", "shared/SOUL.md"] and "never had it" in explained[2]
    listed = [line.split()[:2] for line in memory().stdout.splitlines()]
    assert ["SOUL.md", "agent"] in listed and ["AGENTS.md", "view"] in listed
    history = memory("history", "SOUL.md").stdout
    assert "direct:ann" in history and "wish" in history
    assert memory("search", "kindness").stdout.split() == ["SOUL.md", "Be", "kind."]
    assert not list(house.glob("SOUL-*")), "nothing is left of the edit"


def test_an_edit_that_changes_nothing_writes_nothing(house: Path, editor: Path, memory: Run) -> None:
    editor.write_text("true")
    assert memory("edit", "IDENTITY.md").stdout == "IDENTITY.md is as it was\n"
    assert len(json.loads(memory("history", "IDENTITY.md", "--json").stdout)["versions"]) == 1


def test_an_edit_of_what_comes_from_behind_is_this_agents_own(house: Path, editor: Path, memory: Run) -> None:
    editor.write_text('echo shared > "$1"')
    assert "layer user" in memory("edit", "shared/SOUL.md").stdout
    editor.write_text('echo more >> "$1"')
    assert "layer agent" in memory("edit", "SOUL.md").stdout
    assert memory("show", "SOUL.md").stdout == "shared\nmore\n"
    assert memory("show", "shared/SOUL.md").stdout == "shared\n"


def test_what_cannot_be_saved_is_kept_in_a_file(house: Path, editor: Path, memory: Run) -> None:
    command = f"{sys.executable} -m daycare memory"
    editor.write_text('echo one > "$1"')
    assert memory("edit", "SOUL.md").returncode == 0
    # While the file is open, somebody else saves another text.
    other = house / "other"
    other.write_text('echo theirs > "$1"')
    editor.write_text(
        f'EDITOR="sh {other}" {command} edit SOUL.md --home {house} > /dev/null || exit 9\necho mine > "$1"'
    )
    done = memory("edit", "SOUL.md")
    assert done.returncode == 5 and "changed meanwhile" in done.stderr
    [kept] = house.glob("SOUL-*.md")
    assert f"is kept in {kept}" in done.stderr and kept.read_text() == "mine\n"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert memory("show", "SOUL.md").stdout == "theirs\n"


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
    house: Path, editor: Path, memory: Run, script: str, code: int, says: str
) -> None:
    editor.write_text(script)
    done = memory("edit", "SOUL.md")
    assert done.returncode == code and says in done.stderr and "SOUL-" in done.stderr


def test_an_editor_that_is_not_there_is_told(memory: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISUAL", "/nowhere/editor")
    done = memory("edit", "SOUL.md")
    assert done.returncode == 2 and "/nowhere/editor" in done.stderr and "set $EDITOR" in done.stderr


def test_rm_and_undo(house: Path, editor: Path, memory: Run) -> None:
    editor.write_text('echo one > "$1"')
    memory("edit", "knowledge/plan.md")
    assert memory("rm", "knowledge/plan.md").stdout.startswith("deleted knowledge/plan.md, version 2")
    assert memory("show", "knowledge/plan.md").returncode == 3
    assert "-one" in memory("diff", "knowledge/plan.md").stdout
    assert memory("undo", "knowledge/plan.md").stdout == "knowledge/plan.md is as before, in version 3\n"
    assert memory("undo", "knowledge/plan.md", "--version", "1").returncode == 5
    assert "+one" in memory("diff", "knowledge/plan.md", "0", "1").stdout
    assert memory("rm", "knowledge/none.md").returncode == 3


def test_export_and_import(house: Path, editor: Path, memory: Run) -> None:
    editor.write_text('echo one > "$1"')
    memory("edit", "SOUL.md")
    assert "written: agents/ann.direct/SOUL.md" in memory("export").stdout
    file = house / "memory/agents/ann.direct/SOUL.md"
    file.write_text("mine\n")
    assert "changed on disk, not imported: agents/ann.direct/SOUL.md" in memory("export").stdout
    assert "imported: agents/ann.direct/SOUL.md" in memory("import").stdout
    memory("edit", "SOUL.md")
    file.write_text("mine again\n")
    done = memory("import")
    assert done.returncode == 5 and "-one" in done.stdout and "+mine again" in done.stdout
    assert f"{file.relative_to(house / 'memory')} (+), and the store's text (-)" in done.stdout
    assert "SOUL.store.md" in done.stdout and "merge each file" in done.stderr
    assert file.read_text() == "mine again\n"


def test_process_says_when_there_is_nothing_to_look_at(memory: Run) -> None:
    done = memory("process")
    assert done.returncode == 0 and "nothing waits" in done.stdout


def test_invisible_characters_are_written_out_for_people(house: Path, editor: Path, memory: Run) -> None:
    editor.write_text('printf "a\\342\\200\\256b\\033[2J" > "$1"')
    done = memory("edit", "SOUL.md")
    assert "+a<U+202E>b<U+001B>[2J" in done.stdout
    assert memory("show", "SOUL.md").stdout == "a\u202eb\x1b[2J", "a pipe gets what is stored"


# -- whoever tries -----------------------------------------------------------------------------------------------------

VERBS = ("show", "edit", "rm", "diff", "history", "undo", "explain")


def snapshot(home: Path) -> Any:
    client = Client(home / "daycare.sock")
    try:
        return client.call("GET", "/v1/memory")
    finally:
        client.close()


@pytest.mark.parametrize("verb", VERBS)
def test_no_hostile_path_leads_anywhere(house: Path, memory: Run, verb: str) -> None:
    before = snapshot(house)
    turned = VERBS.index(verb)  # of the slices each path is in one
    for path in sliced([*hostile.PATHS[turned:], *hostile.PATHS[:turned]], len(VERBS)):
        done = memory(verb, "--", path)
        assert (done.returncode, done.stdout) == (2, ""), (ascii(path), done)
        assert done.stderr.startswith("error: ") and "hint: " in done.stderr
        assert "expected" in done.stderr or "not text" in done.stderr
    assert snapshot(house) == before


def test_no_hostile_folder_is_listed(memory: Run) -> None:
    for path in sliced([path for path in hostile.PATHS if path not in hostile.FOLDERS], len(VERBS)):
        done = memory("list", "--", path)
        assert done.returncode == 2 and "error: " in done.stderr, ascii(path)


@pytest.mark.parametrize("verb", ["edit", "rm", "undo"])
def test_views_are_written_under_no_spelling(house: Path, memory: Run, verb: str) -> None:
    before = snapshot(house)
    for path in hostile.VIEWS:
        done = memory(verb, "--", path)
        assert done.returncode == 2, ascii(path)
        assert "made when it is read" in done.stderr or "expected" in done.stderr, (ascii(path), done)
    assert snapshot(house) == before


def test_a_view_is_not_even_opened_in_an_editor(house: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(*_: Any, **__: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(subprocess, "run", opened)
    with pytest.raises(InvalidError):
        verbs.edit(Cli(house, False), "tools.json")
    assert os.environ["EDITOR"] == "false"
