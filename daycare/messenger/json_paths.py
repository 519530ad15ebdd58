"""Values at paths in JSON of which nothing is certain."""

from typing import Any

from daycare.messenger.text import valid


def at(tree: object, *path: str) -> Any:
    """Return what stands there, None if there is nothing."""
    for name in path:
        tree = tree.get(name) if isinstance(tree, dict) else None
    return tree


def text_at(tree: object, *path: str) -> str:
    """Return the string that stands there, valid and without NUL; empty if it is none."""
    found = at(tree, *path)
    return valid(found) if isinstance(found, str) else ""


def list_at(tree: object, *path: str) -> list[Any]:
    """Return the list that stands there, or an empty one."""
    found = at(tree, *path)
    return found if isinstance(found, list) else []


def seconds_at(tree: object, *path: str) -> int:
    """Return a time in seconds since the epoch, which WhatsApp writes as a string; 0 if it is none."""
    found = at(tree, *path)
    text = str(found) if isinstance(found, str | int) and not isinstance(found, bool) else ""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 11 else 0
