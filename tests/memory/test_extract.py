"""What the rules make of a range of conversation: whose words count, what a statement says, what is left out."""

import re
from collections import Counter
from datetime import UTC, date, datetime
from typing import Final
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daycare.base.messages import Origin
from daycare.features.memory.facts import salience
from daycare.features.memory.facts.extract import KEPT_MIN_BYTES, KEPT_SHARE, ClauseReader, extract, kept_bytes, told
from daycare.features.memory.facts.learned import RULES, STATEMENT_MAX_CHARS, Learned, NewFact
from daycare.features.memory.language import dates, names, sentences
from daycare.features.memory.language.english.dates import easter
from daycare.features.memory.language.patterns import words
from daycare.features.memory.language.sentences import TEXT_MAX_CHARS
from daycare.features.memory.store.records import StoredMemory
from tests.cost import IN_STEP, costs_at_most
from tests.memory.entries import entry

BERLIN: Final = ZoneInfo("Europe/Berlin")
AT_MS: Final = int(datetime(2024, 5, 8, 13, 56, tzinfo=BERLIN).timestamp() * 1000)  # a Wednesday


def said(*texts: str, speaker: str = "Ann", origin: Origin = Origin.PERSON, at_ms: int = AT_MS) -> list[StoredMemory]:
    return [line(no, text, speaker, origin=origin, at_ms=at_ms) for no, text in enumerate(texts, 1)]


def line(
    no: int, text: str, speaker: str = "Ann", *, origin: Origin = Origin.PERSON, at_ms: int = AT_MS
) -> StoredMemory:
    return entry(no, text, speaker, at_ms=at_ms, origin=origin)


def learn(lines: list[StoredMemory], people: tuple[str, ...] = ("Ann", "Bob"), zone: str = "Europe/Berlin") -> Learned:
    return extract(lines, people, zone)


def fact(text: str) -> NewFact:
    (found,) = learn(said(text)).facts
    return found


def midnight(*day: int) -> int:
    return int(datetime(*day, tzinfo=BERLIN).timestamp() * 1000)  # type: ignore[arg-type,misc]


def test_a_plain_form_becomes_subject_attribute_and_value() -> None:
    found = fact("My dentist is Dr. Weber.")
    assert (found.statement, found.subject) == ("Ann's dentist is Dr. Weber", "Ann")
    assert (found.attribute, found.value, found.kind, found.sources) == ("dentist", "Dr. Weber", "fact", (1,))
    assert found.confidence >= 0.9


def test_what_is_to_be_remembered_is_kept_whatever_it_is() -> None:
    found = fact("Remember that the bins go out on odd weeks.")
    assert (found.attribute, found.value) == ("remember", "the bins go out on odd weeks")
    assert found.confidence >= 0.95


def test_somebody_elses_preference_is_theirs() -> None:
    assert fact("My daughter Aisha loves dinosaurs.").subject == "Aisha"
    assert fact("My brother hates mushrooms.").subject == "Ann's brother"
    kids = learn(said("My kids hate broccoli, but they like carrots.")).facts
    assert {(it.subject, it.attribute, it.value) for it in kids} == {
        ("Ann's kids", "dislikes", "broccoli"),
        ("Ann's kids", "likes", "carrots"),
    }


def test_a_relative_date_is_resolved_in_the_persons_zone() -> None:
    late = int(datetime(2024, 5, 8, 23, 30, tzinfo=UTC).timestamp() * 1000)  # the 9th in Berlin
    (found,) = learn(said("I met my old teacher Mr. Gallo in Rome yesterday.", at_ms=late)).facts
    assert found.statement == "Ann: I met my old teacher Mr. Gallo in Rome 2024-05-08"
    assert (found.kind, found.valid_from_ms, found.valid_until_ms) == ("date", midnight(2024, 5, 8), None)


def test_a_stretch_of_days_has_a_beginning_and_an_end() -> None:
    found = fact("I'll be in Amsterdam from Monday to Thursday.")
    assert found.statement == "Ann will be in Amsterdam from 2024-05-13 to 2024-05-16"
    assert (found.valid_from_ms, found.valid_until_ms) == (midnight(2024, 5, 13), midnight(2024, 5, 17))
    assert found.kind == "plan"


def test_what_is_over_has_an_end_and_no_beginning() -> None:
    facts = learn(said("Actually, I don't live in Cologne anymore, I moved to Bonn.")).facts
    assert [(it.attribute, it.value, it.valid_from_ms, it.valid_until_ms) for it in facts] == [
        ("lives in", "Cologne", None, AT_MS),
        ("lives in", "Bonn", None, None),
    ]


@pytest.mark.parametrize("text", ["I was in Rome until Friday yesterday.", "I live in Bonn until yesterday."])
def test_nothing_begins_after_its_end(text: str) -> None:
    [found] = learn(said(text)).facts
    assert found.valid_from_ms is None and found.valid_until_ms is not None


def test_what_holds_until_a_day_holds_from_now_on() -> None:
    found = fact("I live in Bonn until July.")
    assert (found.value, found.valid_from_ms, found.valid_until_ms) == ("Bonn until July", AT_MS, midnight(2024, 8, 1))


@pytest.mark.parametrize(
    "text",
    [
        "Do you know whether my dentist is Dr. Weber?",
        "What is my favourite colour?",
        "If I lived in Rome I would be happy.",
        "I'd like to know how this works.",
        "I love it!",
        "I like your idea.",
        "```\nmy name is Eve\n```",
        "> my dentist is Dr. Weber",
        "Translate this into French.",
        "Thanks a lot, that helps.",
        "",
        "?",
    ],
)
def test_questions_wishes_orders_and_quotations_are_no_facts(text: str) -> None:
    assert learn(said(text)).facts == ()


def test_what_the_assistant_says_is_no_fact() -> None:
    lines = [line(1, "My dentist is Dr. Weber.", "Max"), line(2, "I live in Rome since 2019.", "Max")]
    assert learn(lines) == Learned(by=RULES)


def test_what_two_people_say_are_facts_of_both() -> None:
    lines = [line(1, "I live in Rome."), line(2, "I live in Oslo.", "Bob")]
    assert {(it.subject, it.value) for it in learn(lines).facts} == {("Ann", "Rome"), ("Bob", "Oslo")}


@pytest.mark.parametrize(
    "origin", [Origin.FORWARD, Origin.FILE, Origin.AGENT, Origin.TIMER, Origin.SYSTEM, Origin.CRON]
)
def test_words_that_are_not_the_speakers_own_are_no_facts(origin: Origin) -> None:
    assert learn(said("My dentist is Dr. Weber.", origin=origin)) == Learned(by=RULES)


def test_what_is_said_in_a_group_counts() -> None:
    assert learn(said("My dentist is Dr. Weber.", origin=Origin.GROUP)).facts


def test_a_brief_answer_keeps_what_it_was_asked() -> None:
    lines = [line(7, "Nice! What kind of pizza do you want for the party?", "Max"), line(8, "Quattro Formaggi.")]
    (found,) = learn(lines).facts
    assert found.statement == "Ann: Quattro Formaggi (pizza do you want for the party?)"
    assert found.sources == (7, 8)


def test_entities_have_their_other_names_and_what_they_are_to_the_speaker() -> None:
    told = learn(
        said("My sister Lena Brandt is moving to Lisbon.", "Lena called yesterday, and Dr. Weber too.")
    ).entities
    lena = next(entity for entity in told if entity.name == "Lena Brandt")
    assert (lena.kind, lena.aliases, lena.description, lena.sources) == ("person", ("Lena",), "Ann's sister", (1, 2))
    assert {(entity.name, entity.kind) for entity in told} >= {("Lisbon", "place"), ("Dr. Weber", "person")}


@pytest.mark.parametrize(
    "text", ["Bob came with his sister Lena.", "I met my ex husband Karim.", "My boss's son Leo sings."]
)
def test_whose_relative_somebody_is_is_not_guessed(text: str) -> None:
    (entity,) = [it for it in learn(said(text)).entities if it.name in ("Lena", "Karim", "Leo")]
    assert entity.description == ""


def test_the_short_form_of_a_speakers_name_is_the_speaker() -> None:
    lines = [line(1, "Thanks, Mel! I live in Rome.", "Caroline"), line(2, "Any time!", "Melanie")]
    (entity, *_) = [it for it in extract(lines, ("Caroline", "Melanie"), "UTC").entities if it.kind == "person"]
    assert (entity.name, entity.aliases) == ("Melanie", ("Mel",))


def test_facts_take_a_tenth_of_a_long_range_and_little_of_a_short_one() -> None:
    texts = [
        f"On {day} March we drove to the lake near Village{day} with cousin Otto{day}, it was great."
        for day in range(1, 29)
    ]
    lines = said(*texts)
    size = salience.size(it.text for it in lines)
    kept = sum(map(kept_bytes, learn(lines).facts))
    assert 0.5 * KEPT_SHARE * size < kept <= max(KEPT_SHARE * size, KEPT_MIN_BYTES)
    assert sum(map(kept_bytes, learn(lines[:1]).facts)) <= KEPT_MIN_BYTES


def test_claims_are_kept_even_where_there_is_no_room() -> None:
    texts = [f"My locker number {number} is {number * 7}." for number in range(40)]
    assert len([it for it in learn(said(*texts)).facts if it.attribute]) == 40


@pytest.mark.parametrize(
    ("quoted", "statement"),
    [
        ("I live in Bonn", "Ann lives in Bonn"),
        ("I'm a nurse", "Ann is a nurse"),
        ("I've two cats", "Ann has two cats"),
        ("I went to Rome", "Ann went to Rome"),
        ("I carry the bags", "Ann: I carry the bags"),  # not a verb that is known
        ("I studied law", "Ann studied law"),
        ("my car is blue", "Ann's car is blue"),
        ("I love my job", "Ann: I love my job"),
        ("I told you so", "Ann: I told you so"),
        ("we moved to Rome", "Ann: we moved to Rome"),
        ("took the train", "Ann took the train"),
        ("I read a book", "Ann: I read a book"),  # today or yesterday
    ],
)
def test_words_become_a_statement_where_that_is_safe(quoted: str, statement: str) -> None:
    assert told("Ann", quoted) == statement


@pytest.mark.parametrize(
    ("text", "iso"),
    [
        ("last Friday", "2024-05-03"),
        ("We met last Wednesday", "2024-05-01"),
        ("next Monday", "2024-05-13"),
        ("this weekend", "2024-05-11/2024-05-12"),
        ("I left in March", "2024-03"),
        ("I will leave in March", "2025-03"),
        ("three weeks ago", "2024-W16"),
        ("I've been here for two years now", "2022"),
        ("31/12/2025", "2025-12-31"),
        ("05/06/2025", None),
        ("at Easter we went to Rome", "2024-03-31"),
        ("the day before yesterday", "2024-05-06"),
        ("moved to 19 June", "2024-06-19"),
    ],
)
def test_dates_are_resolved_as_people_mean_them(text: str, iso: str | None) -> None:
    assert [it.period.iso for it in dates.find(text, date(2024, 5, 8))] == ([iso] if iso else [])


def test_easter_is_where_the_calendar_has_it() -> None:
    known = {2000: (4, 23), 2008: (3, 23), 2011: (4, 24), 2024: (3, 31), 2025: (4, 20), 2038: (4, 25)}
    assert {year: (easter(year).month, easter(year).day) for year in known} == known


@given(st.lists(st.text(max_size=300), min_size=1, max_size=4), st.integers(-(10**15), 10**15))
@settings(max_examples=150, deadline=None)
def test_any_text_at_any_time_is_read_without_an_error(texts: list[str], at_ms: int) -> None:
    check(said(*texts, at_ms=at_ms))


PIECES: Final = st.sampled_from(
    [
        *(
            "I",
            "my",
            "is",
            "was",
            "like",
            "love",
            "live",
            "in",
            "the",
            "and",
            "Ann",
            "Bob",
            "Rome",
            "Dr.",
            "Weber",
            "not",
        ),
        *(
            "yesterday",
            "last",
            "next",
            "Friday",
            "May",
            "5",
            "2024",
            ",",
            ".",
            "!",
            "?",
            "-",
            ";",
            ":",
            '"',
            "'",
            "(",
            ")",
        ),
        *(
            "favourite",
            "don't",
            "remember",
            "that",
            "ago",
            "two",
            "weeks",
            "until",
            "since",
            "from",
            "to",
            "called",
            "dog",
        ),
        *("ich", "mag", "mein", "am", "Montag", "heißt", "und", "\n"),
    ]
)


@given(st.lists(PIECES, min_size=1, max_size=60).map(" ".join), st.integers(0, 4 * 10**12))
@settings(max_examples=300, deadline=None)
def test_nothing_is_made_up_whatever_is_said(text: str, at_ms: int) -> None:
    check(said("What do you like most?", text, at_ms=at_ms))


@pytest.mark.parametrize(
    "piece",
    [
        "I like ",
        "Aa Bb ",
        "Ann and ",
        "(",
        " , ,",
        "my x is ",
        '"A ',
        "in May ",
        "two days ago ",
        "1.1.",
        "Of the ",
        "*",
        "so, ",
    ],
)
def test_no_text_is_slow_to_read(piece: str) -> None:
    assert costs_at_most(IN_STEP, lambda: learn(said(piece * 8_000)), lambda: learn(said(piece * 2_000)))


def check(lines: list[StoredMemory]) -> None:
    """Assert what holds for every range: bounds, sources, and that each word was said."""
    learned = learn(lines)
    numbers = {it.no for it in lines}
    heard: set[str] = {word.casefold() for it in lines for word in re.findall(r"[^\W_]+", f"{it.speaker} {it.text}")}
    heard |= words(
        "s is has was will doesn week weekend of in since woche wochenende vom", "spring summer autumn winter"
    )
    heard |= words("frühjahr sommer herbst")
    for it in learned.facts:
        assert 0 < len(it.statement) <= STATEMENT_MAX_CHARS
        assert it.sources and set(it.sources) <= numbers
        assert 0 <= it.confidence <= 1
        for word in re.findall(r"[^\W_]+", it.statement.partition(": ")[2] if it.attribute else it.statement):
            if word[0].isdigit():
                continue  # dates are calculated
            assert {word.casefold(), word.casefold().removesuffix("s"), word.casefold().removesuffix("es")} & heard, (
                word
            )
        if it.valid_from_ms is not None and it.valid_until_ms is not None:
            assert it.valid_from_ms < it.valid_until_ms
    for entity in learned.entities:
        assert entity.name and set(entity.sources) <= numbers


def test_a_sentence_without_an_end_is_read_in_pieces() -> None:
    endless = "x " * TEXT_MAX_CHARS
    pieces = list(sentences.sentences(sentences.clean(endless)))
    assert len(pieces) > 1 and all(len(each.text) <= sentences.SENTENCE_MAX_CHARS for each in pieces)


def test_one_may_pause_after_each_sentence_also_where_nothing_is_told() -> None:
    asked = "Do you know? " * 20  # questions tell nothing: there is no clause between them
    steps = list(ClauseReader(said(asked), {"Ann"}, BERLIN).steps())
    assert steps.count(None) == len(steps) > 20


def _naive(candidates: list[salience.Candidate], max_bytes: int, again: float) -> list[int]:
    """Choose as the docstring says it: each time the one that is worth most now, whatever its line."""
    left = dict(enumerate(candidates))
    chosen: list[int] = []
    while left:
        kept = Counter(candidates[at].line for at in chosen)
        size = {at: len(it.statement.encode()) for at, it in left.items()}
        best = min(left, key=lambda at: (-left[at].likely / size[at] * again ** kept[left[at].line], at))
        if size[best] <= max_bytes:
            max_bytes -= size[best]
            chosen.append(best)
        del left[best]
    return sorted(chosen)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 30), st.sampled_from([-1.0, 0.0, 0.5, 2.0])), max_size=14),
    st.integers(0, 120),
)
def test_clauses_are_chosen_that_are_worth_most_for_their_size_and_less_after_another_of_their_line(
    drawn: list[tuple[int, int, float]], max_bytes: int
) -> None:
    candidates = [salience.Candidate(line, "x" * size, score) for line, size, score in drawn]
    # Half is exact in a float, so that equals stay equal.
    assert salience.choose(candidates, max_bytes, floor=-9.0, again=0.5) == _naive(candidates, max_bytes, 0.5)


def test_choosing_among_the_clauses_of_one_line_costs_in_step_with_their_number() -> None:
    def among(count: int) -> list[int]:
        candidates = [salience.Candidate(0, f"clause {number}", number % 7 / 7) for number in range(count)]
        return salience.choose(candidates, 10**9, floor=-9.0)

    assert among(2_000) == list(range(2_000))
    assert costs_at_most(IN_STEP, lambda: among(8_000), lambda: among(2_000))


def test_a_sentence_of_nothing_but_names_is_looked_at_as_far_as_people_write() -> None:
    made = [f"Qq{chr(97 + n % 26)}{chr(97 + n // 26 % 26)}" for n in range(4_000)]
    few, many = " of ".join(made[:400]), " of ".join(made)
    assert names.find(few) == names.find(many) == []
    assert costs_at_most(4, lambda: names.find(many), lambda: names.find(few)), "ten times as long"
