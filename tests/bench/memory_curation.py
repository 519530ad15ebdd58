"""How much of what is asked about later the offline extractor keeps, in a tenth of the bytes: `--data`, LoCoMo's form.

Each session of a dialogue is one range, as a worker gets it; both speakers are persons. `evidence` is the share of the
(question, evidence turn) pairs whose turn is a source of a kept fact. `answer_words` is stricter: of the words of the
answer that stand in its evidence turns, the share that stands in the statements kept of those turns. Beside it whole
turns at random, as many bytes of them.
"""

import argparse
import json
import random
import re
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from daycare.features.memory.facts.extract import KEPT_SHARE, extract, kept_bytes
from daycare.features.memory.facts.learned import EntityKind, Learned, NewEntity, NewFact
from daycare.features.memory.facts.merging import merge_entities
from daycare.features.memory.language import dates
from daycare.features.memory.language.patterns import words
from daycare.features.memory.store.records import StoredMemory
from tests.memory.entries import entry, known_entity

from . import locomo
from .locomo import ADVERSARIAL, CATEGORIES, Dialogue, Said
from .measure import rounded, say

DATA: Final = Path("../shared/data/locomo_dev.json")
_DRAWS: Final = 20  # of turns at random; the figures are the mean
_SMALL: Final = words(
    "a an and are as at be been but by did do does for from had has have he her hers him his how i in is it its me",
    "my of on or our she so that the their them they this to was we were what when where which who why will with you",
    "your would could should about after before during not than then there these those some any other more most also",
    "into out up down over",
)
_WORD: Final = re.compile(r"[^\W_]+")
_ENDINGS: Final = ("ing", "edly", "ed", "ies", "es", "s", "ly")
_STEM_MIN_CHARS: Final = 3
_A_DATE: Final = re.compile(r"\d{1,2} [A-Z]\w+,? \d{4}|[A-Z]\w+ \d{1,2},? \d{4}|[A-Z]\w+,? \d{4}|\d{4}")

Kept = Mapping[int, Sequence[str]]  # what is kept of a turn, by its place in the dialogue


class Figures(NamedTuple):
    """Sums over questions: pairs of question and evidence turn, words of answers, answers."""

    pairs: int = 0
    pairs_kept: int = 0
    words: float = 0.0
    whole: int = 0
    answers: int = 0

    def __add__(self, other: "Figures") -> "Figures":  # type: ignore[override]
        return Figures(
            self.pairs + other.pairs,
            self.pairs_kept + other.pairs_kept,
            self.words + other.words,
            self.whole + other.whole,
            self.answers + other.answers,
        )

    @property
    def shares(self) -> dict[str, float | None]:
        """The shares kept: of evidence, of the words of an answer (mean), of answers with all their words."""
        return {
            "evidence": rounded(self.pairs_kept / max(1, self.pairs)),
            "answer_words": rounded(self.words / max(1, self.answers)),
            "answer_whole": rounded(self.whole / max(1, self.answers)),
        }


class Question(NamedTuple):
    """A question with its answer's words."""

    category: int
    evidence: tuple[int, ...]
    answer: str
    words: frozenset[str]


class Curated(NamedTuple):
    """What the extractor keeps of a dialogue."""

    facts: list[tuple[NewFact, list[int]]]  # with the places of its sources
    entities: list[NewEntity]

    @property
    def statements(self) -> Kept:
        """The statements by the place of each of their sources."""
        kept: defaultdict[int, list[str]] = defaultdict(list)
        for fact, places in self.facts:
            for place in places:
                kept[place].append(fact.statement)
        return kept


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--data", type=Path, default=DATA, help=f"dialogues and questions; default: {DATA}")
    parser.add_argument("--share", type=float, default=KEPT_SHARE, help="of a range's bytes that facts may take")
    parser.add_argument("--seed", type=int, default=1, help="of the turns at random")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Curate every dialogue and return the figures; raises `SystemExit` if there is no data."""
    if not args.data.is_file():
        sys.exit(f"memory-curation: {args.data} is not a file; --data names one in the form of LoCoMo")
    draw = random.Random(args.seed)
    answers = _answers(args.data)
    total = turns = facts = entities = count = dated = dated_right = 0
    ours, chance, seconds = Figures(), Figures(), 0.0
    categories: defaultdict[int, Figures] = defaultdict(Figures)
    for dialogue in locomo.read(args.data):
        questions = list(_questions(dialogue, answers))
        begin = time.process_time()
        curated = curate(dialogue, args.share)
        seconds += time.process_time() - begin
        of_facts = sum(kept_bytes(fact) for fact, _ in curated.facts)
        of_entities = sum(map(kept_bytes, curated.entities))
        total += sum(len(spoken(turn).encode()) for turn in dialogue.said)
        turns += len(dialogue.said)
        facts, entities, count = facts + of_facts, entities + of_entities, count + len(curated.facts)
        for question in questions:
            found = _figures(dialogue, [question], curated.statements)
            ours += found
            categories[question.category] += found
        for _ in range(_DRAWS):
            chance += _figures(dialogue, questions, _at_random(dialogue, of_facts + of_entities, draw))
        right, all_dated = _dated(questions, curated)
        dated, dated_right = dated + all_dated, dated_right + right
        say(f"{dialogue.id}: {len(curated.facts)} facts, {len(curated.entities)} entities")
    kept = facts + entities
    return {
        "bytes": total,
        "bytes_kept": kept,
        "kept": rounded(kept / total, 4),
        "kept_facts": rounded(facts / total, 4),
        "kept_entities": rounded(entities / total, 4),
        "reduction": rounded(1 - kept / total, 4),
        "facts": count,
        "fact_bytes": rounded(facts / max(1, count), 1),
        **ours.shares,
        "dates": rounded(dated_right / max(1, dated)),
        "at_random": chance.shares,
        "lift": rounded(ours.pairs_kept * _DRAWS / max(1, chance.pairs_kept), 2),
        "by_category": {CATEGORIES[category]: one.shares for category, one in sorted(categories.items())},
        "ms_per_turn": rounded(1000 * seconds / max(1, turns), 2),
    }


def curate(dialogue: Dialogue, share: float) -> Curated:
    """Return what the extractor keeps of a dialogue, session by session; entities are merged as the store does."""
    people = {turn.speaker for turn in dialogue.said}
    sessions: defaultdict[int, list[StoredMemory]] = defaultdict(list)
    for place, turn in enumerate(dialogue.said):
        line = entry(place, spoken(turn), turn.speaker, at_ms=turn.at_ms)
        sessions[turn.session].append(line)
    facts: list[tuple[NewFact, list[int]]] = []
    entities: list[StoredMemory] = []
    for lines in sessions.values():
        learned: Learned = extract(lines, people, "UTC", share=share)
        facts += [(fact, list(fact.sources)) for fact in learned.facts]
        said_ms = {line.no: line.at_ms for line in lines}
        merged = merge_entities(learned.entities, entities, said_ms)
        wider = {seen.no: seen.entity for seen in merged.seen}
        entities = [known_entity(it.no, wider.get(it.no) or it.entity) for it in entities if it.entity is not None]
        entities += [known_entity(len(entities) + number, it) for number, it in enumerate(merged.add)]
    named = [
        NewEntity(
            name=one.name, kind=cast(EntityKind, one.kind), sources=(), aliases=one.aliases, description=one.description
        )
        for one in [it.entity for it in entities if it.entity is not None]
    ]
    return Curated(facts, named)


def spoken(turn: Said) -> str:
    """Return what was said in a turn, without what was said of a picture that came with it."""
    return turn.text.partition(" [shares ")[0]


def content(text: str) -> frozenset[str]:
    """Return the words of a text that mean something, without their endings."""
    return frozenset(_stem(word.lower()) for word in _WORD.findall(text) if word.lower() not in _SMALL)


def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _STEM_MIN_CHARS:
            return word[: -len(ending)]
    return word


def _answers(data: Path) -> dict[tuple[str, str], str]:
    """Return the answers by dialogue and question, as the file has them."""
    samples = json.loads(data.read_text(encoding="utf-8"))["samples"]
    return {
        (sample["sample_id"], qa["question"]): str(qa.get("answer", "")) for sample in samples for qa in sample["qa"]
    }


def _questions(dialogue: Dialogue, answers: Mapping[tuple[str, str], str]) -> Sequence[Question]:
    return [
        Question(asked.category, asked.evidence, answer, content(answer))
        for asked in dialogue.asked
        if asked.category != ADVERSARIAL
        for answer in (answers[dialogue.id, asked.text],)
    ]


def _figures(dialogue: Dialogue, questions: Sequence[Question], kept: Kept) -> Figures:
    """Return how much of the evidence of questions is kept."""
    sums = Figures()
    for question in questions:
        sums += Figures(pairs=len(question.evidence), pairs_kept=sum(place in kept for place in question.evidence))
        said = frozenset[str]().union(*(content(spoken(dialogue.said[place])) for place in question.evidence))
        wanted = question.words & said
        if wanted:
            left = frozenset[str]().union(
                *(content(statement) for place in question.evidence for statement in kept.get(place, ()))
            )
            sums += Figures(words=len(wanted & left) / len(wanted), whole=wanted <= left, answers=1)
    return sums


def _dated(questions: Sequence[Question], curated: Curated) -> tuple[int, int]:
    """Return of how many answers that are a date a kept fact of the evidence has the date; and how many there are."""
    right = count = 0
    for question in questions:
        if not _A_DATE.fullmatch(question.answer.strip()):
            continue
        text = f"in {question.answer.strip()}"
        periods = [moment.period for moment in dates.find(text, date(2000, 1, 1))]
        if len(periods) != 1:
            continue
        count += 1
        zone = dates.zone_of("UTC")
        begin, end = (dates.begin_ms(day, zone) for day in (periods[0].begin, periods[0].end))
        right += any(
            fact.valid_from_ms is not None and begin <= fact.valid_from_ms < end
            for fact, places in curated.facts
            if not set(places).isdisjoint(question.evidence)
        )
    return right, count


def _at_random(dialogue: Dialogue, max_bytes: int, draw: random.Random) -> Kept:
    """Return whole turns at random, as many as have room."""
    kept: dict[int, list[str]] = {}
    for place in draw.sample(range(len(dialogue.said)), len(dialogue.said)):
        text = spoken(dialogue.said[place])
        max_bytes -= len(text.encode())
        if max_bytes < 0:
            break
        kept[place] = [text]
    return kept
