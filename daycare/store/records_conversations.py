"""What is read of conversations: the turns of a session that have ended."""

from typing import Final

import msgspec

from daycare.base.messages import Message

APART: Final = 0  # the session of turns that stand alone: an agent's own begin at 1


class PastTurn(msgspec.Struct, frozen=True):
    """A turn that has ended, with its messages: tool calls and their results are never apart.

    `chars` is how long they are as they are stored.
    """

    turn: int
    messages: tuple[Message, ...]
    chars: int


class Past(msgspec.Struct, frozen=True):
    """Turns of a session, oldest first. `whole`: there are no others where they were looked for.

    Up to the turn `settled` nothing can be added to them: all that were looked at have ended.
    """

    turns: tuple[PastTurn, ...]
    whole: bool
    settled: int
