"""Cutting a text into chunks: pieces that say one thing, small enough to be found and shown by themselves."""

import re
from collections.abc import Iterator
from typing import Final

import msgspec
import trio

CHUNK_MAX_CHARS: Final = 1_200  # some 300 tokens: embedders read 256 to 512, and a prompt has room for several
CHUNK_MIN_CHARS: Final = 200  # shorter paragraphs join their neighbours, so that each chunk says something

HEADING_MAX_CHARS: Final = 200  # of a line that still is one: it stands before each chunk below it, six deep at most

_LEVELS_MAX: Final = 6
_STEPS: Final = 500  # of cutting until others have their turn, about a millisecond
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

    Every word is in exactly one chunk; headings are in those that stand below them, or are one where nothing does.
    """
    return [step for step in _steps(text, max_chars) if step is not None]


async def cut(text: str) -> list[Chunk]:
    """Return the same chunks, and let others have their turn meanwhile: a text of blanks takes long to cut."""
    found = []
    for number, step in enumerate(_steps(text, CHUNK_MAX_CHARS), 1):
        if step is not None:
            found.append(step)
        if number % _STEPS == 0:
            await trio.lowlevel.checkpoint()
    return found


def _steps(text: str, max_chars: int) -> Iterator[Chunk | None]:
    """Yield the chunks, and None after each line and each piece that begins none."""
    for found in _sections(text):
        if found is None:
            yield None
            continue
        headings, start, section = found
        at, end = 0, 0
        for piece_start, piece in _pieces(section, max_chars):
            if not piece.strip():
                yield None
                continue
            joined = piece_start + len(piece) - at
            full = joined > max_chars or (end - at >= CHUNK_MIN_CHARS and section.count("\n\n", at, end) > 0)
            if end > at and full:
                yield _chunk(section[at:end], headings, start + at)
                at = piece_start
            else:
                yield None
            end = piece_start + len(piece)
        yield _chunk(section[at:end], headings, start + at)


def _chunk(text: str, headings: tuple[str, ...], start: int) -> Chunk | None:
    bare = text.strip()
    return Chunk(bare, headings, start + len(text) - len(text.lstrip())) if bare else None


def _sections(text: str) -> Iterator[tuple[tuple[str, ...], int, str] | None]:
    """Yield (headings, where it begins, text) of what stands between two headings, or of one with nothing below it.

    And None after each line.
    """
    headings: dict[int, str] = {}
    start = at = 0
    alone: int | None = None  # where the newest heading begins, while nothing stands below it
    for line in text.splitlines(keepends=True):
        heading = _heading(line)
        if heading is not None:
            level, name = heading
            if text[start:at].strip():
                yield tuple(headings.values()), start, text[start:at]
            elif alone is not None and level <= max(headings):
                yield tuple(headings.values())[:-1], alone, text[alone:at]
            headings = {each: known for each, known in headings.items() if each < level} | {level: name}
            alone, start = at, at + len(line)
        elif line.strip():
            alone = None
        at += len(line)
        yield None
    if text[start:].strip():
        yield tuple(headings.values()), start, text[start:]
    elif alone is not None:
        yield tuple(headings.values())[:-1], alone, text[alone:]


def _heading(line: str) -> tuple[int, str] | None:
    """Return the level and the words of a heading; None for any other line, and for one too long to be a heading.

    By hand, since an expression that allows for blanks at both ends of a name tries each way to share them out.
    """
    line = line.strip()
    rest = line.lstrip("#")
    level = len(line) - len(rest)
    if not 0 < level <= _LEVELS_MAX or len(line) > HEADING_MAX_CHARS or not rest[:1].isspace():
        return None
    rest = rest.strip()
    return level, rest.rstrip("#").rstrip() or rest


def _pieces(text: str, max_chars: int) -> Iterator[tuple[int, str]]:
    """Yield (where it begins, piece) in order, none longer than `max_chars`: paragraphs, lines, sentences, or cuts.

    Blanks are pieces as well.
    """
    yield from _split(text, 0, (re.compile(r"\n\s*\n"), re.compile(r"\n"), _SENTENCE, re.compile(r"\s+")), max_chars)


def _split(text: str, start: int, borders: tuple[re.Pattern[str], ...], max_chars: int) -> Iterator[tuple[int, str]]:
    if len(text) <= max_chars:
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
