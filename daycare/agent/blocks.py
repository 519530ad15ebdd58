"""The blocks a prompt is made of: what the owner has set stands between plain tags, data between tags with a mark.

No text can close its block or open another one; `daycare.base.fence` sees to it. What is too long is cut at a line, and
says so.
"""

import hashlib
import hmac

from daycare.agent import tokens
from daycare.base.fence import MARK_CHARS, fence, harmless


def mark_of(secret: bytes, agent_id: str, session: int) -> str:
    """Return the mark of a session's data blocks: always the same there, and known to nobody without the secret."""
    return hmac.new(secret, f"{agent_id}:{session}".encode(), hashlib.sha256).hexdigest()[:MARK_CHARS]


def owned(name: str, mark: str, text: str) -> str:
    """Return what the owner has set or approved as a block without a mark; "" for nothing."""
    text = harmless(text.strip(), mark)
    return f"<{name}>\n{text}\n</{name}>" if text else ""


def data(name: str, mark: str, text: str, *, attribute: str = "") -> str:
    """Return what anybody may have written as a data block; "" for nothing. `attribute` is ours, `tier="log"`."""
    text = text.strip()
    return fence(name, text, mark=mark, attribute=attribute) if text else ""


def block(name: str, text: str) -> str:
    """Return data that belongs to no session between marks that it cannot forge: they are made of the data itself."""
    return fence(name, text)


def one_line(text: str, chars: int) -> str:
    """Return a name or description as harmless words on one line, cut to `chars`."""
    if not text.isprintable() or "<" in text or ">" in text:
        text = "".join(char if char.isprintable() and char not in "<>" else " " for char in text)
    # Of what can be printed only blanks divide words, so most texts are a line as they are.
    line = " ".join(text.split()) if "  " in text else text.strip(" ")
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
