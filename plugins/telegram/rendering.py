"""What a model wrote, as messages that Telegram takes: text with entities, cut into parts; and as plain text."""

from typing import Any, Final

import msgspec

from daycare.messenger.markdown import walk
from daycare.messenger.parts import PRE, Mark, Splitter
from daycare.messenger.style import PLAIN

TEXT_MAX_UNITS: Final = 4_096  # UTF-16 units of one message, after entities are parsed
CAPTION_MAX_UNITS: Final = 1_024
ENTITIES_MAX: Final = 100  # in one message; the server drops the others without a word


class Rendered(msgspec.Struct, frozen=True):
    """One message: its text, and the entities as the Bot API takes them, offsets in UTF-16 units."""

    text: str
    entities: tuple[dict[str, Any], ...] = ()


def render(markdown: str, limit: int = TEXT_MAX_UNITS) -> list[Rendered]:
    """Return the messages for this Markdown, in order; none if there is nothing to see in it.

    Never raises for any text. Each part has 1 to `limit` (at least 2) UTF-16 units and at most 100 entities.
    """
    splitter = Splitter(walk(markdown), ENTITIES_MAX)

    def made(start: int, end: int) -> tuple[Rendered, int]:
        entities = [_entity(splitter, start, *mark) for mark in splitter.marks(start, end)]
        return Rendered(splitter.text[start:end], tuple(entities)), splitter.units(start, end)

    return list(splitter.split(limit, made))


def plain(markdown: str, limit: int = TEXT_MAX_UNITS) -> list[str]:
    """Return the same as readable text without entities, for a resend when these are refused."""
    runs = walk(markdown, PLAIN)
    splitter = Splitter([(text, tuple(mark for mark in marks if mark[0] == PRE)) for text, marks in runs])
    return list(splitter.split(limit, lambda start, end: (splitter.text[start:end], splitter.units(start, end))))


def _entity(splitter: Splitter, start: int, begin: int, stop: int, mark: Mark) -> dict[str, Any]:
    kind, extra = mark
    entity = {"type": kind, "offset": splitter.units(start, begin), "length": splitter.units(begin, stop)}
    return entity | ({"url" if kind == "text_link" else "language": extra} if extra else {})
