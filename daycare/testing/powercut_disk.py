"""A disk that remembers: an apsw VFS that records what SQLite does to its files, and what a power cut may leave of it.

What was synced before the cut is there. Of what was not synced, each 512-byte sector is kept or lost on its own, so
writes are also torn and reordered. Names appear and vanish in order, as in a journaling file system, but the last of
them may be lost until the folder is synced. The `-shm` file is memory and never on the disk. Writes do not damage
bytes beside them (SQLite's "powersafe overwrite", which it assumes of every disk).
"""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import apsw

SECTOR_BYTES = 512


class Op(NamedTuple):
    """One thing done to a file. Files are numbered, because a name that is deleted and made again is another file."""

    kind: Literal["create", "delete", "write", "truncate", "sync", "sync folder"]
    file: int
    name: str
    offset: int = 0  # of a write; the new size of a truncate
    data: bytes = b""


class RecordingVFS(apsw.VFS):
    """Record into `ops` everything that is done to files in `folder`, for as long as the block lasts.

    While `trouble` is set, every write and sync raises it instead: a full or failing disk.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self.ops: list[Op] = []
        self.trouble: type[apsw.Error] | None = None
        self._folder = folder
        self._numbers: dict[str, int] = {}
        self._next = 0
        super().__init__(name, "")

    def __enter__(self) -> "RecordingVFS":
        return self

    def __exit__(self, *_: object) -> None:
        self.unregister()

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> "_File":  # noqa: N802
        """Open a file as the system does, and record what is done to it from here on."""
        path = Path((name.filename() if isinstance(name, apsw.URIFilename) else name) or "/temporary")
        new = not path.exists()
        file = _File(self, name, flags)
        if path.parent == self._folder:
            if new or path.name not in self._numbers:
                self._next += 1
                self._numbers[path.name] = self._next
                self.ops.append(Op("create", self._next, path.name))
            file.known = (self._numbers[path.name], path.name)
        return file

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        """Delete a file."""
        super().xDelete(filename, syncdir)
        path = Path(filename)
        if path.parent == self._folder:
            self.ops.append(Op("delete", self._numbers.pop(path.name, 0), path.name))
            if syncdir:
                self.ops.append(Op("sync folder", 0, ""))


class _File(apsw.VFSFile):
    known: tuple[int, str] | None = None

    def __init__(self, vfs: RecordingVFS, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        self._vfs = vfs
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._note("write", offset, bytes(data))
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._note("truncate", newsize)
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802
        # Nothing is synced for real: the images are made from the record, and the disk would be the slowest part.
        self._note("sync")
        if self.known is not None and self.known[1].endswith(("-wal", "-journal")):
            self._vfs.ops.append(Op("sync folder", 0, ""))  # SQLite's own VFS does so with the files it makes

    def _note(self, kind: Literal["write", "truncate", "sync"], offset: int = 0, data: bytes = b"") -> None:
        if self._vfs.trouble is not None:
            raise self._vfs.trouble("the disk refuses")
        if self.known is not None:
            self._vfs.ops.append(Op(kind, *self.known, offset, data))


class Disk:
    """The files of a folder as a power cut leaves them; plays the record forward."""

    def __init__(self) -> None:
        self._names: dict[str, int] = {}  # as synced
        self._bytes: dict[int, bytearray] = {}  # as synced, by number
        self._unsynced_names: list[Op] = []
        self._unsynced: dict[int, list[Op]] = {}

    def play(self, ops: Sequence[Op]) -> None:
        """Go on by these operations."""
        for op in ops:
            match op.kind:
                case "create" | "delete":
                    self._unsynced_names.append(op)
                case "write" | "truncate":
                    self._unsynced.setdefault(op.file, []).append(op)
                case "sync":
                    for old in self._unsynced.pop(op.file, ()):
                        _apply(self._bytes.setdefault(op.file, bytearray()), old)
                case "sync folder":
                    _rename(self._names, self._unsynced_names)
                    self._unsynced_names.clear()

    def cut(self, rng: random.Random) -> dict[str, bytes]:
        """Return the files after a power cut now."""
        names = dict(self._names)
        _rename(names, self._unsynced_names[: rng.randint(0, len(self._unsynced_names))])
        # How much of its cache the disk had written by itself: nothing, everything or something between.
        share = rng.choice((0.0, 0.1, 0.5, 0.9, 1.0, rng.random()))
        torn = rng.random() < 0.7
        found: dict[str, bytes] = {}
        for name, number in names.items():
            if name.endswith("-shm"):
                continue
            data = bytearray(self._bytes.get(number, b""))
            for op in self._unsynced.get(number, ()):
                for piece in _sectors(op) if torn else (op,):
                    if rng.random() < share:
                        _apply(data, piece)
                    elif piece.kind == "write" and rng.random() < 0.2:
                        _grow(data, piece.offset + len(piece.data))  # the size arrived, the bytes did not
            found[name] = bytes(data)
        return found


def _rename(names: dict[str, int], ops: Sequence[Op]) -> None:
    for op in ops:
        if op.kind == "create":
            names[op.name] = op.file
        else:
            names.pop(op.name, None)


def _sectors(op: Op) -> Iterator[Op]:
    if op.kind != "write":
        yield op
        return
    start, end = op.offset, op.offset + len(op.data)
    while start < end:
        stop = min((start // SECTOR_BYTES + 1) * SECTOR_BYTES, end)
        yield op._replace(offset=start, data=op.data[start - op.offset : stop - op.offset])
        start = stop


def _apply(data: bytearray, op: Op) -> None:
    if op.kind == "truncate":
        del data[op.offset :]
    _grow(data, op.offset)
    data[op.offset : op.offset + len(op.data)] = op.data


def _grow(data: bytearray, size: int) -> None:
    if len(data) < size:
        data.extend(bytes(size - len(data)))
