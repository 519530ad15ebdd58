"""Cutting texts into chunks: every word is kept once, whatever the Markdown, in time that grows with the text alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daycare.base.limits import MEMORY_TEXT_MAX_CHARS
from daycare.rules.chunks import CHUNK_MAX_CHARS, chunks, cut
from tests.cost import IN_STEP, cost, costs_at_most, holds

MARKDOWN = st.lists(
    st.sampled_from(["#", "##", "####", "#######", " ", "\t", "\n", "\r", "\u2028", "word", "Wort.", "x" * 300, "é"]),
    max_size=60,
).map("".join)


@pytest.mark.parametrize(
    "hostile",
    [
        "# " + " " * 1_000 + "x",
        "# x" + " " * 1_000 + "x",
        "# " + "x " * 500,
        "# x" + " #" * 500,
        "#" * 1_000,
        "# " + "#" * 1_000 + "x",
        "\n" + " " * 1_000 + "x",
        "x.\u2003" * 300,
    ],
)
def test_no_line_takes_longer_than_it_is_long(hostile: str) -> None:
    short, long = hostile * 16, hostile * 64
    one_line = hostile.replace("\n", "") * 64
    assert costs_at_most(IN_STEP, lambda: chunks(long), lambda: chunks(short))
    assert costs_at_most(IN_STEP, lambda: chunks(one_line), lambda: chunks(one_line[: len(one_line) // 4]))


@pytest.mark.parametrize("unit", ["a ", " \n", "# a\n", "a. ", "a\n\n"])
async def test_cutting_a_long_text_lets_others_have_their_turn(unit: str) -> None:
    text = unit * 60_000

    async def work() -> None:
        assert await cut(text) == chunks(text)

    whole = cost(lambda: chunks(text))
    assert (await holds(lambda: cut(text)))[-1] < whole / 3
    await work()


@given(MARKDOWN)
def test_every_word_is_in_a_chunk_and_each_fits_into_a_memory(text: str) -> None:
    found = chunks(text)
    for chunk in found:
        assert chunk.text
        assert len(chunk.text) <= CHUNK_MAX_CHARS
        assert len(chunk.told) <= MEMORY_TEXT_MAX_CHARS
        assert text[chunk.start :].startswith(chunk.text)
    told = " ".join(chunk.told for chunk in found)
    for word in ("word", "Wort."):
        assert text.count(word) <= told.count(word), "no word is lost"
    assert "".join(found_words(text)) == "" or found, "what says something has a chunk"


def found_words(text: str) -> list[str]:
    return [char for char in text if char.isalpha()]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("# Tea", ["# Tea"]),
        ("# Tea\ngreen", ["Tea: green"]),
        ("# A\n## B\ntext", ["A > B: text"]),
        ("# A\n# B\ntext", ["# A", "B: text"]),
        ("# A\n## B\n## C\ntext", ["A: ## B", "A > C: text"]),
        ("# A\ntext\n## B", ["A: text", "A: ## B"]),
        ("# Closed #\ntext", ["Closed: text"]),
        ("#no heading", ["#no heading"]),
        ("####### seven", ["####### seven"]),
        ("# #\ntext", ["#: text"]),
    ],
)
def test_headings_stand_before_what_is_below_them_or_by_themselves(text: str, told: list[str]) -> None:
    assert [chunk.told for chunk in chunks(text)] == told


def test_a_line_too_long_for_a_heading_is_text() -> None:
    found = chunks("# " + "x" * 20_000 + "\nbelow")
    assert sum(chunk.text.count("x") for chunk in found) == 20_000
    assert all(not chunk.headings for chunk in found)
