"""What a command in the sandbox reaches: its workspace, and nothing else; and what it may use up."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from daycare.base.clock import SystemClock
from daycare.base.workspace import ShellSection
from daycare.features.shell.running import ShellResult, ShellRun
from daycare.features.workspaces.folder import WorkspaceFolder
from tests.shell.escapes import ESCAPES

BOUNDS = ShellSection(enabled=True, seconds=20, processes=64, tmp_mb=8, disk_mb=64, memory_mb=512)


def run(root: Path, command: str, bounds: ShellSection = BOUNDS) -> ShellResult:
    return ShellRun(command, WorkspaceFolder(root, "ws", make=True), bounds, SystemClock(), lambda _: None).run()


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, str]]]:
    """A workspace, and around it what commands look for."""
    home = tmp_path_factory.mktemp("daycare-home")
    secret = home / "secret.key"
    secret.write_text("the secret")
    for repository in ("", "sub"):
        (home / "ws" / repository).mkdir(parents=True, exist_ok=True)
    (home / "ws/.git/hooks").mkdir(parents=True)
    (home / "ws/.git/hooks/post-commit").write_text("of a person")
    (home / "ws/.git/config").write_text("[core]")
    (home / "ws/sub/.git").write_text("gitdir: ../.git")
    os.environ["DAYCARE_HIDDEN"] = "secret"
    abstract = f"daycare-test-{os.getpid()}"
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.socket(socket.AF_UNIX) as unix,
        subprocess.Popen(["/bin/sleep", "600"]) as other,
    ):
        unix.bind(f"\0{abstract}")
        unix.listen()
        port = listener.getsockname()[1]
        yield home, {"SECRET": str(secret), "PID": str(other.pid), "PORT": str(port), "ABSTRACT": abstract}
        alive = other.poll() is None
        other.kill()
    del os.environ["DAYCARE_HIDDEN"]
    assert alive, "a command has killed a process outside"
    assert (home / "ws/.git/hooks/post-commit").read_text() == "of a person"


@pytest.mark.parametrize("name", ESCAPES)
def test_a_command_finds_no_way_out(name: str, outside: tuple[Path, dict[str, str]]) -> None:
    home, words = outside
    command = ESCAPES[name]
    for word, value in words.items():
        command = command.replace(word, value)
    pattern = Path("/proc/sys/kernel/core_pattern").read_text()
    result = run(home, command)
    assert result.code is not None, result
    assert "ESCAPED" not in result.output.replace("echo ESCAPED", ""), result.output
    assert "the secret" not in result.output
    assert Path("/proc/sys/kernel/core_pattern").read_text() == pattern


def test_it_writes_its_workspace_and_a_temporary_folder_of_its_own(tmp_path: Path) -> None:
    result = run(tmp_path, "echo hello > a.txt; cat a.txt; echo x > /tmp/x && pwd; exit 7")
    assert (result.code, result.output) == (7, "hello\n/workspace\n")
    assert (tmp_path / "ws/a.txt").read_text() == "hello\n"
    assert run(tmp_path, "ls /tmp").output == ""


def test_a_fork_bomb_ends_with_its_command(tmp_path: Path) -> None:
    bomb = "import os\nwhile True:\n try: os.fork()\n except OSError: pass"
    result = run(tmp_path, f"python3 -c '{bomb}'", replace(BOUNDS, seconds=1))
    assert "longer than 1 s" in result.stopped and result.seconds < 15
    listed = [each for each in Path("/proc").glob("[0-9]*/cmdline") if b"os.fork()" in _content(each)]
    assert len(listed) <= 1, listed  # this test's own line


def test_neither_the_disk_nor_memory_nor_the_temporary_folder_can_be_filled(tmp_path: Path) -> None:
    filled = run(tmp_path, "while :; do head -c 30000000 /dev/zero > f$i; i=1$i; done")
    assert "filled the disk" in filled.stopped
    assert "No space" in run(tmp_path, "head -c 30000000 /dev/zero > /tmp/x").output
    assert run(tmp_path, "head -c 900000000 /dev/zero | tail -c 900000000 | wc -c").output.strip() != "900000000"


def test_a_long_output_is_cut_in_its_middle_and_a_stopped_command_leaves_nothing(tmp_path: Path) -> None:
    result = run(tmp_path, "echo first; yes | head -c 5000000; echo last")
    assert result.output.startswith("first") and result.output.endswith("last\n") and len(result.output) < 140_000
    left = run(tmp_path, "(setsid sleep 31337 &) ; nohup sleep 31337 & echo done")
    assert left.output == "done\n" and left.seconds < 10
    assert not [each for each in Path("/proc").glob("[0-9]*/cmdline") if b"31337" in _content(each)]


def test_a_killed_daemon_takes_its_commands_along(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from tests.shell.test_sandbox import run;"
        "run(Path(sys.argv[1]), 'touch began; sleep 4242')"
    )
    daemon = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)])
    _until(lambda: (tmp_path / "ws/began").exists())
    daemon.send_signal(signal.SIGKILL)
    daemon.wait()
    _until(lambda: not [each for each in Path("/proc").glob("[0-9]*/cmdline") if b"sleep\x004242" in _content(each)])


def _until(true: object) -> None:
    deadline = time.monotonic() + 30
    while not true():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""
