"""What a prompt recalls, and has of MEMORY.md, as rules can use it: the lines that have a question's words in them."""

import re
from collections.abc import Set
from typing import Final

_BLOCK: Final = re.compile(
    r'<(memory-md|memory tier="(?:fact|entity|log|chunk)") (\w+)>\n(.*?)\n</memory(?:-md)? \2>', re.DOTALL
)
_SAID_BY: Final = re.compile(r"^\[[^\]]*\] (?:[^:]{1,80}: )?")
_WORD: Final = re.compile(r"[^\W_]+")
_EMPTY: Final = re.compile(
    r"an?|and|are|about|at|be|by|can|could|did|do|does|for|from|had|has|have|how|i|in|is|it|know|me|my|of|on|or|our|"
    r"please|remember|note|said|say|she|he|so|tell|that|the|their|there|they|this|to|told|was|we|were|what|when|where|"
    r"which|who|whom|whose|why|will|with|would|you|your|"
    r"als|am|an|auf|aus|das|dem|den|der|die|du|ein|eine[mnrs]?|er|es|gesagt|habe|haben|hast|hat|hatte|ich|ihr|im|ist|"
    r"man|mein|meine[mnrs]?|mir|mit|nach|oder|sie|sind|\u00fcber|und|uns|von|vom|wann|war|waren|was|wem|wen|wer|wie|wir|wo|"
    r"zu|zum|zur"
)
_LINES_MAX: Final = 3  # told at once: who wants more asks `daycare memory search`
_SHARE: Final = 0.5  # of a question's words, that a line has to have


def lines_on(system: str, question: str) -> list[str]:
    """Return the recalled lines that fit a question best, the best first; none if none has half of its words."""
    wanted = stems(question)
    if not wanted:
        return []
    found: dict[str, float] = {}
    for block in _BLOCK.finditer(system):
        for line in block[3].splitlines():
            if stems(_SAID_BY.sub("", line)) - wanted:  # else it is the question itself, as it was asked before
                found[line] = share_of(wanted, line)
    best = sorted((line for line, share in found.items() if share >= _SHARE), key=lambda line: -found[line])
    return best[:_LINES_MAX]


def share_of(wanted: Set[str], line: str) -> float:
    """Return which share of a question's words a line has."""
    return len(wanted & stems(line)) / len(wanted) if wanted else 0.0


def stems(text: str) -> set[str]:
    """Return what the words of a text begin with: "lives" and "live" are one."""
    return {word[:4] for word in _WORD.findall(text.casefold()) if not _EMPTY.fullmatch(word)}
