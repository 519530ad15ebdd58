"""Forms in which a text is hidden: each is undone, and what comes out is handed back to be read like any other text.

What comes out is bounded for a whole text (`UndoBudget`); what is left unread is said.
"""

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from daycare.rules.normal import NormalView, all_at
from daycare.rules.vocabulary import Vocabulary

DECODED_MAX_CHARS: Final = 24_576  # of one text, all forms together; some 60 ms of reading
_PIECE_CHARS: Final = 8_192  # looked through at a time
_AROUND_CHARS: Final = 80  # read on both sides of words that are turned
_APART_CHARS: Final = 60  # words that are turned belong together when they are not further apart
_PART_CHARS: Final = 256  # of letters without words, read at a time
_OVERLAP_CHARS: Final = 100
_READABLE_MIN_CHARS: Final = 6
_UNPRINTABLE_SHARE: Final = 0.05

_BASE64: Final = re.compile(r"(?<![\w+/-])[A-Za-z0-9+/_-]{16,}+={0,2}(?:\r?\n[A-Za-z0-9+/_-]{4,}+={0,2})*+")
_HEX: Final = re.compile(r"(?<!\w)(?:0x)?(?:[0-9A-Fa-f]{2}[ :,-]?){10,}+")
_NUMBERS: Final = re.compile(r"(?<!\w)\d{2,3}(?:[ ,;]{1,2}\d{2,3}){9,}+")
_BITS: Final = re.compile(r"(?<!\w)(?:[01]{8} ?){8,}+")
_SPACED: Final = re.compile(r"(?<![^\W_])[^\W\d_](?:(?:[^\w\n]|_){1,3}[^\W\d_](?![^\W_])){6,250}+")
_TAGS: Final = re.compile("[\U000e0020-\U000e007e]{8,}+")
_SELECTORS: Final = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]{8,}+")
_WORD: Final = re.compile(r"[^\W_]+")
_ROT13: Final = str.maketrans("abcdefghijklmnopqrstuvwxyz", "nopqrstuvwxyzabcdefghijklm")


class UndoBudget:
    """How much of one text may still be undone."""

    def __init__(self) -> None:
        self.spent = False  # something was left unread
        self._left = DECODED_MAX_CHARS

    def take(self, count: int) -> bool:
        """Whether that many characters may be read; if not, none may from now on."""
        return self.part(count) == count

    def part(self, count: int) -> int:
        """Return how many of that many characters may be read."""
        allowed = min(count, self._left)
        self._left -= allowed
        if allowed < count:
            self.spent, self._left = True, 0
        return allowed


class Form(NamedTuple):
    """A text that was hidden, and how."""

    view: NormalView
    name: str


def invisible(view: NormalView, budget: UndoBudget) -> Iterator[Form | None]:
    """Return the texts written in characters that show nothing."""
    for pattern in (_TAGS, _SELECTORS):
        for found in _found(pattern, view.text):
            yield None
            if found is None:
                continue
            values = bytes(
                (ord(char) - 0xFE00 if char < "\uff00" else ord(char) - (0xE0000 if pattern is _TAGS else 0xE00F0))
                & 255
                for char in found[0][:_PIECE_CHARS]
            )
            if text := _readable(values):
                if not budget.take(len(text)):
                    return
                yield Form(_at(view, found, text), "invisible characters")


def encoded(view: NormalView, budget: UndoBudget) -> Iterator[Form | None]:
    """Return the texts that were encoded as a whole; None now and then, so that others get a turn."""
    for pattern, name, decode in _ENCODINGS:
        for found in _found(pattern, view.text):
            yield None
            if found is not None and (text := decode(found[0])):
                yield Form(_at(view, found, text[: budget.part(len(text))]), name)


def spaced(view: NormalView, words: Vocabulary, budget: UndoBudget) -> Iterator[Form | None]:
    """Return the texts whose letters stand apart."""
    for found in _found(_SPACED, view.text, _OVERLAP_CHARS):
        yield None
        if found is None:
            continue
        places = [place for place in range(*found.span()) if view.text[place].isalpha()]
        if not budget.take(2 * len(places)):
            return
        yield Form(pieces(view, places, words), "spaced-out letters")


def pieces(view: NormalView, places: Sequence[int], words: Vocabulary) -> NormalView:
    """Return the letters at `places` as words."""
    text: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    at, apart = 0, True
    for piece in words.pieces("".join(view.text[place] for place in places)):
        known = len(piece) > 1
        if known and not apart:
            text.append(" ")
            starts.append(view.starts[places[at]])
            ends.append(view.ends[places[at]])
        text.append(piece)
        for place in places[at : at + len(piece)]:
            starts.append(view.starts[place])
            ends.append(view.ends[place])
        at += len(piece)
        apart = known
        if known:
            text.append(" ")
            starts.append(starts[-1])
            ends.append(ends[-1])
    return NormalView("".join(text), starts, ends)


def joined(
    view: NormalView, places: Sequence[tuple[int, int]], words: Vocabulary, budget: UndoBudget
) -> Iterator[Form | None]:
    """Return the texts whose words stand without blanks between them."""
    last = 0
    for stretch in _together(places, 1):
        yield None
        if stretch is None:
            continue
        start, end = stretch
        while start > max(last, stretch[0] - _AROUND_CHARS) and not view.text[start - 1].isspace():
            start -= 1
        while end < min(len(view.text), stretch[1] + _AROUND_CHARS) and not view.text[end].isspace():
            end += 1
        last = end
        for at in range(start, end, _PART_CHARS):
            part = range(at, min(at + _PART_CHARS + _OVERLAP_CHARS, end))
            if not budget.take(2 * len(part)):  # finding words costs as much as reading them
                return
            yield Form(pieces(view, part, words), "words without blanks")


def turned(
    view: NormalView, places: Sequence[tuple[int, int]], backwards: bool, budget: UndoBudget
) -> Iterator[Form | None]:
    """Return the texts around words that mean something with rot13 or backwards."""
    last = 0
    for stretch in _together(places, _APART_CHARS, at_least=2):
        yield None
        if stretch is None:
            continue
        begin, end = max(last, stretch[0] - _AROUND_CHARS), min(len(view.text), stretch[1] + _AROUND_CHARS)
        last = end
        for at in range(begin, end, 8 * _PART_CHARS):
            part = view.part(at, min(at + 8 * _PART_CHARS + _OVERLAP_CHARS, end))
            if not budget.take(len(part.text) * (2 if backwards else 1)):
                return
            if backwards:
                yield Form(NormalView(part.text[::-1], part.starts[::-1], part.ends[::-1]), "reversed text")
                yield Form(part._replace(text=_WORD.sub(lambda word: word[0][::-1], part.text)), "reversed words")
            else:
                yield Form(part._replace(text=part.text.translate(_ROT13)), "rot13")


def _together(places: Sequence[tuple[int, int]], apart: int, at_least: int = 1) -> Iterator[tuple[int, int] | None]:
    """Return the stretches of places that are not further apart than that; None now and then."""
    start, end, count = 0, 0, 0
    for number, (first, last) in enumerate(places):
        if number % _PART_CHARS == 0:
            yield None
        if count and first - end <= apart:
            end, count = last, count + 1
            continue
        if count >= at_least:
            yield start, end
        start, end, count = first, last, 1
    if count >= at_least:
        yield start, end


def _found(pattern: re.Pattern[str], text: str, overlap: int = 0) -> Iterator[re.Match[str] | None]:
    """Return the matches of `pattern`, long ones overlapping by that much; None after each piece of the text."""
    at = 0
    while at < len(text):
        border = at + _PIECE_CHARS
        found = pattern.search(text, at, border)
        if found is not None and (found.end() < border or border >= len(text)):
            at = max(found.start() + 1, found.end() - overlap * (found.end() - found.start() > 8 * overlap))
            yield found
            continue
        if found is not None:  # it may go on behind the border
            found = pattern.match(text, found.start())
        if found is not None:
            yield found
            at = max(found.start() + 1, found.end() - overlap * (found.end() - found.start() > 8 * overlap))
        elif border >= len(text):
            return
        else:
            at = max(at + 1, border - 64)  # what began before the border is found whole
        yield None


def _at(view: NormalView, found: re.Match[str], text: str) -> NormalView:
    return all_at(text, *view.span(found.start(), found.end()))


def _readable(values: bytes) -> str:
    """Return the text that the bytes are, or nothing if they are none."""
    if values[1::2].count(0) * 2 >= len(values) - 1:
        values = values[::2]
    try:
        text = values.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < 12 or error.start < len(values) - 4:
            return ""
        text = values[: error.start].decode("utf-8")
    sample = text[:_PIECE_CHARS]
    bad = len(_CONTROLS.findall(sample))
    return text if len(text) >= _READABLE_MIN_CHARS and bad <= len(sample) * _UNPRINTABLE_SHARE else ""


_CONTROLS: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffd]")


_BASE64_LETTERS: Final = str.maketrans("-_", "+/", "= \t\r\n")
_HEX_DIGITS: Final = str.maketrans("", "", " :,-")


def _from_base64(text: str) -> str:
    letters = text.translate(_BASE64_LETTERS)
    if len(letters) % 4 == 1:
        letters = letters[:-1]
    try:
        return _readable(base64.b64decode(letters + "=" * (-len(letters) % 4)))
    except (binascii.Error, ValueError):
        return ""


def _from_hex(text: str) -> str:
    digits = text.removeprefix("0x").translate(_HEX_DIGITS)
    return _readable(bytes.fromhex(digits[: len(digits) // 2 * 2]))


def _from_numbers(text: str) -> str:
    values = [int(number) for number in re.findall(r"\d+", text[:_PIECE_CHARS])]
    return _readable(bytes(values)) if max(values) < 256 else ""


def _from_bits(text: str) -> str:
    bits = text.replace(" ", "")
    bits = bits[:_PIECE_CHARS]
    return _readable(int(bits, 2).to_bytes(len(bits) // 8, "big"))


_ENCODINGS: Final[tuple[tuple[re.Pattern[str], str, Callable[[str], str]], ...]] = (
    (_BASE64, "base64", _from_base64),
    (_HEX, "hexadecimal", _from_hex),
    (_NUMBERS, "character codes", _from_numbers),
    (_BITS, "binary digits", _from_bits),
)
