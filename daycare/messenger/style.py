"""How Markdown looks in a messenger, as far as that is in the text itself and not in marks."""

from typing import Final

import msgspec

from daycare.messenger import tables


class Style(msgspec.Struct, frozen=True, kw_only=True):
    """How lists look, and what stands in marks.

    With `links` the target of a link is a mark, else it stands behind its words. `columns` is how many characters of
    fixed width a line shows: narrower tables are code, others one line for each cell.
    """

    bullet: str = "• "
    indent: str = "   "
    done: str = "☑ "  # what stands in place of the bullet of a task
    open: str = "☐ "
    links: bool = True
    columns: int = tables.COLUMNS_MAX


PLAIN: Final = Style(links=False, columns=0)  # no meaning is in the marks
