"""The home: private, of one user, short enough for a socket, and used by one process at a time."""

import errno
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from daycare import __version__, config
from daycare.base.errors import BrokenError, BusyError, InvalidError, UnavailableError
from daycare.store.home import Holder, Home, HomeLock

HOLD = """
import sys
from daycare.store.home import Home, HomeLock
lock = HomeLock(Home(sys.argv[1]))
lock.acquire("run", 1_798_761_600_000)
print("held", flush=True)
sys.stdin.read()
"""


def test_everything_lies_in_the_home() -> None:
    home = Home("/srv/daycare")
    files = [home.config, home.socket, home.lock, home.key_file, home.log_file, home.history_file]
    assert {file.parent for file in files} == {Path("/srv/daycare")}
    assert len(set(files)) == len(files)
    assert home.config.name == config.NAME


def test_database_is_in_the_home_unless_it_says_otherwise() -> None:
    home = Home("/srv/daycare")
    assert home.database("daycare.db") == "/srv/daycare/daycare.db"
    assert home.database("/var/x.db") == "/var/x.db"
    assert home.database("~/x.db") == str(Path.home() / "x.db")
    assert home.database("memory:") == "memory:"


def test_default_home_is_named_by_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DAYCARE_HOME", str(tmp_path))
    assert Home.default().path == tmp_path
    monkeypatch.setenv("DAYCARE_HOME", "")
    assert Home.default().path == Path.home() / ".daycare"


def test_relative_home_does_not_move_with_the_working_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    home = Home("here")
    monkeypatch.chdir("/")
    assert home.path == tmp_path / "here"


def test_prepare_creates_a_private_folder_whatever_the_umask(tmp_path: Path) -> None:
    home = Home(tmp_path / "new/er")
    before = os.umask(0)
    try:
        home.prepare()
    finally:
        os.umask(before)
    assert home.path.stat().st_mode & 0o777 == 0o700
    home.prepare()


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777])
def test_folder_that_others_can_write_is_refused(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    with pytest.raises(BrokenError, match=f"mode {mode:04o}") as caught:
        Home(tmp_path).prepare()
    assert (caught.value.code, caught.value.hint) == ("HOME_UNSAFE", f"chmod 700 {tmp_path}")


def test_home_that_is_a_file_or_below_one_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for path in (file, file / "home"):
        with pytest.raises(BrokenError, match=str(path)) as caught:
            Home(path).prepare()
        assert caught.value.code == "HOME_UNUSABLE"


def test_home_too_long_for_a_socket_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    home = Home(tmp_path / ("x" * 100))
    with pytest.raises(InvalidError, match="100") as caught:
        home.prepare()
    assert caught.value.code == "SOCKET_PATH_TOO_LONG"
    assert "shorter" in caught.value.hint
    assert not home.path.exists()


def test_longest_socket_path_that_is_allowed_can_be_bound(tmp_path: Path) -> None:
    short = Path("/tmp") / f"daycare-{os.getpid()}"
    home = Home(short / ("ü" * ((100 - len(f"{short}//daycare.sock")) // 2)))
    home.prepare()
    try:
        assert len(os.fsencode(home.socket)) in (99, 100)
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(str(home.socket))
        home.socket.unlink()
    finally:
        home.path.rmdir()
        short.rmdir()


# -- the lock ----------------------------------------------------------------------------------------------------------


def test_second_lock_is_refused_and_told_who_has_the_first(tmp_path: Path) -> None:
    home = Home(tmp_path)
    first, second = HomeLock(home), HomeLock(home)
    with first:
        first.acquire("run", 1_798_761_600_000)
        with pytest.raises(BusyError) as caught:
            second.acquire("chat", 0)
        assert caught.value.code == "HOME_LOCKED"
        assert caught.value.exit_code == 75
        assert caught.value.hint == "daycare status"
        assert f"{tmp_path} is in use by daycare run (pid {os.getpid()}) since 202" in caught.value.message
        assert home.lock.stat().st_mode & 0o777 == 0o600
    second.acquire("chat", 0)
    second.release()
    second.release()


def test_holder_is_who_has_the_lock_and_nobody_after(tmp_path: Path) -> None:
    home = Home(tmp_path)
    lock, other = HomeLock(home), HomeLock(home)
    assert other.holder() is None
    lock.acquire("chat", 5)
    assert other.holder() == Holder(pid=os.getpid(), mode="chat", since_ms=5, version=__version__)
    lock.release()
    assert other.holder() is None


def test_lock_ends_with_its_process_however_it_ends(tmp_path: Path) -> None:
    home = Home(tmp_path)
    lock = HomeLock(home)
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        held = lock.holder()
        assert held is not None
        assert held.pid == process.pid
        with pytest.raises(BusyError, match=f"pid {process.pid}"):
            lock.acquire("run", 0)
        process.send_signal(signal.SIGKILL)
    assert lock.holder() is None
    assert home.lock.read_bytes()  # what the dead one wrote is there, and believed by nobody
    lock.acquire("run", 0)
    assert HomeLock(home).holder() == Holder(pid=os.getpid(), mode="run", since_ms=0, version=__version__)
    lock.release()


def test_unsigned_lock_is_still_a_lock(tmp_path: Path) -> None:
    home = Home(tmp_path)
    first, second = HomeLock(home), HomeLock(home)
    first.acquire("tool", 0)
    home.lock.write_bytes(b'{"pid":')
    assert second.holder() is None
    with pytest.raises(BusyError, match="another daycare"):
        second.acquire("run", 0)
    first.release()


def test_looking_at_the_holder_keeps_nobody_out(tmp_path: Path) -> None:
    """`holder` shares the lock for a moment; another process that looks all the time must not look like a daemon."""
    home = Home(tmp_path)
    lock = HomeLock(home)
    lock.acquire("run", 0)
    lock.release()
    look = (
        "import sys\nfrom daycare.store.home import Home, HomeLock\nlock = HomeLock(Home(sys.argv[1]))\n"
        "print('looking', flush=True)\nwhile True: lock.holder()"
    )
    with subprocess.Popen([sys.executable, "-c", look, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            for _ in range(500):
                lock.acquire("run", 0)
                written = home.lock.read_bytes()
                lock.release()
                home.lock.write_bytes(written)  # as if we had died: now there is something to look at
        finally:
            process.kill()


@pytest.mark.parametrize("make", ["symlink", "folder"])
def test_lock_that_is_no_file_is_refused(tmp_path: Path, make: str) -> None:
    home = Home(tmp_path)
    if make == "symlink":
        (tmp_path / "target").touch()
        home.lock.symlink_to("target")
    else:
        home.lock.mkdir()
    with pytest.raises(UnavailableError) as caught:
        HomeLock(home).acquire("run", 0)
    assert caught.value.code == "LOCK_FAILED"


def test_a_full_disk_does_not_keep_anybody_from_taking_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    home = Home(tmp_path)
    monkeypatch.setattr(os, "pwrite", full)
    with HomeLock(home) as lock, HomeLock(home) as other:
        lock.acquire("run", 0)
        with pytest.raises(BusyError):
            other.acquire("run", 0)
