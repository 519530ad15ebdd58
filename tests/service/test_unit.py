"""The unit, as systemd reads it, and `daycare service` against a stand-in for `systemctl`."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from daycare.base.errors import InvalidError
from daycare.ops.systemctl import Systemctl
from daycare.ops.unit import MARK, Unit, check_unit_name, program
from tests.cli.conftest import Daycare, daycare, environment, home, wait_until_it_works

__all__ = ["daycare", "environment", "home"]

EXPOSURE_MAX = 2.5
analyze = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")

UNITS = {
    "of its own": Unit(name="daycare", home=Path("/var/lib/daycare"), system=True),
    "of somebody": Unit(name="daycare", home=Path("/home/ann/.daycare"), system=True, user="daemon"),
    "with a key": Unit(name="daycare", home=Path("/srv/a home"), system=True, user="daemon", key=Path("/etc/dc/a key")),
    "sealed": Unit(
        name="daycare", home=Path("/srv/h"), system=True, user="daemon", key=Path("/etc/dc/k.cred"), jit=True
    ),
    "percent": Unit(name="daycare", home=Path('/srv/100%n $HOME "q"'), system=True, user="daemon"),
    "of an account": Unit(name="daycare", home=Path("/home/ann/.daycare"), system=False),
}


def _analyzed(folder: Path, unit: Unit, *words: str) -> "subprocess.CompletedProcess[str]":
    file = folder / f"{unit.name}.service"
    file.write_text(unit.text())
    return subprocess.run(
        ["systemd-analyze", *([] if unit.system else ["--user"]), *words, str(file)],
        env=os.environ | {"XDG_RUNTIME_DIR": str(folder), "SYSTEMD_PAGER": ""},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@analyze
@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
def test_systemd_finds_nothing_wrong_with_a_unit(tmp_path: Path, unit: Unit) -> None:
    done = _analyzed(tmp_path, unit, "verify")
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@analyze
@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
def test_a_system_unit_is_hardly_exposed(tmp_path: Path, unit: Unit) -> None:
    done = _analyzed(tmp_path, unit, "security", "--offline=true", "--no-pager")
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
    assert found, done.stdout + done.stderr
    print(f"{found[1]} ({'system' if unit.system else 'user'})")
    assert float(found[1]) <= (EXPOSURE_MAX if unit.system else 7.0)


def test_a_unit_names_the_program_of_this_installation_and_checks_the_configuration_first() -> None:
    lines = UNITS["of its own"].text().splitlines()
    start = next(line for line in lines if line.startswith("ExecStart="))
    assert start == f"ExecStart={' '.join(program())} run --home /var/lib/daycare"
    assert Path(program()[0]).is_absolute() and Path(program()[0]).exists()
    assert f"ExecStartPre={' '.join(program())} config check --home /var/lib/daycare" in lines
    assert {"Type=notify", "WatchdogSec=60", "Restart=on-failure", "StartLimitBurst=10"} <= set(lines)
    assert {"DynamicUser=yes", "StateDirectory=daycare", "StateDirectoryMode=0700"} <= set(lines)


def test_a_home_of_somebody_is_visible_to_its_daemon_and_nobody_elses_is() -> None:
    lines = UNITS["of somebody"].text().splitlines()
    assert {"User=daemon", "ProtectHome=tmpfs", "BindPaths=/home/ann/.daycare"} <= set(lines)
    assert not any(line.startswith("StateDirectory") for line in lines)


def test_the_vaults_key_comes_as_a_credential() -> None:
    assert "LoadCredential=daycare-key:/etc/dc/a key" in UNITS["with a key"].text().splitlines()
    assert "LoadCredentialEncrypted=daycare-key:/etc/dc/k.cred" in UNITS["sealed"].text().splitlines()


def test_it_has_time_to_stop_before_systemd_kills() -> None:
    assert "TimeoutStopSec=14" in Unit(name="d", home=Path("/var/lib/d"), system=True).text()
    assert "TimeoutStopSec=66" in Unit(name="d", home=Path("/var/lib/d"), system=True, grace_s=60.0).text()


@pytest.mark.parametrize("home", ["/srv/a\nExecStart=/bin/false", "/srv/a\tb\x00"])
def test_no_path_writes_lines_of_its_own(home: str) -> None:
    with pytest.raises(InvalidError):
        Unit(name="d", home=Path(home), system=True, user="u").text()


@pytest.mark.parametrize("name", ["", "a/b", "../x", "a b", "x" * 65, "a.service", "a\n"])
def test_a_name_that_is_no_units_is_refused(name: str) -> None:
    with pytest.raises(InvalidError):
        check_unit_name(name)


# -- the command -------------------------------------------------------------------------------------------------------

_SYSTEMCTL = """\
#!/bin/sh
echo "$@" >> "{calls}"
case "$*" in
  *is-failing*) exit 1;;
  *"show --property=Version") exit {works};;
  *show*) cat "{shown}" 2>/dev/null;;
  *start*) printf 'ActiveState=active\\nSubState=running\\nMainPID=42\\nStatusText=working\\n' > "{shown}";;
  *disable*) rm -f "{shown}";;
esac
"""


@pytest.fixture
def calls(tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """A systemctl that writes down what it is told."""
    folder, file = tmp_path / "bin", tmp_path / "calls"
    folder.mkdir()
    for name in ("systemctl", "loginctl"):
        text = _SYSTEMCTL.format(calls=file, shown=tmp_path / "shown", works=0)
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    environment["PATH"] = f"{folder}:{environment['PATH']}"

    def called() -> list[str]:
        found = file.read_text().splitlines() if file.exists() else []
        file.unlink(missing_ok=True)
        return [line for line in found if "show" not in line]

    return called


def _file(home: Path) -> Path:
    return home / ".config/systemd/user/daycare.service"


def test_install_writes_enables_and_starts_and_again_changes_nothing(
    daycare: Daycare, home: Path, calls: Callable[[], list[str]]
) -> None:
    daycare("init", "--yes")
    done = daycare("service", "install")
    assert done.returncode == 0, done.stderr
    assert "Type=notify" in done.stdout, "it shows what it writes"
    assert _file(home).read_text().startswith(MARK)
    daemon = ["--user daemon-reload", "--user enable daycare.service", "--user start daycare.service"]
    assert calls() == [*daemon, "enable-linger"]
    again = daycare("service", "install")
    assert "is as it should be" in again.stdout
    assert calls() == ["--user enable daycare.service", "enable-linger"], "it runs, and goes on running"
    config = home / "config.toml"
    config.write_text("[daemon]\nshutdown_grace_s = 20.0\n" + config.read_text().replace("[daemon]", "[x]", 0))
    changed = daycare("service", "install", "--jit")
    assert "-MemoryDenyWriteExecute=yes" in changed.stdout
    assert "--user restart daycare.service" in calls()
    told = json.loads(daycare("service", "status", "--json").stdout)
    assert (told["active"], told["pid"], told["says"]) == ("active", 42, "working")


def test_uninstall_leaves_the_home_and_may_be_repeated(
    daycare: Daycare, home: Path, calls: Callable[[], list[str]]
) -> None:
    daycare("init", "--yes")
    daycare("service", "install")
    calls()
    assert daycare("service", "uninstall").returncode == 0
    assert "--user disable --now daycare.service" in calls()
    assert not _file(home).exists() and (home / "daycare.db").exists()
    assert "is not there" in daycare("service", "uninstall").stdout
    assert daycare("service", "status").returncode == 3


def test_without_systemd_it_says_which_commands_are_left(daycare: Daycare, home: Path) -> None:
    daycare("init", "--yes")
    if Systemctl(system=False).works():
        pytest.skip("systemd answers here")
    done = daycare("service", "install")
    assert done.returncode == 0, done.stderr
    assert "  systemctl --user daemon-reload\n  systemctl --user enable daycare.service\n" in done.stdout
    assert _file(home).exists()


def test_a_dry_run_writes_nothing_and_print_prints_the_unit_alone(daycare: Daycare, home: Path) -> None:
    daycare("init", "--yes")
    assert "nothing was changed" in daycare("service", "install", "--dry-run").stdout
    assert daycare("service", "install", "--print").stdout.startswith(MARK)
    assert not _file(home).exists()


def test_what_somebody_else_wrote_is_not_touched(daycare: Daycare, home: Path) -> None:
    daycare("init", "--yes")
    _file(home).parent.mkdir(parents=True)
    _file(home).write_text("[Service]\nExecStart=/bin/true\n")
    for verb in ("install", "uninstall"):
        refused = daycare("service", verb)
        assert (refused.returncode, "UNIT_FOREIGN" in daycare("service", verb, "--json").stderr) == (5, True)
    assert _file(home).read_text() == "[Service]\nExecStart=/bin/true\n"


def test_a_home_that_is_not_set_up_is_no_service_yet(daycare: Daycare) -> None:
    refused = daycare("service", "install")
    assert (refused.returncode, "daycare init" in refused.stderr) == (3, True)


def test_a_daemon_in_the_foreground_keeps_the_home_until_it_is_stopped(
    daycare: Daycare, home: Path, environment: dict[str, str], calls: Callable[[], list[str]]
) -> None:
    daycare("init", "--yes")
    with subprocess.Popen(
        [sys.executable, "-m", "daycare", "run"], env=environment, stderr=subprocess.DEVNULL
    ) as process:
        try:
            wait_until_it_works(home)
            said = daycare("send", "--wait", "hello", deadline_s=60)
            done = daycare("service", "install")
            process.terminate()
            process.wait(20)
        finally:
            process.kill()
    assert said.returncode == 0, said.stderr
    assert f"(pid {process.pid})" in done.stdout and "daycare stop" in done.stdout
    assert not any(" start " in f"{line} " for line in calls())
