"""Fields at the beginning of a text, in YAML between two lines `---`: read, and changed without touching the others."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

FRONTMATTER_MAX_CHARS: Final = 16 * 1024  # longer fields count as part of the text: nobody writes them

_FENCE: Final = "---"


def parted(text: str) -> tuple[str, str]:
    """Return the fields as they stand there, and the text below them; no fields where no second line `---` ends them.

    `joined` makes the same text of both again.
    """
    first, _, rest = text.partition("\n")
    if first.rstrip() != _FENCE:
        return "", text
    lines = rest.split("\n")
    end = next((number for number, line in enumerate(lines) if line.rstrip() == _FENCE), None)
    if end is None:
        return "", text
    front = "".join(f"{line}\n" for line in lines[:end])
    return (front, "\n".join(lines[end + 1 :])) if len(front) <= FRONTMATTER_MAX_CHARS else ("", text)


def joined(front: str, body: str) -> str:
    """Return a text with fields before it."""
    return f"{_FENCE}\n{front}{_FENCE}\n{body}" if front else body


def fields(front: str) -> dict[str, Any]:
    """Return the fields by name, each value as text; none where they cannot be read."""
    import yaml  # late: it costs 20 ms

    try:
        # Every value is text, as it stands there; it makes no objects, and what an alias names is there once.
        found = yaml.load(front, Loader=yaml.BaseLoader)  # noqa: S506
    except (yaml.YAMLError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def changed(front: str, texts: Mapping[str, str]) -> str:
    """Return the fields with other texts under some names; all others stand as they stood, with their comments."""
    left = dict(texts)
    kept: list[str] = []
    dropping = False
    for line in (f"{each}\n" for each in front.split("\n")[:-1]):
        name = _name(line)
        if name is not None:
            dropping = name in texts
            if name in left:
                kept.append(_line(name, left.pop(name)))
        if not dropping:
            kept.append(line)
    return "".join([*(_line(name, text) for name, text in left.items()), *kept])


def _name(line: str) -> str | None:
    """Return the name of the field that a line begins, None for one that goes on with what stands above it."""
    name, colon, _ = line.partition(":")
    return name.strip().strip("\"'") if colon and line[:1] not in (" ", "\t", "-", "#", "\n") else None


def _line(name: str, text: str) -> str:
    return f"{name}: {msgspec.json.encode(text).decode()}\n"  # a string of JSON is one of YAML
