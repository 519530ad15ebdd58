"""Markdown for messengers that format by signs in the text: `*bold*`, `_italic_`, `~struck~`, code.

WhatsApp and Slack do so. They have no way to escape a sign, and format nothing over the end of a line. A mark that
would stand inside a word is left out: there it would be shown as a sign.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from daycare.messenger.markdown import QUOTE, walk
from daycare.messenger.parts import PRE, Mark, Run, Splitter
from daycare.messenger.style import Style
from daycare.messenger.text import units

STYLE: Final = Style(bullet="- ", indent="  ", done="- [x] ", open="- [ ] ", links=False, columns=34)
SIGNS: Final[Mapping[str, str]] = {"bold": "*", "italic": "_", "strikethrough": "~", "code": "`"}
_FENCE: Final = "```"
_FENCES: Final = re.compile(rf"^{_FENCE}$\n?", re.MULTILINE)
_APART: Final = "``\u2060`"  # three backticks would end a block: a word joiner, which nobody sees, keeps them apart


Spell = Callable[[str, str], str]


def render(
    markdown: str, limit: int, signs: Mapping[str, str] = SIGNS, style: Style = STYLE, spell: Spell | None = None
) -> list[str]:
    """Return the messages for this Markdown, in order; none if there is nothing to see. Each has at most `limit` units.

    `spell` writes a piece of one line and the address that it links, empty for none, where the messenger has signs for
    that. Never raises for any text; `limit` is at least 64, and room for a link where these are spelled.
    """
    return _split(walk(markdown, style), limit, signs, spell)


def cut(text: str, limit: int) -> list[str]:
    """Cut what was rendered once more, to messages of at most so many units."""
    runs: list[Run] = []
    for number, block in enumerate(_FENCES.split(text)):
        runs += [(block.removesuffix("\n"), ((PRE, ""),)), ("\n", ())] if number % 2 else [(block, ())]
    return _split(runs, limit, {})


def _split(runs: Sequence[Run], limit: int, signs: Mapping[str, str], spell: Spell | None = None) -> list[str]:
    splitter = Splitter(runs)

    def made(start: int, end: int) -> tuple[str, int]:
        piece = splitter.runs(start, end)
        text = _written(piece if spell is None else _spelled(piece, spell), signs)
        return text, units(text)

    return list(splitter.split(limit, made))


def _spelled(runs: Sequence[Run], spell: Spell) -> list[Run]:
    spelled = []
    for text, marks in runs:
        target = next((extra for kind, extra in marks if kind == "text_link"), "")
        lines = (spell(line, target if line.strip() else "") if line else "" for line in text.split("\n"))
        spelled.append(("\n".join(lines), marks))
    return spelled


class _Line:
    __slots__ = ("code", "quote", "runs")

    def __init__(self, *, code: bool) -> None:
        self.code = code
        self.quote = False
        self.runs: list[tuple[str, tuple[str, ...]]] = []  # text and its signs, the outermost first


def _written(runs: Sequence[Run], signs: Mapping[str, str]) -> str:
    written: list[str] = []
    fenced = False
    for line in _lines(runs, signs):
        before = "> " if line.quote else ""
        if line.code != fenced:
            written.append(f"{before if line.code else ''}{_FENCE}")
            fenced = line.code
        if not line.quote and not line.code and len(line.runs) == 1 and not line.runs[0][1]:
            written.append(line.runs[0][0])  # as most are
            continue
        text = "".join(text for text, _ in line.runs).replace(_FENCE, _APART) if line.code else _signed(line.runs)
        written.append((before + text).rstrip() if before else text)
    return "\n".join((*written, _FENCE) if fenced else written)


def _lines(runs: Sequence[Run], signs: Mapping[str, str]) -> list[_Line]:
    line = _Line(code=False)
    lines = [line]
    known: dict[
        tuple[Mark, ...], tuple[bool, bool, tuple[str, ...]]
    ] = {}  # a reply has few kinds of runs, and many runs
    for text, marks in runs:
        if marks not in known:
            own = tuple(signs[kind] for kind, _ in marks if kind in signs)
            known[marks] = any(kind == PRE for kind, _ in marks), QUOTE in marks, own
        code, quote, own = known[marks]
        for number, piece in enumerate(text.split("\n")):
            if number:
                line = _Line(code=False)
                lines.append(line)
            if code:
                line.code = True
            if quote:
                line.quote = True
            if piece:
                line.runs.append((piece, own))
    return lines


def _signed(runs: Sequence[tuple[str, tuple[str, ...]]], after: str = "") -> str:
    """Write runs of one line with their signs; `after` is what follows them."""
    out = ""
    at = 0
    while at < len(runs):
        text, marks = runs[at]
        if not marks:
            out += text
            at += 1
            continue
        inner = []
        while at < len(runs) and runs[at][1][:1] == marks[:1]:
            inner.append((runs[at][0], runs[at][1][1:]))
            at += 1
        following = runs[at][0][:1] if at < len(runs) else after
        out += _wrapped(_signed(inner, following), marks[0], out[-1:], following)
    return out


def _wrapped(text: str, sign: str, before: str, after: str) -> str:
    core = text.strip()
    if not core or sign in core:
        return text
    head, tail = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
    if (not head and before.isalnum()) or (not tail and after.isalnum()):
        return text
    return f"{head}{sign}{core}{sign}{tail}"
