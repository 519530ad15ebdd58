"""Tar archives, as strictly as they are needed here: plain files with short names, read from front to back.

The standard library's reader follows extensions whose size is taken from the file; nothing here reads what it was not
asked to, and nothing is ever written to where a name says.
"""

import io
from collections.abc import Iterator
from typing import BinaryIO, Final, Protocol

from daycare.base.errors import InvalidError

BLOCK: Final = 512  # bytes: everything in an archive is a multiple of it
_NAME_MAX_BYTES: Final = 100
_OCTAL_MAX: Final = 8**11 - 1
_PLAIN: Final = (b"0", b"\0")
_PIECE: Final = 64 * 1024


class Readable(Protocol):
    """What archives are read from."""

    def read(self, size: int, /) -> bytes:
        """Return at most so many bytes; none at the end."""
        ...


class ArchivePart:
    """One file of an archive, readable until the next one is asked for."""

    def __init__(self, source: Readable, name: str, size: int) -> None:
        self._source = source
        self.name = name
        self.size = size
        self._left = size

    def read(self, size: int = _PIECE) -> bytes:
        """Return at most so many bytes of it; none at its end. Raises `InvalidError` where the archive ends before."""
        wanted = min(size, self._left)
        data = self._source.read(wanted) if wanted else b""
        if wanted and not data:
            raise damaged(f"it ends inside of {self.name}")
        self._left -= len(data)
        return data

    def lines(self, max_bytes: int) -> Iterator[bytes]:
        """Yield its lines without their ends. Raises `InvalidError` EXPORT_INVALID for one that is too long."""
        begun = bytearray()
        while data := self.read():
            first, *others = data.split(b"\n")
            begun += first
            if len(begun) > max_bytes:
                raise InvalidError(
                    "EXPORT_INVALID", f"reading the export: a line of {self.name} is over {max_bytes} bytes"
                )
            if others:
                yield bytes(begun)
                yield from others[:-1]
                begun = bytearray(others[-1])
        if begun:
            raise damaged(f"the last line of {self.name} has no end")

    def skip(self) -> None:
        """Read to its end, with what fills up the last block."""
        while self.read():
            pass
        filler = -self.size % BLOCK
        if filler and len(read_exactly(self._source, filler)) < filler:
            raise damaged(f"it ends behind {self.name}")


def parts(source: Readable) -> Iterator[ArchivePart]:
    """Yield the files of an archive in order, to its end marker. Raises `InvalidError` EXPORT_INVALID."""
    while True:
        header = read_exactly(source, BLOCK)
        if len(header) < BLOCK:
            raise damaged("it ends too early")
        if not header.strip(b"\0"):
            return
        part = _part(source, header)
        yield part
        part.skip()


def read_exactly(source: Readable, size: int) -> bytes:
    """Return so many bytes, fewer only at the end."""
    found = bytearray()
    while len(found) < size and (data := source.read(size - len(found))):
        found += data
    return bytes(found)


def _part(source: Readable, header: bytes) -> ArchivePart:
    checksum = sum(header[:148]) + sum(header[156:]) + 8 * ord(" ")
    if _octal(header[148:156]) != checksum or header[257:262] != b"ustar":
        raise damaged("a header of the archive is invalid")
    if header[156:157] not in _PLAIN or header[345:500].strip(b"\0"):
        raise InvalidError("EXPORT_INVALID", "reading the export: it holds something else than plain files")
    name = header[:_NAME_MAX_BYTES].split(b"\0", 1)[0]
    if not name or not name.isascii():
        raise damaged("a name in it is invalid")
    return ArchivePart(source, name.decode(), _octal(header[124:136]))


def _octal(field: bytes) -> int:
    digits = field.strip(b" \0")
    if not digits or digits.strip(b"01234567"):
        raise damaged("a number in a header is invalid")
    return int(digits, 8)


def put(target: BinaryIO, name: str, size: int, data: Readable) -> None:
    """Write one file of an archive."""
    encoded = name.encode("ascii")
    if len(encoded) > _NAME_MAX_BYTES or size > _OCTAL_MAX:
        raise ValueError(f"{name} with {size} bytes does not fit into a header")
    header = bytearray(BLOCK)
    header[: len(encoded)] = encoded
    for at, text in ((100, b"0000600\0"), (108, b"0000000\0"), (116, b"0000000\0"), (124, b"%011o\0" % size),
                     (136, b"00000000000\0"), (148, b" " * 8), (156, b"0"), (257, b"ustar\x0000")):  # fmt: skip
        header[at : at + len(text)] = text
    header[148:156] = b"%06o\0 " % sum(header)
    target.write(header)
    left = size
    while left:
        piece = data.read(min(_PIECE, left))
        if not piece:
            raise ValueError(f"{name} is shorter than {size} bytes")
        target.write(piece)
        left -= len(piece)
    target.write(bytes(-size % BLOCK))


def put_bytes(target: BinaryIO, name: str, data: bytes) -> None:
    """Write one small file of an archive."""
    put(target, name, len(data), io.BytesIO(data))


def end(target: BinaryIO) -> None:
    """Write the end marker."""
    target.write(bytes(2 * BLOCK))


def damaged(how: str) -> InvalidError:
    """Return that an export is not whole."""
    return InvalidError(
        "EXPORT_DAMAGED", f"reading the export: {how}", hint="copy it again from where it was made, or export again"
    )
