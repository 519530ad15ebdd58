"""The text of documents and slides: those of Word and PowerPoint, and all of OpenDocument.

They are read as a stream, so that neither their depth nor their length takes memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final
from xml.sax.handler import ContentHandler
from xml.sax.xmlreader import AttributesImpl

from daycare.formats import links
from daycare.formats.pieces import UnreadableFormat

if TYPE_CHECKING:
    from daycare.formats.archive import Archive

WORD: Final = "word/document.xml"
SLIDES: Final = "ppt/presentation.xml"
OPEN: Final = "content.xml"

_CHUNK: Final = 64 * 1024
_REPEATED_MAX: Final = 64  # cells that say the same, side by side
_NOT_SAID: Final = frozenset(("Fallback", "tracked-changes", "annotation"))  # said before, deleted, or aside
_WORD_PARTS: Final = (WORD, "word/footnotes.xml", "word/endnotes.xml")


def load() -> None:
    """Import what reads XML, as nothing can be opened later."""
    from defusedxml.sax import parseString

    links.load()
    parseString(b"<a/>", ContentHandler())


def pieces(packed: Archive) -> Iterator[str]:
    """Yield what a document or slides say."""
    if WORD in packed.names:
        return word(packed)
    return slides(packed) if SLIDES in packed.names else open_document(packed)


def word(packed: Archive) -> Iterator[str]:
    """Yield the text of a .docx file with headings and tables, then its notes. It knows no pages."""
    for name in _WORD_PARTS:
        if name in packed.names:
            yield from streamed(packed.read(name), _Text("t"))


def slides(packed: Archive) -> Iterator[str]:
    """Yield the slides of a .pptx file in their order, each with its number."""
    names = links.related(packed, SLIDES, "sldId")
    for number, name in enumerate(names, 1):
        yield f"[slide {number} of {len(names)}]\n"
        yield from streamed(packed.read(name), _Text("t"))
        yield "\n"


def open_document(packed: Archive) -> Iterator[str]:
    """Yield the text of an OpenDocument file; sheets and slides have their numbers."""
    if b"encryption-data" in packed.read("META-INF/manifest.xml"):
        raise UnreadableFormat("it is protected by a password; a copy without one could be read")
    sheets = b"<office:spreadsheet" in (content := packed.read(OPEN))
    yield from streamed(content, _Text("p", "h", sheets=sheets))


def streamed(xml: bytes, handler: _Text) -> Iterator[str]:
    """Yield what a handler finds in a text of XML. Entities and document types are refused."""
    from defusedxml.sax import make_parser

    parser = make_parser()
    parser.forbid_dtd = True
    parser.setContentHandler(handler)
    for at in range(0, len(xml), _CHUNK):
        parser.feed(xml[at : at + _CHUNK])
        yield handler.taken()
    parser.close()
    yield handler.taken()


class _Text(ContentHandler):
    """Gathers the text in elements of the names `within`, with paragraphs, cells and headings between."""

    def __init__(self, *within: str, sheets: bool = False) -> None:
        super().__init__()
        self._within = frozenset(within)
        self._sheets = sheets
        self._found: list[str] = []
        self._depth = 0  # in elements that have text
        self._skipped = 0  # in elements that are not said
        self._cells = 0
        self._row: list[str] | None = None
        self._repeated = 1
        self._cell = 0  # where in `_found` the cell begins
        self._numbered = 0

    def taken(self) -> str:
        """Return what was found since, unless a cell is open."""
        if self._cells:
            return ""
        text = "".join(self._found)
        self._found.clear()
        return text

    def startElement(self, name: str, attrs: AttributesImpl) -> None:  # noqa: N802 - of the base class
        tag = name.rpartition(":")[2]
        if self._skipped or tag in _NOT_SAID:
            self._skipped += 1
            return
        if tag in self._within:
            self._depth += 1
        if tag in ("tab", "br", "cr", "line-break"):
            self._found.append("\t" if tag == "tab" else "\n" if not self._cells else " ")
        elif tag == "s" and self._depth:
            self._found.append(" ")
        elif tag == "h":
            self._heading(attrs.get("text:outline-level", "1"))
        elif tag == "pStyle" and attrs.get("w:val", "").startswith("Heading"):
            self._heading(attrs.get("w:val", "").removeprefix("Heading"))
        elif tag in ("tc", "table-cell", "covered-table-cell"):
            self._open_cell(attrs.get("table:number-columns-repeated", "1"))
        elif tag == "table" and self._sheets:
            self._number("sheet", attrs.get("table:name", ""))
        elif name == "draw:page":
            self._number("slide", attrs.get("draw:name", ""))

    def endElement(self, name: str) -> None:  # noqa: N802 - of the base class
        tag = name.rpartition(":")[2]
        if self._skipped:
            self._skipped -= 1
            return
        if tag in self._within:
            self._depth -= 1
        if tag in ("p", "h"):
            self._found.append(" " if self._cells else "\n")
        elif tag in ("tc", "table-cell", "covered-table-cell"):
            self._close_cell()
        elif tag in ("tr", "table-row") and not self._cells:
            line = " | ".join(self._row or ()).rstrip(" |")
            self._found.append(f"{line}\n" if line else "")
            self._row = None

    def characters(self, content: str) -> None:
        if self._depth and not self._skipped:
            self._found.append(content)

    def _heading(self, level: str) -> None:
        self._found.append(f"{'#' * min(int(level), 6)} " if level.isdecimal() and not self._cells else "")

    def _number(self, what: str, name: str) -> None:
        self._numbered += 1
        self._found.append(f"\n[{what} {self._numbered}{f': {name}' if name else ''}]\n")

    def _open_cell(self, repeated: str) -> None:
        self._cells += 1
        if self._cells == 1:
            self._cell = len(self._found)
            self._repeated = min(int(repeated), _REPEATED_MAX) if repeated.isdecimal() else 1

    def _close_cell(self) -> None:
        self._cells -= 1
        if self._cells:
            return  # a table in a table is a cell of the outer one
        text = " ".join("".join(self._found[self._cell :]).split())
        del self._found[self._cell :]
        self._row = [*(self._row or ()), *[text] * (self._repeated if text else 1)]
