"""The text of EPUB books, chapter by chapter in the order of reading."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from daycare.formats import links, page
from daycare.formats.pieces import UnreadableFormat

if TYPE_CHECKING:
    from daycare.formats.archive import Archive


CONTAINER: Final = "META-INF/container.xml"


def load() -> None:
    """Import what reads chapters, as nothing can be opened later."""
    page.load()
    links.load()


def pieces(packed: Archive) -> Iterator[str]:
    """Yield each chapter with its number. Raises `UnreadableFormat` for a book that is locked to a shop's reader."""
    if "META-INF/rights.xml" in packed.names or "META-INF/license.lcpl" in packed.names:
        raise UnreadableFormat("it is locked by the shop that sold it; a copy without that could be read")
    root = links.elements(packed, CONTAINER, "rootfile")[0].get("full-path")
    items = {each.get("id"): each for each in links.elements(packed, root, "item")}
    order = [items[each.get("idref")] for each in links.elements(packed, root, "itemref") if each.get("idref") in items]
    number = 0
    for item in order:
        name = posixpath.normpath(posixpath.join(posixpath.dirname(root), unquote(item.get("href", ""))))
        if "html" in item.get("media-type", "") and name in packed.names:
            said = "".join(page.pieces(packed.read(name), "", ""))
            if said:
                number += 1
                yield f"[chapter {number}]\n{said}\n\n"
