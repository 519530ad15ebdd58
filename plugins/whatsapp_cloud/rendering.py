"""What a model wrote, as messages that WhatsApp takes: its own few marks, cut into parts at good places.

WhatsApp knows `*bold*`, `_italic_`, `~struck~`, code, quotes and lists, has no way to escape a sign, and formats
nothing over the end of a line. A mark that would stand inside a word is left out: there it would be shown as a sign.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyromark
import wcwidth

from daycare.base.tables import is_overfull

TEXT_MAX_UNITS: Final = 4_096  # of a text; counted in UTF-16 units, which are never fewer than Meta counts
BODY_MAX_UNITS: Final = 1_024  # of what stands above buttons, and below a file
MARKUP_MAX_CHARS: Final = 250_000  # longer than any reply; past that text is sent as it is
TABLE_MAX_COLUMNS: Final = 34  # characters of fixed width that a phone shows in one line
INDENT_MAX_LEVELS: Final = 4
_FENCE: Final = "```"
_SIGNS: Final = {"bold": "*", "italic": "_", "struck": "~", "code": "`"}
_INLINE: Final = {"Strong": "bold", "Emphasis": "italic", "Strikethrough": "struck"}
_OPTIONS: Final = pyromark.Options.ENABLE_STRIKETHROUGH | pyromark.Options.ENABLE_TASKLISTS
_CONTROLS: Final[dict[int, str | None]] = {
    **dict.fromkeys((*range(32), *range(127, 160), *range(0x202A, 0x202F))),
    **{9: "\t", 10: "\n", 11: " ", 12: " ", 0x2028: "\n", 0x2029: "\n\n"},
}
_GOOD_PLACE: Final = re.compile(r"(?<=[.!?\u2026\u3002])\s+|\s+")

Run = tuple[str, tuple[str, ...]]  # text and its marks, the outermost first


class Block:
    """A paragraph, list, quote or piece of code: lines that belong together."""

    def __init__(self, *, code: bool = False) -> None:
        self.code = code
        self.lines: list[tuple[str, list[Run]]] = []  # prefix and content


def units(text: str) -> int:
    """Return the length in UTF-16 units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def clean(text: str) -> str:
    """Return valid Unicode without controls."""
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return whole.replace("\r\n", "\n").replace("\r", "\n").translate(_CONTROLS)


def is_blank(text: str) -> bool:
    """Whether there is nothing to see in it, which is refused."""
    return not any(char.isprintable() and not char.isspace() for char in text)


def render(markdown: str, limit: int = TEXT_MAX_UNITS) -> list[str]:
    """Return the messages for this Markdown, in order; none if there is nothing to see. Each has at most `limit` units.

    Never raises for any text; `limit` is at least 64.
    """
    text = clean(markdown)
    if len(text) > MARKUP_MAX_CHARS:
        plain = Block()
        plain.lines = [("", [(line, ())]) for line in text.split("\n")]
        blocks = [plain]
    else:
        blocks = _Walker(text).blocks()
    return [part for part in _packed(blocks, limit) if not is_blank(part)]


def cut(text: str, limit: int) -> list[str]:
    """Cut what was rendered once more, to messages of at most so many units."""
    blocks = [Block()]
    for line in text.split("\n"):
        if line == _FENCE:
            blocks.append(Block(code=not blocks[-1].code))
        elif line or blocks[-1].code:
            blocks[-1].lines.append(("", [(line, ())]))
        else:
            blocks.append(Block())
    return [part for part in _packed([block for block in blocks if block.lines], limit) if not is_blank(part)]


# == packing ===========================================================================================================


def _packed(blocks: Sequence[Block], limit: int) -> list[str]:
    parts: list[str] = []
    current = ""
    for block in blocks:
        whole = _whole(block)
        joined = f"{current}\n\n{whole}" if current else whole
        if units(joined) <= limit:
            current = joined
            continue
        if current and (units(whole) <= limit or units(current) > limit // 3):
            parts.append(current)
            current = ""
        if units(whole) <= limit:
            current = whole
            continue
        for piece in _pieces(block, limit - units(current) - 2 if current else limit, limit):
            if current and units(f"{current}\n\n{piece}") > limit:
                parts.append(current)
                current = ""
            current = f"{current}\n\n{piece}" if current else piece
            parts.append(current)
            current = ""
        current = parts.pop()
    return [*parts, current] if current else parts


def _whole(block: Block) -> str:
    lines = [prefix + _emitted(runs) for prefix, runs in block.lines]
    return _fenced(lines) if block.code else "\n".join(lines)


def _fenced(lines: Sequence[str]) -> str:
    return "\n".join((_FENCE, *lines, _FENCE))


def _pieces(block: Block, first: int, limit: int) -> Iterator[str]:
    """Cut a block that is too long at its lines; the first piece has room for so much."""
    around = 2 * (len(_FENCE) + 1) if block.code else 0
    kept: list[str] = []
    size = 0
    room = max(first, 64) - around
    for line in _fitting(block, limit - around):
        if kept and size + 1 + units(line) > room:
            yield _fenced(kept) if block.code else "\n".join(kept)
            kept, size, room = [], 0, limit - around
        size += units(line) + (1 if kept else 0)
        kept.append(line)
    if kept:
        yield _fenced(kept) if block.code else "\n".join(kept)


def _fitting(block: Block, limit: int) -> Iterator[str]:
    """Yield the lines as they are written, those that are too long in several."""
    for prefix, runs in block.lines:
        line = prefix + _emitted(runs)
        if units(line) <= limit:
            yield line
            continue
        signs = units(prefix) + 2 * sum(len(marks) for _, marks in runs)
        if signs > limit // 2:
            runs, signs = [("".join(text for text, _ in runs), ())], units(prefix)
        for some in _cut(runs, limit - signs, words=not block.code):
            yield prefix + _emitted(some)


def _cut(runs: Sequence[Run], limit: int, *, words: bool) -> Iterator[list[Run]]:
    """Cut a line into pieces of at most so many units, at a sentence or a word in the second half of each."""
    text = "".join(text for text, _ in runs)
    start = 0
    while start < len(text):
        end, size = start, 0
        for cluster in wcwidth.iter_graphemes(text[start : start + limit + 64]):
            size += units(cluster)
            if size > limit:
                break
            end += len(cluster)
        if end == start:  # one cluster longer than a message
            end = start + max(limit // 2, 1)
        if end < len(text) and words:
            places = [found.end() for found in _GOOD_PLACE.finditer(text, start + (end - start) // 2, end)]
            end = places[-1] if places else end
        yield _between(runs, start, end)
        start = end


def _between(runs: Sequence[Run], start: int, end: int) -> list[Run]:
    found, at = [], 0
    for text, marks in runs:
        piece = text[max(start - at, 0) : max(end - at, 0)]
        if piece:
            found.append((piece, marks))
        at += len(text)
    return found


def _emitted(runs: Sequence[Run], after: str = "") -> str:
    """Write runs of one line with WhatsApp's signs; `after` is what follows them."""
    out = ""
    at = 0
    while at < len(runs):
        text, marks = runs[at]
        if not marks:
            out += text
            at += 1
            continue
        inner: list[Run] = []
        while at < len(runs) and runs[at][1][:1] == marks[:1]:
            inner.append((runs[at][0], runs[at][1][1:]))
            at += 1
        following = runs[at][0][:1] if at < len(runs) else after
        out += _wrapped(_emitted(inner, following), _SIGNS[marks[0]], out[-1:], following)
    return out


def _wrapped(text: str, sign: str, before: str, after: str) -> str:
    core = text.strip()
    if not core or sign in core:
        return text
    head, tail = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
    if (not head and before.isalnum()) or (not tail and after.isalnum()):
        return text
    return f"{head}{sign}{core}{sign}{tail}"


# == reading ===========================================================================================================


class _Walker:
    """Takes the parser's events one after another."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._blocks: list[Block] = []
        self._block: Block | None = None
        self._runs: list[Run] = []
        self._prefix = ""
        self._marks: list[str] = []
        self._lists: list[int | None] = []
        self._quotes = 0
        self._links: list[tuple[str, str]] = []
        self._rows: list[list[list[Run]]] = []
        self._in_table = False
        self._code: str | None = None

    def blocks(self) -> list[Block]:
        options = _OPTIONS if is_overfull(self._source) else _OPTIONS | pyromark.Options.ENABLE_TABLES
        for event in pyromark.events(self._source, options=options):
            self._take(event)
        self._end_block()
        return [block for block in self._blocks if block.lines]

    def _take(self, event: Any) -> None:
        if isinstance(event, str):
            if event == "Rule":
                self._end_block()
                self._write("---")
                self._end_block()
            else:
                self._break()
            return
        [(name, value)] = event.items()
        if name in ("Start", "End"):
            tag, about = next(iter(value.items())) if isinstance(value, dict) else (value, None)
            (self._start if name == "Start" else self._end)(tag, about)
        elif name in ("Text", "InlineHtml", "FootnoteReference"):
            self._text(value)
        elif name == "Html":
            for number, line in enumerate(value.rstrip("\n").split("\n")):
                if number or self._runs:
                    self._break()
                self._text(line)
        elif name in ("Code", "InlineMath", "DisplayMath"):
            self._write(value.replace("\n", " "), "code")
        elif name == "TaskListMarker":
            self._write("[x] " if value else "[ ] ")

    def _text(self, text: str) -> None:
        if self._code is not None:
            self._code += text
        else:
            self._write(text)

    def _write(self, text: str, mark: str = "") -> None:
        text = text.replace("\n", " ").replace("\t", " ")
        marks = tuple(dict.fromkeys((*self._marks, mark) if mark else self._marks))
        if self._links:
            url, said = self._links[-1]
            self._links[-1] = url, said + text
        if self._runs and self._runs[-1][1] == marks:
            self._runs[-1] = (self._runs[-1][0] + text, marks)
        elif text:
            self._runs.append((text, marks))

    def _break(self) -> None:
        """End a line; the next one belongs to the same block."""
        if self._in_table:
            self._write(" ")
            return
        if self._runs:
            if self._block is None:
                self._block = Block()
                self._blocks.append(self._block)
            self._block.lines.append((self._prefix or ("> " if self._quotes else ""), self._runs))
            self._runs = []
            self._prefix = ""
            if self._lists and not self._quotes:
                self._prefix = "  " * min(len(self._lists), INDENT_MAX_LEVELS)

    def _end_block(self) -> None:
        self._break()
        self._block = None
        self._prefix = ""

    def _start(self, tag: str, about: Any) -> None:
        if tag in _INLINE:
            self._marks.append(_INLINE[tag])
        elif tag in ("Link", "Image"):
            self._links.append((about["dest_url"], ""))
        elif tag == "Heading":
            self._end_block()
            self._marks.append("bold")
        elif tag == "BlockQuote":
            if not self._lists:
                self._end_block()
            self._quotes += 1
        elif tag == "List":
            if self._lists:
                self._break()
            elif not self._quotes:
                self._end_block()
            self._lists.append(about)
        elif tag == "Item":
            self._break()
            number = self._lists[-1]
            quote = "> " if self._quotes else ""
            indent = "  " * min(len(self._lists) - 1, INDENT_MAX_LEVELS)
            self._prefix = f"{quote}{indent}{'-' if number is None else f'{number}.'} "
            if number is not None:
                self._lists[-1] = number + 1
        elif tag == "CodeBlock":
            self._end_block()
            self._code = ""
        elif tag == "Table":
            self._end_block()
            self._rows, self._in_table = [], True
        elif tag in ("TableHead", "TableRow"):
            self._rows.append([])
        elif tag == "TableCell":
            self._runs = []
        elif tag == "Paragraph" and not self._lists and not self._quotes:
            self._end_block()

    def _end(self, tag: str, _about: Any) -> None:
        if tag in _INLINE:
            self._marks.remove(_INLINE[tag])
        elif tag in ("Link", "Image"):
            url, said = self._links.pop()
            if url and said.strip() not in (url, url.removeprefix("mailto:"), ""):
                self._write(f" ({url})")
            elif not said.strip():
                self._write(url)
        elif tag == "Heading":
            self._marks.remove("bold")
            self._end_block()
        elif tag == "BlockQuote":
            self._break()
            self._quotes -= 1
            if not self._lists and not self._quotes:
                self._end_block()
        elif tag == "List":
            self._break()
            self._lists.pop()
            if not self._lists and not self._quotes:
                self._end_block()
        elif tag in ("Item", "Paragraph", "HtmlBlock"):
            self._break()
        elif tag == "CodeBlock":
            self._end_code()
        elif tag == "TableCell":
            self._rows[-1].append(self._runs)
            self._runs = []
        elif tag == "Table":
            self._in_table = False
            self._table()

    def _end_code(self) -> None:
        code, self._code = self._code or "", None
        block = Block(code=True)
        # Three backticks would end it: a word joiner, which nobody sees, keeps them apart.
        text = code.removesuffix("\n").replace(_FENCE, "``\u2060`")
        block.lines = [("", [(line, ())]) for line in text.replace("\t", "    ").split("\n")]
        self._blocks.append(block)
        self._block = None

    def _table(self) -> None:
        """Columns in fixed width where they fit, else one line `header: value` for each cell."""
        plain = [[" ".join("".join(text for text, _ in cell).split()) for cell in row] for row in self._rows]
        count = max(map(len, plain), default=0)
        widths = [max((_width(row[at]) for row in plain if at < len(row)), default=0) for at in range(count)]
        block = Block(code=sum(widths) + 3 * (count - 1) <= TABLE_MAX_COLUMNS)
        if block.code:
            lines = [
                " | ".join(row[at] + " " * (widths[at] - _width(row[at])) for at in range(len(row))) for row in plain
            ]
            if len(lines) > 1:
                lines.insert(1, "-+-".join("-" * width for width in widths))
            block.lines = [("", [(line.rstrip().replace(_FENCE, "``\u2060`"), ())]) for line in lines]
        elif plain:
            head = plain[0]
            for row in self._rows[1:] or [self._rows[0]]:
                for at, cell in enumerate(row):
                    name = [(f"{head[at]}:", ("bold",)), (" ", ())] if self._rows[1:] and at < len(head) else []
                    if cell:
                        block.lines.append(("- " if at == 0 else "  ", [*name, *cell]))
        self._blocks.append(block)
        self._block = None


def _width(text: str) -> int:
    return len(text) if text.isascii() else max(wcwidth.wcswidth(text), 0)
