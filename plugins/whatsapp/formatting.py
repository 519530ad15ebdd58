"""Markdown as models write it, in the few marks that WhatsApp knows: *bold*, _italic_, ~struck~ and code."""

import re
from typing import Final

_FENCE: Final = re.compile(r"^\s*```")
_HEADING: Final = re.compile(r"^\s{0,3}#{1,6}\s+(.*)$")
_BULLET: Final = re.compile(r"^(\s*)[*+-]\s+")
_RULE: Final = re.compile(r"^\s*([-*_])(\s*\1){2,}\s*$")
_CODE: Final = re.compile(r"(?<!`)(`++)((?:(?!\1).)++)\1")
_LINK: Final = re.compile(r"!?\[([^\[\]\n]*)\]\(<?([^()\s>]+)>?(?:\s+\"[^\"]*\")?\)")
_BOLD: Final = re.compile(r"(\*\*|__)(?=\S)((?:(?!\1).)++)(?<=\S)\1")
_ITALIC: Final = re.compile(r"(?<![\w*])\*(?=[^\s*])([^*\n]+?)(?<=[^\s*])\*(?![\w*])")
_STRUCK: Final = re.compile(r"~~(?=\S)((?:(?!~~).)++)(?<=\S)~~")
_HELD: Final = "\x00"
_MARKER: Final = re.compile(rf"{_HELD}(\d+){_HELD}")


def to_whatsapp(text: str) -> str:
    """Return a text with WhatsApp's marks; code stays as it is."""
    lines: list[str] = []
    fenced = False
    for line in text.replace(_HELD, "").split("\n"):
        if _FENCE.match(line):
            fenced = not fenced
            lines.append("```")
        elif fenced:
            lines.append(line)
        else:
            lines.append(_line(line))
    return "\n".join(lines)


def _line(line: str) -> str:
    if _RULE.match(line):
        return "———"
    if heading := _HEADING.match(line):
        return f"*{_inline(heading[1].rstrip().rstrip('#').rstrip()).replace('*', '')}*"
    if bullet := _BULLET.match(line):
        return f"{bullet[1]}- {_inline(line[bullet.end() :])}"
    return _inline(line)


def _inline(text: str) -> str:
    held: list[str] = []

    def hold(what: str) -> str:
        held.append(what)
        return f"{_HELD}{len(held) - 1}{_HELD}"

    text = _CODE.sub(lambda found: hold(f"`{found[2].strip('`')}`"), text)
    text = _LINK.sub(lambda found: hold(_link(found[1], found[2])), text)
    text = _BOLD.sub(lambda found: hold(f"*{_inline(found[2])}*") if "*" not in found[2] else found[2], text)
    text = _ITALIC.sub(r"_\1_", text)
    text = _STRUCK.sub(r"~\1~", text)
    return _back(text, held, len(held))


def _back(text: str, held: list[str], below: int) -> str:
    """Put back what was held under numbers below `below`, and what that holds itself; numbers of others stay."""

    def put(found: re.Match[str]) -> str:
        number = int(found[1])
        if number >= below:
            return found[0]
        return _back(held[number], held, number) if _HELD in held[number] else held[number]

    return _MARKER.sub(put, text)


def _link(label: str, target: str) -> str:
    target = target.removeprefix("mailto:")
    return target if label in ("", target) else f"{label} ({target})"
