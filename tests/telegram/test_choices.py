"""Buttons: what is put into them comes out of them."""

from hypothesis import given
from hypothesis import strategies as st

from daycare.base.connector import Inbound
from daycare.base.messages import Choice
from daycare_plugins.telegram.choices import decode_choice, encode_choices
from daycare_plugins.telegram.reading import Bot, ReadingRules, read
from daycare_plugins.telegram.schema import Button, Keyboard
from tests.telegram.samples import pressed, question


def test_short_labels_stand_side_by_side() -> None:
    rows = encode_choices([Choice(label, label) for label in ("Yes", "No", "Later", "Never", "x" * 40, "Help")])
    assert [[button["text"] for button in row] for row in rows] == [
        ["Yes", "No", "Later"],
        ["Never"],
        ["x" * 40],
        ["Help"],
    ]


def test_what_fits_is_carried_by_the_button_and_what_does_not_by_its_label() -> None:
    rows = encode_choices([Choice("Go", "/approve 17"), Choice("Tell me all", "ä" * 33), Choice("Empty", "")])
    assert [button["callback_data"] for button in rows[0]] == ["/approve 17", "#1", "#2"]
    item = read(pressed("#1", question(rows=rows)), Bot(700, "b"), ReadingRules(connector="t")).item
    assert isinstance(item, Inbound)
    assert item.text == "Tell me all"


def test_past_a_hundred_there_are_no_buttons() -> None:
    assert sum(len(row) for row in encode_choices([Choice("a", "b")] * 500)) == 100


@given(
    st.lists(
        st.tuples(st.text(max_size=50), st.text(max_size=80) | st.from_regex(r"\A#{1,3}[0-9]{1,4}\Z")), max_size=120
    )
)
def test_every_button_is_legal_and_says_its_words_or_its_label(pairs: list[tuple[str, str]]) -> None:
    choices = [Choice(label, says) for label, says in pairs]
    rows = encode_choices(choices)
    buttons = [button for row in rows for button in row]
    keyboard = Keyboard([[Button(**button) for button in row] for row in rows])
    assert len(buttons) == min(100, len(choices))
    for choice, button in zip(choices, buttons, strict=False):
        assert 1 <= len(button["callback_data"].encode()) <= 64
        assert 1 <= len(button["text"]) <= 100
        assert decode_choice(button["callback_data"], keyboard) in (
            choice.says.replace("\x00", "\ufffd"),
            button["text"],
        )
        if choice.says.strip() and len(choice.says.encode()) < 60 and "\x00" not in choice.says:
            assert decode_choice(button["callback_data"], None) == choice.says
