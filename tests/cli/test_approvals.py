"""`daycare approvals` against the real daemon: one that lives as long as the command, over a store with requests."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import trio

from daycare.base.documents import Layer, Place
from daycare.features import open_store
from daycare.features.approvals.cli import approval_view
from daycare.features.approvals.records import ApprovalFinding, DocumentAction, NewApproval
from daycare.features.approvals.rows import ApprovalRows
from daycare.store.records import Agent
from tests.cli.conftest import Daycare
from tests.store.samples import new_agent
from tests.terminal import Terminals

AGENT = "/ann/telegram"


@pytest.fixture(scope="module")
def prepared(home_of_ann: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home whose operator is Ann; her agent has asked to remember something."""
    home = tmp_path_factory.mktemp("approvals")
    shutil.copytree(home_of_ann, home, dirs_exist_ok=True)
    propose(home, "1")
    return home


@pytest.fixture
def house(prepared: Path, home: Path) -> Path:
    shutil.copytree(prepared, home, dirs_exist_ok=True)
    return home


def propose(home: Path, key: str, name: str = "MEMORY.md", text: str = "- likes tea\n", **more: Any) -> None:
    async def run() -> None:
        async with open_store(str(home / "daycare.db")) as store:
            agent: Agent = await store.agents.create(new_agent(AGENT, user="ann"))
            place = Place(Layer.AGENT, agent.id, name)
            new = NewApproval(
                key=key,
                kind="memory",
                agent_id=agent.id,
                path=agent.path,
                user="ann",
                decider="ann",
                action=DocumentAction(verb="write", place=place, text=text),
                base_hash="",
                salt=key,
                reason="she said so",
                **more,
            )
            await store.of(ApprovalRows).request(new, lambda it: None)

    trio.run(run)


def request(daycare: Daycare, number: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(daycare("approvals", "show", str(number), "--json").stdout)
    return found


def test_what_waits_is_listed(house: Path, daycare: Daycare) -> None:
    for arguments in (("approvals",), ("approvals", "list"), ("approvals", "list", "--user", "ann")):
        head, row = daycare(*arguments).stdout.splitlines()
        assert head.split() == ["no", "state", "agent", "what", "suspicious", "why", "left"]
        assert row.split()[:5] == ["1", "pending", AGENT, "write", "MEMORY.md"] and "she said so" in row
    assert daycare("approvals", "list", "--user", "ben").stdout == "nothing waits for a decision\n"


def test_a_request_is_shown_with_nothing_invisible(house: Path, daycare: Daycare) -> None:
    propose(
        house,
        "2",
        "knowledge/x.md",
        "a\u202eb\x1b[31mc\n",
        findings=(ApprovalFinding(severity="danger", meaning="odd"),),
    )
    shown = daycare("approvals", "show", "2").stdout
    assert "+a<U+202E>b<U+001B>[31mc" in shown and "! danger: odd" in shown
    assert "\u202e" not in shown and "\x1b" not in shown


def test_without_a_terminal_approving_needs_yes(house: Path, daycare: Daycare) -> None:
    done = daycare("approvals", "approve", "1")
    assert done.returncode == 2 and "+- likes tea" in done.stdout and "--yes" in done.stderr
    assert request(daycare, 1)["state"] == "pending"
    done = daycare("approvals", "approve", "1", "--yes")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(
        "approved: request 1; MEMORY.md is at version 1 now; back with: daycare approvals undo 1\n"
    )
    done = daycare("approvals", "approve", "1", "--yes")
    assert done.returncode == 0, "a repeat of the same decision"
    done = daycare("approvals", "reject", "1")
    assert done.returncode == 5 and "approved already by direct:ann" in done.stderr
    assert daycare("approvals", "undo", "1").stdout == "undone: MEMORY.md is as it was before request 1\n"


def test_several_are_approved_at_once_and_suspicious_ones_are_not(house: Path, daycare: Daycare) -> None:
    propose(house, "2", "knowledge/a.md")
    propose(house, "3", "knowledge/b.md", findings=(ApprovalFinding(severity="warning", meaning="a link"),))
    done = daycare("approvals", "approve", "1", "2", "3", "--yes")
    assert done.returncode == 2 and "request 3 is flagged" in done.stderr
    done = daycare("approvals", "approve", "1", "2", "2", "--yes")
    assert done.returncode == 0 and done.stdout.count("approved: request") == 2
    daycare("approvals", "approve", "3", "--yes")
    assert daycare("approvals").stdout == "nothing waits for a decision\n"
    listed = json.loads(daycare("approvals", "list", "--all", "--json").stdout)["approvals"]
    assert [each["state"] for each in listed] == ["approved"] * 3


def test_an_edit_is_shown_before_it_is_approved(house: Path, daycare: Daycare) -> None:
    done = daycare("approvals", "edit", "1", "--text", "- likes coffee\n")
    assert done.returncode == 0 and "+- likes coffee" in done.stdout
    assert request(daycare, 1)["state"] == "pending"
    done = daycare("approvals", "edit", "1", "--text", "-", "--yes", stdin="- likes water\n")
    assert "+- likes water" in done.stdout and "edited: request 1" in done.stdout
    done = daycare("approvals", "edit", "1", "--text", "x")
    assert done.returncode == 5


def test_the_editor_is_asked_for_the_text(house: Path, daycare: Daycare, environment: dict[str, str]) -> None:
    script = house / "editor"
    script.write_text('#!/bin/sh\nsed -i s/tea/cocoa/ "$1"\n')
    script.chmod(0o700)
    environment["EDITOR"] = str(script)
    assert "+- likes cocoa" in daycare("approvals", "edit", "1").stdout
    script.write_text('#!/bin/sh\nprintf " " > "$1"\n')
    done = daycare("approvals", "edit", "1")
    assert done.returncode == 2 and "there is no text; what you wrote is kept in /" in done.stderr
    environment["EDITOR"] = "true"
    assert daycare("approvals", "edit", "1").stdout == "request 1 is as it was\n"


def test_a_rejection_says_why(house: Path, daycare: Daycare) -> None:
    assert daycare("approvals", "reject", "1", "--why", "a joke").stdout == "rejected: request 1\n"
    assert request(daycare, 1)["why"] == "a joke"
    assert "they said: a joke" in daycare("approvals", "show", "1").stdout


def test_a_grant_lasts_a_day_at_most(house: Path, daycare: Daycare) -> None:
    for given in ("25h", "soon"):
        assert daycare("approvals", "auto", AGENT, "--for", given).returncode == 2
    done = daycare("approvals", "auto", AGENT, "--for", "1 d")
    assert done.returncode == 0, done.stderr
    assert f"approved at once: memory of {AGENT}, until" in daycare("approvals").stdout
    assert daycare("approvals", "auto", AGENT, "--for", "0").stdout == f"{AGENT}: memory is asked for again\n"
    assert "approved at once" not in daycare("approvals").stdout


def test_an_unknown_number_is_said(house: Path, daycare: Daycare) -> None:
    for arguments in (("show", "9"), ("approve", "9", "--yes"), ("undo", "9")):
        done = daycare("approvals", *arguments)
        assert done.returncode == 3 and "request 9" in done.stderr


def test_a_change_is_colored_line_by_line() -> None:
    it = {
        "no": 1, "state": "pending", "title": "x", "reason": "", "provenance": [], "edited_by": "", "expires_at": 0,
        "why": "", "content_hash": "ff", "flags": [], "warnings": [], "decided_at": None, "decided_by": "",
        "verb": "write", "diff": "--- a\n+++ b\n@@ -1,1 +1,1 @@\n-old\n+new\n kept\n",
    }  # fmt: skip
    text = approval_view(it)
    styles = {text.plain[span.start : span.end].strip(): span.style for span in text.spans}
    assert (styles["-old"], styles["+new"], styles["@@ -1,1 +1,1 @@"]) == ("red", "green", "cyan")
    assert "kept" not in styles


def test_a_terminal_shows_the_change_and_asks(house: Path, terminals: Terminals) -> None:
    terminal = terminals("approvals", "approve", "1")
    terminal.sees("+- likes tea", "[y/N]")
    terminal.types("y\r")
    terminal.sees("approved: request 1")
    terminal.leaves(0)
