"""`[[rules]]` in config.toml: every problem is told with its line and field, and the daemon does not start."""

from pathlib import Path

import pytest

from daycare.base.errors import BrokenError
from daycare.base.limits import RULES_MAX
from daycare.base.permission import Decision, Rule
from daycare.base.toml_positions import key_lines
from daycare.config import check, load


def write(home: Path, text: str) -> Path:
    (home / "config.toml").write_text(text)
    return home


def problems(home: Path, text: str) -> list[tuple[int, str, str]]:
    return [(each.line, each.key, each.what) for each in check(write(home, text))]


def test_rules_are_read_in_their_order(tmp_path: Path) -> None:
    text = """
[[rules]]
action = "message"
decision = "deny"
subject = "/ann/agent/mailer/**"
object = "/ann/*"

[[rules]]
action = "tool:*"
decision = "ask"
"""
    assert load(write(tmp_path, text)).rules == (
        Rule(action="message", decision=Decision.DENY, subject="/ann/agent/mailer/**", object="/ann/*"),
        Rule(action="tool:*", decision=Decision.ASK),
    )


def test_each_problem_names_its_line_and_its_field(tmp_path: Path) -> None:
    text = """
[[rules]]
action = "mesage"
decision = "deny"

[[rules]]
subject = "/ann/tele*"
action = "message"
decision = "allw"
[[rules]]
actoin = "kill"
decision = "deny"
[[rules]]
action = "kill"
subject = "/ann/**"
object = "/ben/**"
decision = "allow"
"""
    found = problems(tmp_path, text)
    assert [(line, key) for line, key, _ in found] == [
        (3, "rules.1.action"),
        (7, "rules.2.subject"),
        (9, "rules.2.decision"),
        (10, "rules.3.action"),
        (11, "rules.3.actoin"),
        (17, "rules.4.decision"),
    ]
    words = dict(zip([key for _, key, _ in found], [what for _, _, what in found], strict=True))
    assert "did you mean `message`?" in words["rules.1.action"]
    assert "at character 6" in words["rules.2.subject"]
    assert words["rules.3.action"] == "is needed"
    assert "did you mean `action`?" in words["rules.3.actoin"]
    with pytest.raises(BrokenError, match=r"rules\.4\.decision"):
        load(tmp_path)


@pytest.mark.parametrize("text", ["rules = 1", '[rules]\naction = "kill"', "rules = [1]"])
def test_rules_are_a_list_of_tables(tmp_path: Path, text: str) -> None:
    [(_, key, what)] = problems(tmp_path, text)
    assert (key, what) == ("rules", "is a list: write [[rules]] before each")


def test_rules_are_bounded(tmp_path: Path) -> None:
    one = '[[rules]]\naction = "kill"\ndecision = "deny"\n'
    assert problems(tmp_path, one * RULES_MAX) == []
    [(line, key, what)] = problems(tmp_path, one * (RULES_MAX + 1))
    assert (line, key) == (1, "rules") and str(RULES_MAX) in what


def test_tables_of_a_list_have_lines_of_their_own() -> None:
    lines = key_lines("[[a]]\nb = 1\n[[a]]\nb = 2\n[c]\nb = 3\n[[c.d]]\ne = 4\n")
    assert lines[("a", "1", "b")] == 2
    assert lines[("a", "2")] == 3 and lines[("a", "2", "b")] == 4
    assert lines[("c", "d", "1", "e")] == 8
