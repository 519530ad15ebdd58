"""What is read of conversations, and told of them: the turns of a session that have ended."""

import hashlib
from typing import Final

import msgspec

from daycare.base.causes import ClientContext
from daycare.base.messages import Message

# The session of turns that stand alone. An agent's own begin at 1; below it are those of conversations that programs
# name: what is said in them is history, and part of no prompt but by the program's account.
APART: Final = 0
_SESSION_BYTES: Final = 6  # of a hash: no two conversations of an agent are ever the same


def session_of(client: ClientContext | None, current: int) -> int:
    """Return the session of what somebody says with such a client, to an agent that is in the session `current`."""
    if client is None or not client.apart:
        return current
    if not client.conversation:
        return APART
    return ~int.from_bytes(hashlib.blake2b(client.conversation.encode(), digest_size=_SESSION_BYTES).digest())


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


class TurnStart(msgspec.Struct, frozen=True):
    """A turn that has begun; an agent's turns have rising numbers."""

    agent_id: str
    turn: int
    session: int


class TurnResult(msgspec.Struct, frozen=True):
    """A turn that has ended; `state` is as its history has it, and `messages` the JSON of what was said in it."""

    agent_id: str
    turn: int
    state: str
    messages: str
