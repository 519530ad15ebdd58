"""`daycare doctor` as a command: its options, what it prints, its exit codes."""

import json
from pathlib import Path
from typing import Any

import pytest

from daycare.base.errors import ConflictError, InvalidError
from daycare.cli.main import app
from daycare.store.home import Home

KEYS = {"look", "level", "about", "message", "hint", "fixable"}


class Doctor:
    def __init__(self, home: Home, capsys: pytest.CaptureFixture[str]) -> None:
        self._home = str(home.path)
        self._capsys = capsys

    def __call__(self, *options: str) -> tuple[int, str]:
        code = app(["doctor", "--home", self._home, "--offline", *options], prog_name="daycare", standalone_mode=False)
        return int(code or 0), self._capsys.readouterr().out

    def json(self, *options: str) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self(*options, "--json")[1])
        return document


@pytest.fixture
def doctor(home: Home, capsys: pytest.CaptureFixture[str]) -> Doctor:
    return Doctor(home, capsys)


def test_warnings_exit_with_0_and_failures_with_1(doctor: Doctor, home: Home) -> None:
    code, told = doctor()
    assert code == 0 and "warn  daemon" in told and "0 failed" in told
    home.config.write_text("[")
    code, told = doctor()
    assert code == 1 and "fail  config" in told and "hint: daycare config check" in told


def test_json_has_the_same_keys_for_each_finding(doctor: Doctor, home: Home) -> None:
    found = doctor.json()
    assert found.keys() == {"home", "ok", "counts", "findings"}
    assert found["ok"] and found["home"] == str(home.path)
    assert all(each.keys() == KEYS for each in found["findings"])
    assert sum(found["counts"].values()) == len(found["findings"])


def test_only_looks_at_what_is_named(doctor: Doctor) -> None:
    found = doctor.json("--only", "disk", "--only", "home")["findings"]
    assert {each["look"] for each in found} == {"home", "disk"}
    with pytest.raises(InvalidError, match="no such look"):
        doctor("--only", "luck")


def test_fix_tells_what_it_did_and_looks_again(doctor: Doctor, home: Home) -> None:
    home.config.chmod(0o644)
    home.key_file.chmod(0o640)
    assert "daycare doctor --fix mends 2" in doctor()[1]
    found = doctor.json("--fix", "--dry-run")
    assert [each["done"] for each in found["fixes"]] == [False, False] and not found["ok"]
    assert home.config.stat().st_mode & 0o777 == 0o644
    assert "would files" in doctor("--fix", "--dry-run")[1]
    code, told = doctor("--fix")
    assert code == 0, told
    assert f"fixed keys       chmod 600 {home.key_file}" in told and "ok    keys" in told
    assert home.config.stat().st_mode & 0o777 == 0o600
    assert "nothing that is safe to mend" in doctor("--fix")[1]
    assert doctor.json("--fix")["fixes"] == []


def test_bundle_shows_what_is_in_it(doctor: Doctor, tmp_path: Path) -> None:
    target = tmp_path / "report.tar.gz"
    code, told = doctor("--bundle", str(target))
    assert code == 0 and f"{target} holds:" in told and "findings.json" in told
    with pytest.raises(ConflictError):
        doctor("--bundle", str(target))
    found = doctor.json("--bundle", str(tmp_path / "other.tar.gz"), "--names")
    assert {each["name"] for each in found["bundle"]["files"]} >= {"README.txt", "log.jsonl"}


@pytest.mark.parametrize("option", ["--dry-run", "--names"])
def test_an_option_that_goes_with_another_is_refused_alone(doctor: Doctor, option: str) -> None:
    with pytest.raises(InvalidError):
        doctor(option)
