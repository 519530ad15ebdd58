"""Making a backup of a home into a file: the database as of one moment, and what lies beside it.

Everything is copied into a folder of the home first and looked at there; what is packed does not change any more.
"""

import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

from daycare import __version__, features
from daycare.base.errors import BrokenError, DaycareError, InvalidError, NotFoundError
from daycare.base.limits import BACKUP_FILES_MAX, EXPORT_CHUNK_BYTES
from daycare.base.store_location import is_server, shown
from daycare.features.backups.archive import (
    CONFIG,
    DATABASE,
    FOLDERS,
    FORMAT,
    KEY,
    VERSION,
    BackupEntry,
    BackupManifest,
    Left,
    Packed,
    measured,
    write,
)
from daycare.features.backups.backup_store import writing
from daycare.store.home import MEMORY, Home
from daycare.store.sqlite import copies
from daycare.store.sqlite.rows import indexes_of

BACKUP_FOLDER_MAX_BYTES: Final = 64 * 1024 * 1024  # of a plugin's folder: sessions and indexes, no collections of media

WORK: Final = ".backup-"  # what folders of the home begin with that a backup is made in
_NEVER: Final = (
    Left("daycare.log", "a log is no data"),
    Left("history", "what was typed into `daycare chat` is the terminal's"),
    Left("backups", "no backup holds another one, nor snapshots of before upgrades"),
)
_ALSO_DATABASES: Final = ("-wal", "-shm", "-journal")  # of a database beside: they are in its copy


@dataclass
class BackupProgress:
    """How far it is: `done` counts bytes of files."""

    stage: str = "waiting"
    done: int = 0


@dataclass
class Making:
    """One backup of `home`, whose database is at `location`. `check` is called now and then, and may raise.

    `pause`: others use the disk meanwhile.
    """

    home: Home
    location: str
    now_ms: int
    with_key: bool
    check: Callable[[], None] = lambda: None
    progress: BackupProgress = field(default_factory=BackupProgress)
    pause: bool = True
    _packed: list[Packed] = field(default_factory=list)
    _left: list[Left] = field(default_factory=list)

    def write(self, target: BinaryIO) -> BackupManifest:
        """Write it. Raises `NotFoundError`, `BrokenError` STORE_CORRUPT, `UnavailableError`."""
        if self.location == MEMORY:
            raise InvalidError(
                "STORE_IN_MEMORY", "making a backup: the messages are in memory", hint="[store] location"
            )
        if not is_server(self.location) and not Path(self.location).exists():
            raise NotFoundError("STORE_MISSING", f"making a backup: there is no {self.location}", hint="daycare init")
        sweep(self.home)
        with writing(self.home.path), _folder(self.home) as folder:
            self.progress.stage = "copying"
            database = folder / "database"
            self._copy(database)
            self.progress.stage = "checking"
            facts = self._examined(database)
            self._packed.append(measured(DATABASE, database, self.check))
            if facts.elsewhere:
                why = f"{facts.elsewhere:,} files, {facts.elsewhere_bytes / 1e6:,.1f} MB: copy the bucket yourself"
                self._left.append(Left("files in the bucket", why))
            self._collect(folder)
            manifest = BackupManifest(
                format=FORMAT,
                version=VERSION,
                daycare=__version__,
                home=str(self.home.path),
                made_at=self.now_ms,
                newest_at=facts.newest_at,
                number=facts.number,
                counts=facts.counts,
                secrets=facts.secrets,
                with_key=any(each.path == KEY for each in self._packed),
                entries=tuple(BackupEntry(path=it.path, bytes=it.bytes, sha256=it.sha256) for it in self._packed),
                left_out=(*self._left, *_NEVER),
            )
            self.progress.stage = "packing"
            write(target, manifest, self._packed, self._tell)
        return manifest

    def _copy(self, database: Path) -> None:
        if is_server(self.location):
            from daycare.store.moving.whole import copy_to_file  # late: few have a server

            copy_to_file(self.location, database, indexes_of(features.rows()), self.check)
        else:
            copies.copy(self.location, database, check=self.check, pause=self.pause)

    def _examined(self, copy: Path) -> copies.DatabaseFacts:
        try:
            return copies.examine(copy, check=self.check)
        except BrokenError as error:
            raise BrokenError(
                error.code,
                f"making a backup: the copy of {shown(self.location)} is damaged, and was not kept: {error.message}",
                hint=error.hint,
            ) from error

    def _tell(self, done: int) -> None:
        self.progress.done = done
        self.check()

    def _collect(self, folder: Path) -> None:
        if self.home.config.exists():
            self._add(folder, CONFIG, self.home.config)
        if self.with_key and self.home.key_file.exists():
            self._add(folder, KEY, self.home.key_file)
        elif self.home.key_file.exists():
            self._left.append(Left(KEY, "it opens the stored secrets: keep it apart, or --with-key, or a passphrase"))
        elif self.with_key:
            self._left.append(Left(KEY, "the home has none: the key comes from elsewhere"))
        for name in FOLDERS:
            root = self.home.path / name
            for below in sorted(root.iterdir()) if root.is_dir() else ():
                self._add_tree(folder, f"{name}/{below.name}", below, bounded=name == "plugins")

    def _add_tree(self, folder: Path, path: str, place: Path, *, bounded: bool) -> None:
        files = list(_files(place))
        size = sum(file.stat().st_size for file in files if file.exists())
        if bounded and size > BACKUP_FOLDER_MAX_BYTES:
            self._left.append(Left(path, f"it has {size / 1e6:,.0f} MB: copy it yourself"))
            return
        for file in files:
            self._add(folder, path if file == place else f"{path}/{file.relative_to(place)}", file)

    def _add(self, folder: Path, path: str, file: Path) -> None:
        """Take in a file as it is now; one that goes away meanwhile is told of."""
        if len(self._packed) > BACKUP_FILES_MAX:
            raise InvalidError(
                "BACKUP_FILES", f"making a backup: there are over {BACKUP_FILES_MAX} files in {file.parent}"
            )
        copied = folder / str(len(self._packed))
        try:
            path.encode()
            if file.name.endswith(_ALSO_DATABASES) and file.with_name(file.name.rpartition("-")[0]).exists():
                return
            if copies.is_database(file):
                copies.copy(str(file), copied, check=self.check, pause=self.pause)
            else:
                _copy(file, copied)
        except (OSError, UnicodeEncodeError, DaycareError) as error:
            copied.unlink(missing_ok=True)
            self._left.append(Left(ascii(path)[1:-1], f"it cannot be read: {getattr(error, 'strerror', '') or error}"))
            return
        self.check()
        self._packed.append(measured(path, copied))


def sweep(home: Home) -> None:
    """Take away what a backup that was killed has left. Only one is made at a time."""
    for left in home.path.glob(f"{WORK}*"):
        shutil.rmtree(left, ignore_errors=True)


@contextmanager
def _folder(home: Home) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix=WORK, dir=home.path))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _files(place: Path) -> Iterator[Path]:
    """Yield plain files below, not what links lead to."""
    mode = place.lstat().st_mode
    if stat.S_ISREG(mode):
        yield place
    elif stat.S_ISDIR(mode):
        for each in sorted(place.iterdir()):
            yield from _files(each)


def _copy(file: Path, to: Path) -> None:
    with file.open("rb") as source, to.open("xb") as target:
        while data := source.read(16 * EXPORT_CHUNK_BYTES):
            target.write(data)
