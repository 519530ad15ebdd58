"""The fence: how text from outside stands in what a model reads, between marks that the text cannot contain.

    <NAME MARK>
    the text
    </NAME MARK>

A mark is a session's, known to nobody outside, or is made of the text itself, so that the same text reads the same in
each turn. Two things are escaped, and nothing else: the mark itself becomes "...", and the "<" of a tag of ours "&lt;".
"""

import hashlib
import re
from typing import Final

NAMES: Final = (
    *("identity", "personality", "soul", "style", "user", "agents"),
    *("assignment", "group", "other-agents", "skills", "skill", "memory", "memory-md", "daily"),
    *("summary", "earlier-summary", "conversation", "plugin", "history", "known", "lines"),
    *("attached", "forwarded", "quoted", "signal", "webhook", "message", "earlier-answer", "program"),
)
MARK_CHARS: Final = 16  # 64 bits: not to be guessed, and short
_UNSEEN: Final = (  # nobody sees them in a tag
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff"
)
_TAG: Final = re.compile(rf"<(?=[\s/\\{_UNSEEN}]*+(?:{'|'.join(NAMES)})\b)", re.IGNORECASE)
_OPENING: Final = re.compile(rf"<([a-z-]{{1,20}}) ([0-9a-f]{{{MARK_CHARS}}})>")


def fence(name: str, text: str, *, mark: str = "", attribute: str = "") -> str:
    """Return a text as the block `name`, which nothing in it can end. Without a `mark` one is made of the text.

    `attribute` is ours, such as `tier="log"`.
    """
    assert name in NAMES, "tags of a block are broken up in texts by its name"
    mark = mark or hashlib.sha256(text.encode(errors="replace")).hexdigest()[:MARK_CHARS]
    opening = f"{name} {attribute} {mark}" if attribute else f"{name} {mark}"
    return f"<{opening}>\n{harmless(text, mark)}\n</{name} {mark}>"


def harmless(text: str, mark: str) -> str:
    """Take the mark out, and then break up what could be taken for a tag of ours."""
    if _has(text, mark.casefold()):  # looking without case takes fifty times as long, and hardly any has it
        text = re.sub(re.escape(mark), "...", text, flags=re.IGNORECASE)
    return _TAG.sub("&lt;", text) if "<" in text else text


def _has(text: str, mark: str) -> bool:
    """Return whether a text has a mark in whatever case. Lines of English alone are folded in a tenth of the time."""
    return any(mark in line.casefold() for line in ((text,) if text.isascii() else text.split("\n")))


def unfenced(text: str) -> str:
    """Return what stands in a text that is one whole block, with its escapes; any other text as it is.

    Only for texts that are known to be fenced: of others nobody can say who put the marks there.
    """
    opening = _OPENING.match(text)
    if opening is None:
        return text
    start, closing = opening.end(), f"\n</{opening[1]} {opening[2]}>"
    inside = text.startswith("\n", start) and text.endswith(closing) and len(text) > start + len(closing)
    return text[start + 1 : -len(closing)] if inside else text
