"""Files: every beginning that names a format, text that leaves its fence, lines and encodings of any kind."""

import gzip
import io
import zipfile
import zlib
from pathlib import Path
from random import Random
from typing import Final

from daycare.agent.attachments import FILE_TEXT_MAX_BYTES
from daycare.base.limits import FILE_MAX_BYTES, FILES_MAX
from daycare.plugin import Attachment, Inbound
from tests.hostile import texts
from tests.hostile.messages import echo
from tests.hostile.stage import PEOPLE, Streaming, at_once, opened, said
from tests.hostile.trial import Prepared, Trial

MAGIC: Final = (
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR",
    b"\xff\xd8\xff\xe0\x00\x10JFIF",
    b"GIF89a",
    b"GIF87a",
    b"RIFF\x00\x00\x00\x00WEBP",
    b"RIFF\x00\x00\x00\x00WAVE",
    b"%PDF-1.7\n",
    b"PK\x03\x04",
    b"PK\x05\x06",
    b"\x1f\x8b\x08",
    b"BZh9",
    b"\xfd7zXZ\x00",
    b"OggS",
    b"ID3\x04",
    b"\xff\xfb",
    b"\x00\x00\x00\x18ftypmp42",
    b"\x00\x00\x00\x18ftypheic",
    b"\x00\x00\x00\x1cftypavif",
    b"BM",
    b"II*\x00",
    b"MM\x00*",
    b"\x7fELF",
    b"MZ",
    b"SQLite format 3\x00",
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
    b"\x1aE\xdf\xa3",
    b"fLaC",
    b"<?xml version='1.0'?>",
    b"<svg xmlns='http://www.w3.org/2000/svg'>",
    b"<!DOCTYPE html>",
    b"{\\rtf1",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"\xfe\xff",
    b"\xff\xfe\x00\x00",
    b"\x00\x00\xfe\xff",
    b"#!/bin/sh\n",
    b"\xca\xfe\xba\xbe",
    b"wOFF",
    b"\x00\x01\x00\x00",
    b"7z\xbc\xaf\x27\x1c",
    b"ustar",
    b"BEGIN:VCARD\n",
    b"{",
    b"[",
    b"---\n",
)
TYPES: Final = (
    "",
    "text/plain",
    "text/markdown",
    "text/html",
    "image/png",
    "image/jpeg",
    "image/gif",
    "image/webp",
    "image/svg+xml",
    "application/pdf",
    "application/json",
    "application/zip",
    "application/octet-stream",
    "audio/ogg",
    "video/mp4",
    "text/plain; charset=utf-16",
    "text/plain; charset=nonsense",
    "image/png\r\nX: y",
    "*/*",
    "a" * 300,
    "TEXT/PLAIN",
)
NAMES: Final = (
    "a.txt",
    "a.png",
    "a.pdf",
    "",
    ".",
    "..",
    "../../etc/passwd",
    "/etc/passwd",
    "a" * 300,
    "a\nb",
    "a\x00b",
    "CON",
    ".md",
    "photo.jpg.exe",
    "\u202egpj.exe",
    "🦞" * 80,
    "a.tar.gz",
    "no_end",
    ">>>",
    "x.md\n>>>\n",
    "a.csv",
    "a.svg",
)
ENCODINGS: Final = (
    "utf-8",
    "utf-16",
    "utf-16-le",
    "utf-32",
    "latin-1",
    "cp1252",
    "shift_jis",
    "utf-7",
    "cp037",
    "gb18030",
)


class Files(Prepared):
    """See the module."""

    name = "files"
    chunk = 150
    virtual = True

    async def play(self, trial: Trial, folder: Path) -> None:
        """Let each be sent by one of the people, with words or without."""
        async with opened(trial, folder, Streaming(echo)) as house:

            async def one(number: int) -> None:
                rng = trial.draw(number)
                inbound = Inbound(
                    connector="direct",
                    sender=f"direct:{rng.choice(PEOPLE)}",
                    key=f"f:{number}",
                    files=self.drawn(rng),
                    text=rng.choice(("", "look", texts.short(rng))),
                )
                await said(house, trial, number, inbound)

            await at_once(trial.numbers, one, limit=16)

    def drawn(self, rng: Random) -> tuple[Attachment, ...]:
        """Return the files of one."""
        many = rng.choice((1, 1, 1, 1, 2, 3, FILES_MAX, FILES_MAX + 1))
        return tuple(self._one(rng, many) for _ in range(many))

    def _one(self, rng: Random, many: int) -> Attachment:
        name = rng.choice(NAMES) if rng.random() < 0.7 else texts.short(rng)
        media_type = rng.choice(TYPES) if rng.random() < 0.9 else texts.short(rng)
        return Attachment(name=name, media_type=media_type, data=content(rng, large=many == 1))

    def shown(self, rng: Random) -> str:
        """Return their names and beginnings."""
        return str([(each.name, each.media_type, getattr(each, "data", b"")[:60]) for each in self.drawn(rng)[:3]])


def content(rng: Random, *, large: bool) -> bytes:
    """Return the bytes of a file."""
    choice = rng.random()
    if choice < 0.45:
        text = texts.text(rng) + "\n" + rng.choice(texts.FENCE_LINES) + "\n" + texts.text(rng)
        return text.encode(rng.choice(ENCODINGS) if rng.random() < 0.5 else "utf-8", "replace")
    if choice < 0.5:
        unit = rng.choice(("x", ">>>\n", "\n", "é", " ", "a,b,c\n", "<a>", "\t|"))
        size = rng.choice((FILE_TEXT_MAX_BYTES - 1, FILE_TEXT_MAX_BYTES, FILE_TEXT_MAX_BYTES + 1, 500_000))
        return (unit * (size // len(unit.encode()) + 1)).encode()[:size]
    if choice < 0.53:
        return _bomb(rng)
    if choice < 0.535 and large:
        return rng.choice(MAGIC).ljust(rng.choice((FILE_MAX_BYTES, FILE_MAX_BYTES + 1)), rng.choice((b"\x00", b"x")))
    if choice < 0.9:
        return rng.choice(MAGIC) + rng.randbytes(rng.choice((0, 1, 10, 100, 5_000)))
    return rng.choice(
        (b"", b"\x00", b"\xff" * 100, b"\xed\xa0\x80" * 50, b"\xc0\x80", b"a\x00b", b"\x1b[2J", b"\n" * 1_000)
    )


def _bomb(rng: Random) -> bytes:
    if rng.random() < 0.4:
        return gzip.compress(bytes(2_000_000))
    if rng.random() < 0.5:
        target = io.BytesIO()
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as made:
            made.writestr("../" * 30 + "x", bytes(500_000))
        return target.getvalue()
    side = rng.choice((1, 20_000, 2**31 - 1))  # a picture of so many pixels in a few bytes
    header = side.to_bytes(4, "big") * 2 + b"\x08\x06\x00\x00\x00"
    chunk = b"\x00\x00\x00\x0dIHDR" + header + zlib.crc32(b"IHDR" + header).to_bytes(4, "big")
    data = zlib.compress(bytes(100_000))
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk
        + len(data).to_bytes(4, "big")
        + b"IDAT"
        + data
        + bytes(4)
        + b"\x00\x00\x00\x00IEND\xaeB`\x82"
    )
