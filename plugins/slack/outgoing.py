"""A reply as parts that Slack takes, and a part as a call of its Web API.

A part is cut so that the mark of a possible duplicate still fits in: parts are the same with and without it.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from msgspec.structs import replace

from daycare.base.connector import Attachment, Outgoing
from daycare.base.errors import InvalidError
from daycare.messenger.markup import SIGNS, render
from daycare_plugins.slack.choices import encode_choices
from daycare_plugins.slack.words import STYLE, spell

DUPLICATE: Final = "(this may be a duplicate)"
TEXT_MAX_UNITS: Final = 3_000  # of a section; a text above 4,000 characters would be cut by Slack as it likes
TEXT_UNITS: Final = TEXT_MAX_UNITS - len(DUPLICATE) - 1
ASK: Final = "Choose:"  # above buttons that have no words of their own
EVENT: Final = "daycare_reply"  # the type of the metadata that carries our key
TAIL_MAX_CHARS: Final = 2_000  # of a growing answer, as Markdown


# == parts =============================================================================================================


def split(outgoing: Outgoing) -> list[Outgoing]:
    """Return the parts: texts, then files, and the buttons last."""
    texts = list(_rendered(outgoing.text, TEXT_UNITS))
    parts: list[Outgoing] = []

    def add(kind: str, text: str, **own: Any) -> None:
        number = len(parts)
        key = f"{outgoing.key}/{number}" if number else outgoing.key
        fields = {"files": (), "choices": ()} | own
        parts.append(replace(outgoing, key=key, text=text, markup=kind, **fields))

    body = (texts.pop() if texts else ASK) if outgoing.choices else ""
    for text in texts:
        add("text", text)
    for file in outgoing.files:
        add("file", "", files=(file,))
    if outgoing.choices:
        add("choices", body, choices=outgoing.choices)
    if not parts:
        add("text", "")  # refused when it is sent, which tells why
    return parts


@lru_cache(maxsize=8)  # `split` is asked again for each part
def _rendered(markdown: str, limit: int) -> tuple[str, ...]:
    return tuple(render(markdown, limit, SIGNS, STYLE, spell))


def texts_of(markdown: str) -> tuple[str, ...]:
    """Return the messages of a text by itself."""
    return _rendered(markdown, TEXT_UNITS)


def tail(markdown: str) -> str:
    """Return the end of a growing answer as one message; empty where there is nothing to see."""
    if len(markdown) > TAIL_MAX_CHARS:
        end = markdown[-TAIL_MAX_CHARS:]
        end = end[end.find("\n", 0, 600) + 1 :]
        fence = "```\n" if markdown[: len(markdown) - len(end)].count("```") % 2 else ""
        markdown = f"\u2026\n\n{fence}{end}"
    found = render(markdown, TEXT_MAX_UNITS, SIGNS, STYLE, spell)
    return found[-1] if found else ""


# == calls =============================================================================================================


def message(part: Outgoing) -> dict[str, Any]:
    """Return the parameters of chat.postMessage, without the place; they carry our key back to us."""
    text = f"{DUPLICATE}\n{part.text}" if part.maybe_duplicate and part.text else part.text
    if not text:
        raise InvalidError("MESSAGE_EMPTY", f"sending reply {part.outbox}: there is nothing to see in it")
    return posted(text, part.choices) | {"metadata": {"event_type": EVENT, "event_payload": {"key": part.key}}}


def posted(text: str, choices: Sequence[Any] = ()) -> dict[str, Any]:
    """Return the parameters of a new message: those of `shown`, without previews of its links."""
    return shown(text, choices) | {"unfurl_links": False, "unfurl_media": False}


def shown(text: str, choices: Sequence[Any] = ()) -> dict[str, Any]:
    """Return the parameters of a text in Slack's own writing, and of the buttons below it; without any, they go.

    Slack is told to find nobody's name in it: what a model says notifies nobody.
    """
    if not choices:
        return {"text": text, "blocks": [], "link_names": False}
    section = {"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": True}}
    return {"text": text, "link_names": False, "blocks": [section, *encode_choices(choices)]}


def shared(file: Attachment, number: str, *, duplicate: bool) -> dict[str, Any]:
    """Return the parameters of files.completeUploadExternal, without the place."""
    found: dict[str, Any] = {"files": [{"id": number, "title": file.name}]}
    return found | ({"initial_comment": DUPLICATE} if duplicate else {})
