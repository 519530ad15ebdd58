"""`daycare plugins new` and `check`: a skeleton that works from the first minute, and honest verdicts."""

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from daycare.plugins.checking import check
from tests import program

ROOT = Path(__file__).parents[2]
Daycare = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def daycare(tmp_path: Path) -> Daycare:
    def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
        env = {**os.environ, "DAYCARE_HOME": str(tmp_path / "home"), "COLUMNS": "200"}
        return program.call(arguments, env=env, cwd=tmp_path, deadline_s=90)

    return run


def verdict(daycare: Daycare, wanted: str) -> dict[str, Any]:
    done = daycare("plugins", "check", wanted, "--json")
    assert done.returncode in (0, 1), done.stderr
    (found,) = json.loads(done.stdout)["plugins"]
    assert done.returncode == (1 if found["problems"] else 0)
    return dict(found)


def test_skeleton_keeps_the_contract_and_passes_its_own_test(daycare: Daycare, tmp_path: Path) -> None:
    done = daycare("plugins", "new", "good-day")
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "daycare-good-day"
    found = verdict(daycare, str(folder))
    assert (found["name"], found["version"], found["problems"], found["warnings"]) == ("good-day", "0.1.0", [], [])
    assert found["provides"] == {"tools": ["good_day_greet"], "hooks": ["turn:end"]}
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=folder, capture_output=True, text=True, timeout=90, check=False,
    )  # fmt: skip
    assert tested.returncode == 0 and "2 passed" in tested.stdout, tested.stdout
    linted = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--isolated", "--line-length", "120", str(folder)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert linted.returncode == 0, linted.stdout


def test_skeleton_is_written_where_it_is_wanted_and_over_nothing(daycare: Daycare, tmp_path: Path) -> None:
    made = daycare("plugins", "new", "tea", "--dir", str(tmp_path / "src"), "--json")
    assert json.loads(made.stdout)["folder"] == str(tmp_path / "src" / "daycare-tea")
    again = daycare("plugins", "new", "tea", "--dir", str(tmp_path / "src"))
    assert again.returncode == 5 and "is there" in again.stderr
    wrong = daycare("plugins", "new", "Not A Name")
    assert wrong.returncode == 2 and "hint:" in wrong.stderr


def test_skeleton_is_in_the_wheel(tmp_path: Path) -> None:
    program = "import setuptools.build_meta as build, sys; build.build_wheel(sys.argv[1])"
    subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], cwd=_copy(tmp_path), capture_output=True, check=True, timeout=90
    )
    (wheel,) = tmp_path.glob("daycare-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    for file in (ROOT / "daycare" / "plugins" / "skeleton").iterdir():
        assert f"daycare/plugins/skeleton/{file.name}" in names


def _copy(folder: Path) -> Path:
    """Return a copy of what a build reads: building leaves files behind."""
    import shutil

    copy = folder / "tree"
    copy.mkdir()
    for name in ("daycare", "migrations", "plugins"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, copy / name)
    return copy


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("raise RuntimeError('boom')", "RuntimeError: boom"),
        ("import sys; sys.exit(4)", "SystemExit: 4"),
        ("from daycare.plugin import Plugin\nplugin = Plugin(name='a', contract=2)", "speaks version 2"),
        ("from daycare.plugin import Plugin\nplugin = Plugin(name='tools')", "the plugin name tools is that of"),
        ("from daycare.plugin import Plugin\nplugin = Plugin(name='a', setup=lambda c: 1 / 0)", "ZeroDivisionError"),
    ],
)
def test_problem_is_named_and_fails_the_check(
    source: str, told: str, daycare: Daycare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "odd_plugin.py").write_text(source)
    found = verdict(daycare, "odd_plugin.py")
    assert told in "\n".join(found["problems"]), found
    monkeypatch.chdir(tmp_path)
    for wanted in ("odd_plugin", "odd_plugin:plugin"):
        monkeypatch.setattr(sys, "path", [*sys.path])
        [report] = check(wanted)
        sys.modules.pop("odd_plugin", None)
        assert told in "\n".join(report.problems), report


def test_import_of_our_inside_is_warned_of(daycare: Daycare, tmp_path: Path) -> None:
    (tmp_path / "nosy.py").write_text(
        "import daycare.flow\nfrom daycare.base.errors import DaycareError\nfrom daycare.plugin import Plugin\n"
        "plugin = Plugin(name='nosy', description='d')\nprint('noise on stdout')\n"
    )
    found = verdict(daycare, "nosy.py")
    assert found["problems"] == []
    kept = "only daycare.plugin, daycare.webhook, daycare.messenger, daycare.base, daycare.testing are kept stable"
    assert [warning for warning in found["warnings"] if "imports" in warning] == [
        f"nosy.py:1 imports daycare.flow; {kept}"
    ]


def test_plugin_that_kills_the_check_is_told_of(daycare: Daycare, tmp_path: Path) -> None:
    (tmp_path / "killer.py").write_text("import os; os._exit(9)")
    done = daycare("plugins", "check", "killer.py")
    assert done.returncode == 69 and "exit code 9" in done.stderr


def test_nothing_to_check_is_not_found(daycare: Daycare, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'a'\n")
    for wanted in ("no_such_module", "no/such/path", "."):
        done = daycare("plugins", "check", wanted)
        assert done.returncode == 3 and "hint:" in done.stderr, (wanted, done.stderr)
