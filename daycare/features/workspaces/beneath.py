"""Opening files below a folder, so that no link and no `..` leads out, whatever others change meanwhile.

The kernel itself refuses: `openat2` with RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS and RESOLVE_NO_MAGICLINKS. To resolve a
path first and open it after that can be raced.
"""

import ctypes
import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final

_OPENAT2: Final = 437  # the same number on every architecture
_RESOLVE: Final = 0x08 | 0x04 | 0x02  # BENEATH, NO_SYMLINKS, NO_MAGICLINKS
_RACED_TRIES: Final = 100  # EAGAIN: somebody renamed a folder on the way


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


@cache
def _syscall() -> "ctypes._NamedFuncPointer":
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    return call


def open_beneath(folder: int, path: str, flags: int) -> int:
    """Open what is at a path below an open folder and return its descriptor; raises `OSError` as `os.open` does.

    ELOOP: there is a link on the way. EXDEV: the path leads out.
    """
    how = _How(flags | os.O_CLOEXEC, 0, _RESOLVE)
    name = os.fsencode(path)
    for _ in range(_RACED_TRIES):
        found: int = _syscall()(
            ctypes.c_long(_OPENAT2),
            ctypes.c_int(folder),
            ctypes.c_char_p(name),
            ctypes.byref(how),
            ctypes.c_size_t(ctypes.sizeof(how)),
        )
        if found >= 0:
            return found
        if (number := ctypes.get_errno()) not in (errno.EAGAIN, errno.EINTR):
            raise OSError(number, os.strerror(number), path)
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN), path)


@contextmanager
def opened(folder: int, path: str, flags: int = os.O_PATH) -> Iterator[int]:
    """Open what is at a path below an open folder for the length of a `with` block."""
    handle = open_beneath(folder, path, flags)
    try:
        yield handle
    finally:
        os.close(handle)


@contextmanager
def opened_file(folder: int, path: str) -> Iterator[int]:
    """Open a regular file to be read. Raises `OSError` EINVAL for what is none, EMLINK for one with further names.

    What it is is looked at before it is opened: a pipe would wait, and a device do something.
    """
    with opened(folder, path) as handle:
        status = os.fstat(handle)
        if stat.S_ISDIR(status.st_mode):
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        if status.st_nlink > 1:
            raise OSError(errno.EMLINK, os.strerror(errno.EMLINK), path)
        file = os.open(f"/proc/self/fd/{handle}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield file
    finally:
        os.close(file)


@cache
def why_not() -> str:
    """Return why files cannot be opened this way here, empty if they can."""
    try:
        root = os.open("/", os.O_PATH | os.O_DIRECTORY)
    except OSError as error:
        return f"the root folder cannot be opened ({error.strerror})"
    try:
        os.close(open_beneath(root, ".", os.O_PATH | os.O_DIRECTORY))
    except (OSError, AttributeError) as error:
        told = error.strerror if isinstance(error, OSError) else str(error)
        return f"the kernel has no openat2 ({told}): it needs Linux 5.6"
    finally:
        os.close(root)
    return "" if Path("/proc/self/fd").exists() else "/proc is not mounted"
