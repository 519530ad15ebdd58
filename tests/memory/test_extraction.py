"""How many names, dates, preferences and plain facts of labelled sentences the rules find, and how many are right.

Each sentence is read as a range of its own: Ann says it on Wednesday, 8 May 2024, in Berlin. The sentences came in
rounds: the first was written before there were rules, each later one was measured before the rules were changed for it;
those figures stand in doc/contribute/benchmarks.md. The floors here hold what has been reached.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

import pytest

from daycare.features.memory.facts.extract import extract
from daycare.features.memory.facts.learned import Learned
from daycare.features.memory.language import dates, sentences
from tests.memory.entries import entry

FILE: Final = Path(__file__).parent.parent / "data" / "extraction.jsonl"
ROWS: Final = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
SAID_ON: Final = date(2024, 5, 8)
AT_MS: Final = int(datetime(2024, 5, 8, 13, 56, tzinfo=ZoneInfo("Europe/Berlin")).timestamp() * 1000)
FLOORS: Final = {  # precision, recall over all rounds
    "persons": (0.95, 0.95),
    "places": (0.97, 0.92),
    "things": (0.85, 0.85),
    "dates": (0.97, 0.97),
    "preferences": (0.97, 0.95),
    "facts": (0.88, 0.92),
}
_TITLE: Final = re.compile(
    r"^(?:(?:Dr|Mr|Mrs|Ms|Prof)\.?|Miss|Professor|Uncle|Aunt|Herr|Frau|Tante|Onkel|The)\s+", re.I
)
_SMALL: Final = re.compile(r"^(?:the|a|an|my|das|die|der)\s+", re.IGNORECASE)
_KINDS: Final = {"person": "persons", "place": "places", "thing": "things"}


def learned(text: str) -> Learned:
    line = entry(1, text, at_ms=AT_MS)
    return extract([line], ["Ann"], "Europe/Berlin")


def found(text: str) -> Iterator[tuple[str, object]]:
    """Yield (kind, what) of all that the rules find in a sentence, in the form in which labels are compared."""
    told = learned(text)
    for entity in told.entities:
        if entity.kind in _KINDS:
            yield _KINDS[entity.kind], _name(entity.name)
    language = sentences.language_of(text)
    for sentence in sentences.sentences(sentences.clean(text)):
        for moment in dates.find(sentence.text, SAID_ON, language):
            yield "dates", moment.period.iso
    for fact in told.facts:
        ended = fact.valid_from_ms is None and fact.valid_until_ms is not None
        if fact.kind == "preference":
            yield "preferences", ("dislike" if fact.attribute == "dislikes" else "like", _value(fact.value))
        if fact.attribute and fact.attribute not in ("likes", "dislikes") and not ended:
            yield "facts", (_attribute(fact.attribute), _value(fact.value))


def wanted(row: dict[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield (kind, what) of the labels of a sentence."""
    for kind in ("persons", "places", "things"):
        for name in row.get(kind, ()):
            yield kind, _name(name)
    for iso in row.get("dates", ()):
        yield "dates", iso
    for taste, what in row.get("preferences", ()):
        yield "preferences", (taste, _value(what))
    for attribute, value in row.get("facts", ()):
        yield "facts", (_attribute(attribute), _value(value))


def _name(name: str) -> str:
    return _TITLE.sub("", name).casefold()


def _value(value: str) -> str:
    return _SMALL.sub("", value.strip(" .,!")).casefold()


def _attribute(attribute: str) -> str:
    return attribute.casefold().replace("geburtstag", "birthday")


def measured(rows: list[dict[str, Any]]) -> dict[str, tuple[float, float, int]]:
    """Return precision, recall and the number of labels for each kind."""
    right: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    for row in rows:
        got, labels = set(found(row["text"])), set(wanted(row))
        right.update(kind for kind, _ in got & labels)
        wrong.update(kind for kind, _ in got - labels)
        missed.update(kind for kind, _ in labels - got)
    return {
        kind: (
            right[kind] / max(1, right[kind] + wrong[kind]),
            right[kind] / max(1, right[kind] + missed[kind]),
            right[kind] + missed[kind],
        )
        for kind in FLOORS
    }


def test_the_set_is_large_and_has_sentences_that_tell_nothing() -> None:
    assert len({row["text"] for row in ROWS}) == len(ROWS) >= 650
    empty = [row for row in ROWS if not list(wanted(row))]
    assert len(empty) >= 100
    assert sum(row.get("lang") == "de" for row in ROWS) >= 60


@pytest.mark.parametrize("kind", FLOORS)
def test_precision_and_recall_stay_where_they_are(kind: str, figures: dict[str, tuple[float, float, int]]) -> None:
    precision, recall, labels = figures[kind]
    assert labels >= 45, f"{kind}: too few labels to say anything"
    assert (precision, recall) >= FLOORS[kind], f"{kind}: precision {precision:.3f}, recall {recall:.3f}"
    assert recall >= FLOORS[kind][1], f"{kind}: recall {recall:.3f}"


@pytest.fixture(scope="module")
def figures() -> dict[str, tuple[float, float, int]]:
    return measured(ROWS)


def test_the_language_of_a_sentence_is_known() -> None:
    wrong = [row["text"] for row in ROWS if sentences.language_of(row["text"]) != row.get("lang", "en")]
    assert len(wrong) / len(ROWS) <= 0.01, wrong


def test_from_sentences_that_tell_nothing_hardly_anything_is_kept() -> None:
    empty = [row["text"] for row in ROWS if not list(wanted(row))]
    kept = [fact.statement for text in empty for fact in learned(text).facts]
    assert len(kept) / len(empty) <= 0.15, kept


if __name__ == "__main__":  # python -m tests.memory.test_extraction
    for round_ in (1, 2, 3, 4, 5, None):
        rows = [row for row in ROWS if round_ in (None, row["round"])]
        print("all" if round_ is None else f"round {round_}", len(rows), "sentences")
        for kind, (precision, recall, labels) in measured(rows).items():
            print(f"  {kind:<12} precision {precision:.3f}  recall {recall:.3f}  of {labels}")
