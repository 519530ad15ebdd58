"""`daycare can`: a decision, its reason and an exit code, by the program and a real daemon."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Daycare

A, B = "/ann/agent/a", "/ann/agent/b"


@pytest.fixture
def house(home: Path, daycare: Daycare) -> Path:
    made = daycare("init", "--yes", "--user", "ann")
    assert made.returncode == 0, made.stderr
    with (home / "config.toml").open("a") as config:
        config.write(
            f'\n[[rules]]\nsubject = "{A}"\naction = "message"\nobject = "{B}"\ndecision = "deny"\n'
            f'\n[[rules]]\nsubject = "{A}"\naction = "write_memory"\ndecision = "ask"\n'
            f'\n[[rules]]\nsubject = "{A}"\naction = "kill"\ndecision = "ask"\n'
        )
    return home


def test_a_decision_is_told_by_words_and_by_the_exit_code(house: Path, daycare: Daycare) -> None:
    allowed = daycare("can", B, "message", A)
    assert (allowed.returncode, allowed.stdout.splitlines()[0]) == (0, f"allowed: {B} message {A}")
    denied = daycare("can", f"{A}/sub/0", "message", B)
    assert denied.returncode == 1
    assert denied.stdout.splitlines()[0] == f"denied: {A}/sub/0 message {B}"
    assert "rule 1 of config.toml" in denied.stdout and f"{A}: denied  <- this limits it" in denied.stdout
    asked = daycare("can", A, "write_memory", "--json")
    assert asked.returncode == 3
    assert json.loads(asked.stdout)["decision"] == "ask"
    assert daycare("can", A, "write_memory").stdout.startswith(f"a person is asked: {A} write_memory")
    assert daycare("can", A, "kill", B).stdout.startswith("refused, as a person would have to be asked, and nobody is")
    wrong = daycare("can", A, "fly", B)
    assert wrong.returncode == 2 and "expected one of message" in wrong.stderr


def test_wrong_rules_keep_the_daemon_from_starting(house: Path, daycare: Daycare) -> None:
    with (house / "config.toml").open("a") as config:
        config.write('\n[[rules]]\naction = "mesage"\ndecision = "deny"\n')
    checked = daycare("config", "check")
    assert checked.returncode == 78
    assert "rules.4.action: expected one of" in checked.stdout + checked.stderr


def test_an_agents_own_rules_are_set_and_checked(house: Path, daycare: Daycare) -> None:
    assert daycare("agents", "create", B).returncode == 0
    own = '{"rules": [{"action": "kill", "decision": "deny"}]}'
    assert daycare("agents", "set", B, f"permissions={own}").returncode == 0
    wrong = daycare("agents", "set", B, "permissions=" + own.replace("kill", "kil"))
    assert wrong.returncode == 2 and "did you mean `kill`?" in wrong.stderr
