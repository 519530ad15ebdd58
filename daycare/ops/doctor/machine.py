"""The machine: room on the disk and whether it can be written, what kind of file system it is, memory and limits."""

import os
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from daycare.base.sizes import size
from daycare.ops.doctor.context import DoctorContext
from daycare.ops.doctor.finding import DoctorFinding, Level

DISK_WARN_BYTES: Final = 1024**3
DISK_FAIL_BYTES: Final = 64 * 1024**2  # a snapshot before a migration and the write-ahead log need some
INODES_WARN: Final = 1_000
MEMORY_WARN_BYTES: Final = 128 * 1024**2  # available; the daemon alone takes half of it
FILES_WARN: Final = 1_024  # open files that a process may have: each agent's stream is one
FILES_NEAR: Final = 0.9  # of the limit: soon connections and files are refused
_PROBE_BYTES: Final = 64 * 1024
_READ_ONLY: Final = os.ST_RDONLY
_GOES: Final = {"tmpfs": "memory, and gone after a restart of the machine", "ramfs": "memory, and gone after a restart"}
_SHARED: Final = ("nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "afs", "ceph")


def disk(context: DoctorContext) -> Iterator[DoctorFinding]:
    """Room for bytes and for files, and a file without a name that is written as a trial."""
    for place in dict.fromkeys((context.home.path, _database_folder(context))):
        free = shutil.disk_usage(place).free
        level: Level = "fail" if free < DISK_FAIL_BYTES else "warn" if free < DISK_WARN_BYTES else "ok"
        where = "" if place == context.home.path else f" at {place}"
        free_some = f"du -xh {shlex.quote(str(place))} | sort -h | tail"
        yield DoctorFinding(
            level, "disk", f"{size(free)} free{where}", f"free some, or move the home directory: {free_some}"
        )
        found = os.statvfs(place)
        if found.f_files and found.f_favail < INODES_WARN:
            told = f"{found.f_favail} more files fit on it (inodes){where}"
            yield DoctorFinding("warn" if found.f_favail else "fail", "disk", told, f"df -i {shlex.quote(str(place))}")
        if found.f_flag & _READ_ONLY:
            yield DoctorFinding("fail", "disk", f"{place} is on a file system that is read only", _remount(place))
        elif why := _unwritable(place):
            yield DoctorFinding(
                "fail", "disk", f"{place} takes no new file: {why}", f"quota -s; df -h {place}; dmesg | tail"
            )
    yield from _kind(context.home.path)


def limits(context: DoctorContext) -> Iterator[DoctorFinding]:
    """Memory of the machine and of the daemon, and how many files it may have open."""
    free = _fields(Path("/proc/meminfo")).get("MemAvailable")
    if free is not None and free < MEMORY_WARN_BYTES:
        told = f"{size(free)} of memory are left on this machine"
        yield DoctorFinding("warn", "memory", told, "ps aux --sort=-rss | head")
    if context.status is None:
        return
    pid = int(context.status["pid"])
    daemon = _fields(Path(f"/proc/{pid}/status"))
    if "VmRSS" in daemon:
        swapped = daemon.get("VmSwap", 0)
        told = f"the daemon has {size(daemon['VmRSS'])}{f', {size(swapped)} of it swapped out' if swapped else ''}"
        bad = swapped > daemon["VmRSS"]
        yield DoctorFinding(
            "warn" if bad else "ok", "memory", told, "free memory on this machine, then: daycare restart"
        )
    may = _open_files(pid)
    if may is None:
        return
    now, most = may
    if now >= FILES_NEAR * most or most < FILES_WARN:
        told = f"the daemon may have {most} files open, and has {now}"
        if now >= FILES_NEAR * most:
            told = f"the daemon is near its limit of open files: it has {now} of {most}"
        yield DoctorFinding(
            "warn", "limits", told, "systemctl --user edit daycare: LimitNOFILE=65536, or: ulimit -n 65536"
        )


def _database_folder(context: DoctorContext) -> Path:
    folder = Path(context.location).parent
    return folder if Path(context.location).is_absolute() and folder.is_dir() else context.home.path


def _unwritable(folder: Path) -> str:
    """Return why nothing can be written: over a quota there is room on the disk, and yet there is none."""
    flags = os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC  # it never has a name
    try:
        fd = os.open(folder, flags, 0o600)
    except OSError as error:
        return "" if error.errno in _NO_TRIAL else error.strerror or str(error)
    try:
        os.write(fd, bytes(_PROBE_BYTES))
        os.fsync(fd)
    except OSError as error:
        return error.strerror or str(error)
    finally:
        os.close(fd)
    return ""


_NO_TRIAL: Final = (95, 21, 22)  # EOPNOTSUPP, EISDIR, EINVAL: this file system knows no files without a name


def _kind(place: Path) -> Iterator[DoctorFinding]:
    kind = _file_system(place)
    if kind in _GOES:
        told = f"the home is in {_GOES[kind]} ({kind})"
        yield DoctorFinding("warn", "disk", told, "move it: daycare stop; mv, then --home or DAYCARE_HOME")
    elif kind in _SHARED:
        told = f"the home is on a network file system ({kind}): its locks do not keep two machines apart"
        yield DoctorFinding(
            "warn", "disk", told, "move it to a local disk: daycare stop; mv, then --home or DAYCARE_HOME"
        )


def _file_system(place: Path) -> str:
    """Return the kind of file system that holds a folder, empty if it cannot be told."""
    best, kind = "", ""
    real = str(place.resolve())
    try:
        lines = Path("/proc/self/mounts").read_text(errors="replace").splitlines()
    except OSError:
        return ""
    for line in lines:
        _, point, found, *_ = [*line.split(" "), "", ""]
        point = point.replace("\\040", " ")
        below = real == point or real.startswith(point.rstrip("/") + "/")
        if below and len(point) >= len(best):
            best, kind = point, found
    return kind


def _remount(place: Path) -> str:
    return f"dmesg | tail, then: sudo mount -o remount,rw $(findmnt -n -o TARGET -T {shlex.quote(str(place))})"


def _fields(file: Path) -> dict[str, int]:
    """Return the sizes that the kernel tells in a file of lines such as `VmRSS: 60000 kB`, in bytes."""
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return {}
    words = [line.split() for line in lines]
    return {word[0].rstrip(":"): int(word[1]) * 1024 for word in words if len(word) == 3 and word[2] == "kB"}


def _open_files(pid: int) -> tuple[int, int] | None:
    """Return how many files a process has open, and how many it may have."""
    try:
        [line] = [each for each in Path(f"/proc/{pid}/limits").read_text().splitlines() if "open files" in each]
        now = len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208 -- of names alone
    except (OSError, ValueError):
        return None
    soft = line.split()[3]
    return None if not soft.isdecimal() else (now, int(soft))
