"""What the fake Telegram server makes of markup."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from telegram.helpers import escape_markdown

from daycare_plugins.telegram.testing.entities import checked, detected, parse, trimmed, utf16_len

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


def found(text: str, mode: str) -> tuple[str, list[tuple[str, str]]]:
    """Return the plain text, and each entity's type with the words that it covers."""
    plain, entities = parse(text, mode)
    raw = plain.encode("utf-16-le")
    covered = [raw[entity["offset"] * 2 : (entity["offset"] + entity["length"]) * 2] for entity in entities]
    return plain, [(entity["type"], words.decode("utf-16-le")) for entity, words in zip(entities, covered, strict=True)]


@pytest.mark.parametrize(
    ("text", "entities"),
    [
        ("*bold _it_ __u__*", [("bold", "bold it u"), ("italic", "it"), ("underline", "u")]),
        ("😀 ||s|| ~d~", [("spoiler", "s"), ("strikethrough", "d")]),
        ("`a\\`b` ```py\nx = 1\n```", [("code", "a`b"), ("pre", "x = 1\n")]),
        ("```\nplain```", [("pre", "plain")]),
        (
            "[*a* b](https://x.y/\\)z) ![😀](tg://emoji?id=5)",
            [("text_link", "a b"), ("bold", "a"), ("custom_emoji", "😀")],
        ),
        (">one\n>two\nend", [("blockquote", "one\ntwo")]),
        ("x\n**>one\n>two||\nend", [("expandable_blockquote", "one\ntwo")]),
        ("\\*no\\* a\\.b", []),
    ],
)
def test_markdown_v2_becomes_entities(text: str, entities: list[tuple[str, str]]) -> None:
    plain, got = found(text, "MarkdownV2")
    assert got == entities
    assert not set(plain) & set("\\")


@pytest.mark.parametrize(
    ("text", "plain", "entities"),
    [
        ("<b>x<i>y</i></b> &lt;&amp;&gt; &nbsp; & &#65;", "xy <&> &nbsp; & A", [("bold", "xy"), ("italic", "y")]),
        ("<pre><code class='language-py'>x</code></pre>", "x", [("pre", "x")]),
        (
            '<a href="https://x.y">z</a><u>u</u><s>s</s><code>c</code>',
            "zusc",
            [*(("text_link", "z"), ("underline", "u"), ("strikethrough", "s"), ("code", "c"))],
        ),
        ('<span class="tg-spoiler">a</span><tg-spoiler>b</tg-spoiler>', "ab", [("spoiler", "a"), ("spoiler", "b")]),
        (
            "<blockquote expandable>a</blockquote><blockquote>b</blockquote>",
            "ab",
            [*(("expandable_blockquote", "a"), ("blockquote", "b"))],
        ),
    ],
)
def test_html_becomes_entities(text: str, plain: str, entities: list[tuple[str, str]]) -> None:
    assert found(text, "HTML") == (plain, entities)


@given(TEXTS)
def test_escaped_text_comes_out_as_it_was(text: str) -> None:
    assert parse(escape_markdown(text, version=2), "MarkdownV2") == (text, [])
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    assert parse(escaped, "HTML") == (text, [])


@given(TEXTS, st.lists(st.tuples(st.integers(0, 60), st.integers(1, 60)), max_size=5))
def test_trimming_keeps_entities_on_their_words(text: str, spans: list[tuple[int, int]]) -> None:
    entities = []
    for start, end in spans:
        if start < end <= len(text):
            offset = utf16_len(text[:start])
            entities.append({"type": "bold", "offset": offset, "length": utf16_len(text[start:end])})
    cut, moved = trimmed(text, checked(text, entities))
    assert cut == cut.rstrip() and cut in text
    raw = cut.encode("utf-16-le")
    whole = {text[start:end].rstrip() for start, end in spans}
    for entity in checked(cut, moved):
        words = raw[entity["offset"] * 2 : (entity["offset"] + entity["length"]) * 2].decode("utf-16-le")
        assert words.rstrip() in whole


def test_commands_mentions_links_and_tags_are_detected() -> None:
    text = "😀 /start@fake_bot hi @ann_b see https://a.b/c?d=1. #tag a@b.cd a/b 1@x"
    raw = text.encode("utf-16-le")
    got = [
        (entity["type"], raw[entity["offset"] * 2 : (entity["offset"] + entity["length"]) * 2].decode("utf-16-le"))
        for entity in detected(text)
    ]
    assert got == [
        ("bot_command", "/start@fake_bot"),
        ("mention", "@ann_b"),
        ("url", "https://a.b/c?d=1"),
        ("hashtag", "#tag"),
        ("email", "a@b.cd"),
    ]
    assert not re.search(r"\s", got[0][1])
