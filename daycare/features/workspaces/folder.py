"""A workspace on the disk: its files read, listed, searched and replaced. Every path is opened below its folder.

It blocks: whoever calls it does that in a thread. A file is there whole, old or new, whenever power fails.
"""

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from daycare.base.errors import (
    ConflictError,
    DaycareError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    UnavailableError,
)
from daycare.features.workspaces.beneath import open_beneath, opened, opened_file

FILE_TEXT_MAX_BYTES: Final = 2 * 1024 * 1024  # of a file that is read or written: more is data, not text
LISTED_MAX: Final = 500  # entries of one list
SEARCH_FILES_MAX: Final = 5_000  # looked at in one search
SEARCH_BYTES_MAX: Final = 64 * 1024 * 1024
DEPTH_MAX: Final = 32

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY
_NEW: Final = ".daycare-new"  # what a folder's next text is written to before it takes its place
_GIT: Final = ".git"  # its hooks and settings are commands that run where nobody asks
_PATH_MAX_BYTES: Final = 4_000
_NAME_MAX_BYTES: Final = 255


class FileEntry(NamedTuple):
    """Something in a folder: `kind` is file, folder, or other; `size` is in bytes."""

    path: str
    kind: str
    size: int


class FileMatch(NamedTuple):
    """A line that was searched for."""

    path: str
    line: int
    text: str


def checked(path: str) -> str:
    """Return a path as it is written below a workspace. Raises `InvalidError` for what leads out or is not ours."""
    named = path.strip().removeprefix("./").rstrip("/") or "."
    parts = named.split("/")
    try:
        sizes = [len(os.fsencode(part)) for part in parts]
    except UnicodeEncodeError:
        raise InvalidError("FILE_PATH", f"opening {path!a}: no file has such a name") from None
    what = f"opening {path[:200]!a}"
    if (
        named.startswith("/")
        or ".." in parts
        or "\0" in named
        or any(part in ("", ".") for part in parts[named == "." :])
    ):
        raise InvalidError("FILE_PATH", f"{what}: a path has to be below the workspace", hint="notes/plan.md")
    if max(sizes) > _NAME_MAX_BYTES or sum(sizes) > _PATH_MAX_BYTES or len(parts) > DEPTH_MAX:
        raise InvalidError("FILE_PATH", f"{what}: it is too long or too deep")
    if any(part.casefold().rstrip(". ") == _GIT or part == _NEW for part in parts):
        raise ForbiddenError("FILE_GIT", f"{what}: what git keeps for itself is not for tools", hint="use other files")
    return named


def mark_of(data: bytes | None) -> str:
    """Return the hash of a file's content, empty where there is no file."""
    return "" if data is None else hashlib.sha256(data).hexdigest()


class WorkspaceFolder:
    """The folder `inner` below `root`, which stands in the settings; `make` makes it where it is not there."""

    def __init__(self, root: Path, inner: str, *, make: bool = False) -> None:
        self.root, self.inner = root, inner
        self._make = make

    @property
    def path(self) -> Path:
        """Where it is."""
        return self.root / self.inner

    # -- reading -------------------------------------------------------------------------------------------------------

    def read(self, path: str) -> bytes:
        """Return a file's content. Raises `NotFoundError`, `InvalidError` for what is no file or too large."""
        with self.opened() as folder, _telling(f"reading {path}"), opened_file(folder, checked(path)) as file:
            return _content(file, path)

    def read_if_there(self, path: str) -> bytes | None:
        """Return a file's content, None if there is none."""
        try:
            return self.read(path)
        except NotFoundError:
            return None

    def entries(self, path: str, *, deep: bool) -> tuple[list[FileEntry], bool]:
        """Return what is in a folder, by path, and whether that is all. Links are left out."""
        with self.opened() as folder, _telling(f"listing {path}"), opened(folder, checked(path), _FOLDER) as inner:
            found: list[FileEntry] = []
            for entry in _walk(inner, "" if checked(path) == "." else checked(path), deep=deep):
                if len(found) == LISTED_MAX:
                    return found, False
                found.append(entry)
            return found, True

    def search(self, words: str, path: str, limit: int) -> tuple[list[FileMatch], bool]:
        """Return lines of files below a folder with some words in them, whatever their case, and whether all.

        Files that are no text, and those larger than can be read, are passed over.
        """
        found: list[FileMatch] = []
        files = size = 0
        wanted = words.casefold()
        start = checked(path)
        with self.opened() as folder, _telling(f"searching {path}"), opened(folder, start, _FOLDER) as inner:
            for entry in _walk(inner, "" if start == "." else start, deep=True):
                if entry.kind != "file" or entry.size > FILE_TEXT_MAX_BYTES:
                    continue
                files, size = files + 1, size + entry.size
                if files > SEARCH_FILES_MAX or size > SEARCH_BYTES_MAX:
                    return found, False
                try:
                    with opened_file(folder, entry.path) as file:
                        text = as_text(_content(file, entry.path))
                except (OSError, DaycareError):
                    continue  # it has changed since, or is none of ours to read
                for number, line in enumerate((text or "").split("\n"), 1):
                    if wanted in line.casefold():
                        if len(found) == limit:
                            return found, False
                        found.append(FileMatch(entry.path, number, line.strip()[:300]))
        return found, True

    # -- writing -------------------------------------------------------------------------------------------------------

    def replace(self, path: str, data: bytes | None, expected: str) -> None:
        """Let a file have this content, or be gone for None, unless its hash is not `expected`.

        Raises `ConflictError` FILE_CHANGED, and what reading raises. Folders on the way are made.
        """
        above, _, name = checked(path).rpartition("/")
        if name == ".":
            raise InvalidError("FILE_PATH", f"writing {path!a}: that is a folder")
        if data is not None and len(data) > FILE_TEXT_MAX_BYTES:
            raise InvalidError("FILE_TOO_LARGE", f"writing {path}: more than {FILE_TEXT_MAX_BYTES} bytes")
        with self.opened() as folder, _telling(f"writing {path}"):
            if data is not None:
                _make_folders(folder, above)
            with opened(folder, above or ".", _FOLDER) as inner:
                mode = self._check(inner, name, path, expected)
                if data is None:
                    os.unlink(name, dir_fd=inner)
                else:
                    _put(inner, name, data, mode)
                os.fsync(inner)

    def _check(self, folder: int, name: str, path: str, expected: str) -> int:
        """Return the rights that a file has or will have."""
        try:
            with opened_file(folder, name) as file:
                mode, now = stat.S_IMODE(os.fstat(file).st_mode) & 0o777, mark_of(_content(file, path))
        except FileNotFoundError:
            mode, now = 0o600, ""
        if now != expected:
            what = "it is not there any more" if not now else "it is there" if not expected else "it has changed"
            raise ConflictError("FILE_CHANGED", f"writing {path}: {what}", hint="read it again first")
        return mode

    @contextmanager
    def opened(self) -> Iterator[int]:
        """Open the folder for the length of a `with` block. Raises what reading a file raises."""
        with _telling("opening the workspace"):
            root = os.open(self.root, _FOLDER | os.O_CLOEXEC)
        try:
            with _telling("opening the workspace"):
                if self._make:
                    _make_folders(root, self.inner)
                inner = open_beneath(root, self.inner or ".", _FOLDER)
            try:
                yield inner
            finally:
                os.close(inner)
        finally:
            os.close(root)


def as_text(data: bytes) -> str | None:
    """Return a file's content as text, None if it is none."""
    if b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _content(file: int, path: str) -> bytes:
    with os.fdopen(os.dup(file), "rb") as stream:
        data = stream.read(FILE_TEXT_MAX_BYTES + 1)
    if len(data) > FILE_TEXT_MAX_BYTES:
        raise InvalidError("FILE_TOO_LARGE", f"reading {path}: it has more than {FILE_TEXT_MAX_BYTES} bytes")
    return data


def _put(folder: int, name: str, data: bytes, mode: int) -> None:
    with suppress(FileNotFoundError):  # of a run that was killed
        os.unlink(_NEW, dir_fd=folder)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(_NEW, flags, 0o600, dir_fd=folder), "wb") as new:
        new.write(data)
        new.flush()
        os.fchmod(new.fileno(), mode)
        os.fsync(new.fileno())
    os.rename(_NEW, name, src_dir_fd=folder, dst_dir_fd=folder)


def _make_folders(root: int, path: str) -> None:
    """Make the folders of a path that are not there."""
    if not path or path == ".":
        return
    handle = open_beneath(root, ".", _FOLDER)
    try:
        for name in path.split("/"):
            with suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=handle)
            inner = open_beneath(handle, name, _FOLDER)
            os.close(handle)
            handle = inner
    finally:
        os.close(handle)


def _walk(folder: int, above: str, *, deep: bool, depth: int = 0) -> Iterator[FileEntry]:
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries)
    for name in names:
        if name.casefold() in (_GIT, _NEW):
            continue
        try:
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except OSError:
            continue  # it is gone
        path = f"{above}/{name}" if above else name
        if stat.S_ISDIR(status.st_mode):
            yield FileEntry(path, "folder", 0)
            if deep and depth < DEPTH_MAX:
                with suppress(OSError), opened(folder, name, _FOLDER) as inner:
                    yield from _walk(inner, path, deep=True, depth=depth + 1)
        elif stat.S_ISREG(status.st_mode):
            yield FileEntry(path, "file", status.st_size)
        elif not stat.S_ISLNK(status.st_mode):
            yield FileEntry(path, "other", 0)


_WHY: Final = {
    errno.ELOOP: "a link is on the way, and links are not followed",
    errno.EXDEV: "it leads out of the workspace",
    errno.EINVAL: "it is a device, a pipe or a socket",
    errno.EMLINK: "it has a second name (a hard link), which may be outside of the workspace",
    errno.ENXIO: "it is a device, a pipe or a socket",
    errno.EISDIR: "it is a folder",
    errno.ENOTDIR: "a file is where a folder should be",
}


@contextmanager
def _telling(what: str) -> Iterator[None]:
    """Raise what the system refuses as an error that says so, without paths that the caller has not named."""
    try:
        yield
    except FileNotFoundError:
        raise NotFoundError("FILE_UNKNOWN", f"{what}: there is none") from None
    except UnavailableError:
        raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EAGAIN):
            raise UnavailableError("WORKSPACE_AWAY", f"{what}: {error.strerror}") from None
        why = _WHY.get(error.errno or 0, error.strerror or "it is refused")
        raise ForbiddenError("FILE_REFUSED", f"{what}: {why}", hint="use another file") from None
