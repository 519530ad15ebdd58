"""No regular expression takes more than its share on a long text: four times the text, four times the work.

Each is found in the source, so that a new one is tried, too, and each is tried on texts that are made of its own parts.
"""

import re
import time
from collections.abc import Callable
from typing import Any, Final

import pytest

from daycare.features.memory.language.english import claims as claims_english
from daycare.features.memory.language.german import claims as claims_german
from daycare_plugins.offline.plugin import LINE_MAX_CHARS
from tests.cost import IN_STEP, cost, costs_at_most
from tests.patterns.found import Place, Pump, files, places, places_in, pumps

SIZES: Final = (20, 32, 128, 512, 2_048, 8_192)  # the first for what doubles with each character
TELLS_S: Final = 0.001  # what takes less at the last size has no square in it: that is 8,192 * 8,192 / 2 steps
QUICK_S: Final = TELLS_S / 8  # what takes less of a quarter is not tried on the whole: 16 times that is too little
RUNS_AWAY_S: Final = 0.03  # what takes so long on 512 characters is not let loose on 8,192

Bound = Callable[[str], str]


def _squeezed(chars: int) -> Bound:
    return lambda text: " ".join(text.split())[:chars]


LANGUAGE: Final = "daycare/features/memory/language/"

# What stands in front of an expression in the code, where that bounds what it reads, and why it is so.
BOUNDED: Final[tuple[tuple[str, Bound, str], ...]] = (
    ("plugins/offline/plugin.py: _WHOLE_LINE", _squeezed(LINE_MAX_CHARS), "longer lines are not matched"),
    ("plugins/offline/plugin.py: _SENTENCE", _squeezed(LINE_MAX_CHARS), "longer lines are not matched"),
    ("plugins/offline/facts.py: ", _squeezed(LINE_MAX_CHARS), "they read lines of `_answer_line`"),
    (
        LANGUAGE + "english/claims.py: ",
        _squeezed(claims_english.CLAUSE_MAX_CHARS),
        "clauses of a cleaned text",
    ),
    (
        LANGUAGE + "german/claims.py: ",
        _squeezed(claims_german.CLAUSE_MAX_CHARS),
        "clauses of a cleaned text",
    ),
    (LANGUAGE + "name_signs.py: SIGNS", lambda text: text[:60], "_AROUND_CHARS of names.py"),
    (
        LANGUAGE + "sentences.py: _CLAUSE",
        _squeezed(1 << 20),
        "`clean` leaves single blanks, `_END` ends at lines",
    ),
    ("daycare/store/postgres/schema.py: 'CREATE TRIGGER", lambda text: text[:1_000], "triggers of our own migrations"),
    (LANGUAGE + "sentences.py: f\",?\\\\s+{either('which", _squeezed(1 << 20), "the same"),
)
# What is made while the daemon runs: of what.
MADE_LATE: Final = {
    "daycare/base/fence.py: re.escape(mark)": "one literal",
    "daycare/base/secrecy.py: pattern": "literals of secrets and their spellings",
    "plugins/offline/introduced.py: _BLOCK.format(name=name)": "of a prompt's own blocks, one name each",
    "plugins/offline/plugin.py: f'{polite}(?:{pattern})[\\\\s.!?]*'": "held by _WHOLE_LINE and _SENTENCE",
    "plugins/slack/words.py: f'(?<![ \\\\t])[ \\\\t]*+<@{re.escape(bot)}(?:\\\\|[^<>]*+)?>[:,]?'": (
        "one literal; it begins at no second blank"
    ),
    LANGUAGE + "english/dates.py: f'\\\\b{pattern}'": "held by a table of its module",
    LANGUAGE + "german/dates.py: f'\\\\b{pattern}'": "held by a table of its module",
    "daycare/features/memory/documents/views.py: '|'.join((f'\\\\b{re.escape(stem)}' "
    "for stem in sorted(stems, key=len, reverse=True)))": "literals",
    LANGUAGE + "analysis.py: '|'.join((f\"{_edge('<', name[:1])}{re.escape(name)}{_edge('', name[-1:])}\" "
    "for name in names))": "literals",
    LANGUAGE + "patterns.py: text": "held by names of the modules that call it",
    LANGUAGE + "sentences.py: f'^{called}\\\\s*[,!.:]\\\\s*|,\\\\s*{called}(?=\\\\s*$|\\\\s*[,!.])'": (
        "a literal name, in a clause with single blanks"
    ),
    "daycare/ops/doctor/pseudonyms.py: f'{re.escape(folder)}(?![\\\\w.-])'": "one literal",
    "daycare/rules/markers.py: pattern": "held by _MARKS",
    "daycare/rules/shown.py: f\"[{re.escape(''.join(odd))}]+\"": "single signs, taken greedily",
    "plugins/telegram/failures.py: pattern": "words of _REFUSALS, without a repeat",
}
# Tags that the texts cannot have: daycare.base.fence breaks them up.
FENCED: Final = ("plugins/offline/recalled_lines.py: '<(memory-md|memory tier=",)


def _work(place: Place, how: str, text: str) -> Callable[[], object]:
    pattern: Any = place.pattern
    read: Any = text.encode("utf-8", "replace") if isinstance(pattern.pattern, bytes) else text
    if how == "search":
        return lambda: sum(1 for _ in pattern.finditer(read))
    return lambda: getattr(pattern, how)(read)


def _bound_of(place: Place) -> Bound:
    return next((bound for where, bound, _ in BOUNDED if place.where.startswith(where)), lambda text: text)


def steepest(place: Place, texts: list[Pump]) -> str:
    """Return what makes an expression take more than its share, empty if nothing does."""
    bound = _bound_of(place)
    for pump in texts:
        for how in sorted(place.anchored):
            if wrong := _too_steep(place, how, pump, bound):
                return wrong
    return ""


def _too_steep(place: Place, how: str, pump: Pump, bound: Bound) -> str:
    before: Callable[[], object] | None = None
    read = ""
    for size in SIZES:
        text = bound(pump.text(size))
        if text == read:
            return ""  # it is cut off there
        work, read = _work(place, how, text), text
        took_s = cost(work)
        if size < SIZES[-2]:
            wrong = took_s > RUNS_AWAY_S and min(cost(work) for _ in range(3)) > RUNS_AWAY_S
        else:
            wrong = before is not None and took_s > TELLS_S and not costs_at_most(IN_STEP, work, before)
            if (
                wrong and took_s < RUNS_AWAY_S
            ):  # a repeat with a bound of a thousand or so takes its share from there on
                wrong = not costs_at_most(IN_STEP, _work(place, how, bound(pump.text(4 * size))), work)
        if wrong:
            return f"{how} of {pump.head!r} + {pump.body!r} * n + {pump.end!r}, {size} characters"
        if size == SIZES[-2] and took_s < QUICK_S:
            return ""
        before = work
    return ""


def _places_in(file: str) -> list[Place]:
    return [place for place in places_in(file) if place.pattern is not None and not place.where.startswith(FENCED)]


@pytest.mark.parametrize("file", files())
def test_an_expression_takes_no_more_than_its_share_of_a_long_text(file: str) -> None:
    wrong = {}
    for place in _places_in(file):
        assert place.pattern is not None
        if found := steepest(place, pumps(place.pattern)):
            wrong[place.where] = found
    assert not wrong, "read it by hand, with `++`, or from its first character only: `(?<!x)x++`"


def test_every_expression_that_is_made_late_is_accounted_for() -> None:
    found = tuple(places())
    late = {place.where for place in found if place.pattern is None}
    assert late == set(MADE_LATE), "say in MADE_LATE of what it is made, and let it be tried where it is held"
    assert len(found) > 400, "they are found"
    for where, _, _ in BOUNDED:
        assert any(place.where.startswith(where) for place in found), f"{where} is gone"


@pytest.mark.parametrize(
    ("text", "how"),
    [
        (r"\s+$", "search"),
        (r"(.+?)\s+a day", "fullmatch"),
        (r"(a+)+b", "match"),
        (r"\[(.*?)\]\((.*?)\)!", "search"),
        (r"^\s{0,3}#{1,6}\s+(.*?)\s*#*\s*$", "match"),
        (r"[\w.]+@[\w.]+", "search"),
    ],
)
def test_an_expression_that_is_worse_is_seen(text: str, how: str) -> None:
    pattern = re.compile(text)
    began = time.thread_time()
    assert steepest(Place("a test", pattern, frozenset({how})), pumps(pattern)), time.thread_time() - began
