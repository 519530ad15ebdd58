"""The file of a backup: a gzipped tar archive with a manifest first, then the files it names, whole or not at all.

    manifest.json   what it is, of when, and each file with its size and hash
    1, 2, 3, ...    the files in the manifest's order; one of over a gigabyte goes on in parts of the same name

Under a passphrase it is sealed as exports are. Nothing in it is trusted when it is read: paths lead only to where a
backup's files belong, and nothing counts before the hash was right.
"""

import gzip
import hashlib
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO, Final, NamedTuple, cast

import msgspec
from msgspec import Meta

from daycare.base.errors import InvalidError
from daycare.base.limits import BACKUP_FILES_MAX, EXPORT_CHUNK_BYTES
from daycare.features.exports import tar
from daycare.features.exports.sealed import is_sealed, unseal

BACKUP_MANIFEST_MAX_BYTES: Final = 32 * 1024 * 1024  # 600 bytes for each of these

FORMAT: Final = "daycare-backup"
VERSION: Final = 1
MANIFEST: Final = "manifest.json"
DATABASE: Final = "daycare.db"
KEY: Final = "daycare.key"
CONFIG: Final = "config.toml"
FOLDERS: Final = ("cron", "memory", "personalities", "plugins")
_PART_MAX_BYTES: Final = 1024**3  # a header of an archive has room for 8 GB
_LEVEL: Final = 1  # three times as quick as the usual one, and a tenth larger
_encode = msgspec.json.Encoder().encode


class BackupEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file, by where it lies in a home; the database is `daycare.db` wherever it lay."""

    path: Annotated[str, Meta(min_length=1, max_length=4_096)]
    bytes: Annotated[int, Meta(ge=0, le=2**60)]
    sha256: Annotated[str, Meta(min_length=64, max_length=64)]


class Left(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is not in it, and why."""

    what: str
    why: str


class BackupManifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What stands first. `number` is that of the database's schema, `counts` its rows by what they are.

    `secrets` are the names of stored secrets, which only the key file opens. Times are wall ms.
    """

    format: str
    version: int
    daycare: Annotated[str, Meta(max_length=100)]
    home: Annotated[str, Meta(max_length=4_096)]
    made_at: Annotated[int, Meta(ge=0, le=2**53)]
    newest_at: Annotated[int, Meta(ge=0, le=2**53)]
    number: Annotated[int, Meta(ge=1, le=9_999)]
    counts: dict[str, int]
    secrets: tuple[str, ...]
    with_key: bool
    entries: Annotated[tuple[BackupEntry, ...], Meta(max_length=BACKUP_FILES_MAX + 3)]
    left_out: Annotated[tuple[Left, ...], Meta(max_length=10_000)]


class _Head(msgspec.Struct):
    format: str
    version: int


class Packed(NamedTuple):
    """A file to be packed: its place in a home, where it lies meanwhile, and what it has."""

    path: str
    file: Path
    bytes: int
    sha256: str


def measured(path: str, file: Path, check: Callable[[], None] = lambda: None) -> Packed:
    """Return a file that will not change any more, read once."""
    hash_, size = hashlib.sha256(), 0
    with file.open("rb") as opened:
        while data := opened.read(16 * EXPORT_CHUNK_BYTES):
            hash_.update(data)
            size += len(data)
            check()
    return Packed(path, file, size, hash_.hexdigest())


def write(target: BinaryIO, manifest: BackupManifest, files: Sequence[Packed], tell: Callable[[int], None]) -> None:
    """Write a backup; `tell` hears how many bytes of files are in it, and may raise."""
    head = _encode(manifest)
    done = 0
    with gzip.GzipFile(fileobj=target, mode="wb", compresslevel=_LEVEL, mtime=0, filename="") as packed:
        out = cast(BinaryIO, packed)
        tar.put_bytes(out, MANIFEST, head)
        for place, it in enumerate(files, 1):
            with it.file.open("rb") as opened:
                left = it.bytes
                while True:
                    size = min(left, _PART_MAX_BYTES)
                    tar.put(out, str(place), size, _Telling(opened, tell, done))
                    left, done = left - size, done + size
                    if not left:
                        break
        tar.end(out)
    target.flush()


class _Telling:
    """A file that tells how much of it was read."""

    def __init__(self, file: BinaryIO, tell: Callable[[int], None], done: int) -> None:
        self._file, self._tell, self._done = file, tell, done

    def read(self, size: int, /) -> bytes:
        data = self._file.read(size)
        self._done += len(data)
        self._tell(self._done)
        return data


class BackupArchive:
    """A backup as a stream, read once from front to back. What is wrong with it is `InvalidError`."""

    def __init__(self, source: tar.Readable) -> None:
        self._packed = gzip.GzipFile(fileobj=cast(BinaryIO, source), mode="rb")
        self._parts = tar.parts(cast(tar.Readable, self._packed))
        with _reading():
            first = next(self._parts, None)
            if first is None or first.name != MANIFEST or first.size > BACKUP_MANIFEST_MAX_BYTES:
                raise _damaged("it does not begin with a manifest")
            self.manifest = _manifest(tar.read_exactly(first, first.size))

    def files(self) -> Iterator[tuple[BackupEntry, Iterator[bytes]]]:
        """Yield each file with its bytes, which are to be read before the next one. At the end all were right."""
        with _reading():
            part = next(self._parts, None)
            for place, entry in enumerate(self.manifest.entries, 1):
                hash_, left = hashlib.sha256(), entry.bytes
                while True:
                    if part is None or part.name != str(place) or part.size > left:
                        raise _damaged(f"{entry.path} is missing in it")
                    left -= part.size
                    yield entry, _hashed(part, hash_)
                    if part.read(1):
                        raise _damaged(f"{entry.path} was not read to its end")
                    part = next(self._parts, None)
                    if not left:
                        break
                if hash_.hexdigest() != entry.sha256:
                    raise _damaged(f"{entry.path} is not what it was")
            if part is not None:
                raise _damaged("there is more in it than it names")
            if self._packed.read(tar.BLOCK + 1).strip(b"\0") or self._packed.read(1):
                raise _damaged("something follows its end")

    def verify(self, check: Callable[[], None] = lambda: None) -> BackupManifest:
        """Read all of it; return what stands first. `check` is called now and then, and may raise."""
        for _, pieces in self.files():
            for _ in pieces:
                check()
        return self.manifest


@contextmanager
def opened(file: Path, passphrase: Callable[[], str]) -> Iterator[BackupArchive]:
    """Open a backup; a passphrase is asked for if it needs one."""
    with file.open("rb") as source:
        begin = source.read(16)
        source.seek(0)
        if not is_sealed(begin):
            yield BackupArchive(source)
            return
        with _reading():
            stream = _Stream(unseal(iter(lambda: source.read(EXPORT_CHUNK_BYTES), b""), passphrase()))
        yield BackupArchive(stream)


class _Stream:
    """Pieces as something to read from."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._left = b""

    def read(self, size: int, /) -> bytes:
        while not self._left:
            piece = next(self._pieces, None)
            if piece is None:
                return b""
            self._left = piece
        data, self._left = self._left[:size], self._left[size:]
        return data


def _hashed(part: tar.ArchivePart, hash_: "hashlib._Hash") -> Iterator[bytes]:
    with _reading():
        while data := part.read():
            hash_.update(data)
            yield data


def _manifest(data: bytes) -> BackupManifest:
    try:
        head = msgspec.json.decode(data, type=_Head)
        if head.format != FORMAT:
            raise _damaged("it is something else")
        if head.version != VERSION:
            raise InvalidError(
                "BACKUP_VERSION",
                f"reading the backup: its form is number {head.version}, this daycare knows {VERSION}",
                hint="use the newer daycare that made it",
            )
        manifest = msgspec.json.decode(data, type=BackupManifest)
    except ValueError as error:
        raise _damaged(f"its manifest is invalid: {error}") from None
    paths = [entry.path for entry in manifest.entries]
    if paths[:1] != [DATABASE] or len(set(paths)) < len(paths) or not all(map(_belongs, paths)):
        raise _damaged("it names files that belong in no backup")
    return manifest


def _belongs(path: str) -> bool:
    first, *below = path.split("/")
    if not below:
        return first in (DATABASE, KEY, CONFIG)
    return first in FOLDERS and all(name not in ("", ".", "..") and "\0" not in name for name in below)


@contextmanager
def _reading() -> Iterator[None]:
    """Say of a backup what the readers below say of what they read."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise _damaged("it is cut off, or no backup" if isinstance(error, EOFError) else f"{error}") from None
    except InvalidError as error:
        if not error.code.startswith("EXPORT_"):
            raise
        raise _damaged(error.message.partition(": ")[2]) from None


def _damaged(how: str) -> InvalidError:
    return InvalidError(
        "BACKUP_DAMAGED",
        f"reading the backup: {how}",
        hint="copy it again from where it was made, or take an older one",
    )
