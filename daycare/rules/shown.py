"""A text as a person has to see it: nothing in it is invisible, turned round, or out of sight behind blanks.

What is escaped stands between `⟦` and `⟧`, and so does such a bracket itself, so that no text can pretend an escape.
"""

import re
import unicodedata
from itertools import groupby
from typing import Final

BLANKS_MAX: Final = 16  # in a row; an indentation of four levels stays as it is
LINES_MAX: Final = 3
MARKS_MAX: Final = 3  # on one letter; languages use two
_ODD_MAX: Final = 64  # kinds of signs to be looked for; a text with more of them is looked at whole
_GROUPS_MAX: Final = 4  # kinds of blanks in one row that are named

_HIDING: Final = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
_SHOWS_NOTHING: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U0001d159\U000e0100-\U000e01ef⟦⟧]"
)
_BLANKS: Final = re.compile(rf"[^\S\n]{{{BLANKS_MAX + 1},}}+|(?:\r?\n){{{LINES_MAX + 1},}}+")
_MARKS: Final = re.compile("[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]")
_NAMES: Final = {" ": "spaces", "\t": "tabs", "\n": "line breaks", "\u00a0": "no-break spaces", "\u3000": "wide spaces"}


def shown(text: str) -> str:
    """Return `text` for a person's eyes: what does not show is spelt out, long blanks are counted."""
    parts: list[str] = []
    at = 0
    for found in _BLANKS.finditer(text):
        parts.append(_spelt(text[at : found.start()]))
        parts.append(_counted(found[0].replace("\r\n", "\n")))
        at = found.end()
    parts.append(_spelt(text[at:]))
    return "".join(parts)


def _spelt(text: str) -> str:
    text = text.replace("\r\n", "\n")
    odd = [char for char in set(text) if char not in "\n\t" and (_hides(char) or _MARKS.match(char))]
    if not odd:
        return text
    if len(odd) > _ODD_MAX:
        return _named(text, "")
    # Between odd ones a text stays as it is, however long: only what may hide is looked at sign by sign.
    runs = re.compile(f"[{re.escape(''.join(odd))}]+")
    return runs.sub(lambda found: _named(found[0], text[found.start() - 1 : found.start()]), text)


def _named(text: str, before: str) -> str:
    """Return signs that may hide something with those spelt out that do, after the sign `before`."""
    parts: list[str] = []
    marks = 0
    for char, run in groupby(text):
        count = sum(1 for _ in run)
        marks = marks + count if _MARKS.match(char) else 0
        if marks <= MARKS_MAX and (char in "\n\t" or not _hides(char) or (count == 1 and _colours(char, before))):
            parts.append(char * count)
        else:
            parts.append(f"⟦U+{ord(char):04X}{f', {count:,} times' if count > 1 else ''}⟧")
        before = char
    return "".join(parts)


def _colours(char: str, before: str) -> bool:
    """Whether a variation selector only says that the sign before it is a picture, as it does in most emoji."""
    return char == "\ufe0f" and before != "" and unicodedata.category(before) == "So"


def _hides(char: str) -> bool:
    return unicodedata.category(char) in _HIDING or _SHOWS_NOTHING.match(char) is not None


def _counted(blanks: str) -> str:
    groups = [(char, sum(1 for _ in run)) for char, run in groupby(blanks)]
    if len(groups) > _GROUPS_MAX:
        return f"⟦{len(blanks):,} blanks⟧"
    named = ", ".join(f"{count:,} {_NAMES.get(char) or f'times U+{ord(char):04X}'}" for char, count in groups)
    return f"⟦{named}⟧" + ("\n" if "\n" in blanks else "")
