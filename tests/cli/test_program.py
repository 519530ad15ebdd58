"""A plain `daycare run` becomes the daemon at once, and asks for the same as the command of that name."""

import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from daycare.cli import process
from daycare.cli.main import app
from daycare.ops.program import plain_run

_INSTEAD = """
import json, os, sys
os.execv = lambda *command: (print(json.dumps([command[1], sorted({"trio", "typer", "msgspec"} & {*sys.modules})])),
                             sys.exit(0))
from daycare.__main__ import main
main()
"""


def become(*arguments: str) -> Any:
    """Return what the program would become, and which libraries it has loaded by then."""
    command = [sys.executable, "-c", _INSTEAD, *arguments]
    return json.loads(subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout)


def test_what_only_other_commands_need_is_not_loaded_before_the_daemon(tmp_path: Path) -> None:
    command, loaded = become("run", "--home", str(tmp_path), "--json")
    assert command[1:] == ["-P", "-m", "daycare.cli.daemon", "--home", str(tmp_path), "--json"]
    assert not {"trio", "typer"} & {*loaded}


@pytest.mark.parametrize(
    "given",
    [
        "run",
        "run --json",
        "--json run",
        "run --no-breaker",
        "run --breaker --home DIR",
        "--home DIR --json run --no-breaker",
        "run --home=DIR",
    ],
)
def test_it_understands_a_line_as_the_command_does(given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAYCARE_HOME", str(tmp_path / "usual"))
    told: list[dict[str, Any]] = []
    monkeypatch.setattr(process, "become_daemon", lambda home, **more: told.append({"home": home, **more}))
    arguments = given.replace("DIR", str(tmp_path)).split()
    done = CliRunner().invoke(app, arguments)
    assert not done.exit_code, done.output
    plain = plain_run(arguments)
    assert plain is not None
    assert told == [plain | {"home": Path(plain["home"] or tmp_path / "usual")}]


@pytest.mark.parametrize(
    "given",
    ["", "status", "run --help", "run -h", "run x", "run run", "run --home", "run --home --json", "run --home=",
     "--json", "run --home A --home B", "run --unheard"],
)  # fmt: skip
def test_anything_else_is_left_to_the_command_line(given: str) -> None:
    assert plain_run(given.split()) is None


def test_no_option_of_the_command_is_forgotten() -> None:
    """One that is added there has to be understood here, or left to the command line in a test of its own."""
    own = {*inspect.signature(process.run).parameters} - {"cli"}
    assert own == {*(plain_run(["run"]) or {})} - {"home", "as_json"}
    assert isinstance(app, typer.Typer)
