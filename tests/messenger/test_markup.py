"""Markdown for messengers that format by signs in the text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daycare.messenger.markup import render
from tests.cost import IN_STEP, costs_at_most


def signed(markdown: str) -> str:
    return "".join(render(markdown, 1 << 30))


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        ("**bold** and *italic*", "*bold* and _italic_"),
        ("__bold__ ~~gone~~", "*bold* ~gone~"),
        ("# Title **x**\ntext", "*Title x*\ntext"),
        ("* one\n  + two", "- one\n  - two"),
        ("`a*b*c` **d**", "`a*b*c` *d*"),
        ("```python\nx = **y**\n```", "```\nx = **y**\n```"),
        ("```look at this\nx\n```", "```\nlook at this\nx\n```"),
        ("[site](https://a.b/c) and [https://a.b](https://a.b)", "site (https://a.b/c) and https://a.b"),
        ("2 * 3 * 4 = 24", "2 * 3 * 4 = 24"),
        ("a\n\n---\n\nb", "a\n\n———\n\nb"),
        ("<b>raw</b>", "*raw*"),
        ("||hidden|| $a^2$", "hidden `a²`"),
        ("**see [x](http://y)**", "*see x (http://y)*"),
        ("snake_case_name", "snake_case_name"),
    ],
)
def test_marks_become_signs(markdown: str, shown: str) -> None:
    assert signed(markdown) == shown


@given(st.text(alphabet="ab *_~`#[]()\n-!\x00", max_size=60))
def test_no_text_breaks_it_and_no_word_is_lost(text: str) -> None:
    shown = signed(text)
    assert "\x00" not in shown
    assert shown.count("a") == text.count("a") or "](" in text or "```" in text


def test_what_begins_like_many_links_costs_in_step_with_its_length() -> None:
    assert costs_at_most(IN_STEP, lambda: signed("[" * 8_000), lambda: signed("[" * 2_000 + "x" * 30_000))
    assert signed("[a[b](http://c)") == f"[a{signed('[b](http://c)')}"


def test_thousands_of_codes_and_links_cost_in_step_with_their_number() -> None:
    piece = "`a` [b](http://c) **d** "
    assert costs_at_most(IN_STEP, lambda: signed(piece * 2_000), lambda: signed(piece * 500))


def test_code_within_other_marks_stays_code() -> None:
    assert signed("**a `b` c** and `d`") == "*a* `b` *c* and `d`"
    assert signed("**x __`y`__ z**") == "*x* `y` *z*"
