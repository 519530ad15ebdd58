"""Reads a log file from its end, or from where somebody has stopped; never more of it than fits a page.

The file rotates: a cursor names the file and a place in it, and one of a file that was put aside begins the new one.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from daycare.base.secrecy import without_secrets
from daycare.features.logs.operations import LogLine, LogPart, ReadLog

LOG_READ_MAX_BYTES: Final = 2 * 1024 * 1024  # some 10,000 lines, in a few milliseconds

_LEVELS: Final = ("debug", "info", "warning", "error", "critical")
_KNOWN: Final = ("at", "level", "event", "logger")


def log_end(file: Path) -> str:
    """Return the cursor of a file's end, "0-0" where there is no file."""
    try:
        found = file.stat()
    except OSError:
        return "0-0"
    return f"{found.st_ino}-{found.st_size}"


def read_log(file: Path, wish: ReadLog) -> LogPart:
    """Return the lines that are wished for. Without a file there are none."""
    try:
        with file.open("rb") as opened:
            inode, size = os.fstat(opened.fileno()).st_ino, os.fstat(opened.fileno()).st_size
            known, _, place = wish.after.partition("-")
            begin = int(place) if wish.after and int(known) == inode and int(place) <= size else 0
            start = max(begin, size - LOG_READ_MAX_BYTES)
            opened.seek(start)
            data = opened.read(size - start)
    except FileNotFoundError:
        return LogPart(lines=(), cursor="0-0")
    whole, end, _ = data.rpartition(b"\n")  # a line that is still written is read next time
    if start > begin:
        whole = whole.partition(b"\n")[2]
    fitting = list(_fitting(whole.decode("utf-8", "replace").split("\n") if whole else [], wish))
    shown = fitting[-wish.lines :]
    cursor = f"{inode}-{start + data.rfind(end) + 1 if end else start}"
    return LogPart(lines=tuple(shown), cursor=cursor, left_out=len(shown) < len(fitting) or start > begin)


def _fitting(lines: list[str], wish: ReadLog) -> Iterator[LogLine]:
    words, least = wish.text.casefold(), _LEVELS.index(wish.level)
    for text in lines:
        if not text or words not in text.casefold():
            continue
        shown = without_secrets(text)  # written without them; one that is known since is hidden, too
        if words not in shown.casefold():
            continue  # nobody may guess at what is hidden
        line = _line(shown)
        if line.level not in _LEVELS or _LEVELS.index(line.level) >= least:
            yield line


def _line(text: str) -> LogLine:
    """Return a line, whatever it says."""
    try:
        told: dict[str, Any] = msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.MsgspecError:
        return LogLine(event=text)
    at, level, event = (str(told.get(name, "")) for name in _KNOWN[:3])
    more = {name: value for name, value in told.items() if name not in _KNOWN}
    return LogLine(at=at, level=level or "info", event=event, more=more)
