"""The daemon's home: one folder with everything in it, and the lock that keeps two daemons out of it."""

import errno
import fcntl
import os
import stat
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self

import msgspec

from daycare import __version__
from daycare.base.errors import BrokenError, BusyError, InvalidError, UnavailableError
from daycare.base.store_location import is_server
from daycare.base.times import local_time

SOCKET_PATH_MAX_BYTES: Final = 100  # a Unix socket's address holds 104 (macOS) to 108 (Linux) bytes, one of them NUL

MEMORY: Final = "memory:"
Mode = Literal["run", "chat", "tool"]

_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_HOLDER_MAX_BYTES: Final = 4_096
_LOOKERS_GONE_S: Final = 1.0


class Home:
    """Where everything lies. Making one touches nothing; `prepare` creates the folder."""

    def __init__(self, path: Path | str) -> None:
        self.path: Final = Path(path).expanduser().absolute()

    @classmethod
    def default(cls) -> Self:
        """`$DAYCARE_HOME`, or `~/.daycare`."""
        return cls(os.environ.get("DAYCARE_HOME") or "~/.daycare")

    @property
    def config(self) -> Path:
        """The settings, written by people; need not exist."""
        return self.path / "config.toml"

    def database(self, location: str) -> str:
        """Where the store is, `location` being `[store] location`: a file in the home or elsewhere, or no file."""
        return location if location == MEMORY or is_server(location) else str(self.path / Path(location).expanduser())

    @property
    def socket(self) -> Path:
        """The Unix socket of the API. Raises `InvalidError` SOCKET_PATH_TOO_LONG."""
        path = self.path / "daycare.sock"
        size = len(os.fsencode(path))
        if size > SOCKET_PATH_MAX_BYTES:
            raise InvalidError(
                "SOCKET_PATH_TOO_LONG",
                f"using the home {self.path}: its socket's path has {size} bytes, the system takes"
                f" {SOCKET_PATH_MAX_BYTES}",
                hint="choose a shorter home: daycare --home ~/.daycare, or DAYCARE_HOME",
            )
        return path

    @property
    def lock(self) -> Path:
        """The file whose lock says that somebody uses the home; it stays when nobody does."""
        return self.path / "daycare.lock"

    @property
    def key_file(self) -> Path:
        """The vault's keys; without it the stored secrets cannot be read."""
        return self.path / "daycare.key"

    @property
    def log_file(self) -> Path:
        """The log, JSON lines."""
        return self.path / "daycare.log"

    @property
    def starts_file(self) -> Path:
        """Which starts followed a run that did not end in order."""
        return self.path / "starts.json"

    @property
    def history_file(self) -> Path:
        """What was typed into `daycare chat`."""
        return self.path / "history"

    @property
    def personalities(self) -> Path:
        """The folder of the owner's personality files; need not exist."""
        return self.path / "personalities"

    @property
    def cron(self) -> Path:
        """The folder of scheduled jobs that are written as files; need not exist."""
        return self.path / "cron"

    @property
    def memory(self) -> Path:
        """The folder in which documents are shared as files; need not exist."""
        return self.path / "memory"

    def prepare(self) -> None:
        """Create the folder with mode 0700, if it is not there.

        Raises `BrokenError` for a folder that others may write or that belongs to somebody else, and `InvalidError`
        for one whose path is too long for a socket.
        """
        _ = self.socket
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                self.path.mkdir(mode=0o700)
            found = self.path.stat()
        except OSError as error:
            raise BrokenError(
                "HOME_UNUSABLE",
                f"creating the home {self.path}: {error.strerror or error}",
                hint="choose another one with --home or DAYCARE_HOME",
            ) from error
        if not stat.S_ISDIR(found.st_mode):
            raise BrokenError("HOME_UNUSABLE", f"using the home {self.path}: it is not a folder", hint="move it away")
        if found.st_uid != os.geteuid():
            raise BrokenError(
                "HOME_UNSAFE",
                f"using the home {self.path}: it belongs to user id {found.st_uid}, not to {os.geteuid()}",
                hint=f"run daycare as its owner, or: chown -R $(id -u) {self.path}",
            )
        if found.st_mode & _OTHERS_WRITE:
            raise BrokenError(
                "HOME_UNSAFE",
                f"using the home {self.path}: others may write to it (mode {stat.S_IMODE(found.st_mode):04o})",
                hint=f"chmod 700 {self.path}",
            )


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """Who uses a home: `run` is a daemon, `chat` one inside of a terminal, `tool` a short command."""

    pid: int
    mode: Mode
    since_ms: int
    version: str

    def __str__(self) -> str:
        since = local_time(self.since_ms, None).strftime("%Y-%m-%d %H:%M:%S")
        name = "a daycare command" if self.mode == "tool" else f"daycare {self.mode}"
        return f"{name} (pid {self.pid}) since {since}"


class HomeLock:
    """The lock of one home: `with HomeLock(home) as lock: lock.acquire(...)`, released at the end of the block.

    The system frees it, too, when its process ends, however that happens.
    It does not protect against other machines on some network file systems.
    """

    def __init__(self, home: Home) -> None:
        self._home = home
        self._fd: int | None = None

    def acquire(self, mode: Mode, now_ms: int) -> None:
        """Take the lock, without waiting. Raises `BusyError` HOME_LOCKED when another process (or lock) has it."""
        assert self._fd is None, "acquired twice"
        fd = self._open(os.O_RDWR | os.O_CREAT)
        try:
            if not self._take(fd):
                raise BusyError(
                    "HOME_LOCKED",
                    f"the home {self._home.path} is in use by {_read(fd) or 'another daycare'}",
                    hint="daycare status",
                )
            holder = Holder(pid=os.getpid(), mode=mode, since_ms=now_ms, version=__version__)
            with suppress(OSError):  # a full disk costs the name of the holder, and no start
                os.ftruncate(fd, 0)
                os.pwrite(fd, msgspec.json.encode(holder), 0)
        except OSError as error:
            os.close(fd)
            raise self._unusable(error) from error
        except BusyError:
            os.close(fd)
            raise
        self._fd = fd

    def release(self) -> None:
        """Free the lock; does nothing when it is not held."""
        if self._fd is not None:
            with suppress(OSError):  # a full disk must not keep the lock
                os.ftruncate(self._fd, 0)
            os.close(self._fd)  # the file stays: removing it would let two processes lock two files of one name
            self._fd = None

    def holder(self) -> Holder | None:
        """Return who has the lock, None if nobody has or it just changes hands."""
        if not self._home.lock.exists():
            return None
        fd = self._open(os.O_RDONLY)
        try:
            written = _read(fd)  # by one who has the lock, or who died with it
            return None if written is None or _lock(fd, fcntl.LOCK_SH) else written
        except OSError as error:
            raise self._unusable(error) from error
        finally:
            os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _take(self, fd: int) -> bool:
        # `holder` shares the lock for a moment to see whether it is free; that must not look like a daemon.
        deadline = time.monotonic() + _LOOKERS_GONE_S
        while not _lock(fd, fcntl.LOCK_EX):
            if not _lock(fd, fcntl.LOCK_SH) or time.monotonic() > deadline:
                return False
            fcntl.flock(fd, fcntl.LOCK_UN)
        return True

    def _open(self, flags: int) -> int:
        try:
            return os.open(self._home.lock, flags | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise self._unusable(error) from error

    def _unusable(self, error: OSError) -> UnavailableError:
        return UnavailableError(
            "LOCK_FAILED",
            f"locking {self._home.lock}: {error.strerror or error}",
            hint="the home must be a folder of yours on a local disk with space left",
        )


def _lock(fd: int, how: int) -> bool:
    try:
        fcntl.flock(fd, how | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            raise
        return False
    return True


def _read(fd: int) -> Holder | None:
    try:
        return msgspec.json.decode(os.pread(fd, _HOLDER_MAX_BYTES, 0), type=Holder)
    except ValueError:
        return None  # taken, and not signed yet
