"""The file of an export: a gzipped tar archive with a manifest first, records as JSON lines, files, and an end."""

import gzip
import hashlib
import io
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final

import msgspec
from msgspec import Meta

from daycare import __version__
from daycare.base.errors import InvalidError
from daycare.base.limits import EXPORT_CHUNK_BYTES, EXPORT_FILES_MAX, EXPORT_LINE_MAX_BYTES, EXPORT_MAX_BYTES
from daycare.features.exports import tar
from daycare.features.exports.records import (
    ORDER,
    AgentRecord,
    Anything,
    DocumentRecord,
    ExportRecord,
    FileRecord,
    JobRecord,
    LeftOut,
    MarkRecord,
    MemoryRecord,
    ReceiptRecord,
    ReminderRecord,
    SessionRecord,
    SummaryRecord,
    TurnRecord,
)
from daycare.features.exports.stored import anonymous

EXPORT_RECORDS_MAX_BYTES: Final = 1024 * 1024 * 1024  # of all records, unpacked

FORMAT: Final = "daycare-export"
VERSION: Final = 3  # since 2 what narrows a job or stands in config.toml comes along, since 3 answered messages
MANIFEST: Final = "manifest.json"
END: Final = "end.json"
_MANIFEST_MAX_BYTES: Final = 1024 * 1024
_LEVEL: Final = 6
_DROPPED: Final = ("username", "workspace")  # settings of agents that older versions exported, and nothing ever read
_encode = msgspec.json.Encoder().encode


FILES: Final = "files.jsonl"
RECEIPTS: Final = "receipts.jsonl"
PARTS: Final[dict[str, type[ExportRecord]]] = {
    "agents.jsonl": AgentRecord,
    "sessions.jsonl": SessionRecord,
    "turns.jsonl": TurnRecord,
    RECEIPTS: ReceiptRecord,
    "summaries.jsonl": SummaryRecord,
    "documents.jsonl": DocumentRecord,
    "memories.jsonl": MemoryRecord,
    "marks.jsonl": MarkRecord,
    "reminders.jsonl": ReminderRecord,
    "jobs.jsonl": JobRecord,
    FILES: FileRecord,
}  # in this order; the files themselves follow
assert tuple(PARTS.values()) == (*ORDER, FileRecord)
_NAMES: Final = {kind: name for name, kind in PARTS.items()}
_DECODERS: Final[dict[str, Callable[[bytes], Any]]] = {
    name: msgspec.json.Decoder(kind).decode for name, kind in PARTS.items()
}


class PartInfo(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the manifest says of a part."""

    name: str
    records: Annotated[int, Meta(ge=0, lt=2**31)]
    bytes: Annotated[int, Meta(ge=0, le=EXPORT_RECORDS_MAX_BYTES)]
    sha256: Annotated[str, Meta(min_length=64, max_length=64)]


class ExportManifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What stands first. `path` is the root's where it was exported, `made_at` wall ms."""

    format: str
    version: int
    daycare: Annotated[str, Meta(max_length=100)]
    made_at: Annotated[int, Meta(ge=0, le=2**53)]
    path: Annotated[str, Meta(max_length=300)]
    shared: bool
    parts: Annotated[tuple[PartInfo, ...], Meta(max_length=len(PARTS))]
    left_out: Annotated[tuple[LeftOut, ...], Meta(max_length=100)]

    @property
    def counts(self) -> dict[str, int]:
        """How many records of each kind there are."""
        return {str(PARTS[part.name].__struct_config__.tag): part.records for part in self.parts if part.records}


class _End(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    sha256: str  # of the manifest, which has those of the parts; the list of files has those of the files


class _Head(msgspec.Struct):
    format: str
    version: int


class ExportSpool:
    """The records of an export on their way into its file: each part is written beside it first, to be measured."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._parts: dict[str, tuple[BinaryIO, hashlib._Hash, list[int]]] = {}

    def add(self, record: ExportRecord) -> None:
        """Write one record to the end of its part."""
        name = _NAMES[type(record)]
        if name not in self._parts:
            self._parts[name] = (anonymous(self._folder), hashlib.sha256(), [0, 0])
        line = _encode(record) + b"\n"
        file, hash_, counts = self._parts[name]
        file.write(line)
        hash_.update(line)
        counts[0] += 1
        counts[1] += len(line)

    def write(
        self,
        target: BinaryIO,
        path: str,
        made_at: int,
        *,
        shared: bool,
        left_out: tuple[LeftOut, ...],
        files: Callable[[], Iterator[bytes]],
    ) -> ExportManifest:
        """Write the whole export to `target`; `files` yields the bytes of the files in the order of their records."""
        manifest = ExportManifest(
            format=FORMAT,
            version=VERSION,
            daycare=__version__,
            made_at=made_at,
            path=path,
            shared=shared,
            parts=tuple(self._info(name) for name in PARTS),
            left_out=left_out,
        )
        head = _encode(manifest) + b"\n"
        with gzip.GzipFile(fileobj=target, mode="wb", compresslevel=_LEVEL, mtime=0, filename="") as packed:
            out: BinaryIO = packed  # type: ignore[assignment]
            tar.put_bytes(out, MANIFEST, head)
            for name in PARTS:
                file = self._parts[name][0] if name in self._parts else io.BytesIO()
                size = file.seek(0, io.SEEK_END)
                file.seek(0)
                tar.put(out, name, size, file)
            for place, data in enumerate(files(), 1):
                tar.put_bytes(out, f"files/{place}", data)
            tar.put_bytes(out, END, _encode(_End(hashlib.sha256(head).hexdigest())) + b"\n")
            tar.end(out)
        target.flush()
        return manifest

    def close(self) -> None:
        """Let go of the parts."""
        for file, *_ in self._parts.values():
            file.close()

    def _info(self, name: str) -> PartInfo:
        if name not in self._parts:
            return PartInfo(name=name, records=0, bytes=0, sha256=hashlib.sha256().hexdigest())
        _, hash_, (records, size) = self._parts[name]
        return PartInfo(name=name, records=records, bytes=size, sha256=hash_.hexdigest())


class ExportArchive:
    """An export as a file, read any number of times. What is wrong is `InvalidError`: nothing in it is trusted."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.dropped: Counter[str] = Counter()  # settings of older versions that `read` found and left out

    def manifest(self) -> ExportManifest:
        """Return what stands first."""
        for part in self._parts():
            return _manifest(part)[0]
        raise tar.damaged("it is empty")

    def records(self) -> Iterator[Anything]:
        """Yield the records in order. For an archive that was read whole before."""
        for part in self._parts():
            if part.name == FILES:
                return
            if part.name != MANIFEST:
                yield from (
                    _DECODERS[part.name](_today(part.name, line)[0]) for line in part.lines(EXPORT_LINE_MAX_BYTES)
                )

    def files(self) -> Iterator[tuple[int, FileRecord, bytes]]:
        """Yield the files with their places. For an archive that was read whole before."""
        records: list[FileRecord] = []
        for part in self._parts():
            if part.name == FILES:
                records = [_DECODERS[FILES](line) for line in part.lines(EXPORT_LINE_MAX_BYTES)]
            elif part.name.startswith("files/"):
                place = int(part.name.removeprefix("files/"))
                yield place, records[place - 1], tar.read_exactly(part, part.size)

    def read(self, take: Callable[[Anything | FileRecord], None]) -> ExportManifest:
        """Read it whole, handing each record to `take`, which may refuse it; return its manifest.

        Raises `InvalidError` that says what is wrong where.
        """
        found = self._parts()
        manifest, head = _manifest(_next(found, MANIFEST))
        files: list[FileRecord] = []
        self.dropped.clear()
        for info in manifest.parts:
            part = _next(found, info.name)
            hashed = _Hashed(part)
            count = 0
            for count, line in enumerate(tar.ArchivePart(hashed, part.name, part.size).lines(EXPORT_LINE_MAX_BYTES), 1):
                record, dropped = _record(part.name, count, line)
                self.dropped.update(dropped)
                try:
                    take(record)
                except InvalidError as error:
                    raise wrong(f"line {count} of {part.name}: {error.message}") from None
                if isinstance(record, FileRecord):
                    files.append(record)
            if (count, part.size, hashed.hash.hexdigest()) != (info.records, info.bytes, info.sha256):
                raise tar.damaged(f"{part.name} is not as its manifest says")
        for place, record in enumerate(files, 1):
            part = _next(found, f"files/{place}")
            if (
                part.size != record.size
                or hashlib.sha256(tar.read_exactly(part, part.size)).hexdigest() != record.sha256
            ):
                raise tar.damaged(f"file {place} is not as its record says")
        if _tail(_next(found, END)).sha256 != hashlib.sha256(head).hexdigest():
            raise tar.damaged("its end does not fit its beginning")
        if next(found, None) is not None:
            raise wrong("there is more behind its end")
        return manifest

    def _parts(self) -> Iterator[tar.ArchivePart]:
        self._file.seek(0)
        source = _Unpacked(self._file)
        yield from tar.parts(source)
        while rest := source.read(EXPORT_CHUNK_BYTES):
            if rest.strip(b"\0"):
                raise wrong("there is more behind its end")


class _Unpacked:
    """What a packed file holds, up to the bound of what it may hold."""

    def __init__(self, file: BinaryIO) -> None:
        if file.read(2) != b"\x1f\x8b":
            raise InvalidError(
                "EXPORT_INVALID",
                "reading the export: it is no packed file of daycare",
                hint="daycare import FILE asks for the passphrase of an encrypted one",
            )
        file.seek(0)
        self._packed = gzip.GzipFile(fileobj=file, mode="rb")
        self._left = EXPORT_MAX_BYTES + EXPORT_RECORDS_MAX_BYTES

    def read(self, size: int, /) -> bytes:
        """Return at most so many bytes."""
        try:
            data = self._packed.read(min(size, EXPORT_CHUNK_BYTES))
        except (OSError, EOFError, zlib.error) as error:
            raise tar.damaged(f"it cannot be unpacked: {error}") from error
        self._left -= len(data)
        if self._left < 0:
            raise wrong(f"it unpacks to over {EXPORT_MAX_BYTES} bytes")
        return data


class _Hashed:
    def __init__(self, part: tar.ArchivePart) -> None:
        self._part = part
        self.hash = hashlib.sha256()

    def read(self, size: int, /) -> bytes:
        data = self._part.read(size)
        self.hash.update(data)
        return data


def _next(parts: Iterator[tar.ArchivePart], name: str) -> tar.ArchivePart:
    part = next(parts, None)
    if part is None or part.name != name:
        found = "its end" if part is None else repr(part.name)
        raise wrong(f"expected {name}, found {found}")
    return part


def _manifest(part: tar.ArchivePart) -> tuple[ExportManifest, bytes]:
    if part.name != MANIFEST or part.size > _MANIFEST_MAX_BYTES:
        raise wrong(f"it does not begin with {MANIFEST}")
    head = tar.read_exactly(part, part.size)
    try:
        first = msgspec.json.decode(head, type=_Head)
        if first.format == FORMAT and first.version > VERSION:
            raise InvalidError(
                "EXPORT_FROM_FUTURE",
                f"reading the export: its format is number {first.version}, this daycare knows up to {VERSION}",
                hint="install the newer daycare",
            )
        manifest = msgspec.json.decode(head, type=ExportManifest)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise wrong(f"its manifest: {error}") from None
    if manifest.format != FORMAT or not 1 <= manifest.version <= VERSION:
        raise wrong(f"its manifest is of another format, {manifest.format!a} {manifest.version}")
    expected = [name for name in PARTS if name != RECEIPTS or manifest.version >= 3]
    if [each.name for each in manifest.parts] != expected:
        raise wrong(f"its manifest names other parts than {', '.join(expected)}")
    if sum(each.bytes for each in manifest.parts) > EXPORT_RECORDS_MAX_BYTES:
        raise wrong(f"its records have over {EXPORT_RECORDS_MAX_BYTES} bytes")
    if manifest.parts[-1].records > EXPORT_FILES_MAX:
        raise wrong(f"it has over {EXPORT_FILES_MAX} files")
    return manifest, head


def _tail(part: tar.ArchivePart) -> _End:
    try:
        return msgspec.json.decode(tar.read_exactly(part, min(part.size, _MANIFEST_MAX_BYTES)), type=_End)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise wrong(f"its end: {error}") from None


def _record(part: str, number: int, line: bytes) -> tuple[Anything | FileRecord, list[str]]:
    try:
        line, dropped = _today(part, line)
        record: Anything | FileRecord = _DECODERS[part](line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise wrong(f"line {number} of {part}: {error}") from None
    return record, dropped


def _today(part: str, line: bytes) -> tuple[bytes, list[str]]:
    """Return a line as this version writes it, and the names of what an older one wrote beside that."""
    if PARTS[part] is not AgentRecord or not any(f'"{name}"'.encode() in line for name in _DROPPED):
        return line, []
    tree = msgspec.json.decode(line)
    config = tree.get("config") if isinstance(tree, dict) else None
    if not isinstance(config, dict):
        return line, []
    found = [name for name in _DROPPED if isinstance(config.get(name), str)]
    return _encode(tree | {"config": {name: config[name] for name in config if name not in found}}), found


def wrong(what: str) -> InvalidError:
    """Return that an export holds what it may not hold."""
    return InvalidError("EXPORT_INVALID", f"reading the export: {what}", hint="import only what `daycare export` made")
