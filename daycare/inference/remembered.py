"""What a prompt recalls, as rules can use it: the lines that answer a question by having its words in them."""

import re
from typing import Final

_BLOCK: Final = re.compile(r'<memory tier="(?:fact|entity|log|chunk)" (\w+)>\n(.*?)\n</memory \1>', re.DOTALL)
_WORD: Final = re.compile(r"[^\W_]+")
_EMPTY: Final = re.compile(
    r"an?|and|are|about|at|be|by|can|could|did|do|does|for|from|had|has|have|how|i|in|is|it|know|me|my|of|on|or|our|"
    r"please|remember|note|said|say|she|he|so|tell|that|the|their|there|they|this|to|told|was|we|were|what|when|where|"
    r"which|who|whom|whose|why|will|with|would|you|your"
)
_LINES_MAX: Final = 3  # told at once: who wants more asks `daycare memory search`
_SHARE: Final = 0.5  # of a question's words, that a line has to have


def lines_on(system: str, question: str) -> list[str]:
    """Return the recalled lines that fit a question best, the best first; none if none has half of its words."""
    wanted = _stems(question)
    if not wanted:
        return []
    found: dict[str, float] = {}
    for block in _BLOCK.finditer(system):
        for line in block[2].splitlines():
            found[line] = len(wanted & _stems(line)) / len(wanted)
    best = sorted((line for line, share in found.items() if share >= _SHARE), key=lambda line: -found[line])
    return best[:_LINES_MAX]


def _stems(text: str) -> set[str]:
    """Return what the words of a text begin with: "lives" and "live" are one."""
    return {word[:4] for word in _WORD.findall(text.casefold()) if not _EMPTY.fullmatch(word)}
