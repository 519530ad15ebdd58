"""`python -m tests.crash.hook ...` is `python -m daycare ...` that kills itself at a chosen write, without a debugger.

`DAYCARE_CRASH_AT` is `CALL:N`, the n-th call of that name in the process: `pwrite64`, `fdatasync`, `ftruncate`,
`unlink` and `openat` of SQLite's files, `write` and `sendto` of Python, `open` and `remove` of files in the home.
`DAYCARE_CRASH_RECORD` names a file to which the name of each is written instead.
"""

import os
import runpy
import signal
import socket
import sys
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import apsw

_write = os.write
_DISK = apsw.vfs_names()[0]  # the default, as long as ours is not


class Counting:
    """Counts calls, and dies at the chosen one."""

    def __init__(self) -> None:
        name, _, number = os.environ.get("DAYCARE_CRASH_AT", "").partition(":")
        self._at = (name, int(number or 0))
        self._record = os.environ.get("DAYCARE_CRASH_RECORD")
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def __call__(self, name: str) -> None:
        """Count one call that is about to happen."""
        with self._lock:
            self._counts[name] += 1
            if self._at == (name, self._counts[name]):
                os.kill(os.getpid(), signal.SIGKILL)
            if self._record:
                record, self._record = self._record, None  # opening it is a call, too
                fd = os.open(record, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
                _write(fd, f"{name}\n".encode())
                os.close(fd)
                self._record = record


class _VFS(apsw.VFS):
    def __init__(self, count: Counting) -> None:
        self._count = count
        super().__init__("crash", _DISK, makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> "_File":  # noqa: N802
        self._count("openat")
        return _File(self._count, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        self._count("unlink")
        super().xDelete(filename, syncdir)


class _File(apsw.VFSFile):
    def __init__(self, count: Counting, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        self._count = count
        super().__init__(_DISK, name, flags)

    def xLock(self, level: int) -> None:  # noqa: N802
        try:
            super().xLock(level)
        except apsw.IOError as error:
            # Closing a file that is only read asks for a lock it cannot have. SQLite takes any refusal for a no, apsw
            # raises all of them but this one.
            raise apsw.BusyError from error

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._count("pwrite64")
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._count("fdatasync")
        super().xSync(flags)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._count("ftruncate")
        super().xTruncate(newsize)


def install() -> _VFS:
    """Count everything from now on; to be called before trio is imported. The VFS must be kept."""
    count = Counting()

    def counted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            count(name)
            return function(*args)

        return call

    home = os.fspath(sys.argv[sys.argv.index("--home") + 1])

    def audit(event: str, args: tuple[Any, ...]) -> None:
        if event in ("open", "os.remove", "os.rename", "os.link") and str(args[0]).startswith(home):
            count(event.removeprefix("os."))

    os.write = counted("write", os.write)
    socket.socket.send = counted("sendto", socket.socket.send)  # type: ignore[method-assign]
    sys.addaudithook(audit)
    return _VFS(count)


if __name__ == "__main__":
    vfs = install()
    runpy.run_module("daycare.cli.daemon", run_name="__main__", alter_sys=True)
