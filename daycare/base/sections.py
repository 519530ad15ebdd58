"""Sections of a document in Markdown: adding to one under its heading."""

import re
from typing import Final

_LEVELS_MAX: Final = 6
_FENCE: Final = re.compile(r" {0,3}(?:```|~~~)")


def added(text: str, addition: str, section: str = "") -> str:
    """Return a text with more at the end of a section, which is made where it is missing; "" for the end of the text.

    A section goes to the next heading, of whatever level; its name is compared without regard to case.
    """
    if not section:
        gap = "\n" if text and not text.endswith("\n") else ""
        return f"{text}{gap}{addition}"
    lines = text.splitlines(keepends=True)
    headings = _headings(lines)
    begin = next((at for at, name in headings if name.casefold() == section.casefold()), None)
    if begin is None:
        return (
            f"{text.rstrip()}\n\n## {section}\n\n{_ended(addition)}" if text.strip() else f"## {section}\n\n{addition}"
        )
    end = next((at for at, _ in headings if at > begin), len(lines))
    body = "".join(lines[begin + 1 : end]).strip("\n")
    before, after = "".join(lines[: begin + 1]), "".join(lines[end:])
    whole = f"{_ended(before)}\n{f'{body}{chr(10)}' if body else ''}{_ended(addition)}"
    return f"{whole}\n{after}" if after else whole


def _headings(lines: list[str]) -> list[tuple[int, str]]:
    """Return in which lines headings stand, and what they say; what looks like one in a block of code is none."""
    found, code = [], False
    for at, line in enumerate(lines):
        if _FENCE.match(line):
            code = not code
        elif not code and (name := _name(line)):
            found.append((at, name))
    return found


def _name(line: str) -> str:
    """Return what a heading says, "" for any other line."""
    rest = line.lstrip("#")
    if not 0 < len(line) - len(rest) <= _LEVELS_MAX or rest[:1] not in (" ", "\t"):
        return ""
    name = rest.strip()
    return name.rstrip("# \t") or name


def _ended(text: str) -> str:
    return text if text.endswith("\n") else f"{text}\n"
