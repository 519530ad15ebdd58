"""Which words the index is told and which are looked for, in several languages and scripts."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daycare.features.memory.language import thesaurus
from daycare.features.memory.language.analysis import TERMS_MAX, indexed, telling, terms, topic, words_of
from daycare.features.memory.language.stop_words import STOP_WORDS


def test_a_text_of_plain_words_is_indexed_as_it_is() -> None:
    text = "Ann went to Paris; naïve Größe, 3 apples! don't SHOUT at HTTP"
    assert indexed(text) == text


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("set maxRetryCount to 5", ["maxretrycount", "max", "retry", "count"]),
        ("parseHTTPHeader failed", ["parsehttpheader", "parse", "http", "header"]),
        ("the myVar2Name flag", ["myvar2name", "my", "var", "name"]),
        ("snake_case_name", ["snake", "case", "name"]),
    ],
)
def test_a_name_in_a_program_is_found_by_its_parts_and_whole(text: str, found: list[str]) -> None:
    assert set(found) <= set(words_of(text))
    assert {word.lower() for word in indexed(text).replace("_", " ").split()} >= set(found)


def test_scripts_without_spaces_are_told_in_pairs_and_chinese_and_korean_characters_singly_too() -> None:
    assert indexed("我家的猫").split() == ["我", "家", "的", "猫", "我家", "家的", "的猫"]
    assert indexed("책상").split() == ["책", "상", "책상"]
    assert indexed("うちの猫はクロ").split() == ["うち", "ちの", "猫", "は", "クロ"]
    assert words_of("猫") == ["猫"]
    assert words_of("我家的猫 is black") == ["我家", "家的", "的猫", "is", "black"]


@given(st.text())
def test_every_word_that_is_looked_for_in_a_text_is_in_its_index(text: str) -> None:
    assert set(words_of(text)) <= {word.lower() for word in re.findall(r"[^\W_]+", indexed(text))}


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("What did I tell you about the garden fence?", ["garden", "fence"]),
        ("Wann habe ich dir von der Katze erzählt?", ["katze"]),
        ("Qu'est-ce que je t'ai dit sur le jardin?", ["jardin"]),
        ("¿Qué te dije sobre el jardín?", ["jardín"]),
        ("Which kind of music does Ann like?", ["music", "ann", "like"]),
        ("and so on", []),
        ("", []),
    ],
)
def test_words_of_grammar_and_of_asking_are_not_looked_for(question: str, words: list[str]) -> None:
    assert telling(question) == words


def test_a_word_that_is_grammar_elsewhere_only_is_looked_for() -> None:
    assert "die" in telling("Did the cat die of old age?")
    assert "war" in telling("What is the war about?")


def test_a_question_is_embedded_without_names_and_grammar() -> None:
    assert topic("What did Caroline paint in the summer?") == "paint summer"
    assert topic("Who is Caroline?") == "Who is Caroline?", "nothing else would be left"
    assert topic("Is rose your favorite color?") == "rose favorite color", "no name, by its first letter"


def test_stop_words_are_lower_case_words() -> None:
    for stop in STOP_WORDS.values():
        assert all(word == word.lower() and word.isalpha() for word in stop)


def test_forms_and_kin_of_a_word_are_found_from_its_inflections() -> None:
    assert set(thesaurus.meant("went")[0]) == {"go", "gone"}
    assert "go" in thesaurus.meant("goes")[0]
    assert {"dog", "cat"} <= set(thesaurus.meant("pets")[1])
    assert "hobby" in thesaurus.meant("activities")[1]
    assert "plan" not in thesaurus.meant("plane")[0]
    assert thesaurus.meant("xylophone") == ((), ())


@given(st.text(alphabet="abcdefgins", max_size=8))
def test_any_word_has_few_kin_and_is_no_form_of_itself(word: str) -> None:
    assert len(thesaurus.meant(word)[1]) <= 12
    assert word not in thesaurus.meant(word)[0]


def test_a_long_question_has_a_bounded_number_of_terms() -> None:
    found = terms(telling(" ".join(f"word{n}" for n in range(500))))
    assert len(found) == TERMS_MAX
    assert found[0].words == ("word0",)
