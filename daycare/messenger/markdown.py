"""Markdown as models write it becomes runs of marked text, in order and with nothing dropped.

A messenger writes the runs in its own way: as entities, as signs, as HTML. `Style` is what differs in the text itself.
"""

import html
import re
from collections.abc import Sequence
from typing import Any, Final

from daycare.messenger import formulas, parsing, tables
from daycare.messenger.parsing import CLEAN, FORMULA, INLINE, TAG, TAGS
from daycare.messenger.parts import PRE, Mark, Run
from daycare.messenger.style import Style

FORMULA_MAX_CHARS: Final = 1_000  # a longer "formula" is two stray dollar signs; bounds the conversion
INDENT_MAX_LEVELS: Final = 6  # deeper lists leave no room for words on a phone
URL_MAX_CHARS: Final = 2_048  # what platforms take as the target of a link
MARKUP_MAX_CHARS: Final = 250_000  # longer than any reply; past that text is left as it is, parsing would take seconds

QUOTE: Final[Mark] = ("blockquote", "")
_OWN_LINE = ("p", "div", "details", "summary", "center")
_HREF = re.compile(r"""\shref\s*=\s*["']?([^"'\s>]+)""")
# The server refuses the whole message for a link that it cannot parse: only what surely is one becomes an entity.
_HOST = r"[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+(?::(?:[1-9]\d{0,3}|[1-5]\d{4}))?"
_URL = re.compile(rf"https?://{_HOST}(?:[/?#]\S*)?|tg://[a-z_]\S*")


def walk(markdown: str, style: Style = Style()) -> list[Run]:  # noqa: B008 -- frozen
    """Return the document as runs. The kinds of marks are those of `Mark`, `blockquote` the outermost."""
    if len(markdown) > MARKUP_MAX_CHARS:
        return [(parsing.clean(markdown), ())]
    source, found = parsing.read(markdown)
    walker = _Walker(source, style)
    for event, start, end in found:
        walker.take(event, start, end)
    return walker.runs


def _uncommented(text: str) -> str:
    """Leave out HTML comments; one without an end is text, so that it cannot swallow an answer."""
    kept, at = [], 0
    while (begin := text.find("<!--", at)) >= 0 and (end := text.find("-->", begin + 4)) >= 0:
        kept.append(text[at:begin])
        at = end + 3
    return "".join((*kept, text[at:]))


class _List:
    def __init__(self, number: int | None) -> None:
        self.number = number
        self.loose = False  # its items are paragraphs, with a line between them
        self.begun = False


class _Walker:
    """Takes the parser's events one after another. Blocks ask for the line breaks before them; text writes these."""

    def __init__(self, source: bytes, style: Style) -> None:
        self.runs: list[Run] = []
        self._source = source
        self._look = style
        self._marks: dict[str, list[Any]] = {}  # type -> [how often it is open, its URL]; in the order of nesting
        self._style: tuple[Mark, ...] = ()
        self._gap = 0  # line breaks wanted before the next text
        self._marker = ""  # of a list item or footnote, wanted before the next text
        self._lists: list[_List] = []
        self._quotes = 0  # open blockquotes: only the outermost is an entity, they cannot nest
        self._quote = self._last_quote = 0  # numbers of the outermost quote now, and of the one last written in
        self._quote_base = 0  # lists around that quote
        self._headed = False  # a heading has just ended
        self._links: list[tuple[bool, str, list[str]]] = []  # (is a mark, target, text so far)
        self._cell: list[Run] | None = None
        self._cell_end = 0  # in the source
        self._rows: list[list[list[Run]]] = []
        self._aligned: Sequence[str] = ()
        self._code: list[str] | None = None
        self._language = ""
        self._html: list[str] | None = None
        self._tags: list[tuple[str, str]] = []  # open HTML tags and their marks

    # -- writing ---------------------------------------------------------------------------------------------------

    def _append(self, text: str, style: tuple[Mark, ...]) -> None:
        runs = self.runs if self._cell is None else self._cell
        if self._cell is None:
            style = (QUOTE, *style) if self._quotes else style
            self._last_quote = self._quote if self._quotes else 0
        if runs and runs[-1][1] == style and len(runs[-1][0]) < 256:
            runs[-1] = (runs[-1][0] + text, style)
        else:
            runs.append((text, style))

    def _open_line(self, *, indented: bool = True) -> None:
        """Write what is wanted before the next text: line breaks, indentation, a marker."""
        if not (self._gap or self._marker) and self.runs:
            return
        if self._gap and self.runs:
            same = self._quotes and self._quote == self._last_quote
            self.runs.append(("\n" * self._gap, (QUOTE,) if same else ()))
        depth = len(self._lists) - (self._quote_base if self._quotes else 0) - bool(self._marker)
        if indented and depth > 0 and (self._gap or not self.runs):
            self._append(self._look.indent * min(depth, INDENT_MAX_LEVELS), ())
        self._gap = 0
        if self._marker:
            marker, self._marker = self._marker, ""
            self._append(marker, ())

    def _write(self, text: str) -> None:
        if not text.isprintable():  # what is has nothing to clean
            text = text.translate(CLEAN).replace("\t", " ")
        if not text:
            return
        if self._cell is None:
            self._open_line()
        if self._links:
            self._links[-1][2].append(text)
        self._append(text, self._style)

    def _write_block(self, runs: Sequence[Run]) -> None:
        """Write runs that need lines of their own."""
        if self._marker:
            self._open_line()
            self._gap = 1
        self._open_line(indented=False)
        for text, style in runs:
            self._append(text, style)
        self._gap = 1

    def _block(self, gap: int = 2) -> None:
        """A block begins: after an empty line, but right after a marker or a heading, and close together in lists."""
        if self._marker:
            return
        self._gap = max(self._gap, 1 if self._lists or self._headed else gap)
        self._headed = False

    def _push(self, kind: str, extra: str = "") -> None:
        self._marks.setdefault(kind, [0, extra])[0] += 1
        self._restyle()

    def _pop(self, kind: str) -> None:
        if kind in self._marks:
            self._marks[kind][0] -= 1
            if not self._marks[kind][0]:
                del self._marks[kind]
            self._restyle()

    def _restyle(self) -> None:
        marks = self._marks
        if "code" in marks and "text_link" not in marks:  # where a link and code meet, the target is what matters
            self._style = (("code", ""),)
        else:
            self._style = tuple((kind, extra) for kind, (_, extra) in marks.items() if kind != "code")

    # -- events ----------------------------------------------------------------------------------------------------

    def take(self, event: Any, start: int, end: int) -> None:
        """Take the next event, which stands between these bytes of the source."""
        if isinstance(event, str):
            if event == "Rule":
                self._block()
                self._write("———")
                self._gap = 1
            else:  # SoftBreak, HardBreak: people and models mean a new line by it
                self._break()
            return
        [(name, value)] = event.items()
        if name == "Start":
            tag, detail = (value, None) if isinstance(value, str) else next(iter(value.items()))
            self._start(tag, detail, start)
        elif name == "End":
            self._end(value if isinstance(value, str) else next(iter(value)), start, end)
        elif self._code is not None:
            self._code.append(value)
        elif name == "Html" and self._html is not None:
            self._html.append(value)
        elif name in ("Text", "Html"):
            self._write(value)
        elif name == "Code":
            self._push("code")
            self._write(value)
            self._pop("code")
        elif name == "InlineHtml":
            tag = TAG.fullmatch(value)
            if tag and tag[2].lower() == "br":
                self._break()
            else:
                self._write(_uncommented(value))
        elif name == "Tag":
            self._tag(value)
        elif name == "Spoiler":
            (self._push if value else self._pop)("spoiler")
        elif name in ("InlineMath", "DisplayMath"):
            self._formula(value, "$" if name == "InlineMath" else "$$")
        elif name == "FootnoteReference":
            self._write(f"[{value}]")
        elif name == "TaskListMarker":
            sign = self._look.done if value else self._look.open
            numbered = self._marker != self._look.bullet
            self._marker = self._marker + sign.removeprefix(self._look.bullet) if numbered else sign

    def _break(self) -> None:
        if self._cell is not None:
            self._write(" ")
        elif self.runs and not self._gap:
            depth = len(self._lists) - (self._quote_base if self._quotes else 0)
            self._write("\n" + self._look.indent * min(max(depth, 0), INDENT_MAX_LEVELS))

    def _start(self, tag: str, detail: Any, start: int) -> None:
        if tag in INLINE:
            self._wave(tag, start, begins=True)
        elif tag == "Paragraph":
            self._block()
            if self._lists:
                self._lists[-1].loose = True
        elif tag == "Heading":
            self._headed = False
            self._block()
            self._push("bold")
        elif tag == "BlockQuote":
            if not self._quotes:
                if self._marker:
                    self._open_line()
                    self._gap = 1
                self._block()
                self._quote += 1
                self._quote_base = len(self._lists)
            self._quotes += 1
        elif tag == "List":
            self._block()
            self._lists.append(_List(detail))
        elif tag == "Item":
            self._start_item(self._lists[-1])
        elif tag == "CodeBlock":
            self._block()
            info = detail["Fenced"].strip() if isinstance(detail, dict) else ""
            self._language = parsing.language(info)
            self._code = [f"{info}\n"] if info and not self._language else []  # words that stand there by mistake
        elif tag == "HtmlBlock":
            self._block()
            self._html = []
        elif tag == "Table":
            self._block()
            self._rows, self._aligned = [], detail
        elif tag in ("TableHead", "TableRow"):
            self._rows.append([])
        elif tag == "TableCell":
            self._cell = []
        elif tag == "FootnoteDefinition":
            self._block()
            if self._marker:
                self._open_line()
            self._marker = f"[{detail}] "
        elif tag in ("Link", "Image"):
            self._start_link(detail["dest_url"], image=tag == "Image")

    def _end(self, tag: str, start: int, end: int) -> None:
        if tag in INLINE:
            self._wave(tag, start, begins=False)
        elif tag in ("Link", "Image"):
            self._end_link()
        elif tag == "TableCell":
            self._close_tags()
            self._rows[-1].append(self._cell or [])
            self._cell, self._cell_end = None, end
        elif tag == "TableRow":
            left = self._source[max(self._cell_end, start) : end].decode().strip("| \t\n")
            if left:  # cells that the header has no column for, which the parser drops
                self._rows[-1].append([(left, ())])
        elif tag == "Table":
            self._write_block(tables.laid_out(self._rows, self._aligned, self._look.columns, links=self._look.links))
        elif tag == "CodeBlock":
            code, self._code = "".join(self._code or ()).removesuffix("\n"), None
            if code:
                self._write_block([(code.translate(CLEAN).expandtabs(4), ((PRE, self._language),))])
        else:
            self._end_block(tag)

    def _end_block(self, tag: str) -> None:
        if tag == "HtmlBlock":
            self._html_block()
        self._close_tags()
        if tag == "Heading":
            self._pop("bold")
            self._headed = True
        elif tag == "BlockQuote":
            self._quotes -= 1
        elif tag == "List":
            self._lists.pop()
        if tag in ("Item", "FootnoteDefinition") and self._marker:
            self._open_line()
        if tag != "TableHead":
            self._gap = max(self._gap, 1)

    def _start_item(self, items: _List) -> None:
        if self._marker:  # a list that begins within the marker of an outer item
            self._open_line()
        elif items.begun:
            self._gap = max(self._gap, 2 if items.loose and len(self._lists) == 1 else 1)
        items.begun = True
        if items.number is None:
            self._marker = self._look.bullet
        else:
            self._marker = f"{items.number}. "
            items.number += 1

    def _wave(self, tag: str, start: int, *, begins: bool) -> None:
        if tag == "Strikethrough" and self._source[start + 1 : start + 2] != b"~":
            self._write("~")  # a single one says "about"
        else:
            (self._push if begins else self._pop)(INLINE[tag])

    # -- links, formulas, HTML -------------------------------------------------------------------------------------

    def _start_link(self, target: str, *, image: bool) -> None:
        target = target.translate(CLEAN).strip()
        within = any(mark or goal for mark, goal, _ in self._links)
        usable = len(target) <= URL_MAX_CHARS and _URL.fullmatch(target) is not None
        marked = usable and not within and self._look.links
        if marked:
            self._push("text_link", target)
        if image:
            self._write("🖼 ")
        self._links.append((marked, "" if within or target.startswith("#") else target, []))

    def _end_link(self) -> None:
        marked, target, spoken = self._links.pop()
        text = "".join(spoken).strip()
        if self._links and text:
            self._links[-1][2].append("...")  # what is around it is not empty; more need not be known
        if marked and not text:
            self._write(target)
        if marked:
            self._pop("text_link")
        elif target and target.removeprefix("mailto:") != text:
            self._write(f" ({target})" if text else target)

    def _formula(self, formula: str, sign: str) -> None:
        if len(formula) > FORMULA_MAX_CHARS or not FORMULA.search(formula):
            self._write(f"{sign}{formula}{sign}")
            return
        shown = formulas.readable(formula)
        self._push("code")
        self._write("\n".join(filter(None, map(str.strip, shown.split("\n")))) or formula)
        self._pop("code")

    def _tag(self, raw: str) -> None:
        tag = TAG.fullmatch(raw)
        assert tag is not None
        name = tag[2].lower()
        if name in _OWN_LINE and self._cell is None:
            self._gap = max(self._gap, 1)
        if tag[1]:
            for index in reversed(range(len(self._tags))):
                if self._tags[index][0] == name:
                    self._close_tag(self._tags.pop(index))
                    break
            return
        if name == "a":
            href = _HREF.search(tag[3] or "")
            self._start_link(html.unescape(href[1]) if href else "", image=False)
        elif TAGS[name]:
            self._push(TAGS[name])
        self._tags.append((name, TAGS[name]))

    def _close_tag(self, tag: tuple[str, str]) -> None:
        if tag[0] == "a":
            self._end_link()
        else:
            self._pop(tag[1])

    def _close_tags(self) -> None:
        while self._tags:
            self._close_tag(self._tags.pop())

    def _html_block(self) -> None:
        text, self._html = _uncommented("".join(self._html or ())).strip(), None
        at = 0
        for tag in TAG.finditer(text):
            self._lines(text[at : tag.start()])
            at = tag.end()
            if tag[2].lower() in ("br", "hr"):
                self._break()
            elif tag[2].lower() in TAGS:
                self._tag(tag[0])
            else:
                self._write(tag[0])
        self._lines(text[at:])

    def _lines(self, text: str) -> None:
        """Write the text between two tags; line breaks beside tags are no text."""
        if text.strip():
            self._write(html.unescape(text.strip("\n")))
        if text.endswith("\n"):
            self._gap = max(self._gap, 1)
