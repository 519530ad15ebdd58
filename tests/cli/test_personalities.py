"""Setting up who an agent is, and personalities, as a person does it."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Daycare
from tests.cli.fake_daemon import OWNER, FakeDaemon


def test_what_init_was_told_is_in_the_very_next_turn(daycare: Daycare, home: Path) -> None:
    done = daycare("init", "--yes", "--agent-name", 'Mi"so', "--user-name", "Ann Lee", "--tone", "dry",
                   "--personality", "creative", "--json")  # fmt: skip
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    assert (made["agent_name"], made["user_name"], made["personality"]) == ('Mi"so', "Ann Lee", "creative")
    assert '[agent]\nname = "Mi\\"so"\ntone = "dry"\npersonality = "creative"\n' in (home / "config.toml").read_text()
    answer = daycare("send", "--wait", "what is my name and yours?", deadline_s=60)
    assert answer.stdout == 'Your name is Ann Lee. My name is Mi"so.\n', answer.stderr


@pytest.mark.parametrize(
    ("option", "value", "said", "code"),
    [
        ("--personality", "creativ", "none of that name", 3),
        ("--personality", "../x", "name of a personality", 2),
        ("--agent-name", "x" * 65, "length <= 64", 2),
        ("--tone", "a\nb", "more than one line", 2),
        ("--zone", "No/Where", "unknown time zone", 2),
    ],
)
def test_an_answer_that_cannot_be_leaves_no_home_behind(
    daycare: Daycare, home: Path, option: str, value: str, said: str, code: int
) -> None:
    done = daycare("init", "--yes", option, value)
    assert done.returncode == code and said in done.stderr
    assert not (home / "config.toml").exists()
    assert daycare("init", "--yes").returncode == 0


def test_personalities_are_listed_with_those_of_ones_own(daycare: Daycare, home: Path) -> None:
    folder = home / "personalities"
    folder.mkdir()
    shown = json.loads(daycare("personalities", "show", "casual", "--json").stdout)
    (folder / "mine.json").write_text(json.dumps(shown | {"name": "mine", "description": "My own."}))
    (folder / "wrong.json").write_text(json.dumps(shown | {"style": "loud"}))
    listed = json.loads(daycare("personalities", "--json").stdout)["personalities"]
    assert [each["name"] for each in listed] == ["casual", "creative", "default", "mine", "professional", "wrong"]
    assert [each["name"] for each in listed if each["own"]] == ["mine", "wrong"]
    assert "style: expected formal" in listed[-1]["problem"]
    table = daycare("personalities", "list").stdout
    assert "My own." in table and 'found "loud"' in table
    assert daycare("personalities", "show", "mine").stdout.startswith("mine: My own.\nStyle: casual.")
    assert daycare("personalities", "show", "nobody").returncode == 3


def test_a_file_is_checked_wherever_it_is(daycare: Daycare, tmp_path: Path) -> None:
    file = tmp_path / "some.json"
    file.write_text(daycare("personalities", "show", "default", "--json").stdout)
    done = daycare("personalities", "check", str(file))
    assert (done.returncode, done.stdout) == (0, f"{file}: no problem found\n")
    file.write_text('{"name": "x", "description": "y", "style": "loud", "tone": "direct"}')
    done = daycare("personalities", "check", str(file))
    assert done.returncode == 2
    assert f'{file}: style: expected formal, casual, technical, creative or professional, found "loud"' in done.stderr
    assert f"{file}: tone: expected a list of 1 to 5" in done.stderr
    assert daycare("personalities", "check", str(tmp_path / "none.json")).returncode == 2


def test_an_agent_is_given_a_personality(fake: FakeDaemon, daycare: Daycare) -> None:
    fake.canned["POST", "/v1/agents"] = fake.canned["PATCH", "/v1/agent"] = (200, {})
    assert daycare("agents", "create", "/ann/agent/x", "--personality", "casual", "model=a/b").returncode == 0
    assert fake.called("POST", "/v1/agents")[0][1]["config"] == {"model": "a/b", "personality": "casual"}
    assert daycare("agents", "set", OWNER, "--personality", "").stdout.startswith("changed personality")
    assert fake.called("PATCH", "/v1/agent")[0][1] == {"personality": ""}


def test_a_personality_that_there_is_not_is_refused_by_the_daemon(daycare: Daycare) -> None:
    daycare("init", "--yes", "--user", "ann")
    assert daycare("agents", "create", "/ann/agent/x", "--personality", "casul").returncode == 3
    assert daycare("agents", "create", "/ann/agent/x", "--personality", "casual").returncode == 0
    done = daycare("agents", "set", "/ann/agent/x", "--personality", "profesional")
    assert done.returncode == 3 and "did you mean professional?" in done.stderr
    assert json.loads(daycare("agents", "show", "/ann/agent/x", "--json").stdout)["agent"]["config"] == {
        "personality": "casual"
    }


def test_doctor_tells_of_a_personality_that_is_wrong(daycare: Daycare, home: Path) -> None:
    daycare("init", "--yes")
    assert "speech" not in daycare("doctor").stdout
    (home / "personalities").mkdir()
    (home / "personalities" / "default.json").write_text("{}")
    told = daycare("doctor").stdout
    assert "warn  speech" in told and "name: expected text of 1 to 64 characters, found nothing" in told
