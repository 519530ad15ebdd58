"""What a text is like, apart from what it is about."""

# ruff: noqa: RUF001 (their punctuation)

import pytest

from daycare.features.memory.search import traits
from daycare.features.memory.search.traits import ASKS, KNOWN, NAMES, NUMBERS, SAYS, TIMES


@pytest.mark.parametrize(
    ("text", "has", "has_not"),
    [
        ("What's up?", ASKS, TIMES | NUMBERS | NAMES),
        ('He said "really?"', ASKS, TIMES),
        ("你好吗？", ASKS, TIMES),
        ("We met last Friday.", TIMES, ASKS | NUMBERS),
        ("Gestern war es schön.", TIMES, ASKS),
        ("Since 2019 it stands empty", TIMES | NUMBERS, ASKS),
        ("at 7:30 or so", TIMES | NUMBERS, NAMES),
        ("I have two cats and 3 dogs", NUMBERS, TIMES | NAMES),
        ("We went to Paris. It rained.", NAMES, TIMES),
        ("It rained. We stayed.", KNOWN, NAMES),
    ],
)
def test_a_text_shows_what_it_is_like(text: str, has: int, has_not: int) -> None:
    assert traits.of(text) & has == has
    assert not traits.of(text) & has_not


def test_a_text_says_as_much_as_it_has_words_that_are_no_grammar() -> None:
    assert traits.of("") // SAYS == 0
    assert traits.of("and so it is") // SAYS == 0
    assert traits.of("the red bicycle leaned on a red wall") // SAYS == 4


def test_traits_fit_into_sixteen_bits_and_are_never_zero() -> None:
    long = traits.of(" ".join(f"w{n}?" for n in range(5_000)))
    assert 0 < traits.of("") <= long < 1 << 16
