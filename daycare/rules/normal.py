"""A copy of a text as a model reads it, with the way back: each character knows its place in the original.

Folded are case, accents, compatibility forms (fullwidth, mathematical, circled, ...) and invisible characters;
entities, percent and backslash escapes are decoded. Letters of one script that look like another's are left to
`lookalike`, which is asked for single words: a Russian word has to stay Russian.
"""

import html
import re
import sys
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple, overload
from urllib.parse import unquote

CHUNK_CHARS: Final = 512  # of the original folded at a time, 0.1 ms; ten times that when each character is new

# Characters that show nothing: joiners, bidi controls, fillers, variation selectors, tags.
INVISIBLE: Final = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_INVISIBLE: Final = re.compile(f"[{INVISIBLE}\x00-\x08\x0e-\x1f\x7f]")
_MARKS: Final = re.compile("[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]")
_ESCAPED: Final = re.compile(
    r"(?P<entity>&(?:#\d{1,7}|#x[\da-f]{1,6}|[a-z]{2,24});?)|(?P<percent>(?:%[\da-f]{2}){1,64})"
    r"|(?P<escape>\\u\{[\da-f]{1,6}\}|\\u[\da-f]{4}|\\U[\da-f]{8}|\\x[\da-f]{2})",
    re.IGNORECASE,
)
_ESCAPES_MAX_KNOWN: Final = 4_096
_FORM_MAX_CHARS: Final = 4  # a character that stands for a whole sentence stays one: texts would grow 18 times
_ESCAPE_ROUNDS: Final = 2  # %2569 is an escaped escape; nobody's reader goes deeper
_LOOSE_END: Final = re.compile(r"(?:&[#\w]{0,24}|\\[^\\\s]{0,9}|(?:%[\da-fA-F]{0,2}){1,4})\Z")

_EXTRA: Final = {
    **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\xb4`\uff07\u02bc", "'"),
    **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\xab\xbb\u2039\u203a\u300c\u300d\u300e\u300f\uff02", '"'),
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe63\uff0d", "-"),
    **dict.fromkeys("\u2028\u2029\x85\x0b\x0c", "\n"),
}
_EXTRA.update(zip("ıłøđħŧŋɑɡɩ", "ilodhtnagi", strict=True))
_EXTRA.update(zip("ɪɢɴᴏʀᴇꜱᴛᴀʙᴄᴅꜰʜᴊᴋʟᴍᴘᴜᴠᴡʏᴢ", "ignorestabcdfhjklmpuvwyz", strict=True))
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"
for _first in (0x1F150, 0x1F170, 0x1F1E6):  # circled, squared and regional letters have no compatibility form
    _EXTRA.update((chr(_first + n), letter) for n, letter in enumerate(_LETTERS))

_LOOKALIKE: Final = str.maketrans(
    "авеёзікмнопрстухцчьѕјԁԛԝһӏғүѵґαβγδεζηικλμνορστυχωϲϳաեհոսցօքզյլꭺꮪᎪᎬ",
    "abee3ikmhonpctyxu4bsjdqwhlfyvrabydezniklmvopotuxwcjwehnugoqqjlasae",
)
_LEET: Final = str.maketrans("013457@$8!|", "oieastasbil")
_LEET_ELL: Final = str.maketrans("013457@$8!|", "oleastasbll")


class NormalView(NamedTuple):
    """A text, and where each of its characters stood in the original."""

    text: str
    starts: Sequence[int]
    ends: Sequence[int]

    def part(self, start: int, end: int) -> "NormalView":
        """Return the view of a part."""
        return NormalView(self.text[start:end], self.starts[start:end], self.ends[start:end])

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return the place in the original of the characters from `start` to `end`, which is not empty."""
        starts, ends = self.starts[start], self.ends[end - 1]
        return (starts, ends) if starts < ends else (self.starts[end - 1], self.ends[start])  # it is turned round


def whole(text: str) -> NormalView:
    """Return the view of an original text."""
    return NormalView(text, range(len(text)), range(1, len(text) + 1))


def all_at(text: str, start: int, end: int) -> NormalView:
    """Return the view of a text that came out of the characters from `start` to `end` as a whole."""
    return NormalView(text, [start] * len(text), [end] * len(text))


class _Places(Sequence[int]):
    """Places in pieces, which are kept as they came."""

    def __init__(self) -> None:
        self._pieces: list[Sequence[int]] = []
        self._begins: list[int] = []  # of each piece
        self._count = 0

    def add(self, piece: Sequence[int]) -> None:
        if piece:
            self._begins.append(self._count)
            self._pieces.append(piece)
            self._count += len(piece)

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, at: int) -> int: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[int]: ...
    def __getitem__(self, at: int | slice) -> int | Sequence[int]:
        if isinstance(at, slice):
            return [self[place] for place in range(*at.indices(self._count))]
        number = bisect_right(self._begins, at) - 1
        return self._pieces[number][at - self._begins[number]]


class Copy:
    """A view that grows."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._starts = _Places()
        self._ends = _Places()

    def add(self, view: NormalView) -> None:
        """Put `view` behind what there is."""
        self._texts.append(view.text)
        self._starts.add(view.starts)
        self._ends.add(view.ends)

    def view(self) -> NormalView:
        """Return all there is."""
        return NormalView("".join(self._texts), self._starts, self._ends)


def chunks(view: NormalView) -> Iterator[NormalView]:
    """Cut a view into pieces, beside words and escapes where possible."""
    text, start = view.text, 0
    while len(text) - start > CHUNK_CHARS:
        end = start + CHUNK_CHARS
        blank = max(text.rfind(" ", end - 64, end), text.rfind("\n", end - 64, end))
        if blank >= 0:
            end = blank + 1
        elif loose := _LOOSE_END.search(text, end - 24, end):
            end = loose.start()
        yield view.part(start, end)
        start = end
    if start < len(text):
        yield view.part(start, len(text))


def bare(view: NormalView) -> NormalView:
    """Return `view` without escapes and without characters that show nothing."""
    for _ in range(_ESCAPE_ROUNDS):
        if not _ESCAPED.search(view.text):
            break
        view = _unescaped(view)
    if _INVISIBLE.search(view.text):
        kept = [place for place, char in enumerate(view.text) if not _INVISIBLE.match(char)]
        text, starts, ends = view
        view = NormalView("".join(text[n] for n in kept), [starts[n] for n in kept], [ends[n] for n in kept])
    return view


def folded(view: NormalView) -> NormalView:
    """Return `view` in the plainest letters."""
    text = view.text
    if text.isascii():
        return view._replace(text=text.lower())
    plain = text.translate(_fold)
    if len(plain) == len(text) and _fold.uneven.isdisjoint(text):
        return view._replace(text=plain)
    parts: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    for char, start, end in zip(text, view.starts, view.ends, strict=True):
        new = _fold[ord(char)]
        parts.append(new)
        starts.extend([start] * len(new))
        ends.extend([end] * len(new))
    return NormalView("".join(parts), starts, ends)


def lookalike(word: str) -> str:
    """Return `word` with letters of other scripts replaced by the Latin ones that they look like."""
    return word.translate(_LOOKALIKE)


def unleet(word: str) -> tuple[str, str]:
    """Return the readings of a word in which digits and signs stand for letters."""
    return word.translate(_LEET), word.translate(_LEET_ELL)


def fold(text: str) -> str:
    """Return `text` in the plainest letters, without their places."""
    return text.translate(_fold)


class _Fold(dict[int, str]):
    """What each character becomes; filled as characters come."""

    def __init__(self) -> None:
        super().__init__()
        self.uneven: set[str] = set()

    def __missing__(self, code: int) -> str:
        char = chr(code)
        new = _EXTRA.get(char)
        if new is None and _INVISIBLE.match(char):
            new = ""
        elif new is None:
            plain = _MARKS.sub("", unicodedata.normalize("NFKD", char).casefold())
            new = "".join(_EXTRA.get(part, part) for part in unicodedata.normalize("NFC", plain))
            if len(new) > _FORM_MAX_CHARS:
                new = char
        self[code] = new
        if len(new) != 1:
            self.uneven.add(char)
        return new


_fold: Final = _Fold()


def _unescaped(view: NormalView) -> NormalView:
    text, at = view.text, 0
    parts: list[str] = []
    starts: list[int] = []
    ends: list[int] = []

    for found in _ESCAPED.finditer(text):
        begin, end = found.span()
        if begin > at:
            parts.append(text[at:begin])
            starts.extend(view.starts[at:begin])
            ends.extend(view.ends[at:begin])
        decoded = _meant(found[0])
        parts.append(decoded)
        if found["percent"] and len(decoded) * 3 == end - begin:  # a byte each: keep their places apart
            starts.extend(view.starts[begin:end:3])
            ends.extend(view.ends[begin + 2 : end : 3])
        else:
            starts.extend([view.starts[begin]] * len(decoded))
            ends.extend([view.ends[end - 1]] * len(decoded))
        at = end
    parts.append(text[at:])
    starts.extend(view.starts[at:])
    ends.extend(view.ends[at:])
    return NormalView("".join(parts), starts, ends)


@lru_cache(_ESCAPES_MAX_KNOWN)
def _meant(escape: str) -> str:
    if escape[0] == "%":
        return unquote(escape)
    if escape[0] == "&":
        return html.unescape(escape)
    code = int(escape[2:].strip("{}"), 16)
    return chr(code) if code <= sys.maxunicode and not 0xD800 <= code < 0xE000 else escape
