"""Files below one folder, opened step by step from its handle: no symbolic link, device or foreign file is followed.

Names are single segments, checked by whoever calls; here nothing is made of them. Everything blocks: call it in a
thread.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from daycare.base.documents import digest
from daycare.base.errors import InvalidError, UnavailableError
from daycare.base.limits import DOCUMENT_MAX_BYTES, SHARED_FILES_MAX

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DEPTH_MAX: Final = 8  # agents/FOLDER/knowledge/FOLDER/NAME.md has five
_NEW: Final = ".new"


class UnfitError(Exception):
    """A file that is not taken; the words say why."""


class DocumentFolder:
    """The folder at `path`, made with mode 0700 if need be. Paths within it have `/` between their segments."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def files(self) -> list[str]:
        """Return every file that is not hidden, and what only looks like one, in order.

        Raises `InvalidError` SHARED_TOO_MANY.
        """
        found: list[str] = []
        with self._using(""), self._open(()) as root:
            if root is not None:
                self._walk(root, "", found, 0)
        return sorted(found)

    def read(self, file: str, max_bytes: int = DOCUMENT_MAX_BYTES) -> str | None:
        """Return a file's text, None if there is none. Raises `UnfitError` for what is no document."""
        *above, name = file.split("/")
        try:
            with self._open(above) as folder:
                return None if folder is None else _read(folder, name, max_bytes)
        except OSError as error:
            raise UnfitError(_why(error)) from error

    def write(self, file: str, text: str, *, expected: str | None) -> bool:
        """Replace a file and return True, unless its hash is not `expected` by now (empty: it is not there).

        `expected` None replaces whatever is there. The new text is there whole or not at all, also after a crash.
        """
        *above, name = file.split("/")
        with self._using(file), self._open(above, make=True) as folder:
            assert folder is not None
            new = f".{name}{_NEW}"
            with suppress(FileNotFoundError):
                os.unlink(new, dir_fd=folder)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(new, flags, 0o600, dir_fd=folder), "wb") as opened:
                opened.write(text.encode())
                opened.flush()
                os.fsync(opened.fileno())
            fits = expected is None or _hash(folder, name) == expected
            if fits:
                os.rename(new, name, src_dir_fd=folder, dst_dir_fd=folder)
                os.fsync(folder)
            else:
                os.unlink(new, dir_fd=folder)
            return fits

    def remove(self, file: str, *, expected: str | None) -> bool:
        """Remove a file, as `write` replaces one. A folder that it leaves empty goes, too."""
        *above, name = file.split("/")
        with self._using(file), self._open(above) as folder:
            if folder is None or (expected is not None and _hash(folder, name) != expected):
                return False
            os.unlink(name, dir_fd=folder)
        if above:
            with suppress(OSError), self._open(above[:-1]) as outer:  # most often it is not empty
                if outer is not None:
                    os.rmdir(above[-1], dir_fd=outer)
        return True

    @contextmanager
    def _using(self, file: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            what = f"using {self.path / file}: {_why(error)}"
            raise UnavailableError("SHARED_FOLDER", what, hint="look at it, then repeat this") from error

    @contextmanager
    def _open(self, segments: list[str] | tuple[str, ...], *, make: bool = False) -> Iterator[int | None]:
        """Give the handle of a folder, None if it is not there."""
        with ExitStack() as opened:
            if make:
                with suppress(FileExistsError):
                    self.path.mkdir(mode=0o700)
            handle: int | None = None
            try:
                for segment in (self.path, *segments):
                    if make and handle is not None:
                        with suppress(FileExistsError):
                            os.mkdir(segment, mode=0o700, dir_fd=handle)
                    handle = os.open(segment, _FOLDER, dir_fd=handle)
                    opened.callback(os.close, handle)
            except FileNotFoundError:
                handle = None
            yield handle

    def _walk(self, folder: int, above: str, found: list[str], depth: int) -> None:
        with os.scandir(folder) as entries:
            names = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
        for name, is_folder in names:
            if name.startswith("."):
                continue
            if len(found) >= SHARED_FILES_MAX:
                raise InvalidError(
                    "SHARED_TOO_MANY", f"reading {self.path}: over {SHARED_FILES_MAX} files", hint="move some away"
                )
            if not is_folder or depth == _DEPTH_MAX:
                found.append(f"{above}{name}")
                continue
            try:
                inner = os.open(name, _FOLDER, dir_fd=folder)
            except OSError:
                found.append(f"{above}{name}")  # reading it will say why
                continue
            try:
                self._walk(inner, f"{above}{name}/", found, depth + 1)
            finally:
                os.close(inner)


def _read(folder: int, name: str, max_bytes: int = DOCUMENT_MAX_BYTES) -> str | None:
    try:
        # NONBLOCK: a pipe would keep the daemon waiting for its other end
        handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return None
    with os.fdopen(handle, "rb") as opened:
        found = os.fstat(opened.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise UnfitError("it is no ordinary file")
        if found.st_nlink > 1:
            raise UnfitError("it is linked from elsewhere (hard link); copy it instead")
        data = opened.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise UnfitError(f"it has over {max_bytes} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise UnfitError("it is not text in UTF-8") from None


def _hash(folder: int, name: str) -> str | None:
    """Return the hash of a file, empty if it is not there, None if it is no document."""
    try:
        return digest(_read(folder, name))
    except (UnfitError, OSError):
        return None


def _why(error: OSError) -> str:
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return "a symbolic link or no folder is on its way; links are not followed"
    return error.strerror or str(error)
