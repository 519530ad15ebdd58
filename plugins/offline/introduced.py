"""Who is who, as a prompt's own blocks say: the names that the offline responder reads there.

What stands in data blocks does not count, whatever it looks like.
"""

import re
from typing import Final

import msgspec

_DATA: Final = re.compile(
    r'^<[\w-]+(?: tier="\w+")? [0-9a-f]{16}>$', re.MULTILINE
)  # the first of them: the owner's words end there
_BLOCK: Final = r"^<{name}>\n(.*?)\n</{name}>$"
_TITLES: Final = "".join(rf"(?<!\b{title})" for title in ("Dr", "Mr", "Ms", "Mrs", "St"))
_NAME: Final = rf"[ \t*_]*(?P<name>\S[^\n]{{0,63}}?)[ \t*_]*(?:{_TITLES}[.!](?=\s|$)|[,;(]|\band\b|$)"
_AGENT: Final = re.compile(
    rf"(?:\b(?:your|my) name is\b|\b(?:you are|i am) called\b|^[-*_# \t]*name[*_ \t]*:){_NAME}",
    re.IGNORECASE | re.MULTILINE,
)
_USER: Final = re.compile(
    rf"(?:\b(?:user['\u2019]s|my|their|his|her) name is\b|\bis called\b|\bcall (?:the user|me|them|him|her)\b|"
    rf"^[-*_# \t]*name[*_ \t]*:){_NAME}",
    re.IGNORECASE | re.MULTILINE,
)
_HERE: Final = re.compile(r"^Your address is [^\n]* Here you go by the name (?P<name>[^\n]{1,200})\.$", re.MULTILINE)
_TALK: Final = re.compile(r"^Your address is \S+ You talk with (?P<name>[^\n]+?) \(user ", re.MULTILINE)


class Introduced(msgspec.Struct, frozen=True):
    """The names of the agent and of its user, each empty if the prompt does not tell it."""

    agent: str = ""
    user: str = ""


def introduced(system: str) -> Introduced:
    """Read a system prompt."""
    own = _DATA.split(system, maxsplit=1)[0]
    identity, user, agents = (_block(own, name) for name in ("identity", "user", "agents"))
    return Introduced(
        agent=_first((_HERE, agents), (_AGENT, identity)),
        user=_first((_USER, user), (_TALK, agents)),
    )


def _block(text: str, name: str) -> str:
    found = re.search(_BLOCK.format(name=name), text, re.DOTALL | re.MULTILINE)
    return found[1] if found else ""


def _first(*tries: tuple[re.Pattern[str], str]) -> str:
    for pattern, text in tries:
        found = pattern.search(text)
        if found:
            return found["name"].strip(" \t*_`\"'\u201c\u201d")
    return ""
