"""Strings as strangers send them, made harmless, and careful looks into JSON of which nothing is certain."""

import re
from typing import Any, Final

NAME_MAX_CHARS: Final = 100
FILE_NAME_MAX_CHARS: Final = 100
_CUT: Final = " [...]"
_JOINERS: Final = "\u200c\u200d"


def at(tree: object, *path: str) -> Any:
    """Return what stands there, None if there is nothing."""
    for name in path:
        tree = tree.get(name) if isinstance(tree, dict) else None
    return tree


def text_at(tree: object, *path: str) -> str:
    """Return the string that stands there, valid and without NUL; empty if it is none."""
    found = at(tree, *path)
    if not isinstance(found, str):
        return ""
    if found.isascii():
        return found.replace("\x00", "\ufffd")
    return found.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").replace("\x00", "\ufffd")


def list_at(tree: object, *path: str) -> list[Any]:
    """Return the list that stands there, or an empty one."""
    found = at(tree, *path)
    return found if isinstance(found, list) else []


def seconds_at(tree: object, *path: str) -> int:
    """Return a time in seconds since the epoch, which WhatsApp writes as a string; 0 if it is none."""
    found = at(tree, *path)
    text = str(found) if isinstance(found, str | int) and not isinstance(found, bool) else ""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 11 else 0


def one_line(text: str, most: int = NAME_MAX_CHARS) -> str:
    """Return a name or title as one line without control characters and marks that turn the text's direction."""
    kept = "".join(char if char.isprintable() or char in _JOINERS else " " for char in text[: 8 * most])
    return cut(" ".join(kept.split()), most)


def cut(text: str, most: int) -> str:
    """Return at most so many characters; what is missing is marked."""
    return text if len(text) <= most else text[: most - len(_CUT)].rstrip() + _CUT


def quoted(text: str, most: int = 1_200) -> str:
    """Return others' words as a quotation: each line begins with `> `, so that none can pass for one of ours."""
    return "\n".join(f"> {line}" for line in cut(text, most).splitlines())


def file_name(sent: str, made_up: str) -> str:
    """Return the name that a file was sent with, without folders and what no name should have; or the other one."""
    base = re.split(r"[/\\]", sent)[-1]
    base = "".join(char if char.isprintable() and char not in '"<>:|?*' else "_" for char in base).strip(" .")
    if len(base) > FILE_NAME_MAX_CHARS:
        stem, dot, ending = base.rpartition(".")
        tail = dot + ending if stem and len(ending) <= 10 else ""
        base = base[: FILE_NAME_MAX_CHARS - len(tail)].rstrip(" .") + tail
    return base or made_up


def media_type(sent: str) -> str:
    """Return the media type that a file was sent with, without its parameters; empty if it is none."""
    kind = sent.partition(";")[0].strip().lower()
    return kind if re.fullmatch(r"[a-z0-9][\w.+-]{0,40}/[\w.+-]{1,80}", kind, re.ASCII) else ""
