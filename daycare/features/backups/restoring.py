"""Putting a home back from a backup, and a database from before its upgrade. What was there is kept aside.

While it lasts, the home says so (`restoring`): a daemon does not start on half of two homes. Done again after it was
interrupted, it comes to its end.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from daycare import features
from daycare.base.errors import BrokenError, ConflictError, DaycareError, InvalidError, NotFoundError, UnavailableError
from daycare.base.store_location import is_server, shown
from daycare.base.times import local_time
from daycare.config import load
from daycare.features.backups.archive import (
    CONFIG,
    DATABASE,
    FOLDERS,
    KEY,
    BackupArchive,
    BackupEntry,
    BackupManifest,
    opened,
)
from daycare.features.backups.half import MARK
from daycare.store.home import MEMORY, Home
from daycare.store.moving.whole import copy_from_file, has_come
from daycare.store.sqlite import copies
from daycare.store.sqlite.copies import Restored, sync_file, sync_folder
from daycare.store.sqlite.database import migrations, number_of, snapshots
from daycare.store.sqlite.rows import indexes_of

_WORK: Final = ".restore"


class Restoration(msgspec.Struct, frozen=True, kw_only=True):
    """What a restore came to, or would. `aside` is where lies what was there before, None for nothing.

    `replies` wait and may arrive twice; `keys` are stored secrets that nothing opens any more; `problem` tells of
    settings that this version does not read.
    """

    manifest: BackupManifest
    home: str
    database: str
    aside: str | None
    replies: int
    keys: tuple[str, ...]
    problem: str
    dry_run: bool


def look(file: Path, home: Home, passphrase: Callable[[], str]) -> Restoration:
    """Read a backup whole and say what would be restored; nothing is changed."""
    with _opened(file, passphrase) as archive:
        manifest = archive.verify()
    _refuse_future(manifest)
    return Restoration(
        manifest=manifest,
        home=str(home.path),
        database="",
        aside=None,
        replies=0,
        keys=_locked(manifest, home),
        problem="",
        dry_run=True,
    )


def restore(file: Path, home: Home, passphrase: Callable[[], str], *, force: bool, now_ms: int) -> Restoration:
    """Put a home back. The caller has its lock.

    Raises `ConflictError` HOME_HAS_DATA unless with `force`, `InvalidError` BACKUP_DAMAGED before anything was changed.
    """
    _refuse_data(home, force=force)
    work = home.path / _WORK
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(mode=0o700)
    try:
        with _opened(file, passphrase) as archive:
            manifest = archive.manifest
            _refuse_future(manifest)
            for entry, pieces in archive.files():
                _write(work, entry, pieces)
        location, problem = _location(work, home)
        _refuse_elsewhere(location, home)
        told = f"the backup {file.absolute()}"
        come = is_server(location) and has_come(location, told)
        copies.examine(work / DATABASE)
        note = Restored(source=str(file), made_at=manifest.made_at, restored_at=now_ms)
        replies = copies.mark_restored(work / DATABASE, note)
        for each in work.rglob("*"):
            (sync_folder if each.is_dir() else sync_file)(each)
        aside = _aside(home, now_ms)
        with _on_disk(f"restoring {file}"):
            _mark(home, file)
            if not is_server(location):
                _exchange_database(work, home, aside, Path(location))
            elif not come:
                copy_from_file(work / DATABASE, location, told, indexes_of(features.rows()), now_ms)
            _exchange(work, home, aside)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    kept = aside if any(aside.iterdir()) else None
    if kept is None:
        aside.rmdir()
    (home.path / MARK).unlink()
    sync_folder(home.path)
    return Restoration(
        manifest=manifest,
        home=str(home.path),
        database=shown(location),
        aside=str(kept) if kept else None,
        replies=replies,
        keys=_locked(manifest, home),
        problem=problem,
        dry_run=False,
    )


def _refuse_data(home: Home, *, force: bool) -> None:
    found = [name for name in (CONFIG, DATABASE, KEY, *FOLDERS) if (home.path / name).exists()]
    if found and not force:
        raise ConflictError(
            "HOME_HAS_DATA",
            f"restoring into {home.path}: there is {', '.join(found)}",
            hint="restore elsewhere: --to DIR; or --force, which puts what is there aside",
        )


def _refuse_future(manifest: BackupManifest) -> None:
    newest = migrations()[-1][0]
    if manifest.number > newest:
        raise BrokenError(
            "STORE_FROM_FUTURE",
            f"restoring: its schema is number {manifest.number}, this daycare knows up to {newest}",
            hint=f"install daycare {manifest.daycare} or a newer one",
        )


def _refuse_elsewhere(location: str, home: Home) -> None:
    """A backup's settings decide nothing outside of its target: only those that are there already do."""
    if not is_server(location) and Path(location).resolve().is_relative_to(home.path.resolve()):
        return
    try:
        own = home.database(load(home.path).store.location) if home.config.exists() else ""
    except BrokenError:
        own = ""
    if own != location:
        raise ConflictError(
            "RESTORE_ELSEWHERE",
            f"restoring into {home.path}: the backup's settings put the database outside of it, at {shown(location)}",
            hint=f"if that is right, set location in [store] of {home.config} to it, and restore with --force",
        )


def _location(work: Path, home: Home) -> tuple[str, str]:
    """Return where the settings of the backup have the database, and what is wrong with them."""
    try:
        location = load(work).store.location
    except BrokenError as error:
        return str(home.path / DATABASE), error.message
    if location == MEMORY:
        raise InvalidError("STORE_IN_MEMORY", "restoring: its settings say that messages are in memory")
    return home.database(location), ""


def _locked(manifest: BackupManifest, home: Home) -> tuple[str, ...]:
    return () if manifest.with_key or home.key_file.exists() else manifest.secrets


@contextmanager
def _opened(file: Path, passphrase: Callable[[], str]) -> Iterator[BackupArchive]:
    try:
        with opened(file, passphrase) as archive:
            yield archive
    except FileNotFoundError as error:
        raise NotFoundError("FILE_MISSING", f"restoring {file}: it does not exist") from error
    except OSError as error:
        raise UnavailableError("RESTORE_FAILED", f"restoring {file}: {error.strerror or error}") from error


@contextmanager
def _on_disk(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UnavailableError(
            "RESTORE_FAILED",
            f"{what}: {error.strerror or error}",
            hint="make it possible, and do it again: nothing is lost",
        ) from error


def _write(work: Path, entry: BackupEntry, pieces: Iterator[bytes]) -> None:
    target = work / entry.path
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW  # a large one comes in several parts
    with os.fdopen(os.open(target, flags, 0o600), "wb") as to:
        for piece in pieces:
            to.write(piece)


def _mark(home: Home, file: Path) -> None:
    mark = home.path / MARK
    mark.write_text(f"{file.absolute()}\n")
    sync_file(mark)
    sync_folder(home.path)


def _aside(home: Home, now_ms: int) -> Path:
    stamp = local_time(now_ms, None).strftime("%Y%m%d-%H%M%S")
    for number in range(1_000):
        folder = home.path / f"before-restore-{stamp}{f'-{number}' if number else ''}"
        if not folder.exists():
            folder.mkdir(mode=0o700)
            return folder
    raise ConflictError("ASIDE_TAKEN", f"restoring into {home.path}: it has 1000 folders before-restore-{stamp}")


def _exchange_database(work: Path, home: Home, aside: Path, location: Path) -> None:
    new, old = work / DATABASE, aside / DATABASE
    location.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if location.parent.stat().st_dev != home.path.stat().st_dev:  # nothing can be renamed to another disk
        new, old = Path(f"{location}.restore.part"), Path(f"{location}.{aside.name}")
        new.unlink(missing_ok=True)
        copies.copy(str(work / DATABASE), new, pause=False)
    for each in snapshots(str(location)):  # of another past than that of what comes
        each.rename(f"{old}{each.name.removeprefix(location.name)}")
    copies.put_in_place(new, location, old)


def _exchange(work: Path, home: Home, aside: Path) -> None:
    for name in (CONFIG, KEY, "cron", "memory", "personalities"):
        if name != KEY or (work / KEY).exists():
            _replace(work / name, home.path / name, aside / name)
    if (work / "plugins").is_dir():
        (home.path / "plugins").mkdir(mode=0o700, exist_ok=True)
        for each in (work / "plugins").iterdir():  # what was too large for the backup stays
            _replace(each, home.path / "plugins" / each.name, aside / "plugins" / each.name)
        sync_folder(home.path / "plugins")
    sync_folder(aside)
    sync_folder(home.path)


def _replace(new: Path, place: Path, aside: Path) -> None:
    if place.exists():
        aside.parent.mkdir(mode=0o700, exist_ok=True)
        place.rename(aside)
    if new.exists():
        new.rename(place)


# -- before an upgrade -------------------------------------------------------------------------------------------------


class Rollback(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot that can be put back. `lost` counts what is newer than it; None where the database is unreadable."""

    database: str
    number: int | None
    snapshot: str
    snapshot_number: int
    made_at: int
    lost: dict[str, int] | None
    aside: str | None = None


def find_rollback(location: str) -> Rollback:
    """Return the newest snapshot of before an upgrade that this daycare can read, and is older than what there is."""
    newest = migrations()[-1][0]
    try:
        number: int | None = copies.examine(Path(location), whole=False).number
    except DaycareError:
        number = None  # damaged: any snapshot is better
    made = [each for each in snapshots(location) if number_of(each) - 1 <= min(newest, (number or newest + 1) - 1)]
    if not made:
        raise NotFoundError(
            "SNAPSHOT_MISSING",
            f"rolling back {location}: there is no snapshot of before an upgrade",
            hint="daycare restore BACKUP",
        )
    snapshot = made[-1]
    facts = copies.examine(snapshot)
    return Rollback(
        database=location,
        number=number,
        snapshot=str(snapshot),
        snapshot_number=facts.number,
        made_at=round(snapshot.stat().st_mtime * 1000),
        lost=None if number is None else copies.since(location, snapshot),
    )


def roll_back(found: Rollback, now_ms: int) -> Rollback:
    """Put a snapshot in the place of the database, which is kept aside. The caller has the home's lock."""
    location = Path(found.database)
    new = Path(f"{location}.rollback.part")
    for left in (new, Path(f"{new}-journal")):
        left.unlink(missing_ok=True)
    try:
        copies.copy(found.snapshot, new, pause=False)
        note = Restored(source=found.snapshot, made_at=found.made_at, restored_at=now_ms)
        copies.mark_restored(new, note)
        stamp = local_time(now_ms, None).strftime("%Y%m%d-%H%M%S")
        aside = Path(f"{location}.rolled-back-{stamp}")
        with _on_disk(f"rolling back {location}"):
            copies.put_in_place(new, location, aside)
    finally:
        new.unlink(missing_ok=True)
    return msgspec.structs.replace(found, aside=str(aside))
