"""What people read: times, tables and text from outside made safe for a terminal. Pure functions."""

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from daycare.base.times import local_time

if TYPE_CHECKING:
    from rich.table import Table

# A message may carry terminal commands (C0, C1) or turn text around (bidi); only newline and tab pass.
_UNSAFE: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# The same and what shows nothing: joiners, fillers, tags. (U+FE0F only colors the symbol before it.)
_HIDDEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff]"
)
_CELL_MAX: Final = 2_000


def plain(text: object) -> str:
    """Return `text` without anything that a terminal would obey."""
    return _UNSAFE.sub("", str(text).replace("\r\n", "\n"))


def visible(text: str) -> str:
    """Return `text` with what a terminal would obey or not show written out, as `<U+202E>`: for what is decided on."""
    return _HIDDEN.sub(lambda hidden: f"<U+{ord(hidden[0]):04X}>", text)


def one_line(text: object, width: int = 80) -> str:
    """Return the beginning of `text` on one line of at most `width` characters."""
    line = " ".join(plain(text).split())
    return line if len(line) <= width else line[: width - 1] + "…"


def clock(at_ms: int) -> str:
    """Return a wall time in the terminal's zone with milliseconds and without the date."""
    return local_time(at_ms, None).strftime("%H:%M:%S.%f")[:-3]


class Grid:
    """A table without lines. For a terminal rich folds long cells; as text, rows are whole and ten times as fast."""

    def __init__(self, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        self.columns = [column.removesuffix("#") for column in columns]
        self.numbers = [column.endswith("#") for column in columns]
        self.rows = [[plain("" if cell is None else cell) for cell in row] for row in rows]

    def __rich__(self) -> "Table":
        from rich.table import Table
        from rich.text import Text

        grid = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
        for column, number in zip(self.columns, self.numbers, strict=True):
            grid.add_column(column, justify="right" if number else "left", overflow="fold")
        for row in self.rows:
            grid.add_row(*map(Text, row))
        return grid

    def __str__(self) -> str:
        from rich.cells import cell_len

        lines = [self.columns, *([one_line(cell, _CELL_MAX) for cell in row] for row in self.rows)]
        widths = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]

        def padded(cell: str, width: int, number: bool) -> str:
            space = " " * (width - cell_len(cell))
            return space + cell if number else cell + space

        return "\n".join("  ".join(map(padded, line, widths, self.numbers)).rstrip() for line in lines)


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Grid:
    """Return a table; a column whose name ends in `#` holds numbers."""
    return Grid(columns, rows)


def pairs(facts: Iterable[tuple[str, Any]]) -> "Table":
    """Return names beside values, one line each; values that are None or empty are left out."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, style="bold")
    grid.add_column(overflow="fold")
    for name, value in facts:
        if value is not None and value != "" and value != [] and value != {}:
            grid.add_row(name, Text(plain(value)))
    return grid
