"""Choices as buttons, and what a pressed one says. Both directions stand side by side.

Slack gives back the value of a button. What is said at a touch stands in it, if it fits; otherwise it holds
`#<number of the button>`, and the button's label is what is said.
"""

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from daycare.base.messages import Choice
from daycare.messenger.text import one_line, valid

VALUE_MAX_CHARS: Final = 2_000
LABEL_MAX_CHARS: Final = 75
BUTTONS_MAX: Final = 25  # in one block
CHOICES_MAX: Final = 100
_NUMBER: Final = re.compile(r"#+[0-9]{1,3}")


class SlackTouch(NamedTuple):
    """A pressed button. `spent`: it was one of a choice, which is made once, so that they all go."""

    channel: str
    ts: str
    text: str  # of its message, as Slack writes it
    spent: bool


def encode_choices(choices: Sequence[Choice]) -> list[dict[str, Any]]:
    """Return blocks of buttons; past the first hundred there are none."""
    buttons = [
        {
            "type": "button",
            "action_id": f"choice-{number}",
            "text": {"type": "plain_text", "text": _label(choice, number), "emoji": True},
            "value": encode(choice.says, number),
        }
        for number, choice in enumerate(choices[:CHOICES_MAX])
    ]
    return [
        {"type": "actions", "block_id": f"choices-{at}", "elements": buttons[at : at + BUTTONS_MAX]}
        for at in range(0, len(buttons), BUTTONS_MAX)
    ]


def encode(says: str, number: int) -> str:
    """Return the value of a button."""
    said = valid(says) if says.strip() else ""
    said = f"#{said}" if _NUMBER.fullmatch(said) else said
    return said if 0 < len(said) <= VALUE_MAX_CHARS else f"#{number}"


def decode(value: str, label: str) -> str:
    """Return what a pressed button says."""
    if _NUMBER.fullmatch(value):
        return value[1:] if value.startswith("##") else label or "[pressed a button]"
    return value or label or "[pressed a button]"


def _label(choice: Choice, number: int) -> str:
    return one_line(choice.label, LABEL_MAX_CHARS) or one_line(choice.says, LABEL_MAX_CHARS) or str(number + 1)
