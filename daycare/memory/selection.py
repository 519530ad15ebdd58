"""What is shown of a ranking: nothing twice, and no more than there is room for."""

from collections.abc import Sequence
from typing import Final

from daycare.memory.analysis import words_of
from daycare.memory.stop_words import EVERY_STOP_WORD

ALIKE: Final = 0.8  # of the words of two texts that both have: the same said twice, or a fact and the words it is from
_LOOKED_AT: Final = 1_000  # characters of a text


def distinct(texts: Sequence[str], count: int) -> list[int]:
    """Return the places of texts, in their order, without those that say what an earlier one says; `count` at most."""
    kept: list[int] = []
    said: list[frozenset[str]] = []
    for place, text in enumerate(texts):
        words = frozenset(words_of(text[:_LOOKED_AT])) - EVERY_STOP_WORD
        if any(_alike(words, other) for other in said):
            continue
        kept.append(place)
        said.append(words)
        if len(kept) == count:
            break
    return kept


def fitting(costs: Sequence[int], budget: int) -> list[int]:
    """Return the places of what fits into a budget, the first ones first; what is too long for the rest is left out."""
    kept = []
    for place, cost in enumerate(costs):
        if cost <= budget:
            kept.append(place)
            budget -= cost
    return kept


def _alike(words: frozenset[str], others: frozenset[str]) -> bool:
    if not words or not others:
        return words == others
    less, more = sorted((len(words), len(others)))
    return less >= ALIKE * more and len(words & others) >= ALIKE * len(words | others)
