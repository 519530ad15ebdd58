"""Sections of a document in Markdown: adding to one under its heading."""

import re
from typing import Final

_HEADING: Final = re.compile(r"#{1,6}[ \t]+(.*\S)")
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
        elif not code and (heading := _HEADING.match(line)):
            found.append((at, heading[1].rstrip("# \t") or heading[1]))
    return found


def _ended(text: str) -> str:
    return text if text.endswith("\n") else f"{text}\n"
