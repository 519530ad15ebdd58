"""The daemon's backups: made for who asks for one, and by itself when one is due."""

import os
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeVar

import msgspec
import outcome
import trio

from daycare.base.clock import Clock
from daycare.base.durations import about
from daycare.base.errors import BrokenError, DaycareError, InvalidError, NotFoundError
from daycare.base.health import Finding
from daycare.base.limits import BACKUP_LATE, EXPORT_CHUNK_BYTES
from daycare.base.secrecy import hide
from daycare.base.store_location import is_server, shown
from daycare.features.backups.archive import BackupManifest, opened
from daycare.features.backups.backup_store import (
    StoredBackup,
    name_of,
    publish,
    rotate,
    scheduled_in,
    stored_at,
    stored_in,
    writing,
)
from daycare.features.backups.making import BackupProgress, Making
from daycare.features.exports.stored import StoredFiles, anonymous
from daycare.observe import log
from daycare.settings import BackupSection, Live
from daycare.store.home import MEMORY, Home
from daycare.store.sqlite.copies import RESTORED, decode_restored
from daycare.store.sqlite.database import check
from daycare.store.sqlite.store import Store

BACKUP_LOOK_S: Final = 60.0  # whether a scheduled backup is due
BACKUPS_SHOWN_MAX: Final = 200  # of the folder's, the newest
BACKUP_RETRY_S: Final = 900.0  # after one that failed: a disk that is full or away comes back within that, or not soon

T = TypeVar("T")

_PASSPHRASE_MAX_BYTES: Final = 4_096
_NEVER: Final = float("-inf")


class BackupReport(msgspec.Struct, frozen=True, kw_only=True):
    """A backup that waits to be fetched under its `id`, of so many `bytes`."""

    id: str
    bytes: int
    manifest: BackupManifest


class Backups:
    """Makes them, one at a time."""

    def __init__(self, home: Home, live: Live, store: Store, clock: Clock) -> None:
        self._home = home
        self._live = live
        self._store = store
        self._clock = clock
        self._started_at = clock.now_ms()
        self._turn = trio.Lock()
        self._kept = StoredFiles()
        self._failed_at = _NEVER  # by the clock that nobody sets
        self._failure: DaycareError | None = None
        self._hide_passphrase()
        live.watch(lambda settings: settings.backup, self._hide_passphrase)

    def _hide_passphrase(self) -> None:
        """Let nothing show it from now on, however long it is until it is used."""
        if self.section.passphrase_file:
            with suppress(InvalidError):
                _ = _first_line(self._home.path / self.section.passphrase_file)

    # -- asked for -----------------------------------------------------------------------------------------------------

    async def make(self, *, with_key: bool, progress: BackupProgress) -> BackupReport:
        """Make one, which is kept for a while."""
        self._kept.make_room()
        async with self._turn:
            file, manifest = await self._made(with_key=with_key, progress=progress)
        size = os.fstat(file.fileno()).st_size
        return BackupReport(id=self._kept.keep(file, "backup"), bytes=size, manifest=manifest)

    def size_of(self, backup_id: str) -> int:
        """Return the size of one that is kept. Raises `NotFoundError` EXPORT_UNKNOWN."""
        return self._kept.known(backup_id, "backup").size

    async def fetch(self, backup_id: str) -> AsyncIterator[bytes]:
        """Yield the bytes of one, once; then it is gone."""
        file = self._kept.take(backup_id, "backup").file
        try:
            file.seek(0)
            while data := await trio.to_thread.run_sync(file.read, EXPORT_CHUNK_BYTES):
                yield data
        finally:
            file.close()

    async def _made(self, *, with_key: bool, progress: BackupProgress) -> tuple[BinaryIO, BackupManifest]:
        """Return a file without a name."""
        self._store.trusted()  # another file may be at its path, or a damaged one
        with writing(self._home.path):
            file = anonymous(self._home.path)

        def work(check: Callable[[], None]) -> BackupManifest:
            making = Making(
                self._home, self._location(), self._clock.now_ms(), with_key, check=check, progress=progress
            )
            return making.write(file)

        try:
            manifest = await _apart(work)
            self._store.trusted()
            file.seek(0)
        except BrokenError as error:
            file.close()
            if error.code == "STORE_CORRUPT" and not is_server(
                self._store.location
            ):  # the copy is; is what was copied?
                damage = await _apart(lambda _: check(self._store.location))
                if damage is not None:
                    self._store.doubt(damage)
            raise
        except BaseException:
            file.close()
            raise
        return file, manifest

    # -- those in the folder -------------------------------------------------------------------------------------------

    async def stored(self) -> list[StoredBackup]:
        """Return those in the folder, the newest first. Raises `UnavailableError` for one that cannot be read."""
        return await trio.to_thread.run_sync(stored_in, self.folder, BACKUPS_SHOWN_MAX)

    def file_of(self, name: str) -> Path:
        """Return the file of one in the folder. Raises `NotFoundError` BACKUP_UNKNOWN."""
        return stored_at(self.folder, name)

    async def verify(self, name: str, passphrase: str = "") -> BackupManifest:
        """Read all of one in the folder, and return what is in it; an encrypted one is opened as the schedule would.

        Raises `InvalidError` BACKUP_DAMAGED, or for a wrong passphrase.
        """
        file = self.file_of(name)

        def known() -> str:
            given = self.section.passphrase_file
            return passphrase or (_first_line(self._home.path / given) if given else "")

        def work(check: Callable[[], None]) -> BackupManifest:
            with opened(file, known) as archive:
                return archive.verify(check)

        return await _apart(work)

    # -- by itself -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Make one whenever it is due; until cancelled."""
        while True:
            await trio.sleep(BACKUP_LOOK_S)
            await self.look()

    def _location(self) -> str:
        """Return where the store is, as it is opened: that of a server is shown without what only this machine has."""
        set_ = self._live.now.store.location
        return set_ if is_server(set_) and shown(set_) == self._store.location else self._store.location

    async def look(self) -> None:
        """Make one if it is due."""
        every, now_ms, now_s = self.section.every_ms, self._clock.now_ms(), self._clock.steady_s()
        if not every or self._store.location == MEMORY or now_s < self._failed_at + BACKUP_RETRY_S:
            return
        last = self._last()
        if last is not None and last[0] <= now_ms < last[0] + every:
            return
        try:
            await self._make_due()
            self._failure, self._failed_at = None, _NEVER
        except DaycareError as error:
            self._failure, self._failed_at = error, now_s
            log.logger().warning("backup.failed", code=error.code, reason=error.message)

    async def _make_due(self) -> None:
        folder, section = self.folder, self.section
        if section.folder and not folder.is_dir():
            raise NotFoundError(
                "BACKUP_FOLDER", f"making a backup: there is no folder {folder}", hint="make it, or mount its disk"
            )
        with writing(folder):
            folder.mkdir(mode=0o700, exist_ok=True)
        passphrase = _first_line(self._home.path / section.passphrase_file) if section.passphrase_file else ""
        async with self._turn:
            file, _ = await self._made(with_key=bool(passphrase), progress=BackupProgress())
            target = folder / name_of(self._clock.now_ms(), scheduled=True)

            def work(check: Callable[[], None]) -> tuple[BackupManifest, int]:
                pieces = iter(partial(file.read, EXPORT_CHUNK_BYTES), b"")
                with file:
                    manifest = publish(pieces, target, passphrase, check)
                with writing(folder):
                    return manifest, rotate(folder, section.keep, target)

            manifest, gone = await _apart(work)
        log.logger().info("backup.made", file=str(target), number=manifest.number, removed=gone)

    # -- how they are --------------------------------------------------------------------------------------------------

    @property
    def section(self) -> BackupSection:
        """What is set."""
        return self._live.now.backup

    @property
    def folder(self) -> Path:
        """Where the schedule's backups lie."""
        return folder_of(self._home, self.section)

    def _last(self) -> tuple[int, Path] | None:
        try:
            found = scheduled_in(self.folder)
        except OSError:  # as good as none: the next one fails and says why
            return None
        past = [each for each in found if each[0] <= self._clock.now_ms()]  # others were made by a clock that was ahead
        return past[-1] if past else None

    async def status(self) -> dict[str, Any]:
        """Return what `GET /v1/status` shows: what is set, the last one, its failure, and where the home came from."""
        last, restored = self._last(), decode_restored(await self._store.intake.recall(*RESTORED))
        return {
            "every": self.section.every,
            "keep": self.section.keep,
            "folder": str(self.folder),
            "encrypted": bool(self.section.passphrase_file),
            "last_at": last[0] if last else None,
            "last": str(last[1]) if last else None,
            "failure": self._failure.message if self._failure else None,
            "hint": self._failure.hint if self._failure else None,
            "restored": restored,
        }

    def finding(self) -> Finding:
        """Return how they are, for who watches."""
        every, last = self.section.every_ms, self._last()
        if not every:
            return Finding(name="backup", ok=True, text="none is scheduled (daycare backup --every 24h)", watched=True)
        age_ms = self._clock.now_ms() - max(last[0] if last else 0, 0)
        told = f"the last one is {about(age_ms / 1000)} old" if last else "there is none yet"
        if self._failure is not None:
            return Finding(name="backup", ok=False, text=f"{self._failure.message}; {told}", watched=True)
        waited_ms = self._clock.now_ms() - max(last[0] if last else 0, self._started_at)
        return Finding(name="backup", ok=waited_ms < BACKUP_LATE * every, text=told, watched=True)


def folder_of(home: Home, section: BackupSection) -> Path:
    """Return where a home's scheduled backups lie."""
    return home.path / Path(section.folder or "backups").expanduser()


def _first_line(file: Path) -> str:
    try:
        with file.expanduser().open("rb") as opened:
            line = opened.readline(_PASSPHRASE_MAX_BYTES).decode().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise InvalidError(
            "PASSPHRASE_UNREADABLE", f"making a backup: reading {file}: {why}", hint="[backup] passphrase_file"
        ) from error
    if not line:
        raise InvalidError("PASSPHRASE_MISSING", f"making a backup: {file} begins with an empty line")
    hide(line)
    return line


async def _apart(work: Callable[[Callable[[], None]], T]) -> T:
    """Do something in a thread. Once nobody waits for it any more, what it is given raises."""
    given_up = threading.Event()

    def check() -> None:
        if given_up.is_set():
            raise DaycareError("BACKUP_GIVEN_UP", "making a backup: nobody waits for it any more")

    async def watch() -> None:
        try:
            await trio.sleep_forever()
        finally:
            given_up.set()

    found: outcome.Outcome[T] | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        # captured: out of the nursery it would come in a group
        found = await trio.to_thread.run_sync(outcome.capture, work, check)
        nursery.cancel_scope.cancel()
    assert found is not None
    return found.unwrap()
