"""What a question names: who, when, and what kind of answer it wants."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daycare.features.memory.search.question import RECENT_WEIGHT, NamedPeople, SearchQuestion, called, hear, read

NOW = datetime(2026, 5, 20, 12, tzinfo=UTC)
NAMES = ["Ann Smith", "Bob", "assistant", "Ann Lee"]
PEOPLE = NamedPeople(called(NAMES), asker=1, answerer=2)


def asked(text: str, *recent: str, zone: str = "UTC", people: NamedPeople | None = PEOPLE) -> SearchQuestion:
    return read(hear(text, int(NOW.timestamp() * 1000), zone), people, recent)


def words(question: SearchQuestion) -> list[str]:
    return [term.words[0] for term in question.terms]


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("What did Bob say about the fence?", {1}),
        ("What is Bob's fence made of?", {1}),
        ("Did Ann Smith paint it?", {0}),
        ("Did Ann Lee paint it?", {3}),
        ("Did Ann paint it?", set()),
        ("Did Bob help Ann Smith?", set()),
        ("Who painted the fence?", set()),
        ("Where did I put my keys?", {1}),
        ("What did you recommend for the fence?", {2}),
        ("What did you tell me about the fence?", {2}),
        ("Was hast du mir zum Zaun empfohlen?", {2}),
        ("Wann war ich beim Arzt?", {1}),
    ],
)
def test_a_question_names_whose_words_it_asks_for(text: str, codes: set[int]) -> None:
    assert set(asked(text).speakers) == codes


def test_a_name_counts_more_than_a_pronoun_and_is_not_looked_for_as_a_word() -> None:
    named, meant = asked("What did Bob paint?"), asked("What did I paint?")
    assert named.speakers[1] > meant.speakers[1]
    assert words(named) == words(meant) == ["paint"]


def test_a_name_in_small_letters_may_be_a_word_too() -> None:
    assert words(asked("what did bob paint")) == ["bob", "paint"]
    assert set(asked("what did bob paint").speakers) == {1}


@pytest.mark.parametrize(
    ("text", "vague"),
    [
        ("And then?", True),
        ("What about Bob and Ann?", True),  # both may be people that are known here
        ("What about the fence and Bob?", True),
        ("Did he paint the old fence again?", False),
        ("", True),
    ],
)
def test_only_a_question_of_few_words_may_take_those_before_it(text: str, vague: bool) -> None:
    now_ms = int(NOW.timestamp() * 1000)
    assert hear(text, now_ms).is_vague == vague
    if not vague:
        assert asked(text, "The garage burned down.") == asked(text)


@given(text=st.text(alphabet=" .?bobannjoeBAJ\u00e9", max_size=40))
def test_words_before_it_change_no_question_that_is_clear(text: str) -> None:
    if not hear(text, int(NOW.timestamp() * 1000)).is_vague:
        assert asked(text, "The garage burned down.") == asked(text)


def test_who_is_nobody_here_is_looked_for_as_a_word() -> None:
    assert words(asked("What did Carla paint?")) == ["carla", "paint"]


def days(question: SearchQuestion) -> list[tuple[str, str]]:
    def day(at_ms: int) -> str:
        return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d}"

    return [(day(span.begin_ms), day(span.end_ms)) for span in question.spans]


@pytest.mark.parametrize(
    ("text", "spans", "terms"),
    [
        ("What did I say about tea in March?", [("2026-03-01", "2026-04-01")], ["tea"]),
        ("What did I say about tea in November?", [("2025-11-01", "2025-12-01")], ["tea"]),
        ("tea on 3 May 2024?", [("2024-05-03", "2024-05-04")], ["tea"]),
        ("What did we plan yesterday?", [("2026-05-19", "2026-05-20")], ["plan"]),
        ("Was war letzte Woche mit dem Zaun?", [("2026-05-11", "2026-05-18")], ["zaun"]),
        ("May I have tea?", [], ["tea"]),
        ("What is planned for tomorrow, tea?", [], ["planned", "tomorrow", "tea"]),
        ("tea next month?", [], ["tea", "next", "month"]),
        ("tea on 21 May?", [("2025-05-21", "2025-05-22")], ["tea"]),
        ("tea since March?", [("2026-03-01", "2026-05-20")], ["tea"]),
        ("Who is decided to march on?", [], ["decided", "march"]),
    ],
)
def test_times_are_those_of_the_past_and_their_words_are_not_looked_for(
    text: str, spans: list[tuple[str, str]], terms: list[str]
) -> None:
    question = asked(text)
    assert days(question) == spans
    assert words(question) == terms


def test_a_time_is_that_of_the_asker() -> None:
    here, there = (asked("tea yesterday?", zone=zone).spans[0].begin_ms for zone in ("UTC", "Asia/Tokyo"))
    assert here - there == 9 * 3_600_000


def test_a_year_says_less_than_a_day() -> None:
    assert asked("tea in 2024?").spans[0].weight < asked("tea on 3 May 2024?").spans[0].weight


@pytest.mark.parametrize(
    ("text", "wants"),
    [
        ("When did Bob leave?", (True, False, False)),
        ("Wann ist Bob gegangen?", (True, False, False)),
        ("How long has Bob been ill?", (True, True, False)),
        ("How many dogs has Bob?", (False, True, False)),
        ("Wie oft war ich dort?", (False, True, False)),
        ("Who told Bob?", (False, False, True)),
        ("Where was it?", (False, False, True)),
        ("What is the name of the dog?", (False, False, True)),
        ("Was it fun?", (False, False, False)),
        ("I said when I was there", (False, False, False)),
    ],
)
def test_a_question_shows_what_kind_of_answer_it_wants(text: str, wants: tuple[bool, bool, bool]) -> None:
    question = asked(text)
    assert (question.wants_time, question.wants_number, question.wants_name) == wants


def test_a_question_with_few_words_of_its_own_is_understood_by_what_was_said_before() -> None:
    before = ["We painted the fence green.", "And Bob bought a ladder."]
    question = asked("And where was that?", *before)
    assert set(words(question)) == {"bought", "ladder", "painted", "fence", "green"}
    assert {term.weight for term in question.terms} == {RECENT_WEIGHT}
    assert words(asked("Where is the red ladder?", *before)) == ["red", "ladder"]


@pytest.mark.parametrize("text", ["", " ", "?!", "the", "x" * 100_000, "\x00\ud800", "1" * 5_000])
def test_any_text_can_be_asked(text: str) -> None:
    assert isinstance(asked(text), SearchQuestion)
    assert isinstance(asked(text, people=None), SearchQuestion)
