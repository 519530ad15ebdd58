"""What a bridge sees in a sandbox, with a program that stands in for bubblewrap, and with bubblewrap where it is."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from daycare.base.errors import BrokenError
from daycare.testing.scripted import Scripted
from daycare_plugins.bridge import sandbox
from tests.bridge.helpers import health, is_up, real, staged, until
from tests.telegram.test_house import _echo

QUIET_S = 12.0  # the machine's: trio lets an idle thread go after 10 s

STAND_IN = """#!/bin/sh
while [ "$1" != "--" ]; do shift; done
shift
exec "$@"
"""


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    sandbox._bubblewrap.cache_clear()
    yield
    sandbox._bubblewrap.cache_clear()


def put(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    program = folder / "bwrap"
    program.write_text(script)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_without_bubblewrap_it_runs_and_says_so_unless_it_is_required(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert sandbox.wrapped(["x"], tmp_path, [], "auto") == (["x"], "no sandbox: bubblewrap is not installed")
    assert sandbox.wrapped(["x"], tmp_path, [], "off") == (["x"], "sandbox off")
    with pytest.raises(BrokenError, match="not installed"):
        sandbox.wrapped(["x"], tmp_path, [], "required")


def test_one_that_does_not_work_here_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, monkeypatch, "#!/bin/sh\necho 'No permissions to create a namespace' >&2; exit 1\n")
    command, why = sandbox.wrapped(["x"], tmp_path, [], "auto")
    assert command == ["x"]
    assert "No permissions to create a namespace" in why


def test_it_writes_its_folder_reads_the_system_and_sees_no_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, monkeypatch, STAND_IN)
    own = tmp_path / "home" / "plugins" / "bridge" / "x"
    own.mkdir(parents=True)
    command, why = sandbox.wrapped([sys.executable, "b.py"], own, ["/srv/data"], "required")
    assert why == ""
    bound = {command[at + 1]: word for at, word in enumerate(command) if word.endswith("-try") and "bind" in word}
    assert {"/usr", "/etc", "/srv/data", sys.prefix} <= bound.keys()
    assert set(bound.values()) == {"--ro-bind-try"}
    assert command[command.index("--bind") + 1] == str(own)
    assert not any(Path(path) in (own, *own.parents) for path in bound)
    assert command[command.index("--") + 1 :] == [sys.executable, "b.py"]


async def test_a_bridge_runs_through_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, monkeypatch, STAND_IN)
    async with staged(tmp_path, Scripted(), sandbox="required") as (house, _):
        await until(lambda: is_up(house))
        assert health(house)["reason"] == ""


@real
def test_in_a_real_sandbox_the_home_is_not_there_and_nobody_has_rights(tmp_path: Path) -> None:
    own = tmp_path / "h" / "plugins" / "bridge" / "b"
    own.mkdir(parents=True)
    key = tmp_path / "h" / "daycare.key"
    key.write_text("k")
    program = f"""
import os, pathlib, subprocess
open("mine", "w").close()
assert os.path.isdir("/usr")
capable = [line for line in open("/proc/self/status") if line.startswith("Cap")]
assert all(int(line.split()[1], 16) == 0 for line in capable), capable
assert subprocess.run(["umount", "{own}", "{tmp_path / "h"}"], capture_output=True).returncode
assert not pathlib.Path("{key}").exists()
setting = pathlib.Path("/proc/sys/kernel/core_pattern")
try:
    setting.write_text(setting.read_text())
except OSError:
    pass
else:
    raise AssertionError("it may change the kernel's settings")
"""
    command, _ = sandbox.wrapped([sys.executable, "-c", program], own, [], "required")
    done = subprocess.run(command, cwd=own, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (own / "mine").exists()


@real
async def test_a_quiet_bridge_stays_in_its_sandbox(tmp_path: Path) -> None:
    async with staged(
        tmp_path, Scripted(_echo), sandbox="required", readable=[str(tmp_path)], heartbeat_s=60.0, deaf_s=120.0
    ) as (house, there):
        await until(lambda: is_up(house))
        await trio.sleep(QUIET_S)
        there.say("ann", "m1")
        await until(lambda: there.texts("ann"))
        assert is_up(house)
        assert there.connections == 1


@real
def test_a_sandboxed_bridge_outlives_a_killed_starter_to_end_in_order_and_dies_with_its_group(tmp_path: Path) -> None:
    """What its library still holds is written down; one that is deaf can be ended from outside."""
    own = tmp_path / "h" / "plugins" / "bridge" / "b"
    own.mkdir(parents=True)
    program = "import sys, time; open('began', 'w'); sys.stdin.read(); open('ended', 'w'); time.sleep(60)"
    command, _ = sandbox.wrapped([sys.executable, "-c", program], own, [], "required")
    process = subprocess.Popen(command, cwd=own, stdin=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    assert process.stdin is not None and process.stderr is not None
    _wait_for(own / "began")
    process.stdin.close()
    _wait_for(own / "ended")
    os.killpg(process.pid, signal.SIGKILL)
    assert process.stderr.read() == b""  # its end is closed when the last of them is gone
    process.stderr.close()
    process.wait()


def _wait_for(file: Path) -> None:
    deadline = time.monotonic() + 20
    while not file.exists():
        assert time.monotonic() < deadline, file
        time.sleep(0.01)
