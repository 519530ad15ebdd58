"""Ranking what is remembered: which of a scope's memories answer a question, and what each signal says of it.

Scores are log-odds, so what signals say adds up: how much of what a question asks about a memory has in its words; how
much of it was said just before and after, and in the same conversation; who said it when; what kind of text it is; how
near its vector is. The weights are the rounded ones of a conditional logistic regression over five long dialogues.

Words count as in BM25, by how rare they are in the scope, over stretches of a conversation: a memory alone, with two
neighbours on each side, with four. So the index needs no second column, and no length of a text.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import log, log1p, sqrt
from typing import Final, NamedTuple

from daycare.base.memories import Tier
from daycare.features.memory.embed.arrays import Floats, NDArray, Numbers, np
from daycare.features.memory.search.postings import Group
from daycare.features.memory.search.question import SearchQuestion
from daycare.features.memory.search.structure import NOWHERE, TIERS, Places, SearchLimits, Structure
from daycare.features.memory.search.traits import ASKS, NAMES, NUMBERS, SAYS, TIMES

ALL_MAX: Final = 2_048  # memories of a scope of which every one is scored; in larger ones those that are likely ...
WORDED_MAX: Final = 300  # ... by their words (with 500, and 200 vectors, 993 of 1,000 found are the same) ...
NEAR_MAX: Final = 150  # ... by their vectors ...
TIMED_MAX: Final = 500  # ... by their time, with the neighbours of each
READ_MAX: Final = 80  # of the best, whose texts are looked at: twice as many lines as a prompt has room for
LEAST: Final = 1.0  # of what words, vectors and time say: less has one answer in 500
USUAL: Final = 500  # memories of a scope for which a lowest score is meant

_SATURATION: Final = 1.2  # BM25's k1
_KIN: Final = 0.4  # of a word, what one that may be meant by it is worth
_UNSEEN: Final = 5  # memories without a word, of which nobody has told yet
_AROUND: Final = 2  # neighbours on each side
_WIDE: Final = 4
_DAY_MS: Final = 86_400_000
_FADING_DAYS: Final = 7  # beside the time that is asked for, until a memory of then counts a third
_MONTH_DAYS: Final = 30
_ABOUT: Final = frozenset(("words", "around", "wide", "session", "answers", "cosine", "cosine_around", "time"))


class RankingWeights(NamedTuple):
    """What each signal adds, and the factors of the tiers. `recency` is for a memory of this minute."""

    words: float = 0.7
    around: float = 0.6
    wide: float = 0.6
    session: float = 0.6
    answers: float = 0.6  # what was said before asks, and has the words
    speaker: float = 2.5
    time: float = 4.0
    opens: float = 0.7  # the first of a conversation
    asks: float = -0.6
    says: float = 0.2
    times: float = 0.3
    wanted_time: float = 2.0
    wanted_number: float = 0.7
    wanted_name: float = 1.4
    cosine: float = 0.4
    cosine_around: float = 0.4
    recency: float = 0.0
    tiers: Mapping[Tier, float] = {}

    def scaled(self, *, text: float, vector: float) -> "RankingWeights":
        """Return them with what words say counted `text` times, and what vectors say `vector` times."""
        return self._replace(
            words=self.words * text,
            around=self.around * text,
            wide=self.wide * text,
            session=self.session * text,
            answers=self.answers * text,
            cosine=self.cosine * vector,
            cosine_around=self.cosine_around * vector,
        )


class Nearness(NamedTuple):
    """Cosines with the question, of all memories or of some, and mean and deviation of those of all."""

    numbers: Numbers
    scores: Floats
    mean: float
    deviation: float


class Ranked(NamedTuple):
    """The best memories as far as their texts do not matter, by place. `parts` is what each signal adds.

    `before` is where what was said before each is, `answers` what that adds if it asks.
    """

    places: Numbers
    parts: Mapping[str, Floats]
    before: Places
    answers: Floats


class Scored(NamedTuple):
    """A memory's number and score, and what each of the `signals` adds to it."""

    no: int
    score: float
    signals: Sequence[str]
    added: Sequence[float]


def rank(
    structure: Structure,
    groups: Sequence[Group],
    question: SearchQuestion,
    now_ms: int,
    *,
    near: Nearness | None = None,
    limits: SearchLimits | None = None,
    weights: RankingWeights | None = None,
) -> Ranked:
    """Return the best memories of a scope, `READ_MAX` at most. Takes 1 to 5 ms, whatever the scope's size."""
    limits, weights = limits or SearchLimits(), weights or RankingWeights()
    tiers = tuple(tier for tier in limits.tiers if weights.tiers.get(tier, 1.0) > 0)
    scope = _Scope(structure, groups, question, near, limits._replace(tiers=tiers))
    places = scope.places
    windows = _Windows(scope, places)
    parts = _words(scope, windows, weights)
    answers = parts.pop("answers")
    if near is not None:
        parts |= _vectors(scope, windows, weights)
    parts["speaker"] = weights.speaker * _of_speakers(structure.speaker[places], question)
    parts["time"] = weights.time * scope.timely(places)
    parts["opens"] = weights.opens * ((structure.before[places] == NOWHERE) & (structure.tier[places] == 0))
    if weights.recency:
        days = np.maximum(now_ms - structure.at_ms[places], 0) / _DAY_MS
        parts["recency"] = (weights.recency * 0.5 ** (days / _MONTH_DAYS)).astype(np.float32)
    if weights.tiers:
        factors = np.array([log(max(weights.tiers.get(tier, 1.0), 1e-9)) for tier in TIERS], np.float32)
        parts["tier"] = factors[structure.tier[places]]
    best = _best(_summed(list(parts.values())), places, READ_MAX)
    places = places[best]
    parts = {name: part[best] for name, part in parts.items()}
    return Ranked(places, parts, structure.before[places], answers[best])


def unread(structure: Structure, ranked: Ranked) -> list[int]:
    """Return the numbers of the memories whose texts `finish` needs to have been looked at."""
    wanted = np.concatenate((ranked.places, ranked.before[(ranked.answers > 0) & (ranked.before != NOWHERE)]))
    return sorted(set(structure.numbers[wanted[structure.traits[wanted] == 0]].tolist()))


def finish(
    structure: Structure,
    ranked: Ranked,
    question: SearchQuestion,
    count: int,
    weights: RankingWeights | None = None,
    *,
    least: float | None = None,
) -> list[Scored]:
    """Return the best memories by all signals, the best first; what nobody could look at is gone and left out.

    So is what has too little to do with the question, whoever said it when, and what has a score below `least`, which
    is for scopes of `USUAL` memories: in smaller ones a word is less rare, and all scores are lower. It is not for what
    stands alone, an entity or a passage: no neighbour lends it words, so it has its own.
    """
    weights = weights or RankingWeights()
    traits = structure.traits[ranked.places]
    before = structure.traits[ranked.before] * (ranked.before != NOWHERE)
    parts = {**ranked.parts, "answers": ranked.answers * _has(before, ASKS)}
    about = np.add.reduce([part for name, part in parts.items() if name in _ABOUT])
    parts["asks"] = weights.asks * _has(traits, ASKS)
    parts["says"] = weights.says * np.log1p(traits // SAYS, dtype=np.float32)
    parts["times"] = (weights.times + weights.wanted_time * question.wants_time) * _has(traits, TIMES)
    if question.wants_number:
        parts["number"] = weights.wanted_number * _has(traits, NUMBERS)
    if question.wants_name:
        parts["name"] = weights.wanted_name * _has(traits, NAMES)
    fits = (traits > 0) & (about >= LEAST)
    added = np.array(list(parts.values()))
    scores = _summed(added)
    if least is not None:
        least *= sqrt(min(1.0, _rarity(structure.living, 1) / _rarity(USUAL, 1)))
        fits &= (scores >= least) | (structure.anchor[ranked.places] == NOWHERE)
    return _scored(structure.numbers[ranked.places], tuple(parts), added, scores, count, np.flatnonzero(fits))


def plain(
    structure: Structure,
    groups: Sequence[Group],
    question: SearchQuestion,
    *,
    near: Nearness | None = None,
    limits: SearchLimits | None = None,
    text: float = 0.7,
    vector: float = 0.3,
) -> list[Scored]:
    """Return the best memories by a weighted sum of words and vectors alone, each from 0 to 1, as many others do."""
    scope = _Scope(structure, groups, question, near, limits or SearchLimits())
    places = scope.places
    parts = {"words": text * _spread(scope.own_words(places))}
    if near is not None:
        parts["cosine"] = vector * _spread(scope.cosines[places])
    added = np.array(list(parts.values()))
    return _scored(structure.numbers[places], tuple(parts), added, _summed(added), READ_MAX, np.arange(len(places)))


class _Scope:
    """A question laid over a structure: which memories are likely, and where its terms and vectors are.

    Arrays by place have one more row, for what is `NOWHERE`: it has no words.
    """

    def __init__(
        self,
        structure: Structure,
        groups: Sequence[Group],
        question: SearchQuestion,
        near: Nearness | None,
        limits: SearchLimits,
    ) -> None:
        self.structure = structure
        self.question = question
        self._limits = limits
        rows = structure.size + 1
        self.own = np.zeros(rows, np.float32)  # words of each memory alone
        self.shares = np.zeros(rows, np.float32)  # how much of one term each has, while that is looked at
        self.terms = [self._term(*each) for each in zip(groups, *self._located(groups), strict=True)]
        self.worded = self._union([places for places, *_ in self.terms])
        self.scale = np.float32(1 / sqrt(sum(rarity for *_, rarity in self.terms) or 1))
        self.cosines = np.zeros(rows, np.float32)  # in deviations from the mean, which is what nobody knows
        self._near = np.empty(0, np.int64) if near is None else self._nearest(near)
        self.places = self._likely()

    def _nearest(self, near: Nearness) -> Numbers:
        """Note all cosines, and return where the best are that may be found. Most are below the mean and no best."""
        numbers, known = near.numbers, near.scores
        begin = self.structure.row(numbers)
        if begin is None and (numbers[1:] < numbers[:-1]).any():
            order = np.argsort(numbers)
            numbers, known = numbers[order], known[order]
        known = (known - np.float32(near.mean)) / np.float32(near.deviation or 1)
        if begin is not None:
            places = np.arange(begin, begin + len(known))
            self.cosines[begin : begin + len(known)] = known
        else:
            places, there = self.structure.sought(numbers)
            known = known if len(places) == len(known) else known[there]
            self.cosines[places] = known
        for among in (np.flatnonzero(known > 1), np.arange(len(known))):
            among = among[self.structure.admits(places[among], self._limits)]
            if len(among) >= NEAR_MAX:
                break
        found: Numbers = places[among[_best(known[among], places[among], NEAR_MAX)]]
        return found

    def _located(self, groups: Sequence[Group]) -> tuple[list[Numbers], list[Numbers]]:
        """Return where the words of each term are, and where those are that may be meant by it: one look for all."""
        parts = [group.own for group in groups] + [group.kin for group in groups]
        if not parts:
            return [], []
        places, there = self.structure.sought(np.concatenate(parts))
        ends = np.cumsum([len(part) for part in parts])
        if len(places) < len(there):
            ends = np.concatenate(([0], np.cumsum(there)))[ends]
        each = [places[begin:end] for begin, end in pairwise([0, *ends.tolist()])]
        return each[: len(groups)], each[len(groups) :]

    def _term(self, group: Group, own: Numbers, kin: Numbers) -> tuple[Numbers, Floats, float]:
        """Return where a term is, how much of it, and how much it weighs."""
        shares, among = self.shares, self._limits.among
        living, own_in, kin_in = self.structure.living, group.own_in, group.kin_in
        if among is not None:  # a word that all others have may be rare where the choice is
            living, own_in, kin_in = (int(np.count_nonzero(each)) for each in (among, among[own], among[kin]))
        rarity = _rarity(living, own_in)
        shares[own] = 1
        places = np.concatenate([own, kin[shares[kin] == 0]])
        shares[kin] = np.maximum(shares[kin], _KIN * min(1.0, _rarity(living, kin_in) / rarity))
        found = shares[places]
        shares[places] = 0
        rarity *= group.weight
        self.own[places] += rarity * _saturated(found)
        return places, found, rarity

    def _likely(self) -> Numbers:
        """Return which memories are scored: what has words, is near, or of the time, and what stands beside it."""
        structure = self.structure
        if structure.size <= ALL_MAX:
            found: Numbers = np.flatnonzero(structure.admits(slice(structure.size), self._limits))
            return found
        worded = self._admitted(self.worded)
        if len(worded) > WORDED_MAX:
            before, after = structure.before[worded], structure.after[worded]
            worded = worded[_best(self.own[worded] + self.own[before] + self.own[after], worded, WORDED_MAX)]
        timed = [
            self._admitted(np.flatnonzero((structure.at_ms >= span.begin_ms) & (structure.at_ms < span.end_ms)))
            for span in self.question.spans
        ]
        seeds = self._union([worded, self._near, *(each[-TIMED_MAX:] for each in timed)])
        return self._admitted(self._union([self.beside(seeds, _AROUND)]))

    def _admitted(self, places: Numbers) -> Numbers:
        found: Numbers = places[self.structure.admits(places, self._limits)]
        return found

    def _union(self, places: Sequence[Numbers]) -> Numbers:
        """Return places in order, each once, without `NOWHERE`."""
        marked = np.zeros(self.structure.size + 1, np.bool_)
        for each in places:
            marked[each] = True
        found: Numbers = np.flatnonzero(marked[:-1])
        return found

    def beside(self, places: Numbers, reach: int) -> Numbers:
        """Return places with those before and after them in their conversations: a row for each distance."""
        structure = self.structure
        rows = np.empty((2 * reach + 1, len(places)), np.int64)  # what numpy looks up by, many times
        rows[reach] = places
        for step in range(reach):
            rows[reach - step - 1] = structure.before.take(rows[reach - step], mode="wrap")
            rows[reach + step + 1] = structure.after.take(rows[reach + step], mode="wrap")
        return rows

    def own_words(self, places: Numbers) -> Floats:
        """Return how much of the question memories have in their own words."""
        found: Floats = self.own[places] * self.scale
        return found

    def timely(self, places: Numbers) -> Floats:
        """Return how near memories are to the times that the question names: 1 within, fading around."""
        found = np.zeros(len(places), np.float32)
        at_ms = self.structure.at_ms[places]
        for span in self.question.spans:
            away = np.maximum(np.maximum(span.begin_ms - at_ms, at_ms - span.end_ms), 0) / _DAY_MS
            np.maximum(found, span.weight * np.exp(-away / _FADING_DAYS), out=found)
        return found


class _Windows:
    """Where memories are, and in the midst of what each stands.

    What was learned has no neighbours but those of the words that it comes from. If those are gone, it is `alone`.
    """

    def __init__(self, scope: _Scope, places: Numbers) -> None:
        anchors = scope.structure.anchor[places]
        self.places = places
        self.alone = anchors == NOWHERE
        self.centres = np.where(self.alone, places, anchors)


def _words(scope: _Scope, windows: _Windows, weights: RankingWeights) -> dict[str, Floats]:
    """Return what the question's words say of memories: of each alone, of what stands beside it, of the conversation.

    What is alone speaks for all of these.
    """
    shares = _around(scope, windows.centres)
    rarities = np.array([rarity for *_, rarity in scope.terms], np.float32) * scope.scale
    around, wide, before = rarities @ _saturated(shares)
    own = scope.own_words(windows.places)
    session = _sessions(scope)[scope.structure.session[windows.centres]] * scope.scale
    return {
        "words": weights.words * own,
        "around": weights.around * np.where(windows.alone, own, around),
        "wide": weights.wide * np.where(windows.alone, own, wide),
        "session": weights.session * np.where(windows.alone, own, session),
        "answers": weights.answers * before,
    }


def _around(scope: _Scope, centres: Numbers) -> Floats:
    """Return how much of each term stands near each of some places: around, wide and just before.

    Few memories have a term, so each is added where it is near, in place of looking around each place.
    """
    count = len(centres)
    slots = np.full(scope.structure.size + 1, count)  # the last one is for what is near no centre, or `NOWHERE`
    slots[centres] = np.arange(count)
    having = [places for places, *_ in scope.terms]
    added = np.concatenate([found for _, found, _ in scope.terms] or [np.empty(0, np.float32)])
    at = slots[scope.beside(np.concatenate(having or [np.empty(0, np.int64)]), _WIDE)[::-1]]
    at += np.repeat(np.arange(len(having)) * (count + 1), [len(places) for places in having])
    sums = np.zeros((3, len(having) * (count + 1)), np.float32)
    near = at[_WIDE - _AROUND : _WIDE + _AROUND + 1]
    np.add.at(sums[0], near.ravel(), np.tile(added, len(near)))
    np.add.at(sums[1], at.ravel(), np.tile(added, len(at)))
    sums[2, at[_WIDE - 1]] = added  # of what is said after each
    found: Floats = sums.reshape(3, len(having), count + 1)[:, :, slots[centres]]
    return found


def _sessions(scope: _Scope) -> Floats:
    """Return for each conversation the most that one of its memories has of the question."""
    structure = scope.structure
    found = np.zeros(structure.sessions, np.float32)
    worded = scope.worded[structure.tier[scope.worded] == 0]
    np.maximum.at(found, structure.session[worded], scope.own[worded])
    return found


def _vectors(scope: _Scope, windows: _Windows, weights: RankingWeights) -> dict[str, Floats]:
    near = scope.beside(windows.centres, _AROUND)
    there = np.count_nonzero(near != NOWHERE, axis=0)
    around = scope.cosines[near].sum(axis=0) / there.astype(np.float32)
    return {"cosine": weights.cosine * scope.cosines[windows.places], "cosine_around": weights.cosine_around * around}


def _of_speakers(codes: Places, question: SearchQuestion) -> Floats:
    found = np.zeros(len(codes), np.float32)
    for code, weight in question.speakers.items():
        found[codes == code] = weight
    return found


def _rarity(memories: int, having: int) -> float:
    """Return a word's weight. In a young scope each memory may have it, and it still says what is asked about."""
    return log1p((max(memories - having, 0) + _UNSEEN + 0.5) / (having + 0.5))


def _saturated(shares: Floats) -> Floats:
    found: Floats = shares * np.float32(_SATURATION + 1) / (shares + np.float32(_SATURATION))
    return found


def _has(traits: NDArray[np.uint16], trait: int) -> Floats:
    found: Floats = (traits & trait != 0).astype(np.float32)
    return found


def _scored(
    numbers: Numbers, signals: Sequence[str], added: Floats, scores: Floats, count: int, among: Numbers
) -> list[Scored]:
    """Return the best of those at some places. `added` has a row for each signal."""
    best = among[_best(scores[among], numbers[among], count)]
    kept = zip(numbers[best].tolist(), scores[best].tolist(), added[:, best].T.tolist(), strict=True)
    return [Scored(no, score, signals, row) for no, score, row in kept]


def _summed(parts: Sequence[Floats] | Floats) -> Floats:
    found: Floats = np.add.reduce(parts).astype(np.float32)
    return found


def _spread(values: Floats) -> Floats:
    if not len(values):
        return values
    least, most = values.min(), values.max()
    found: Floats = (values - least) / ((most - least) or 1)
    return found


def _best(scores: Floats, places: Numbers, count: int) -> Numbers:
    """Return where the best scores are, the best first and the newest first of equals."""
    kept = np.arange(len(scores))
    if len(scores) > count:
        kept = np.argpartition(scores, len(scores) - count)[len(scores) - count :]
    found: Numbers = kept[np.lexsort((-places[kept], -scores[kept]))]
    return found
