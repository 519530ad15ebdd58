"""Marked text becomes Markdown, counted in UTF-16 units."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daycare_plugins.telegram.marks import marked, to_markdown
from daycare_plugins.telegram.schema import Entity


@pytest.mark.parametrize(
    ("text", "entities", "result"),
    [
        ("👉 here", [Entity("text_link", 3, 4, url="https://e.org")], "👉 [here](https://e.org)"),
        ("a", [Entity("text_link", 0, 1, url="https://e.org/(x) y")], "[a](<https://e.org/(x)y>)"),
        ("https://e.org", [Entity("text_link", 0, 13, url="https://e.org")], "https://e.org"),
        ("run ls now", [Entity("code", 4, 2)], "run `ls` now"),
        ("a`b", [Entity("code", 0, 3)], "``a`b``"),
        ("`", [Entity("code", 0, 1)], "`` ` ``"),
        ("see x=1 ok", [Entity("pre", 4, 3, language="python")], "see \n```python\nx=1\n```\n ok"),
        ("x\n", [Entity("pre", 0, 2)], "```\nx\n```"),
        ("```", [Entity("pre", 0, 3)], "````\n```\n````"),
        ("a\nb\nc", [Entity("blockquote", 0, 3)], "> a\n> b\nc"),
        ("hi a\nb", [Entity("expandable_blockquote", 3, 3)], "hi \n> a\n> b"),
        ("not this", [Entity("strikethrough", 0, 3)], "~~not~~ this"),
        ("bold", [Entity("bold", 0, 4)], "bold"),
        ("ab", [Entity("text_link", 0, 2, url="u:1"), Entity("code", 0, 2)], "[`ab`](u:1)"),
        ("ab", [Entity("code", 0, 1), Entity("code", 1, 1)], "`a``b`"),
        ("😀", [Entity("code", 1, 1)], "😀"),  # half a character
        ("ab", [Entity("code", 1, 5)], "ab"),  # beyond the end
        ("ab", [Entity("code", 1, 0)], "ab"),
    ],
)
def test_marks_with_a_meaning_are_kept(text: str, entities: list[Entity], result: str) -> None:
    assert to_markdown(text, entities) == result


_KINDS = st.sampled_from(["code", "pre", "text_link", "blockquote", "strikethrough", "bold", "mention"])
_ENTITIES = st.lists(st.builds(Entity, _KINDS, st.integers(0, 60), st.integers(0, 60), url=st.just("u:1")), max_size=12)


@given(st.text(st.sampled_from("ab `\n😀é[]"), max_size=40), _ENTITIES)
def test_no_word_is_lost_whatever_the_marks(text: str, entities: list[Entity]) -> None:
    rest = iter(to_markdown(text, entities))
    assert all(char in rest for char in text)


@given(st.text(max_size=30), st.integers(0, 70), st.integers(0, 70))
def test_a_marked_part_is_a_part(text: str, offset: int, length: int) -> None:
    assert marked(text, Entity("mention", offset, length)) in text
