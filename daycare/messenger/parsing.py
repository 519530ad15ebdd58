"""What the Markdown parser sees, put right where chat differs: formulas, spoilers, and HTML that is none."""

import re
from collections.abc import Iterator
from typing import Any, Final

import pyromark

from daycare.base.tables import is_overfull

Event = tuple[Any, int, int]  # what the parser saw, and the bytes of the source where that begins and ends

INLINE: Final = {"Strong": "bold", "Emphasis": "italic", "Strikethrough": "strikethrough"}
TAGS: Final = {  # HTML that models write, and the mark it stands for, empty if it only lays out
    **dict.fromkeys(("b", "strong"), "bold"),
    **dict.fromkeys(("i", "em"), "italic"),
    **dict.fromkeys(("u", "ins"), "underline"),
    **dict.fromkeys(("s", "del", "strike"), "strikethrough"),
    **dict.fromkeys(("code", "kbd"), "code"),
    "tg-spoiler": "spoiler",
    **dict.fromkeys(("a", "p", "div", "span", "center", "sub", "sup", "small", "mark", "details", "summary"), ""),
}
TAG: Final = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9-]*)(\s[^<>]*)?/?>")
FORMULA: Final = re.compile(r"\\[A-Za-z]{2}|\^|_\{|\b[A-Za-z]_[A-Za-z0-9]\b")  # else dollars are money, or shell
# Left as they are, the server would turn controls into spaces and drop the marks that turn the direction of text.
CLEAN: Final[dict[int, str | None]] = {
    **dict.fromkeys((*range(32), *range(127, 160), *range(0x202A, 0x202F))),
    **{9: "\t", 10: "\n", 11: " ", 12: " ", 13: "\n", 0x2028: "\n", 0x2029: "\n\n"},
}

LANGUAGE_MAX_CHARS: Final = 32  # of a code block; the longest that highlighters know has 20
_LANGUAGE = re.compile(r"[A-Za-z0-9_+#.-]+")
_OPTIONS = pyromark.Options.ENABLE_STRIKETHROUGH | pyromark.Options.ENABLE_TASKLISTS | pyromark.Options.ENABLE_FOOTNOTES
_READINGS_MAX = 4  # more than one only where dollars of money and of formulas mix
_DOLLARS = re.compile(rf"\$(?:[^$\n]{{0,300}}|\$[^$]{{0,300}})(?:{FORMULA.pattern})")  # worth reading as formulas
_BRACKETS = re.compile(r"\\\[((?:(?!\\[\[\]]|\n\s*\n)[^$]){1,1000})\\\]|\\\(((?:(?!\\[()])[^$\n]){1,300})\\\)")


def clean(text: str) -> str:
    """Return the text as the server keeps it: valid UTF-16, no controls, `\\n` at the end of lines."""
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return whole.replace("\r\n", "\n").translate(CLEAN)


def language(info: str) -> str:
    """Return the language of a fence, beside which attributes may stand; empty if something else does."""
    name, *attributes = info.split() or [""]
    known = len(name) <= LANGUAGE_MAX_CHARS and _LANGUAGE.fullmatch(name)
    return name if known and all("=" in each or each.startswith("{") for each in attributes) else ""


def read(markdown: str) -> tuple[bytes, Iterator[Event]]:
    """Return the source that was parsed, and the events in it.

    Beside the parser's own there are `Tag`, one of a pair of HTML tags, and `Spoiler`, whether one begins.
    """
    text = clean(markdown)
    options = _OPTIONS if is_overfull(text) else _OPTIONS | pyromark.Options.ENABLE_TABLES
    source, math = _formulas(text, options)
    found = list(pyromark.events_with_range(source, options=options | pyromark.Options.ENABLE_MATH)) if math else []
    for _ in range(_READINGS_MAX):
        money = [place for event, place in found if _is_money(event)]
        if not money:
            break
        source = _escaped(source.encode(), money)
        found = list(pyromark.events_with_range(source, options=options | pyromark.Options.ENABLE_MATH))
    else:
        math = False
    places = found if math else pyromark.events_with_range(source, options=options)
    seen: Iterator[Event] = ((event, place["start"], place["end"]) for event, place in places)
    seen = _paired(seen) if "</" in source else seen
    return source.encode(), _spoilers(_merged(seen)) if "||" in source else seen


def _is_money(event: Any) -> bool:
    [(name, value)] = event.items() if isinstance(event, dict) else [("", "")]
    return name in ("InlineMath", "DisplayMath") and not FORMULA.search(value)


def _escaped(source: bytes, places: list[Any]) -> str:
    """Put a backslash before the dollars at both ends of these places, so that what is between them is read again."""
    kept, at = [], 0
    for place in places:
        start, end = place["start"], place["end"]
        sign = 2 if source.startswith(b"$$", start) else 1
        for cut in sorted({*range(start, start + sign), *range(end - sign, end)}):
            kept += [source[at:cut], b"\\"]
            at = cut
    return b"".join((*kept, source[at:])).decode()


def _formulas(text: str, options: pyromark.Options) -> tuple[str, bool]:
    """Write `\\[..\\]` and `\\(..\\)` with dollars, outside of code; and say whether dollars may be formulas here."""
    if not _BRACKETS.search(text):
        return text, _DOLLARS.search(text) is not None
    source = text.encode()
    pieces, at = [], 0
    for event, place in pyromark.events_with_range(text, options=options):
        if isinstance(event, dict) and ("Code" in event or "CodeBlock" in str(event.get("Start"))):
            pieces.append(_BRACKETS.sub(_dollars, source[at : place["start"]].decode()))
            pieces.append(source[place["start"] : place["end"]].decode())
            at = place["end"]
    pieces.append(_BRACKETS.sub(_dollars, source[at:].decode()))
    return "".join(pieces), True


def _dollars(match: re.Match[str]) -> str:
    display, inline = match.groups()
    if not FORMULA.search(display or inline):
        return match[0]
    return f"$${display.strip()}$$" if display else f"${inline.strip()}$"


def _merged(events: Iterator[Event]) -> Iterator[Event]:
    """Join texts that stand side by side in the source. What was escaped there does not touch its neighbour."""
    texts: list[str] = []
    begin, end = 0, -1
    for event, start, stop in events:
        is_text = "Text" in event  # what is no dictionary is a name: Rule, SoftBreak, HardBreak
        if texts and (not is_text or start != end):
            yield {"Text": "".join(texts)}, begin, end
            texts.clear()
        if not is_text:
            yield event, start, stop
            continue
        begin, end = begin if texts else start, stop
        texts.append(event["Text"])
    if texts:
        yield {"Text": "".join(texts)}, begin, end


def _borders(event: Any) -> bool:
    """Whether a block begins or ends here, which nothing inline reaches over."""
    if not isinstance(event, dict) or not ("Start" in event or "End" in event):
        return False
    tag = event.get("Start", event.get("End"))
    name = next(iter(tag)) if isinstance(tag, dict) else tag
    return name not in (*INLINE, "Link", "Image")


def _paired(events: Iterator[Event]) -> Iterator[Event]:
    """Keep those HTML tags that come in pairs; the others are words, such as `Vec<String>`."""
    kept = list(events)
    opened: dict[str, list[int]] = {}
    for index, (event, start, end) in enumerate(kept):
        if _borders(event):
            opened.clear()
        if not isinstance(event, dict) or "InlineHtml" not in event:
            continue
        tag = TAG.fullmatch(event["InlineHtml"])
        name = tag[2].lower() if tag else ""
        if not tag or name not in TAGS:
            continue
        if not tag[1]:
            opened.setdefault(name, []).append(index)
        elif opened.get(name):
            first = opened[name].pop()
            kept[first] = ({"Tag": kept[first][0]["InlineHtml"]}, *kept[first][1:])
            kept[index] = ({"Tag": event["InlineHtml"]}, start, end)
    return iter(kept)


def _spoilers(events: Iterator[Event]) -> Iterator[Event]:
    """Find `||hidden||`: a pair within one block, with no space on its inner sides, as in `a || b`."""
    kept = list(events)
    cuts: dict[int, list[int]] = {}
    opened: tuple[int, int] | None = None
    in_code = False
    for index, (event, _, _) in enumerate(kept):
        if _borders(event):
            opened = None
            in_code = "CodeBlock" in str(event.get("Start"))
        text = event.get("Text", "") if isinstance(event, dict) and not in_code else ""
        for found in re.finditer(r"(?<!\|)\|\|(?!\|)", text):
            before, after = text[: found.start()][-1:], text[found.end() :][:1]
            if opened and not before.isspace() and opened != (index, found.start() - 2):
                cuts.setdefault(opened[0], []).append(opened[1])
                cuts.setdefault(index, []).append(found.start())
                opened = None
            elif not after.isspace():
                opened = (index, found.start())
    hidden = False
    for index, (event, start, end) in enumerate(kept):
        at = 0
        for cut in cuts.get(index, ()):
            yield {"Text": event["Text"][at:cut]}, start, end
            hidden, at = not hidden, cut + 2
            yield {"Spoiler": hidden}, start, end
        yield ({"Text": event["Text"][at:]} if at else event), start, end
