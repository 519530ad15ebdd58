"""What a ranking prefers, that it explains itself, and that a large scope is ranked as a small one is."""

import random
from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest

from daycare.base.memories import Tier
from daycare.features.memory.embed.arrays import np
from daycare.features.memory.language import analysis
from daycare.features.memory.search import ranking
from daycare.features.memory.search.postings import Group, gather
from daycare.features.memory.search.question import NamedPeople, SearchQuestion, TimeSpan, hear, read
from daycare.features.memory.search.ranking import Nearness, RankingWeights, Scored, finish, plain, rank, unread
from daycare.features.memory.search.structure import SearchLimits, Structure
from daycare.features.memory.store.records import MemoryShape, Postings

NOW = 1_800_000_000_000
DAY = 86_400_000


class Notes:
    """Memories of one scope, searched as the store would: a word is its first five letters, without an s."""

    def __init__(self) -> None:
        self.texts: dict[int, str] = {}
        self.shapes: list[MemoryShape] = []
        self._numbers = count(1)

    def say(self, text: str, session: int = 1, speaker: str = "Ann", days_ago: float = 400.0, **more: Any) -> int:
        no = next(self._numbers)
        fields: dict[str, Any] = {"tier": Tier.LOG, "agent_id": "a", "path": "/u/agent/a", "turn": no, "until_ms": None}
        fields |= more
        at_ms = NOW - int(days_ago * DAY) + no
        self.shapes.append(MemoryShape(no=no, session=session, speaker=speaker, at_ms=at_ms, **fields))
        self.texts[no] = text
        return no

    def chat(self, *texts: str, session: int) -> list[int]:
        return [self.say(text, session, ("Ann", "Bob")[at % 2]) for at, text in enumerate(texts)]

    def postings(self, words: Sequence[str]) -> dict[str, Postings]:
        found = {}
        for word in words:
            having = [no for no, text in self.texts.items() if _stem(word) in map(_stem, analysis.words_of(text))]
            if having:
                data = np.array(having, "<i8").tobytes()
                found[word] = Postings(_stem(word), (word,), len(having), data)
        return found

    def ask(self, text: str, *, near: dict[int, float] | None = None, count: int = 10, **more: Any) -> list[Scored]:
        structure = Structure(self.shapes)
        question = read(hear(text, NOW), NamedPeople(structure.called))
        words = [word for term in question.terms for word in (*term.words, *term.kin)]
        cosines = None
        if near is not None:
            known = dict(sorted(near.items()))
            cosines = Nearness(np.array(list(known)), np.array(list(known.values()), np.float32), 0.1, 0.1)
        ranked = rank(structure, gather(question.terms, self.postings(words)), question, NOW, near=cosines, **more)
        structure.look({no: self.texts[no] for no in unread(structure, ranked)})
        return finish(structure, ranked, question, count, more.get("weights"))

    def best(self, text: str, **more: Any) -> list[int]:
        return [each.no for each in self.ask(text, **more)]


def _stem(word: str) -> str:
    return word.rstrip("s")[:5]


def small_talk(notes: Notes, sessions: int, seed: int = 1) -> None:
    draw = random.Random(seed)
    words = analysis.words_of("well sure maybe lovely weather again later soon rather quite busy fine great nice sunny")
    for session in range(100, 100 + sessions):
        notes.chat(*(" ".join(draw.choices(words, k=8)) for _ in range(10)), session=session)


@pytest.fixture
def notes() -> Notes:
    made = Notes()
    small_talk(made, 5)
    return made


def test_the_memory_with_the_rarest_words_of_a_question_is_first(notes: Notes) -> None:
    notes.say("The weather was lovely at the lighthouse", 2)
    told = notes.say("We repaired the lighthouse with a copper roof", 3)
    assert notes.best("What was the copper roof of the lighthouse like?")[0] == told


def test_what_stands_beside_the_words_is_found_before_what_does_not(notes: Notes) -> None:
    said = notes.chat("How was the lighthouse?", "Cold, but it was worth it", "I am glad", session=2)
    assert set(notes.best("Tell me about the lighthouse", count=3)) == set(said)


def test_the_answer_to_a_question_with_the_words_is_found_before_what_leads_to_it(notes: Notes) -> None:
    lead, asked, answer, _ = notes.chat(
        "Nice to hear", "Where is the copper kettle?", "In the shed", "Fine, later then", session=2
    )
    found = notes.best("Where is the copper kettle?")
    assert found.index(answer) < found.index(lead)
    assert {asked, answer} == set(found[:2])


def test_of_two_people_with_the_same_words_the_one_who_is_named_is_first(notes: Notes) -> None:
    ann = notes.say("I collect copper kettles", 2, "Ann")
    bob = notes.say("I collect copper kettles", 3, "Bob")
    assert notes.best("What does Bob collect, kettles?")[0] == bob
    assert notes.best("What does Ann collect, kettles?")[0] == ann


def test_a_question_about_a_time_finds_what_was_said_then(notes: Notes) -> None:
    notes.say("The kettle is broken", 2, days_ago=300)
    then = notes.say("The kettle is broken", 3, days_ago=1)
    notes.say("The kettle is broken", 4, days_ago=100)
    assert notes.best("What about the kettle yesterday?")[0] == then
    assert notes.best("What happened yesterday?")[0] == then, "without any words"


def test_who_asks_when_gets_what_tells_a_time(notes: Notes) -> None:
    notes.say("The kettle is broken, sadly so", 2)
    when = notes.say("The kettle is broken since Monday", 3)
    assert notes.best("When did the kettle break, the broken one?")[0] == when


def test_words_that_may_be_meant_are_found_behind_the_words_themselves(notes: Notes) -> None:
    dog = notes.say("A dog sleeps on my bed", 2)
    pet = notes.say("A pet sleeps on my bed", 3)
    assert notes.best("Which pets are there?")[:2] == [pet, dog]


def test_vectors_find_what_has_none_of_the_words(notes: Notes) -> None:
    hidden = notes.say("He purrs all night", 2)
    assert hidden not in notes.best("Is the tomcat happy?")
    near = dict.fromkeys(notes.texts, 0.1) | {hidden: 0.9}
    assert notes.best("Is the tomcat happy?", near=near)[0] == hidden


def test_what_has_nothing_to_do_with_a_question_is_not_found(notes: Notes) -> None:
    assert notes.best("Is the tomcat happy?") == []
    assert notes.best("thanks!") == []
    assert notes.best("Is the tomcat happy?", near=dict.fromkeys(notes.texts, 0.1)) == []


def test_a_fact_is_ranked_with_what_was_said_around_the_words_that_it_comes_from(notes: Notes) -> None:
    said = notes.chat("The lighthouse keeper told me a story", "Go on", "He has a copper kettle", session=2)
    lonely = notes.say("Someone has a copper kettle", 0, tier=Tier.FACT, turn=0)
    fact = notes.say("The keeper has a copper kettle", 2, tier=Tier.FACT, turn=said[2])
    found = notes.ask("What copper kettle has the lighthouse keeper?")
    assert fact in [each.no for each in found[:2]]
    scores = {each.no: dict(zip(each.signals, each.added, strict=True)) for each in found}
    assert scores[fact]["around"] > scores[lonely]["around"] == pytest.approx(scores[lonely]["words"] * 0.6 / 0.7)


def test_tiers_and_recency_count_as_the_settings_say(notes: Notes) -> None:
    old = notes.say("The copper kettle leaks", 2, days_ago=500)
    new = notes.say("The copper kettle leaks", 3, days_ago=1)
    fact = notes.say("The copper kettle leaks", 0, tier=Tier.FACT, turn=0, days_ago=500)
    question = "Does the copper kettle leak?"
    assert notes.best(question, weights=RankingWeights(recency=1.0))[0] == new
    assert fact not in notes.best(question, weights=RankingWeights(tiers={Tier.FACT: 0.0}))
    assert notes.best(question, weights=RankingWeights(tiers={Tier.FACT: 10.0}))[0] == fact
    assert set(notes.best(question, limits=SearchLimits(tiers=(Tier.FACT,)))) == {fact}
    assert old in notes.best(question)


def test_the_parts_of_a_score_add_up_to_it(notes: Notes) -> None:
    notes.chat("Where is the copper kettle?", "In the shed since 2019", session=2)
    for each in notes.ask("When did Bob put the kettle there?", near=dict.fromkeys(notes.texts, 0.2)):
        assert sum(each.added) == pytest.approx(each.score, abs=1e-4)


def test_a_stem_counts_once_and_for_the_first_term_that_has_it() -> None:
    terms = analysis.terms(["painting", "paint", "dogs", "pets"])
    numbers = np.array([1, 4], "<i8").tobytes()
    found = {word: Postings(stem, (word,), 2, numbers) for word, stem in
             [("painting", "paint"), ("paint", "paint"), ("dogs", "dog"), ("dog", "dog")]}  # fmt: skip
    groups = gather(terms, found)
    assert [group.own.tolist() for group in groups] == [[1, 4], [1, 4]]
    assert [group.kin.tolist() for group in groups] == [[], []]


def test_a_word_that_is_listed_in_part_is_as_rare_as_it_is() -> None:
    [group] = gather(analysis.terms(["tea"]), {"tea": Postings("tea", ("tea",), 900, np.array([3], "<i8").tobytes())})
    assert (group.own.tolist(), group.own_in) == ([3], 900)


def test_plain_merging_is_a_weighted_sum_of_words_and_vectors(notes: Notes) -> None:
    worded = notes.say("The copper kettle leaks", 2)
    near = notes.say("It drips", 3)
    structure = Structure(notes.shapes)
    question = read(hear("Does the copper kettle leak?", NOW))
    groups = gather(question.terms, notes.postings([word for term in question.terms for word in term.words]))
    cosines = dict.fromkeys(notes.texts, 0.1) | {near: 0.9}
    known = Nearness(np.array(list(cosines)), np.array(list(cosines.values()), np.float32), 0.1, 0.1)
    found = plain(structure, groups, question, near=known, text=0.7, vector=0.3)
    assert [(each.no, round(each.score, 3)) for each in found[:2]] == [(worded, 0.7), (near, 0.3)]
    assert plain(structure, groups, question, near=known, text=0.3, vector=0.7)[0].no == near


@pytest.mark.parametrize("memories", [1, 2, 3, 10, 30])
def test_in_a_young_scope_a_word_that_every_memory_has_finds_them(memories: int) -> None:
    notes = Notes()
    told = [notes.say(f"My cat did thing number {number}", number) for number in range(memories)]
    assert set(notes.best("What about the cat?", count=memories)) == set(told)


def test_nothing_can_be_asked_of_nothing() -> None:
    structure = Structure()
    empty = np.empty(0, np.int64)
    for near in (None, Nearness(empty, np.empty(0, np.float32), 0.0, 0.0)):
        ranked = rank(structure, [], SearchQuestion(()), NOW, near=near)
        assert unread(structure, ranked) == []
        assert finish(structure, ranked, SearchQuestion(()), 10) == []
        assert plain(structure, [], SearchQuestion(()), near=near) == []


def test_numbers_of_memories_that_are_gone_are_left_out(notes: Notes) -> None:
    told = notes.say("The copper kettle leaks", 2)
    structure = Structure(notes.shapes)
    structure.renew([told], [])
    question = read(hear("copper kettle", NOW))
    groups = [Group(np.array([told, 10_000]), 2, np.array([told + 1]), 1)]
    near = Nearness(np.array([3, told, 9_999]), np.array([0.2, 0.9, 0.9], np.float32), 0.1, 0.1)
    ranked = rank(structure, groups, question, NOW, near=near)
    assert told not in structure.numbers[ranked.places]


@pytest.mark.parametrize("seed", range(8))
def test_a_large_scope_is_ranked_as_if_every_memory_was_scored(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(seed)
    size = 6_000
    structure = Structure(
        [
            MemoryShape(no, tier, "a", "/u", no // 30, no, "AB"[no % 2], NOW - (size - no) * 10**6, None)
            for no in range(1, size + 1)
            for tier in [Tier.LOG if no % 9 else Tier.FACT]
        ]
    )
    structure.look(dict.fromkeys(range(1, size + 1), "a text"))

    def some(count: int) -> Any:
        return np.array(sorted(draw.sample(range(1, size + 1), count)))

    groups = [Group(some(count), count, some(9), 9) for count in (5, 40, 300, 2_000)]
    near = Nearness(some(100), np.linspace(0.2, 0.6, 100, dtype=np.float32), 0.1, 0.1)
    question = SearchQuestion((), {0: 1.0}, (TimeSpan(NOW - 9 * 10**8, NOW - 8 * 10**8),) if seed % 2 else ())
    found = [each.no for each in finish(structure, rank(structure, groups, question, NOW, near=near), question, 10)]
    monkeypatch.setattr(ranking, "ALL_MAX", size)
    every = [each.no for each in finish(structure, rank(structure, groups, question, NOW, near=near), question, 10)]
    assert found == every


def test_in_a_large_scope_what_may_not_be_found_takes_no_place_of_what_may() -> None:
    size = 5_000
    tiers = [Tier.FACT if no == 77 else Tier.LOG for no in range(1, size + 1)]
    shapes = [MemoryShape(no, tier, "a", "/u", no, no, "Ann", no, None) for no, tier in enumerate(tiers, 1)]
    structure = Structure(shapes)
    structure.look(dict.fromkeys(range(1, size + 1), "a text"))
    groups = [Group(np.arange(1, size // 2), size // 2, np.empty(0, np.int64), 0)]
    ranked = rank(structure, groups, SearchQuestion(()), NOW, limits=SearchLimits(tiers=(Tier.FACT,)))
    assert [each.no for each in finish(structure, ranked, SearchQuestion(()), 10)] == [77]
