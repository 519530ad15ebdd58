"""Tables in Markdown, before anything reads them as such."""

from itertools import groupby
from typing import Final

FILLED_MAX: Final = 5_000  # a parser takes some 10 us and 100 bytes for each


def is_overfull(markdown: str) -> bool:
    """Whether a parser would put so many empty cells into short rows that the text is better left as it was typed.

    It fills each row up to as many cells as the first has, whatever was typed: 4,000 characters can make 40,000 cells.
    """
    filled = 0
    for lined, rows in groupby(markdown.splitlines(), lambda line: bool(line.strip())):
        if lined:
            cells = [row.count("|") for row in rows]
            filled += max(cells) * len(cells) - sum(cells)
    return filled > FILLED_MAX
