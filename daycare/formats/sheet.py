"""The text of .xlsx files: each sheet with its number and name, a line a row, values as they were last worked out."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from daycare.formats.archive import Archive


def load() -> None:
    """Import what reads sheets, as nothing can be opened later."""
    import openpyxl

    openpyxl.DEFUSEDXML = True


def pieces(packed: Archive) -> Iterator[str]:
    """Yield each row of each sheet; empty ones are left out."""
    from openpyxl import load_workbook

    warnings.simplefilter("ignore")  # of what it does not know
    book = load_workbook(io.BytesIO(packed.data), read_only=True, data_only=True, keep_links=False)
    for number, sheet in enumerate(book.worksheets, 1):
        yield f"[sheet {number} of {len(book.worksheets)}: {sheet.title}]\n"
        for row in sheet.iter_rows(values_only=True):
            line = " | ".join("" if value is None else " ".join(str(value).split()) for value in row).rstrip(" |")
            if line:
                yield f"{line}\n"
        yield "\n"
