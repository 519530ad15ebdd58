"""Which clauses of a conversation are worth keeping, when a tenth of it may be kept.

What people ask about later is concrete: it has rare words, names, numbers and dates, it answers a question, something
begins in it. What they do not ask about points back ("that is great"), wishes, hedges or cheers. Each of these signs
has a weight; their sum says how likely somebody will ask. The weights are the rounded ones of a logistic regression
over five dialogues.
"""

import heapq
import math
import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from daycare.features.memory.language.lists import COMMON
from daycare.features.memory.language.patterns import either, pattern

WORD: Final = re.compile(r"[^\W\d_][\w'-]*|\d[\d.,:]*")
_RARE_MAX: Final = 4  # more make a clause longer, not better

_POINTS_BACK: Final = pattern(r"(?:it|that|this|they|these|those|there|he|she)(?:'s|'re)?\b")
_WISHES: Final = pattern(
    either(
        r"let, keep, take, remember, enjoy, good luck, hope, glad, talk, see you, can't wait, looking forward",
        r"good, great",
        r"nice, love, happy, proud, congrat\w*, thank\w*, wish, sorry, no worries",
    )
    + r"\b"
)
_ORDERS: Final = pattern(
    r"(?:please |now |just |first |then )?"
    + either(
        "write, rewrite, translate, summari[sz]e, explain, fix, sort, turn, make, give, draft, find, book, show",
        "list, add, remove",
        "send, check, create, draw, calculate, compute, tell, help, compare, try, count, open, close, set",
        "remind, play, read, look",
        "search, change, rephrase, shorten, proofread, convert, generate, suggest, recommend, let, keep, carry",
        "ask, use, put, go",
        "pass, take, do, don't, press, call me, schreib, erklär, übersetz, mach, zeig, such, gib, erzähl, fass",
    )
    + r"(?:e|t)?\b"
)
_SUPPOSES: Final = pattern(r"(?:(?:even|what|only) )?(?:if|suppose|supposing|imagine|pretend|wenn|falls|angenommen)\b")
_OURS: Final = pattern(r"\b(?:my|our|mine|mein\w{0,2}|unser\w{0,2})\b")
_PAST: Final = pattern(
    r"\b"
    + either(
        "went, got, made, took, bought, had, was, were, met, saw, found, won, did, gave, came, left, began",
        "lost, told, spent",
        "built, ran, flew, drove, wrote, broke, caught, felt, kept, taught, sang, swam, grew, became, chose, fell",
        r"\w{2,}ed, war, waren, hatte\w?, ge\w{3,}t",
    )
    + r"\b"
)
_BEGINS: Final = pattern(
    r"\b"
    + either(
        "start(?:ed|ing)?, began, begun, recently, new, trying, tried, took up, joined, signed up, enrolled",
        "bought, adopted",
        r"moved, favou?rite, went, visited, saw, finished, won, lost, years?, ago, once, used to, angefangen, neu\w*",
    )
    + r"\b"
)
_CHEERS: Final = pattern(
    r"\b"
    + either(
        "awesome, cool, great, amazing, wonderful, incredible, proud, rewarding, difference, hope, everyone",
        "strong(?:er)?",
        r"important, inspir\w+, support\w*, believe, journey, possible, worth, grateful, thankful, blessed, us",
        r"together, toll",
        "super",
    )
    + r"\b"
)
_HEDGES: Final = pattern(r"\b(?:would|could|might|should|can|will|gonna|must)\b|'ll\b")
_CALLED: Final = re.compile("\\b(?:named|called|name is|name's|from|in|heißt|aus) [\"A-Z\u00c4\u00d6\u00dc]")
_LISTS: Final = re.compile(r",| and | und ")
_CAPITAL: Final = re.compile("(?<=[\\w,;] )[\"']?(?!I\\b|I')[A-Z\u00c0-\u00de][\\w'-]+")

WEIGHTS: Final = {
    "rare": 0.2, "new": 0.3, "short": -0.3, "names": 0.5, "number": 1.6, "date": 1.6, "answer": 0.9, "asked": 0.3,
    "ours": 0.4, "past": 0.1, "points": -0.2, "wishes": -0.3, "hedges": -0.4, "called": 2.0, "begins": 0.7,
    "cheers": -0.3, "echoed": 0.2, "lists": 0.4, "opening": -0.3, "orders": -2.0, "supposes": -2.0,
}  # fmt: skip
_BIAS: Final = -2.9


class Candidate(NamedTuple):
    """A clause that may be kept: of which line, as which statement, with which score."""

    line: int  # index in the range
    statement: str
    score: float

    @property
    def likely(self) -> float:
        """How likely it is asked about."""
        return 1 / (1 + math.exp(-self.score))


def rare_words(text: str, known: frozenset[str]) -> list[str]:
    """Return the words of a text that are not common and not the names of those who talk."""
    words = (word.lower() for word in WORD.findall(text))
    return [word for word in words if len(word) > 2 and word.partition("'")[0] not in COMMON and word not in known]


def signs(
    text: str, rare: Sequence[str], new: int, *, dated: bool, asked: bool, opening: bool, echoed: bool, ordered: bool
) -> dict[str, float]:
    """Return how strongly each sign shows in a clause. `ordered`: orders go to an assistant, and are no advice."""
    return {
        "rare": min(len(rare), _RARE_MAX),
        "new": min(new, _RARE_MAX),
        "short": len(WORD.findall(text)) < 3,
        "names": min(len(_CAPITAL.findall(text)), 3),
        "number": bool(re.search(r"\d", text)) and not dated,
        "date": dated,
        "answer": asked and opening,
        "asked": asked,
        "ours": bool(_OURS.search(text)),
        "past": bool(_PAST.search(text)),
        "points": bool(_POINTS_BACK.match(text)),
        "wishes": bool(_WISHES.match(text)),
        "hedges": bool(_HEDGES.search(text)),
        "called": bool(_CALLED.search(text)),
        "begins": bool(_BEGINS.search(text)),
        "cheers": bool(_CHEERS.search(text)),
        "echoed": echoed,
        "lists": len(_LISTS.findall(text)) >= 2,
        "opening": opening,
        "supposes": bool(_SUPPOSES.match(text)),
        "orders": ordered and bool(_ORDERS.match(text)),
    }


def score(shown: dict[str, float]) -> float:
    """Return the sum of the weights of what shows."""
    return _BIAS + sum(WEIGHTS[sign] * strength for sign, strength in shown.items())


def choose(candidates: Sequence[Candidate], max_bytes: int, *, floor: float, again: float = 0.4) -> list[int]:
    """Return which candidates, those above a score, are worth most for their size, within `max_bytes`; in order.

    Another clause of a line that is kept already counts `again` as much: rather a bit of many lines than all of few.
    """
    sizes = [len(candidate.statement.encode()) for candidate in candidates]
    waiting: dict[int, list[tuple[float, int]]] = {}  # by line: its clauses, the one that is worth most last
    for at, candidate in enumerate(candidates):
        if candidate.score >= floor:
            waiting.setdefault(candidate.line, []).append((-candidate.likely / sizes[at], at))
    for clauses in waiting.values():
        clauses.sort(reverse=True)
    # Clauses of a line keep their order whatever else of it is kept, so that the first of each line compete.
    heap = [(*clauses[-1], 1.0) for clauses in waiting.values()]
    heapq.heapify(heap)
    chosen: list[int] = []
    while heap:
        _, at, less = heapq.heappop(heap)
        if sizes[at] <= max_bytes:
            max_bytes -= sizes[at]
            less *= again
            chosen.append(at)
        clauses = waiting[candidates[at].line]
        clauses.pop()
        if clauses:
            worth, following = clauses[-1]
            heapq.heappush(heap, (worth * less, following, less))
    return sorted(chosen)


def size(texts: Iterable[str]) -> int:
    """Return how many bytes texts have together."""
    return sum(len(text.encode()) for text in texts)
