"""Cutting a text into chunks: pieces that say one thing, small enough to be found and shown by themselves."""

import re
from collections.abc import Iterator
from typing import Final

import msgspec

CHUNK_MAX_CHARS: Final = 1_200  # some 300 tokens: embedders read 256 to 512, and a prompt has room for several
CHUNK_MIN_CHARS: Final = 200  # shorter paragraphs join their neighbours, so that each chunk says something

_HEADING: Final = re.compile(r"^#{1,6}\s+(.+?)\s*#*$")
_SENTENCE: Final = re.compile(r"(?<=[.!?…])\s+|(?<=[\u3002\uff01\uff1f])")


class Chunk(msgspec.Struct, frozen=True):
    """A piece of a text, under which headings it stands, and where it begins in the text (in characters)."""

    text: str
    headings: tuple[str, ...] = ()
    start: int = 0

    @property
    def told(self) -> str:
        """The chunk with its headings before it, as it is searched and shown."""
        return f"{' > '.join(self.headings)}: {self.text}" if self.headings else self.text


def chunks(text: str, max_chars: int = CHUNK_MAX_CHARS) -> list[Chunk]:
    """Cut a text at its headings, then paragraphs, then lines, then sentences, at last anywhere.

    Every word is in exactly one chunk; headings are in those that stand below them.
    """
    found: list[Chunk] = []
    for headings, start, section in _sections(text):
        at, end = 0, 0
        for piece_start, piece in _pieces(section, max_chars):
            joined = piece_start + len(piece) - at
            full = joined > max_chars or (end - at >= CHUNK_MIN_CHARS and section.count("\n\n", at, end) > 0)
            if end > at and full:
                found += _chunk(section[at:end], headings, start + at)
                at = piece_start
            end = piece_start + len(piece)
        found += _chunk(section[at:end], headings, start + at)
    return found


def _chunk(text: str, headings: tuple[str, ...], start: int) -> list[Chunk]:
    bare = text.strip()
    return [Chunk(bare, headings, start + len(text) - len(text.lstrip()))] if bare else []


def _sections(text: str) -> Iterator[tuple[tuple[str, ...], int, str]]:
    """Yield (headings, where it begins, text) of what stands between two headings."""
    headings: dict[int, str] = {}
    start = at = 0
    for line in text.splitlines(keepends=True):
        heading = _HEADING.match(line.strip())
        if heading:
            if text[start:at].strip():
                yield tuple(headings.values()), start, text[start:at]
            level = len(line.lstrip()) - len(line.lstrip().lstrip("#"))
            headings = {each: name for each, name in headings.items() if each < level} | {level: heading[1]}
            start = at + len(line)
        at += len(line)
    if text[start:].strip():
        yield tuple(headings.values()), start, text[start:]


def _pieces(text: str, max_chars: int) -> Iterator[tuple[int, str]]:
    """Yield (where it begins, piece) in order, none longer than `max_chars`: paragraphs, lines, sentences, or cuts."""
    yield from _split(text, 0, (re.compile(r"\n\s*\n"), re.compile(r"\n"), _SENTENCE, re.compile(r"\s+")), max_chars)


def _split(text: str, start: int, borders: tuple[re.Pattern[str], ...], max_chars: int) -> Iterator[tuple[int, str]]:
    if len(text) <= max_chars:
        if text.strip():
            yield start, text
        return
    if not borders:
        for at in range(0, len(text), max_chars):
            yield start + at, text[at : at + max_chars]
        return
    at = 0
    for border in borders[0].finditer(text):
        yield from _split(text[at : border.end()], start + at, borders[1:], max_chars)
        at = border.end()
    yield from _split(text[at:], start + at, borders[1:], max_chars)
