"""What a file says, asked of a process of its own: a file may be made to harm whoever takes it apart.

The daemon imports none of the libraries that read files; `parsing.py` does, in that process.
"""

import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from subprocess import DEVNULL, PIPE
from typing import Final

import trio

from daycare.base.errors import InvalidError, UnavailableError
from daycare.base.limits import FILE_MAX_BYTES

READ_S: Final = 20.0  # of a processor, for a large file; it ends by itself then, and what was read counts
READ_LATE_S: Final = 60.0  # by the clock, on a busy machine; then it is killed
READ_AT_ONCE: Final = 2  # files: each may take a processor and a gigabyte
FORMAT_TEXT_MAX_CHARS: Final = 1_000_000  # of one file: some 400 pages; the rest is cut
ANSWER_MAX_BYTES: Final = 8 * 1024 * 1024  # of what the process says: more is not what it was asked for

PDF: Final = "application/pdf"
HTML: Final = ("text/html", "application/xhtml+xml")
PACKED: Final = (
    "application/vnd.openxmlformats-officedocument.",
    "application/vnd.oasis.opendocument.",
    "application/epub+zip",
)  # the beginnings of their types
_OLD_OFFICE: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # and those of today with a password
_HTML_STARTS: Final = (b"<!doctype html", b"<html")
_ENVIRONMENT: Final = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # a thread each would not be let

_WHY_MAX_CHARS: Final = 300

_places: Final = trio.CapacityLimiter(READ_AT_ONCE)


def readable(head: bytes, media_type: str) -> bool:
    """Return whether a file is of a kind that `text_of` takes, by its first bytes; its type tells HTML only."""
    start = head[:1024].lstrip()
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06", _OLD_OFFICE)) or b"%PDF-" in head[:1024]:
        return True
    start = start.removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    return start.startswith(_HTML_STARTS) or (media_type in HTML and start.startswith(b"<"))


async def text_of(
    data: bytes, *, charset: str = "", url: str = "", most: int = FORMAT_TEXT_MAX_CHARS, html: bool = False
) -> str:
    """Return what a file says, `most` characters at most, with its pages, sheets or slides numbered.

    `charset` and `url` are those of a page; `html`: it is one, whatever it begins with. Raises `InvalidError`
    FILE_UNREADABLE with why and what to do, `UnavailableError` FILE_READER if no process could be had.
    """
    if len(data) > FILE_MAX_BYTES:
        raise _unreadable("it is too large; a part of it could be read")
    asked = {"charset": charset, "url": url, "most": most, "html": html, "seconds": READ_S}
    command = [sys.executable, "-P", "-m", "daycare.formats.parsing"]
    async with _places:
        with trio.move_on_after(READ_LATE_S):
            try:
                return _answer(*await _run(command, json.dumps(asked).encode() + b"\n" + data))
            except OSError as error:
                raise UnavailableError("FILE_READER", f"it cannot be read now: {error.strerror}") from error
    raise _unreadable(f"it takes longer than {READ_LATE_S:g} s; a part of it could be read")


async def _run(command: Sequence[str], given: bytes) -> tuple[int, bytes]:
    """Return how a process ended that was `given` this, and what it said; one that says too much is killed."""
    process = await trio.lowlevel.open_process(
        command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env=_ENVIRONMENT, cwd=os.sep
    )
    assert process.stdin is not None and process.stdout is not None
    said = bytearray()
    try:
        async with trio.open_nursery() as nursery, process.stdout:
            nursery.start_soon(_give, process.stdin, given)
            async for part in process.stdout:
                said += part
                if len(said) > ANSWER_MAX_BYTES:
                    process.kill()
                    break
        return await process.wait(), bytes(said)
    finally:
        if process.returncode is None:
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()


async def _give(stream: trio.abc.SendStream, given: bytes) -> None:
    async with stream:
        with suppress(trio.BrokenResourceError):  # it has ended: how, tells its status
            await stream.send_all(given)


def _answer(status: int, said: bytes) -> str:
    """Return the text of an answer; the process may have been taken over by what it read, so it is data, too."""
    try:
        answer = json.loads(said) if status == 0 and len(said) <= ANSWER_MAX_BYTES else {}
    except ValueError:
        answer = {}
    text, why = (answer.get(key) if isinstance(answer, dict) else None for key in ("text", "why"))
    if isinstance(text, str) and text:
        return text.encode(errors="replace").decode()  # halves of characters cannot be kept
    known = isinstance(why, str) and 0 < len(why) <= _WHY_MAX_CHARS and why.isprintable()
    raise _unreadable(str(why) if known else "it is damaged, or needs too much memory; another copy may do")


def _unreadable(why: str) -> InvalidError:
    return InvalidError("FILE_UNREADABLE", why)
