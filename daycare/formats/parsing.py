"""The process that takes a file apart: bounds first, then libraries, then no more open files, then the file.

Run as `python -m daycare.formats.parsing`. Its input is a line of JSON (`reading.py`) and the bytes of the file.
"""

import json
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from encodings.aliases import aliases
from functools import partial
from types import FrameType
from typing import Any, Final, NoReturn

from daycare.formats import book, office, page, pdf, sheet
from daycare.formats.archive import Archive
from daycare.formats.pieces import DAMAGE, UnreadableFormat, load_all

MEMORY_BYTES: Final = 1024 * 1024 * 1024  # of addresses; a page of 4 MiB takes 300 MB when taken apart
CPU_MORE_S: Final = 5  # of processor time, for what does not look at its clock

_OLD_OFFICE: Final = b"\xd0\xcf\x11\xe0"
_PASSWORD_MARK: Final = "EncryptedPackage".encode("utf-16-le")  # Office wraps a file with a password in an old one


class OutOfTimeError(BaseException):
    """The seconds are over: a base exception, so that no library takes it for damage."""


def reader(data: bytes, asked: dict[str, Any]) -> tuple[Callable[[], None], Callable[[], Iterator[str]]]:
    """Return what loads the libraries for a file, told by its bytes, and what yields its text then.

    Raises `UnreadableFormat`, and what libraries make of damage, as its text does.
    """
    if b"%PDF-" in data[:1024] and not asked["html"]:
        return pdf.load, partial(pdf.pieces, data)
    if data.startswith(b"PK") and not asked["html"]:
        packed = Archive(data)
        if "xl/workbook.xml" in packed.names:
            return sheet.load, partial(sheet.pieces, packed)
        if book.CONTAINER in packed.names:
            return book.load, partial(book.pieces, packed)
        if packed.names & {office.WORD, office.SLIDES, office.OPEN}:
            return office.load, partial(office.pieces, packed)
        raise UnreadableFormat("archives are not unpacked; the files in it could be sent one by one")
    if data.startswith(_OLD_OFFICE):
        if _PASSWORD_MARK in data:
            raise UnreadableFormat("it is protected by a password; a copy without one could be read")
        raise UnreadableFormat("it is of an old Office format; saved as .docx, .xlsx, .pptx or PDF it could be read")
    return page.load, partial(page.pieces, data, asked["charset"], asked["url"])


def text(data: bytes, asked: dict[str, Any]) -> str:
    """Return what a file says up to the bounds. Raises `UnreadableFormat` if that is nothing."""
    found: list[str] = []
    chars, end = 0, ""
    try:
        load, pieces = reader(data, asked)
        load()
        shut()
        for piece in pieces():
            found.append(piece)
            chars += len(piece)
            if chars > asked["most"]:
                end = f"the file has more than {asked['most']} characters"
                break
    except OutOfTimeError:
        end = f"reading on would take more than {asked['seconds']:g} s"
    except MemoryError:
        end = "reading on needs too much memory"
    except DAMAGE:
        end = "it is damaged"
    said = "".join(found)[: asked["most"]].strip()
    if not said:
        raise UnreadableFormat(f"{end}; another copy or a part of it may do" if end else "it has no text")
    return f"{said}\n[the text ends here: {end}; what follows could be sent as a file of its own]" if end else said


def bound(seconds: float) -> None:
    """Bound this process for good: memory, processor, files, processes; after `seconds` of a processor it stops."""

    def late(number: int, frame: FrameType | None) -> NoReturn:
        raise OutOfTimeError

    cpu = round(seconds) + CPU_MORE_S
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
    signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)


def shut() -> None:
    """Let no file and no socket be opened any more: all codecs that a file may name are loaded."""
    load_all(f"encodings.{name}" for name in sorted(set(aliases.values())))
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))


def main() -> None:
    """Read a file from standard input, and write what it says or why it is not read as JSON."""
    asked = json.loads(sys.stdin.buffer.readline())
    data = sys.stdin.buffer.read()
    bound(asked["seconds"])
    try:
        answer = {"text": text(data, asked)}
    except UnreadableFormat as error:
        answer = {"why": str(error)}
    signal.setitimer(signal.ITIMER_PROF, 0)
    sys.stdout.buffer.write(json.dumps(answer, ensure_ascii=False).encode(errors="replace"))


if __name__ == "__main__":
    main()
