"""What a model wrote, as messages that Telegram takes: text with entities, cut into parts; and as plain text."""

from typing import Any, Final

import msgspec

from daycare_plugins.telegram import parts
from daycare_plugins.telegram.events import clean
from daycare_plugins.telegram.markdown import walk

TEXT_MAX_UNITS: Final = 4_096  # UTF-16 units of one message, after entities are parsed
CAPTION_MAX_UNITS: Final = 1_024
MARKUP_MAX_CHARS: Final = 250_000  # longer than any reply; past that text is sent as it is, parsing would take seconds


class Rendered(msgspec.Struct, frozen=True):
    """One message: its text, and the entities as the Bot API takes them, offsets in UTF-16 units."""

    text: str
    entities: tuple[dict[str, Any], ...] = ()


def render(markdown: str, limit: int = TEXT_MAX_UNITS) -> list[Rendered]:
    """Return the messages for this Markdown, in order; none if there is nothing to see in it.

    Never raises for any text. Each part has 1 to `limit` (at least 2) UTF-16 units and at most 100 entities.
    """
    if len(markdown) > MARKUP_MAX_CHARS:
        return [Rendered(text) for text in plain(markdown, limit)]
    return [Rendered(text, entities) for text, entities in parts.split(walk(markdown), limit)]


def plain(markdown: str, limit: int = TEXT_MAX_UNITS) -> list[str]:
    """Return the same as readable text without entities, for a resend when these are refused."""
    if len(markdown) > MARKUP_MAX_CHARS:
        runs: list[parts.Run] = [(clean(markdown), ())]
    else:
        runs = walk(markdown, plain=True)
    code_only = [(text, tuple(mark for mark in marks if mark[0] == "pre")) for text, marks in runs]  # cut with care
    return [text for text, _ in parts.split(code_only, limit)]
