"""The forms in which a secret may turn up in text, and where in a text they stand.

A text is searched as it is and with its escapes undone (URLs, JSON, `repr`, HTML, and these within each other); hex,
base64, base32 and quoted-printable are searched for as such, of UTF-8 and UTF-16. All of it in small letters, for most
forms may be written either way.
"""

import base64
import binascii
import re
import string
import sys
from bisect import bisect_right
from collections.abc import Callable, Container, Iterable, Iterator
from functools import cached_property
from itertools import chain, compress
from typing import Final, NamedTuple

_PLAIN_MIN_CHARS: Final = 4  # hiding shorter words would garble every line
_LOWER_MIN_CHARS: Final = 8  # shorter ones may be words that stand in small letters anywhere
_HEX_MIN_BYTES: Final = 6
_BASE64_MIN_CHARS: Final = 10
_LINE_MIN_CHARS: Final = 16  # of a secret of many lines, each of which may be shown alone
_HEAD_CHARS: Final = 10  # that tell a secret which was cut at the end of a text ...
HEAD_CHARS: Final = 3  # of every needle
_CUT_MIN_CHARS: Final = 16  # ... if it has as many
_DEPTH_MAX: Final = 4  # JSON in JSON in a URL ...

_ESCAPE: Final = re.compile(
    r"%([0-9a-f]{2})|\\(?:u([0-9a-f]{4})|x([0-9a-f]{2})|(.))|&(?:#([0-9]{1,6})|#x([0-9a-f]{1,5})|(amp|lt|gt|quot|apos));",
    re.IGNORECASE | re.DOTALL,
)
_PARTED: Final = re.compile(r"[0-9a-f]{2}([:\- ])[0-9a-f]{2}\1[0-9a-f]{2}\1[0-9a-f]{2}\1")
_RUN: Final = re.compile(r"[a-z0-9+/_=-]++")
_RUN_SIGNS: Final = string.ascii_lowercase + string.digits + "+/_=-"
_TEXT_MAX: Final = sys.maxsize
_NAMED: Final = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_SHORT: Final = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}
_CUT_SIGNS: Final = ".… \n"  # what stands behind a text that was cut
_WINDOW_CHARS: Final = 32 * 1024  # of a long text looked at in one go: other threads wait for some 10 ms
_PLACES_AT_ONCE: Final = 4_096  # looked at without a break: some 0.5 ms
_SIFTED: Final = 100  # more needles than these are sifted first
_ESCAPED: Final = 8  # characters that one may take as an escape, such as \\u0041 in JSON within JSON


class Needle(NamedTuple):
    """What to look for. `inner`: base64, whose neighbours hold bits of the secret, too. `exact`: as it is written.

    `parted`: pairs of hex digits with something between them.
    """

    text: str
    inner: bool = False
    exact: bool = False
    parted: bool = False


def needles(secret: str | bytes) -> frozenset[Needle]:
    """Return what a secret is found by; nothing for one that is too short."""
    if isinstance(secret, bytes):
        return frozenset(_encoded(secret))
    if len(secret) < _PLAIN_MIN_CHARS:
        return frozenset()
    raw = secret.encode(errors="surrogatepass")
    # As it is, each line of it, as a form of the web writes blanks, and as whoever undoes escapes byte by byte sees it.
    lines = [line.strip() for line in secret.splitlines()] if "\n" in secret else []
    shown = [line for line in lines if len(line) >= _LINE_MIN_CHARS and not line.startswith("-----")]
    wide = secret.encode("utf-16-be", "surrogatepass")
    units = "".join(chr(int.from_bytes(wide[at : at + 2], "big")) for at in range(0, len(wide), 2))
    texts = {each.strip() for each in (secret, raw.decode("latin-1"), units)} | set(shown)
    texts |= {each.replace(" ", "+") for each in texts}
    texts |= {_Map(each).text for each in texts}  # what is left when a part of it was taken for an escape
    short = len(secret) < _LOWER_MIN_CHARS
    plain = {Needle(text if short else lowered(text), exact=short) for text in texts if len(text) >= _PLAIN_MIN_CHARS}
    both = (wide, secret.encode("utf-16-le", "surrogatepass"))
    plain |= {Needle(lowered(each.decode("latin-1").strip("\x00"))) for each in both}  # as who reads bytes sees it
    # Of what is longer than any key the beginning is looked for in other encodings: all of it would take 100 ms.
    encoded = (_encoded(each[:_ENCODED_MAX_BYTES]) for each in (raw, *both, _twice(raw[:_ENCODED_MAX_BYTES])))
    return frozenset((*plain, *chain.from_iterable(encoded)))


def _twice(raw: bytes) -> bytes:
    """Return what is the same in all that encodes a secret's base64 again; its last sign hangs on what follows."""
    return base64.b64encode(raw).rstrip(b"=")[:-1]


def _encoded(raw: bytes) -> Iterator[Needle]:
    if len(raw) >= _HEX_MIN_BYTES:
        yield Needle(raw.hex())
        for separator in ":- ":
            yield Needle(raw.hex(separator), parted=True)
        yield Needle("".join(f"={byte:02x}" for byte in raw))  # quoted-printable of each byte
    for inner in (*_inner(raw, base64.b64encode, 3, 4), *_inner(raw, base64.b32encode, 5, 8)):
        for form in {inner, inner.translate(_URLSAFE)}:
            yield Needle(form.lower(), inner=True)


def _inner(raw: bytes, encode: Callable[[bytes], bytes], size: int, signs: int) -> Iterator[str]:
    """Yield how bytes look wherever they stand in a block of `size`, encoded as so many `signs`.

    Without the characters that hold bits of what stands before and behind.
    """
    bits = 8 * size // signs
    for before in range(size):
        text = encode(bytes(before) + raw + bytes(-(before + len(raw)) % size)).decode()
        inner = text[-(-8 * before // bits) : 8 * (before + len(raw)) // bits]
        if len(inner) >= _BASE64_MIN_CHARS:
            yield inner


_ENCODED_MAX_BYTES: Final = 4_096

_URLSAFE: Final = str.maketrans("+/", "-_")


class _ByLength:
    """Needles without a blank, the shortest first."""

    def __init__(self, needles: Iterable[str]) -> None:
        self._needles = sorted(needles, key=len)
        self._lengths = [len(each) for each in self._needles]

    def up_to(self, chars: int) -> list[str]:
        """Return those that fit into a run of so many characters."""
        return self._needles[: bisect_right(self._lengths, chars)]


def _standing_in(text: str, needles: list[str]) -> list[str]:
    """Return the needles that stand in a text."""
    if len(needles) > _SIFTED:
        # To look for one costs up to 40 us in 20,000 signs alike: how the text's pieces begin rules most of them out.
        begun = {text[at : at + _PLAIN_MIN_CHARS] for at in range(len(text))}
        needles = [each for each in needles if each[:_PLAIN_MIN_CHARS] in begun]
    return [each for each in needles if each in text]


class SecretEncodings:
    """The needles of all secrets, ready to be looked for."""

    def __init__(self, secrets: Iterable[frozenset[Needle]]) -> None:
        found = frozenset().union(*secrets)
        self._exact = tuple(each.text for each in found if each.exact)
        self._parted = tuple(each.text for each in found if each.parted)
        plain = [each.text for each in found if not (each.exact or each.inner or each.parted)]
        self._plain = tuple(each for each in plain if not _RUN.fullmatch(each))
        self._runs = _ByLength(each for each in plain if _RUN.fullmatch(each))
        self._inner = _ByLength(each.text for each in found if each.inner)
        lower = (*plain, *self._inner.up_to(_TEXT_MAX))
        self._heads: dict[str, list[str]] = {}
        for each in lower:
            if len(each) >= _CUT_MIN_CHARS:
                self._heads.setdefault(each[:_HEAD_CHARS], []).append(each)
        self._other_heads = [head for head, found in self._heads.items() if not all(map(_RUN.fullmatch, found))]
        self._tail = max((len(each) for each in lower), default=0)
        self._lower = (*lower, *map(lowered, self._exact), *self._parted)
        # Escapes make a secret longer only, and of one that is cut its beginning is left.
        self._shortest = min(min(map(len, self._lower), default=0), _HEAD_CHARS)

    @cached_property
    def needles(self) -> tuple[list[str], frozenset[str]]:
        """All that is looked for, in small letters, each once and in order; and their first `HEAD_CHARS`."""
        needles = sorted(set(self._lower))
        return needles, frozenset(each[:HEAD_CHARS] for each in needles)

    def spans(self, text: str, *, short: bool = True) -> list[tuple[int, int]]:
        """Return where secrets stand in a text, in order and apart; not `short` without those that may be words.

        A long text is looked at in windows. Each begins before the last one's end, by as much as a secret may take.
        """
        overlap = _ESCAPED * (self._tail + 16)
        size = max(_WINDOW_CHARS, 4 * overlap)
        if len(text) < self._shortest:
            return []
        found = list(self._cut(text))
        for start in range(0, max(len(text) - overlap, 1), size - overlap):
            found += ((start + first, start + end) for first, end in self._within(text[start : start + size], short))
        return _merged(found)

    def _within(self, text: str, short: bool) -> list[tuple[int, int]]:
        """Return where whole secrets stand, as they are or behind escapes."""
        found: list[tuple[int, int]] = []
        maps: list[_Map] = []
        level = text
        while True:
            for start, end in self._at(level, short):
                for each in reversed(maps):
                    start, end = each.original(start), each.original(end)
                found.append((start, end))
            if len(maps) == _DEPTH_MAX or not ("%" in level or "\\" in level or "&" in level):
                break
            undone = _Map(level)
            if undone.text == level:
                break
            maps.append(undone)
            level = undone.text
        return found

    def _at(self, text: str, short: bool) -> Iterator[tuple[int, int]]:
        for needle in self._exact if short else ():
            if needle in text:
                yield from _all(text, needle)
        lower = lowered(text)
        parted = self._parted if _PARTED.search(lower) else ()
        # Most needles are longer than any run of letters and digits in an ordinary text, and need not be looked for.
        longest = max(map(len, _RUN.findall(lower)), default=0)
        for needle in _standing_in(lower, [*self._plain, *parted, *self._runs.up_to(longest)]):
            yield from _all(lower, needle)
        for needle in _standing_in(lower, self._inner.up_to(longest)):
            for start, end in _all(lower, needle):
                start -= start > 0 and _is_base64(lower[start - 1])
                end += end < len(lower) and _is_base64(lower[end])
                while end < len(lower) and lower[end] == "=":
                    end += 1
                yield start, end

    def _cut(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield where a secret begins that the end of the text cuts."""
        end = len(text.rstrip(_CUT_SIGNS))
        first = max(0, end - self._tail)
        tail = lowered(text[first:end])
        # What is made of letters and digits alone can only be cut within the last word.
        if len(tail) - len(tail.rstrip(_RUN_SIGNS)) < _HEAD_CHARS and not _standing_in(tail, self._other_heads):
            return
        for at in range(len(tail) - _HEAD_CHARS + 1):
            for needle in self._heads.get(tail[at : at + _HEAD_CHARS], ()):
                if needle.startswith(tail[at:]):
                    yield first + at, end


class _Map:
    """A text with its escapes undone once, and where its characters come from."""

    def __init__(self, text: str) -> None:
        self._starts: list[int] = [0]  # of pieces in the text that was made ...
        self._origins: list[int] = [0]  # ... and in the one it was made of
        made: list[str] = []
        length = done = 0
        for match in _ESCAPE.finditer(text):
            made += (text[done : match.start()], sign := _sign(match))
            length += match.start() - done
            self._add(length, match.start())
            length += len(sign)
            done = match.end()
            self._add(length, done)
        made.append(text[done:])
        self.text = "".join(made)

    def _add(self, start: int, origin: int) -> None:
        if self._starts[-1] == start:
            self._origins[-1] = origin
        else:
            self._starts.append(start)
            self._origins.append(origin)

    def original(self, at: int) -> int:
        """Return which place a place comes from."""
        piece = bisect_right(self._starts, at) - 1
        return self._origins[piece] + at - self._starts[piece]


def _sign(match: re.Match[str]) -> str:
    percent, unicode, byte, other, number, hexadecimal, name = match.groups()
    if number:
        return chr(int(number))
    if name:
        return _NAMED[name.lower()]
    if other is not None:
        return _SHORT.get(other, other)
    return chr(int(percent or unicode or byte or hexadecimal, 16))


def found_at(heads: Container[str], size: int, text: str) -> list[int]:
    """Return where one of `heads`, which have `size` letters, stands in a text.

    Written such that no step of it is the interpreter's: in most texts hundreds of places are looked at, and none fits.
    Other threads have their turn between windows.
    """
    found: list[int] = []
    for start in range(0, len(text) - size + 1, _PLACES_AT_ONCE):
        places = range(start, min(start + _PLACES_AT_ONCE, len(text) - size + 1))
        pieces = map(text.__getitem__, map(slice, places, range(start + size, len(text) + 1)))
        found += compress(places, map(heads.__contains__, pieces))
    return found


def lowered(text: str) -> str:
    """Return a text in small letters, and as long as before."""
    lower = text.lower()
    return (
        lower if len(lower) == len(text) else "".join(low if len(low := sign.lower()) == 1 else sign for sign in text)
    )


def _all(text: str, needle: str) -> Iterator[tuple[int, int]]:
    at = text.find(needle)
    while at >= 0:
        yield at, at + len(needle)
        at = text.find(needle, at + len(needle))


def _is_base64(sign: str) -> bool:
    return sign.isascii() and (sign.isalnum() or sign in "+/-_")


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def key_bytes(text: str) -> bytes | None:
    """Return the bytes that a key in base64 stands for, which are as secret; None if it is none."""
    try:
        return base64.b64decode(text.translate(str.maketrans("-_", "+/")), validate=True)
    except (binascii.Error, ValueError):
        return None
