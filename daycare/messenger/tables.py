"""Tables for a phone: columns in fixed width where they fit, else one line `header: value` for each cell."""

import unicodedata
from collections.abc import Sequence
from typing import Final

import wcwidth

from daycare.messenger.parts import PRE, Run

COLUMNS_MAX: Final = 40  # characters of fixed width that a phone shows in one line

_Cell = Sequence[Run]


def laid_out(rows: Sequence[Sequence[_Cell]], aligned: Sequence[str], columns: int, *, links: bool) -> list[Run]:
    """Return the table as runs; the first row is its header, `aligned` says of each column how.

    It is code of at most so many `columns`, or lines where it would be wider or has `links`, which code cannot have.
    """
    if columns and not any(_needs_lines(cell, links) for row in rows for cell in row):
        text = _columns([[_text(cell) for cell in row] for row in rows], aligned, columns)
        if text:
            return [(text, ((PRE, ""),))]
    return _lines(rows)


def _text(cell: _Cell) -> str:
    return " ".join("".join(text for text, _ in cell).split())


def _needs_lines(cell: _Cell, links: bool) -> bool:
    """Links have no place in fixed width, and text from right to left scrambles the columns."""
    if links and any(kind == "text_link" for _, style in cell for kind, _ in style):
        return True
    text = _text(cell)
    return not text.isascii() and any(unicodedata.bidirectional(char) in ("R", "AL") for char in text)


def _columns(rows: list[list[str]], aligned: Sequence[str], most: int) -> str | None:
    count = max(map(len, rows), default=0)
    if count * 4 - 3 > most:
        return None
    widths = [max((_width(row[at]) for row in rows if at < len(row)), default=0) for at in range(count)]
    if sum(widths) + 3 * (count - 1) > most:
        return None
    lines = []
    for row in rows:
        cells = [_padded(row[at] if at < len(row) else "", widths[at], aligned[at : at + 1]) for at in range(count)]
        lines.append(" | ".join(cells).rstrip())
    if len(lines) > 1:
        lines.insert(1, "-+-".join("-" * width for width in widths))
    return "\n".join(lines)


def _width(text: str) -> int:
    return max(wcwidth.wcswidth(text), 0) if not text.isascii() else len(text)


def _padded(text: str, width: int, aligned: Sequence[str]) -> str:
    room = " " * (width - _width(text))
    if "Right" in aligned:
        return room + text
    if "Center" in aligned:
        return room[: len(room) // 2] + text + room[len(room) // 2 :]
    return text + room


def _lines(rows: Sequence[Sequence[_Cell]]) -> list[Run]:
    if not rows:
        return []
    header, *body = rows
    names = [_text(cell) for cell in header]
    runs: list[Run] = []
    if not body:
        return [(" · ".join(name for name in names if name), (("bold", ""),))]
    for row in body:
        lines = 0
        for at, cell in enumerate(row):
            if not _text(cell):
                continue
            if runs:
                runs.append(("\n" if lines else "\n\n", ()))
            lines += 1
            name = names[at] if at < len(names) else ""
            if name:
                runs += [(f"{name}:", (("bold", ""),)), (" ", ())]
            runs += cell
    return runs
