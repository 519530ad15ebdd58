"""The blocks a prompt is made of: what the owner has set stands between plain tags, data between tags with a mark.

No text can close its block or open another one: tags of ours are broken up in it, and the mark of a session, which
nobody can guess, is taken out of it. What is too long is cut at a line, and says so.
"""

import hashlib
import hmac
import re
from typing import Final

from daycare.agent import tokens

NAMES: Final = (
    *("identity", "personality", "soul", "style", "user", "agents"),
    *("assignment", "group", "other-agents", "skills", "memory", "daily", "recalled"),
    *("summary", "earlier-summary", "conversation", "plugin"),
)
_MARK_CHARS: Final = 16  # 64 bits: not to be guessed, and short
_UNSEEN: Final = (  # nobody sees them in a tag
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff"
)
_TAG: Final = re.compile(rf"<(?=[\s/\\{_UNSEEN}]*(?:{'|'.join(NAMES)})\b)", re.IGNORECASE)


def mark_of(secret: bytes, agent_id: str, session: int) -> str:
    """Return the mark of a session's data blocks: always the same there, and known to nobody without the secret."""
    return hmac.new(secret, f"{agent_id}:{session}".encode(), hashlib.sha256).hexdigest()[:_MARK_CHARS]


def owned(name: str, mark: str, text: str) -> str:
    """Return what the owner has set or approved as a block without a mark; "" for nothing."""
    text = _harmless(text.strip(), mark)
    return f"<{name}>\n{text}\n</{name}>" if text else ""


def data(name: str, mark: str, text: str, *, attribute: str = "") -> str:
    """Return what anybody may have written as a data block; "" for nothing. `attribute` is ours, `tier="log"`."""
    text = _harmless(text.strip(), mark)
    opening = f"{name} {attribute} {mark}" if attribute else f"{name} {mark}"
    return f"<{opening}>\n{text}\n</{name} {mark}>" if text else ""


def block(name: str, text: str) -> str:
    """Return data that belongs to no session between marks that it cannot forge: they are made of the data itself."""
    mark = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:_MARK_CHARS]
    return f"<{name} {mark}>\n{_harmless(text, mark)}\n</{name} {mark}>"


def one_line(text: str, chars: int) -> str:
    """Return a name or description as harmless words on one line, cut to `chars`."""
    if not text.isprintable() or "<" in text or ">" in text:
        text = "".join(char if char.isprintable() and char not in "<>" else " " for char in text)
    line = " ".join(text.split())
    return line if len(line) <= chars else line[: chars - 3].rstrip() + "..."


def cut(text: str, max_tokens: int, more: str, *, keep_end: bool = False) -> str:
    """Return a text of at most about `max_tokens`: whole lines of its beginning, or of its end.

    `more` says where the rest is. "" if not even a little of it fits.
    """
    if tokens.of_text(text) <= max_tokens:
        return text
    note = f"[cut: {more}]"
    room = max_tokens - tokens.of_text(note) - 1
    kept = text
    while kept and (size := tokens.of_text(kept)) > room:
        chars = min(len(kept) * max(room, 0) // size, len(kept) - 1)  # letters may weigh more here: once more
        kept = kept[len(kept) - chars :] if keep_end else kept[:chars]
    if not kept:
        return ""
    if keep_end:
        return f"{note}\n{kept.partition(chr(10))[2] or kept}"
    return f"{kept.rpartition(chr(10))[0] or kept}\n{note}"


def _harmless(text: str, mark: str) -> str:
    """Take the mark out, and then break up what could be taken for a tag of ours."""
    return _TAG.sub("&lt;", re.sub(re.escape(mark), "...", text, flags=re.IGNORECASE))
