"""Documents as they are shown: those that are made when they are read, and the passage of one that a search found."""

import re
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from daycare.base.limits import DOCUMENT_SEARCH_WORDS_MAX
from daycare.base.path import Kind
from daycare.plugin import ToolSpec
from daycare.store.records import Agent

_HELPERS: Final = frozenset((Kind.SUB, Kind.SEARCH, Kind.MEMORY))  # they come and go with the work of one agent
_DESCRIPTION_MAX_CHARS: Final = 300


def agents_view(agent: Agent, agents: Iterable[Agent]) -> str:
    """Return `AGENTS.md`: the agent's instructions, and its user's other agents with what they are for."""
    others = sorted((each.path, _about(each)) for each in agents if each.id != agent.id and each.kind not in _HELPERS)
    return "\n".join(
        (
            "# Agents",
            "",
            "## Instructions",
            "",
            agent.config.system_prompt.strip() or "None of its own.",
            "",
            "## Other agents of this user",
            "",
            *([f"- {path}{about}" for path, about in others] or ["None."]),
            "",
        )
    )


def tools_view(specs: Sequence[ToolSpec]) -> str:
    """Return `tools.json`: the tools that an agent may use, as its model sees them."""
    tools = [{"name": spec.name, "description": spec.description, "schema": spec.schema} for spec in specs]
    return msgspec.json.format(msgspec.json.encode({"tools": tools}), indent=2).decode() + "\n"


def _about(agent: Agent) -> str:
    words = " ".join(f"{agent.config.name}: {agent.config.description}".split()).strip(": ")
    shown = "".join(char if char.isprintable() else " " for char in words)[:_DESCRIPTION_MAX_CHARS]
    return f" ({shown})" if shown else ""


PASSAGE_MAX_CHARS: Final = 300
_LOOKED_AT_MAX: Final = 2_000  # places of one text where a word stands
_STEM_CHARS: Final = 3  # what an ending may have: passwords, watering
_COMMON: Final = frozenset(
    re.findall(
        r"\w+",
        "a an and are as at be but by did do does for from had has have how i in is it its me my of on or our that the"
        " their they this to was we were what when where which who why will with you your",
    )
)


def words_of(query: str) -> list[str]:
    """Return what to look for: the words of a query without the common ones, unless it has no others."""
    words = [word.lower() for word in re.findall(r"\w+", query)]
    return list(dict.fromkeys([word for word in words if word not in _COMMON] or words))[:DOCUMENT_SEARCH_WORDS_MAX]


def passage(text: str, words: Sequence[str]) -> str:
    """Return the part of a text with the most different words of a query, on one line."""
    stems = {word[: max(len(word) - _STEM_CHARS, _STEM_CHARS)] for word in words}
    start = 0
    if stems:
        found = re.compile(
            "|".join(rf"\b{re.escape(stem)}" for stem in sorted(stems, key=len, reverse=True)), re.IGNORECASE
        )
        start = _richest(found, text)
    cut = max(0, start - PASSAGE_MAX_CHARS // 6)
    cut = 0 if cut == 0 else text.find(" ", cut, start) + 1 or start
    part = " ".join(text[cut : cut + PASSAGE_MAX_CHARS].split())
    return f"{'… ' if cut else ''}{part}{' …' if cut + PASSAGE_MAX_CHARS < len(text) else ''}"


def _richest(found: re.Pattern[str], text: str) -> int:
    """Return where a passage begins that has the most different words."""
    best, start = 0, 0
    window: deque[tuple[int, str]] = deque()
    counts: Counter[str] = Counter()
    for number, match in enumerate(found.finditer(text)):
        if number == _LOOKED_AT_MAX:
            break
        word = match[0].lower()
        window.append((match.start(), word))
        counts[word] += 1
        while match.start() - window[0][0] > PASSAGE_MAX_CHARS * 2 // 3:
            gone = window.popleft()[1]
            counts[gone] -= 1
            if not counts[gone]:
                del counts[gone]
        if len(counts) > best:
            best, start = len(counts), window[0][0]
    return start
