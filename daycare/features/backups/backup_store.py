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

import msgspec

from daycare.base.errors import ConflictError, NotFoundError, UnavailableError
from daycare.base.times import local_time
from daycare.features.backups.archive import BackupManifest, opened
from daycare.features.exports.sealed import check_passphrase, is_sealed, seal
from daycare.store.sqlite.copies import sync_folder

_FORM: Final = "%Y%m%dT%H%M%SZ"
_SCHEDULED: Final = re.compile(r"scheduled-(\d{8}T\d{6}Z)\.daycare-backup")
_STORED: Final = re.compile(r"(?:scheduled|daycare)-(\d{8}T\d{6}Z)\.daycare-backup")
_SEAL_BYTES: Final = 16  # the beginning of a file, by which an encrypted one is known
_PART: Final = ".part"


class StoredBackup(msgspec.Struct, frozen=True, kw_only=True):
    """A backup in the folder: its file's name, when it was made (wall ms), and whether a passphrase opens it."""

    name: str
    made_at: int
    bytes: int
    scheduled: bool
    encrypted: bool


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
                found.append((_made_at(match), file))
    return sorted(found)


def stored_in(folder: Path, most: int) -> list[StoredBackup]:
    """Return the backups in a folder, the newest first, so many of them."""
    if not folder.is_dir():
        return []
    with writing(folder):
        matches = [match for file in folder.iterdir() if (match := _STORED.fullmatch(file.name))]
        newest = sorted(matches, key=_made_at, reverse=True)[:most]
        return [_stored(folder / match[0], match) for match in newest]


def stored_at(folder: Path, name: str) -> Path:
    """Return the file of a backup in a folder. Raises `NotFoundError` BACKUP_UNKNOWN for any other name."""
    file = folder / name
    if not _STORED.fullmatch(name) or file.is_symlink() or not file.is_file():
        raise NotFoundError("BACKUP_UNKNOWN", f"looking for the backup {name}: there is none of that name")
    return file


def _stored(file: Path, match: re.Match[str]) -> StoredBackup:
    with file.open("rb") as opened:
        sealed = is_sealed(opened.read(_SEAL_BYTES))
        size = os.fstat(opened.fileno()).st_size
    scheduled = _SCHEDULED.fullmatch(file.name) is not None
    return StoredBackup(name=file.name, made_at=_made_at(match), bytes=size, scheduled=scheduled, encrypted=sealed)


def _made_at(match: re.Match[str]) -> int:
    return round(datetime.strptime(match[1], _FORM).replace(tzinfo=UTC).timestamp() * 1000)


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
