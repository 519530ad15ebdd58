"""What a person sees of a text: all of it, and nothing that is not in it."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daycare.rules.suspicion import shown

HIDING = (
    "\u200b\u200c\u200d\u2060\ufeff\u00ad\u202a\u202e\u2066\u2069\U000e0041\U000e007f\x00\x07\x1b\x7f\x85\u2028\ue000"
)
TEXTS = st.text(st.one_of(st.characters(), st.sampled_from(HIDING + "⟦⟧ \n\t\r\u00a0\u3000\u0301\ufe0f\u2764")))


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("Tea at five.\n\tBring cake.", "Tea at five.\n\tBring cake."),
        ("a\u200bb", "a⟦U+200B⟧b"),
        ("a" + "\u200b" * 2_000 + "b", "a⟦U+200B, 2,000 times⟧b"),
        ("pay \u202e001", "pay ⟦U+202E⟧001"),
        ("\U000e0068\U000e0069", "⟦U+E0068⟧⟦U+E0069⟧"),
        ("a\rb\x1b[2K", "a⟦U+000D⟧b⟦U+001B⟧[2K"),
        ("a" + " " * 500 + "b", "a⟦500 spaces⟧b"),
        ("a" + "\n" * 40 + "b", "a⟦40 line breaks⟧\nb"),
        ("⟦U+200B⟧", "⟦U+27E6⟧U+200B⟦U+27E7⟧"),
        ("one\r\ntwo", "one\ntwo"),
        ("\u2764\ufe0f", "\u2764\ufe0f"),
        ("x\ufe0f", "x⟦U+FE0F⟧"),
        ("Grüße, 你好, привет", "Grüße, 你好, привет"),
    ],
)
def test_what_is_shown(text: str, seen: str) -> None:
    assert shown(text) == seen


@given(TEXTS)
def test_nothing_shown_is_invisible(text: str) -> None:
    for char in shown(text):
        assert char in "\n\t" or unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
    assert not re.search(r"[^\S\n]{17}|\n{4}", shown(text))


@given(TEXTS, TEXTS)
def test_different_texts_look_different(one: str, other: str) -> None:
    def stored(text: str) -> str:
        return text.replace("\r\n", "\n")

    if max(map(len, (one, other))) <= 16 and stored(one) != stored(other):
        assert shown(one) != shown(other)


@given(st.text(st.characters(categories=("L", "N", "P", "S"), exclude_characters="⟦⟧\u2800"), max_size=40))
def test_ordinary_text_is_shown_as_it_is(text: str) -> None:
    plain = "".join(char for char in text if unicodedata.name(char, "").find("FILLER") < 0)
    assert shown(plain) == plain


def test_marks_do_not_pile_up() -> None:
    assert shown("a" + "\u0301\u0302" * 50).count("\u0301") <= 2


def test_a_text_of_many_strange_signs_is_shown_as_each_of_them_is() -> None:
    text = "".join(chr(0xE000 + number) for number in range(500)) + "x\u0301"
    assert shown(text) == "".join(map(shown, text[:-2])) + "x\u0301"
