"""The files of the home: whose they are, who else may reach them, and what interrupted programs have left."""

import os
import shlex
import stat
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from daycare.ops.doctor.context import DoctorContext, refused
from daycare.ops.doctor.finding import DoctorFinding, Mend
from daycare.ops.unit import account

_FILES_MAX: Final = 50_000  # looked at in a home; some seconds
_SHOWN: Final = 3  # of a list in a finding
_OTHERS: Final = 0o077
_FOR_PEOPLE: Final = ("memory", "cron", "personalities")  # folders whose files people write with their own programs
_LEFT: Final = (  # what our own programs write first and rename then; nobody else's file is ours to take away
    "starts.json.new",
    ".config.toml.new",
    "daycare.db.new",
    "daycare.db.new-wal",
    "daycare.db.new-shm",
    "daycare.db.new.mark",
    "*.before-[0-9][0-9][0-9][0-9].part",
    "*.rescued-*.part",
    "backups/*.daycare-backup.part",
)


def home(context: DoctorContext) -> Iterator[DoctorFinding]:
    """The folder itself: it is the wall around everything in it."""
    place = context.home.path
    found = place.stat()
    if os.geteuid() not in (found.st_uid, 0):
        yield DoctorFinding(
            "fail",
            "home",
            f"{place} belongs to {account(found.st_uid)}, and you are {account(os.geteuid())}",
            f"sudo -u {account(found.st_uid)} daycare --home {shlex.quote(str(place))} doctor",
        )
    yield private("home", place, 0o700)
    for name in _FOR_PEOPLE:
        folder = place / name
        if folder.exists() and not folder.is_dir():
            yield DoctorFinding("fail", "home", f"{folder} is not a folder", f"mv {_q(folder)} {_q(folder)}.aside")


def files(context: DoctorContext) -> Iterator[DoctorFinding]:
    """Everything in the home: whose it is, and that nobody else may read it."""
    place = context.home.path
    owner = place.stat().st_uid
    foreign: list[Path] = []
    open_: list[tuple[Path, int]] = []
    seen = 0
    for path, found in _walk(place):
        seen += 1
        if seen > _FILES_MAX:
            break
        if found.st_uid != owner:
            foreign.append(path)
        mode = stat.S_IMODE(found.st_mode)
        if mode & _OTHERS and path not in (context.home.key_file, context.home.socket):  # those have their own looks
            open_.append((path, mode))
    if foreign:
        yield DoctorFinding(
            "fail",
            "files",
            f"{len(foreign)} belong to others than {account(owner)}: {_listed(foreign, place)}",
            f"sudo chown -R {account(owner)} {_q(place)}",
        )
    if open_:
        closed = not stat.S_IMODE(place.stat().st_mode) & _OTHERS
        shown = _listed([path for path, _ in open_], place)
        behind = "; only the home's own mode keeps them out" if closed else ""
        yield DoctorFinding(
            "warn" if closed else "fail",
            "files",
            f"{len(open_)} {'is' if len(open_) == 1 else 'are'} open to others: {shown}{behind}",
            f"chmod -R go= {_q(place)}",
            mend=Mend(f"chmod go= on {_count(open_)}", partial(_close, [path for path, _ in open_])),
        )
    if not foreign and not open_:
        many = "the first " if seen > _FILES_MAX else ""
        yield DoctorFinding("ok", "files", f"{many}{min(seen, _FILES_MAX)} looked at, all {account(owner)}'s alone")


def leftovers(context: DoctorContext) -> Iterator[DoctorFinding]:
    """What a program that was interrupted has left: a dead daemon's socket, files that were never finished."""
    place = context.home
    if not context.running and os.path.lexists(place.socket) and context.holder is None and refused(place.socket):
        yield DoctorFinding(
            "warn",
            "socket",
            f"{place.socket} is that of a daemon that is gone (harmless)",
            f"rm {_q(place.socket)}",
            mend=Mend(f"rm {place.socket}", place.socket.unlink, alone=True),
        )
    elif context.running:
        yield private("socket", place.socket, 0o600)
    left = sorted({file for pattern in _LEFT for file in place.path.glob(pattern) if file.is_file()})
    if left and context.holder is None:
        yield DoctorFinding(
            "warn",
            "leftovers",
            f"{len(left)} files that nobody finished writing: {_listed(left, place.path)}",
            f"rm {' '.join(map(_q, left[:_SHOWN]))}",
            mend=Mend(f"rm {', '.join(file.name for file in left)}", partial(_remove, left), alone=True),
        )


def private(about: str, file: Path, mode: int) -> DoctorFinding:
    """Judge whether only the owner may reach `file`."""
    found = stat.S_IMODE(file.stat().st_mode)
    if found & _OTHERS:
        return DoctorFinding(
            "fail",
            about,
            f"{file} is open to others (mode {found:04o})",
            f"chmod {mode:o} {_q(file)}",
            mend=Mend(f"chmod {mode:o} {file}", partial(file.chmod, mode)),
        )
    return DoctorFinding("ok", about, f"{file}, mode {found:04o}")


def _walk(place: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield everything below a folder but links, which lead elsewhere, and what vanishes meanwhile."""
    todo = [place]
    while todo:
        try:
            with os.scandir(todo.pop()) as entries:
                for entry in entries:
                    with suppress(FileNotFoundError):
                        found = entry.stat(follow_symlinks=False)
                        if stat.S_ISLNK(found.st_mode):
                            continue
                        yield Path(entry.path), found
                        if stat.S_ISDIR(found.st_mode):
                            todo.append(Path(entry.path))
        except FileNotFoundError:
            continue


def _close(paths: list[Path]) -> None:
    """Take away what others may, without following a link that has come meanwhile."""
    for path in paths:
        try:
            fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        try:
            mode = os.fstat(fd).st_mode
            if not stat.S_ISLNK(mode):
                os.chmod(f"/proc/self/fd/{fd}", stat.S_IMODE(mode) & ~_OTHERS)  # noqa: PTH101 -- it is no path of ours
        finally:
            os.close(fd)


def _remove(left: list[Path]) -> None:
    for file in left:
        file.unlink(missing_ok=True)


def _listed(paths: list[Path], place: Path) -> str:
    names = [str(path.relative_to(place)) for path in paths[:_SHOWN]]
    return ", ".join(names) + (f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else "")


def _count(paths: list[tuple[Path, int]]) -> str:
    return str(paths[0][0]) if len(paths) == 1 else f"{len(paths)} files and folders"


def _q(path: Path) -> str:
    return shlex.quote(str(path))
