"""The exchange folder of a bridge: files that go in and out, and the process that was left behind by a killed daemon.

Names from a bridge lead nowhere else: a file is opened below the folder and without following links.
"""

import os
import re
import shutil
import signal
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from daycare.base.connector import Attachment
from daycare.base.errors import InvalidError, NotFoundError

_OUT: Final = "out"
_IN: Final = "in"
_NAME_MAX_CHARS: Final = 100


class BridgeFolder:
    """`path` has mode 0700 and is the bridge's home: it keeps its session there."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def prepare(self) -> None:
        """Make it, and take away what an earlier run left."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path.chmod(0o700)
        at = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            shutil.rmtree(_OUT, ignore_errors=True, dir_fd=at)
            for name in (_OUT, _IN):
                os.close(_opened(name, at))
        finally:
            os.close(at)

    # -- files ---------------------------------------------------------------------------------------------------------

    def put(self, label: str, number: int, file: Attachment) -> str:
        """Write a file for the bridge; return its path in the folder."""
        shown = re.sub(r"[^\w.-]+", "_", file.name).strip("._")[-_NAME_MAX_CHARS:]
        name = f"{number}-{shown or 'file'}"
        at = self._out()
        try:
            inner = _opened(_label(label), at)
            try:
                made = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600, dir_fd=inner)
                with os.fdopen(made, "wb") as opened:
                    opened.write(file.data)
            finally:
                os.close(inner)
        finally:
            os.close(at)
        return f"{_OUT}/{_label(label)}/{name}"

    def drop(self, label: str) -> None:
        """Take away what was put under a label."""
        at = self._out()
        try:
            shutil.rmtree(_label(label), ignore_errors=True, dir_fd=at)
        finally:
            os.close(at)

    def _out(self) -> int:
        at = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            return _opened(_OUT, at)
        finally:
            os.close(at)

    def read(self, path: str, max_bytes: int) -> bytes:
        """Return the bytes of a file that the bridge has put there.

        Raises `InvalidError` for a path out of the folder and what is no file or too large, `NotFoundError`.
        """
        names = path.split("/")
        if not path or any(name in ("", ".", "..") for name in names) or "\x00" in path:
            raise InvalidError("BRIDGE_PATH", f"reading {path!r}: it is not a path in the exchange folder")
        at = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for name in names[:-1]:
                inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
                os.close(at)
                at = inner
            file = os.open(names[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=at)
        except FileNotFoundError as error:
            raise NotFoundError("FILE_GONE", f"reading {path!r}: it is not there") from error
        except OSError as error:
            raise InvalidError("BRIDGE_PATH", f"reading {path!r}: {error.strerror}") from error
        finally:
            os.close(at)
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            raise InvalidError("BRIDGE_PATH", f"reading {path!r}: it is not a file")
        with os.fdopen(file, "rb") as opened:
            data = opened.read(max_bytes + 1)
        if len(data) > max_bytes:
            raise InvalidError("FILE_TOO_LARGE", f"reading {path!r}: it has more than {max_bytes} bytes")
        return data

    # -- the process ---------------------------------------------------------------------------------------------------

    def sweep(self) -> int | None:
        """End the bridge of a daemon that was killed, should it still be there; return its number."""
        try:
            pid, _, noted = self._pid.read_text().partition(" ")
        except (OSError, ValueError):
            return None
        if not pid.isdecimal() or int(pid) <= 1 or began(int(pid)) != noted.strip():
            return None
        end(int(pid))
        return int(pid)

    def started(self, pid: int) -> None:
        """Note which process it is."""
        self._pid.write_text(f"{pid} {began(pid)}")

    @property
    def _pid(self) -> Path:
        """Beside the folder, so that a bridge cannot name somebody else's process."""
        return self.path.with_name(f"{self.path.name}.pid")


def _opened(name: str, at: int) -> int:
    """Open a folder in a folder, made if it is not there; what is none, such as a link of the bridge's, goes."""
    with suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=at)
    try:
        return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
    except OSError:
        os.unlink(name, dir_fd=at)
        os.mkdir(name, 0o700, dir_fd=at)
        return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)


def _label(label: str) -> str:
    return re.sub(r"\W+", "_", label)[:_NAME_MAX_CHARS] or "_"


def end(pid: int) -> None:
    """Kill a process that leads a group, and all in its group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def began(pid: int) -> str:
    """Return when a process began, in the kernel's ticks; a number that was used again has another.

    It is `-` for one that has ended, also while its parent has not asked how: some leave orphans listed for long.
    """
    try:
        told = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "-"
    return "-" if told[0] in "ZX" else told[19]
