"""Strings as strangers send them, made harmless: valid Unicode, one line where one is meant, never too long."""

import re
from typing import Final

DEPTH_MAX: Final = 40  # levels of nesting; what platforms send has a dozen
NAME_MAX_CHARS: Final = 100  # of a person or a chat; Telegram allows 64 and 128
FILE_NAME_MAX_CHARS: Final = 100
_CUT: Final = " [...]"
_JOINERS: Final = "\u200c\u200d"  # not printable, but Persian words and families of emoji are written with them


def tidy(tree: object, depth: int = 0) -> tuple[object, bool]:
    """Return decoded JSON with valid Unicode in all its strings, and whether it was cut for being too deep.

    Fields that are null are left out: some servers write them for what is not there.
    """
    if isinstance(tree, str):
        return valid(tree), False
    if not isinstance(tree, dict | list):
        return tree, False
    if depth == DEPTH_MAX:
        return "[...]", True
    if isinstance(tree, list):
        items = [tidy(item, depth + 1) for item in tree]
        return [item for item, _ in items], any(cut for _, cut in items)
    fields = {valid(str(key)): tidy(value, depth + 1) for key, value in tree.items() if value is not None}
    return {key: value for key, (value, _) in fields.items()}, any(cut for _, cut in fields.values())


def valid(text: str) -> str:
    """Return a text that UTF-8 can encode and any store takes, of the same length in UTF-16 units."""
    if text.isascii():
        return text.replace("\x00", "\ufffd")
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").replace("\x00", "\ufffd")


def units(text: str) -> int:
    """Return the length in UTF-16 units, in which platforms count."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def one_line(text: str | None, most: int = NAME_MAX_CHARS) -> str:
    """Return a name or title as one line without control characters and marks that turn the text's direction."""
    kept = "".join(char if char.isprintable() or char in _JOINERS else " " for char in (text or "")[: 8 * most])
    return cut(" ".join(kept.split()), most)


def cut(text: str, most: int) -> str:
    """Return at most so many characters; what is missing is marked."""
    return text if len(text) <= most else text[: most - len(_CUT)].rstrip() + _CUT


def cut_bytes(text: str, most: int) -> str:
    """Return a text of at most so many bytes in UTF-8; what is missing is marked."""
    data = text.encode()
    return text if len(data) <= most else data[: most - len(_CUT)].decode("utf-8", "ignore") + _CUT


def quoted(text: str, most: int = 1_200) -> str:
    """Return others' words as a quotation: each line begins with `> `, so that none can pass for one of ours."""
    return "\n".join(f"> {line}" for line in cut(text, most).splitlines())


def file_name(sent: str | None, made_up: str) -> str:
    """Return the name that a file was sent with, without folders and what no name should have; or the other one."""
    base = re.split(r"[/\\]", sent or "")[-1]
    base = "".join(char if char.isprintable() and char not in '"<>:|?*' else "_" for char in base).strip(" .")
    if len(base) > FILE_NAME_MAX_CHARS:
        stem, dot, ending = base.rpartition(".")
        tail = dot + ending if stem and len(ending) <= 10 else ""
        base = base[: FILE_NAME_MAX_CHARS - len(tail)].rstrip(" .") + tail
    return base or made_up


def media_type(sent: str | None, default: str = "") -> str:
    """Return the media type that a file was sent with, without its parameters, if it is one."""
    kind = (sent or "").partition(";")[0].strip().lower()
    known = (sent or "").isprintable() and re.fullmatch(r"[a-z0-9][\w.+-]{0,40}/[\w.+-]{1,80}", kind, re.ASCII)
    return kind if known else default
