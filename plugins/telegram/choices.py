"""Choices as buttons, and what a pressed one says. Both directions stand side by side.

Telegram gives back 64 bytes of a button. What is said at a touch stands in them, if it fits; otherwise they hold
`#<number of the button>`, and the button's label is what is said.
"""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from daycare.base.messages import Choice
from daycare.messenger.text import one_line, valid
from daycare_plugins.telegram.schema import Keyboard

DATA_MAX_BYTES: Final = 64
CHOICES_MAX: Final = 100  # buttons below one message
LABEL_MAX_CHARS: Final = 100  # more than a telephone shows of one
_ROW_MAX_CHARS: Final = 30  # labels that stand in one row and can still be read
_ROW_MAX_BUTTONS: Final = 3
_NUMBER = re.compile(r"#[0-9]{1,3}")
_ESCAPED = re.compile(r"##+[0-9]{1,3}")


class Touch(NamedTuple):
    """A pressed button, to be answered. `spent`: it was one of a choice, which is made once, so that they all go."""

    id: str
    chat: int = 0
    message: int = 0
    spent: bool = False


def encode_choices(choices: Sequence[Choice]) -> list[list[dict[str, str]]]:
    """Return the rows of an inline keyboard; past the first hundred there are no buttons."""
    rows: list[list[dict[str, str]]] = []
    room = 0
    for number, choice in enumerate(choices[:CHOICES_MAX]):
        label = one_line(choice.label, LABEL_MAX_CHARS) or one_line(choice.says, LABEL_MAX_CHARS) or str(number + 1)
        button = {"text": label, "callback_data": _data(choice.says, number)}
        if len(label) > room or len(rows[-1]) == _ROW_MAX_BUTTONS:
            rows.append([])
            room = _ROW_MAX_CHARS
        rows[-1].append(button)
        room -= len(label)
    return rows


def decode_choice(data: str, keyboard: Keyboard | None) -> str | None:
    """Return what a pressed button says; None if only its label tells, and the message is too old to have one."""
    if _ESCAPED.fullmatch(data):
        return data[1:]
    if not _NUMBER.fullmatch(data):
        return data
    rows = keyboard.inline_keyboard if keyboard else []
    return next((button.text for row in rows for button in row if button.callback_data == data), None)


def _data(says: str, number: int) -> str:
    says = valid(says) if says.strip() else ""
    data = f"#{says}" if _NUMBER.fullmatch(says) or _ESCAPED.fullmatch(says) else says
    return data if 0 < len(data.encode()) <= DATA_MAX_BYTES else f"#{number}"
