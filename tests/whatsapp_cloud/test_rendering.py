"""Markdown as WhatsApp's few marks, cut into messages that it takes, and replies as calls of the Graph API."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daycare.base.connector import Attachment, Outgoing
from daycare.base.errors import InvalidError
from daycare.base.messages import Choice
from daycare.messenger import markup
from daycare.messenger.parts import is_blank
from daycare.messenger.text import units
from daycare_plugins.whatsapp_cloud.outgoing import (
    DUPLICATE,
    TEXT_MAX_UNITS,
    decode,
    encode,
    media_kind,
    message,
    recipient,
    split,
)
from daycare_plugins.whatsapp_cloud.testing.rules import GraphRefusedError, check
from tests.cost import costs_at_most

PIECES = st.sampled_from(
    ["*", "**", "_", "~~", "`", "```\n", "```", "\n", "\n\n", "- ", "1. ", "> ", "|", "|a|b|\n|-|-|\n", "word ", "x",
     "ü", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "e\u0301", "\ud800", "\x00", "[t](http://u)", "<b>", "# ", "\\"]
)  # fmt: skip


def render(markdown: str, limit: int = TEXT_MAX_UNITS) -> list[str]:
    return markup.render(markdown, limit)


@pytest.mark.parametrize(
    ("markdown", "text"),
    [
        ("**bold** *it* ~~gone~~ `code`", "*bold* _it_ ~gone~ `code`"),
        ("# Title *x*", "*Title _x_*"),
        ("in**side**", "inside"),
        ("**2\\*3**", "2*3"),
        ("[text](https://x.org) <https://y.org>", "text (https://x.org) https://y.org"),
        ("- a\n- b\n  1. c", "- a\n- b\n  1. c"),
        ("> a\n> b", "> a\n> b"),
        ("```py\nx = 1\n```", "```\nx = 1\n```"),
        ("````\n```\n````", "```\n``\u2060`\n```"),
        ("|a|b|\n|-|-|\n|1|22|", "```\na | b\n--+---\n1 | 22\n```"),
        ("a\u202eb", "ab"),
        ("line\nbreak", "line\nbreak"),
        ("- [x] done", "- [x] done"),
        ("<div>raw</div>", "raw"),
        ("", None),
        ("\u200b \n", None),
    ],
)
def test_markdown_becomes_whatsapps_marks(markdown: str, text: str | None) -> None:
    assert render(markdown) == ([text] if text is not None else [])


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=120), st.sampled_from([64, 200, 1_024]))
def test_any_text_becomes_messages_within_the_limit(pieces: list[str], limit: int) -> None:
    for part in render("".join(pieces), limit):
        assert 0 < units(part) <= limit
        assert not is_blank(part)
        part.encode()


def test_nothing_of_a_long_answer_is_lost_and_code_stays_code() -> None:
    markdown = "\n\n".join(f"Paragraph {number}. " + "word " * 60 for number in range(60))
    markdown += "\n\n```\n" + "\n".join(f"line {number}" for number in range(2_000)) + "\n```"
    parts = render(markdown)
    assert len(parts) > 8
    for number in range(60):
        assert sum(f"Paragraph {number}." in part for part in parts) == 1
    lines = [line for part in parts for line in part.splitlines()]
    assert [line for line in lines if line.startswith("line ")] == [f"line {number}" for number in range(2_000)]
    assert all(part.count("```") % 2 == 0 for part in parts)


# == replies ===========================================================================================================


def reply(text: str, **fields: object) -> Outgoing:
    return Outgoing(
        outbox=1, key="agent:1", path="/ann/whatsapp-cloud", user="ann", target="49151", text=text,
        **fields,  # type: ignore[arg-type]
    )  # fmt: skip


def calls(outgoing: Outgoing, *, again: bool = False) -> list[dict[str, object]]:
    """Return the calls for a reply; refused are those that the real API would refuse."""
    found = []
    media = {"1": "application/pdf", "2": "image/png", "3": "audio/ogg"}
    kinds = {kind: number for number, kind in media.items()}
    for part in split(outgoing):
        from msgspec.structs import replace

        part = replace(part, maybe_duplicate=again)
        media_id = kinds[media_kind(part.files[0])[1]] if part.files else ""
        payload = message(part, recipient("4915112345678"), reply=True, media_id=media_id)
        check({"messaging_product": "whatsapp"} | payload, media, {})
        found.append(payload)
    return found


def test_above_buttons_stands_the_end_of_a_long_text_as_it_was_marked() -> None:
    text = "\n\n".join(f"**Point {number}** " + "word " * 50 for number in range(8)) + "\n\n```\ncode\n```"
    *texts, last = calls(reply(text, choices=(Choice("Yes", "yes"),)))
    body = last["interactive"]["body"]["text"]  # type: ignore[index]
    assert body.endswith("```\ncode\n```")
    whole = "".join(each["text"]["body"] for each in texts) + body  # type: ignore[index]
    assert [f"*Point {number}*" in whole for number in range(8)] == [True] * 8


def file(name: str, kind: str) -> Attachment:
    return Attachment(name=name, media_type=kind, data=b"x")


TEXTS = st.sampled_from(["", "short", "word " * 300, "word " * 1_500, "*" * 2_000, "```\n" + "x" * 5_000 + "\n```"])
LABELS = st.text(min_size=0, max_size=80)
CHOICES = st.lists(st.builds(Choice, LABELS, st.text(max_size=400)), max_size=12)
FILES = st.lists(
    st.sampled_from([file("a.pdf", "application/pdf"), file("b.png", "image/png"), file("c.ogg", "audio/ogg")]),
    max_size=3,
)


@settings(max_examples=200, deadline=None)
@given(TEXTS, CHOICES, FILES, st.booleans())
def test_whatever_a_reply_is_the_api_takes_it(
    text: str, choices: list[Choice], files: list[Attachment], again: bool
) -> None:
    outgoing = reply(text, choices=tuple(choices), files=tuple(files), reply_to="wamid.eA==")
    if not text and not choices and not files:
        with pytest.raises(InvalidError, match="nothing to see"):
            calls(outgoing, again=again)
        return
    try:
        found = calls(outgoing, again=again)
    except GraphRefusedError as refused:
        raise AssertionError(refused.details) from refused
    assert len({call["biz_opaque_callback_data"] for call in found}) == len(found)
    assert [("context" in call) for call in found] == [True] + [False] * (len(found) - 1)


def test_one_file_carries_the_words_below_it() -> None:
    [call] = calls(reply("**see**", files=(file("b.png", "image/png"),)))
    assert call["image"] == {"id": "2", "caption": "*see*"}
    first, second = calls(reply("hear", files=(file("c.ogg", "audio/ogg"),)))
    assert first["type"] == "text"
    assert second["audio"] == {"id": "3"}


def test_what_whatsapp_takes_no_files_of_is_refused_after_the_words() -> None:
    parts = split(reply("words", files=(file("x.zip", "application/zip"),)))
    assert [part.text for part in parts] == ["words", ""]
    with pytest.raises(InvalidError, match=r"x\.zip: WhatsApp takes no files of the type application/zip"):
        media_kind(parts[1].files[0])
    assert media_kind(file("a.md", "text/markdown")) == ("document", "text/plain")


def test_the_mark_of_a_duplicate_stands_before_the_words() -> None:
    [call] = calls(reply("hello"), again=True)
    assert call["text"] == {"body": f"{DUPLICATE}\nhello", "preview_url": False}


@given(st.text(max_size=300), st.integers(0, 11))
def test_a_button_says_what_it_stands_for_or_its_label(says: str, number: int) -> None:
    button = encode(says, number)
    assert 0 < len(button) <= 200
    assert decode(button, "the label") in (says.strip(), "the label")
    if 0 < len(says.strip()) < 100 and says.isprintable():
        assert decode(button, "the label") == says.strip()


def test_a_table_whose_short_rows_would_be_filled_up_with_cells_is_shown_as_typed() -> None:
    wide = "|a" * 700 + "|\n" + "|-" * 700 + "|\n" + "|a\n" * 390
    assert "|a|a|a" in str(render(wide))
    cells = "|a" * 1_986 + "|\n"
    assert costs_at_most(20, lambda: render(wide), lambda: render(cells))
