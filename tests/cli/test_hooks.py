"""`daycare hooks` from the command line."""

import json
from pathlib import Path

from tests.cli.conftest import Daycare


def test_a_webhook_is_made_tried_shown_rotated_and_removed(daycare: Daycare, tmp_path: Path) -> None:
    assert daycare("init", "--yes").returncode == 0
    assert daycare("hooks").stdout == "no webhooks\n"
    user = json.loads(daycare("users", "list", "--json").stdout)["users"][0]["id"]
    path = f"/{user}/agent/ida"
    assert daycare("agents", "create", path).returncode == 0
    template = tmp_path / "template"
    template.write_text("{{ issue.title }} by {{ sender.login }}\n")
    wish = ("--to", path, "--scheme", "github", "--events", "issues, push", "--template", f"@{template}")
    made = daycare("hooks", "add", "gh", *wish, "--instruction", "Label it")
    assert made.returncode == 0, made.stderr
    secret = made.stdout.splitlines()[0]
    assert len(secret) > 40 and "shown this once" in made.stdout and "/v1/hooks/gh" in made.stdout
    again = daycare("hooks", "add", "gh", *wish)
    assert again.returncode == 5 and "there is one of that name" in again.stderr
    payload = tmp_path / "payload.json"
    payload.write_text('{"issue": {"title": "It leaks"}, "sender": {"login": "eve"}}')
    tested = daycare("hooks", "test", "gh", "--event", "issues.opened", "--payload", str(payload))
    assert tested.stdout.startswith("accepted: message "), tested.stderr
    assert daycare("hooks", "test", "gh", "--event", "star").stdout == "ignored\n"
    assert "It leaks by eve" in daycare("inbox", path).stdout + daycare("agents", "show", path, "--json").stdout
    [listed] = json.loads(daycare("hooks", "list", "--json").stdout)["hooks"]
    assert (listed["accepted"], listed["ignored"], listed["accepted_event"]) == (1, 1, "issues.opened")
    assert listed["template"] == "{{ issue.title }} by {{ sender.login }}" and listed["events"] == ["issues", "push"]
    shown = daycare("hooks", "show", "gh").stdout
    assert "Label it" in shown and secret not in shown + daycare("hooks").stdout
    edited = daycare("hooks", "edit", "gh", "--template", "", "--events", "issues")
    assert edited.stdout == "changed: gh\n", edited.stderr
    renewed = daycare("hooks", "edit", "gh", "--new-secret").stdout
    assert renewed.splitlines()[0] != secret and "shown this once" in renewed
    changed = json.loads(daycare("hooks", "show", "gh", "--json").stdout)
    assert (changed["template"], changed["events"], changed["instruction"]) == ("", ["issues"], "Label it")
    rotated = daycare("hooks", "rotate", "gh", "--own-secret", stdin="It's a Secret to Everybody\n")
    assert rotated.stdout.splitlines()[0] == "It's a Secret to Everybody" and "is good until" in rotated.stdout
    assert daycare("hooks", "rm", "gh").stdout == "removed: gh\n"
    assert daycare("hooks", "show", "gh").returncode == 3


def test_what_cannot_be_read_is_refused_with_what_to_do(daycare: Daycare, tmp_path: Path) -> None:
    assert daycare("init", "--yes").returncode == 0
    for wrong in (
        ("add", "x"),
        ("add", "x", "--signal", "a:b", "--scheme", "md5"),
        ("add", "x", "--signal", "a:b", "--template", "{{ 7 * 7 }}"),
        ("add", "x", "--signal", "a:b", "--template", f"@{tmp_path}/none"),
        ("test", "x", "--payload", f"{tmp_path}"),
        ("edit", "x", "--template", f"@{tmp_path}/none"),
        ("rotate", "x", "--hours", "1000"),
    ):
        refused = daycare("hooks", *wrong)
        assert refused.returncode == 2, wrong
        assert refused.stderr.startswith("error: ") and "hint: " in refused.stderr, refused.stderr
