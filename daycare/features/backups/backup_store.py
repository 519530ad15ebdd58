"""Where backups lie: written under a name that counts only once they were read again, and let go when there are newer.

Only those that the schedule has made are ever removed, and only after a newer one was checked.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from daycare.base.errors import ConflictError, UnavailableError
from daycare.base.times import local_time
from daycare.features.backups.archive import BackupManifest, opened
from daycare.features.exports.sealed import check_passphrase, seal
from daycare.store.sqlite.copies import sync_folder

_FORM: Final = "%Y%m%dT%H%M%SZ"
_SCHEDULED: Final = re.compile(r"scheduled-(\d{8}T\d{6}Z)\.daycare-backup")
_PART: Final = ".part"


def name_of(now_ms: int, *, scheduled: bool) -> str:
    """Return what a backup of this moment is called."""
    at = local_time(now_ms, UTC).strftime(_FORM)
    return f"{'scheduled' if scheduled else 'daycare'}-{at}.daycare-backup"


def publish(
    pieces: Iterable[bytes], target: Path, passphrase: str, check: Callable[[], None] = lambda: None
) -> BackupManifest:
    """Let a backup be at `target`, whole and read again, or not at all; with a passphrase it is sealed.

    `check` is called now and then, and may raise.

    Raises `ConflictError` FILE_EXISTS, `UnavailableError` BACKUP_UNWRITABLE, `InvalidError` for one that is damaged.
    """
    if passphrase:
        check_passphrase(passphrase)
    if target.exists():
        raise ConflictError("FILE_EXISTS", f"writing {target}: there is one", hint="choose another name")
    part = target.with_name(target.name + _PART)
    with writing(target):
        part.unlink(missing_ok=True)  # of one that was killed
        fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with writing(target), os.fdopen(fd, "wb") as file:
            for piece in seal(pieces, passphrase) if passphrase else pieces:
                file.write(piece)
                check()
            file.flush()
            os.fsync(fd)
        with writing(target), opened(part, lambda: passphrase) as archive:
            manifest = archive.verify(check)
        with writing(target):
            part.rename(target)
            sync_folder(target.parent)
    except BaseException:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise
    return manifest


def scheduled_in(folder: Path) -> list[tuple[int, Path]]:
    """Return what the schedule has made, with when (wall ms), the oldest first."""
    found = []
    with suppress(FileNotFoundError):
        for file in folder.iterdir():
            if match := _SCHEDULED.fullmatch(file.name):
                at = datetime.strptime(match[1], _FORM).replace(tzinfo=UTC)
                found.append((round(at.timestamp() * 1000), file))
    return sorted(found)


def rotate(folder: Path, keep: int, newest: Path) -> int:
    """Remove the oldest of the schedule's beyond `keep`, and what killed ones left; never `newest`, which was checked.

    Return how many were removed.
    """
    files = [file for _, file in scheduled_in(folder) if file != newest]
    gone = files[: max(0, len(files) - (max(keep, 1) - 1))]
    for file in gone:
        file.unlink(missing_ok=True)
    for file in folder.glob(f"scheduled-*{_PART}"):
        file.unlink(missing_ok=True)
    return len(gone)


@contextmanager
def writing(target: Path) -> Iterator[None]:
    """Say of what the disk refuses that it is about a backup."""
    try:
        yield
    except OSError as error:
        raise UnavailableError(
            "BACKUP_UNWRITABLE",
            f"writing the backup {target}: {error.strerror or error}",
            hint="choose another place, or free some space",
        ) from error
