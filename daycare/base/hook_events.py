"""What hooks are told: of a turn that begins, a message, a turn that ended, a conversation that is over."""

from typing import Literal

import msgspec

from daycare.base.messages import Message, Usage


class BeforeTurn(msgspec.Struct, frozen=True, kw_only=True):
    """`message:before`: a turn is about to begin with these messages."""

    path: str
    user: str
    turn: int
    trace: str
    messages: tuple[Message, ...]


class MessageSeen(msgspec.Struct, frozen=True, kw_only=True):
    """`message:after`: a message was accepted, or answered with `reply`. `seq` is its number."""

    state: Literal["accepted", "answered"]
    path: str
    user: str
    seq: int
    trace: str
    sender: str
    text: str
    reply: str = ""


class TurnEnded(msgspec.Struct, frozen=True, kw_only=True):
    """`turn:end`: a turn was committed. `messages` is all of it, tool calls included.

    `usage` sums its model calls since it was last interrupted.
    """

    path: str
    user: str
    agent_id: str
    session: int
    turn: int
    trace: str
    messages: tuple[Message, ...]
    usage: Usage = Usage()
    stopped: bool = False


class SessionEnded(msgspec.Struct, frozen=True, kw_only=True):
    """`session:end`: a conversation is over; the next turn begins a new one, or the agent has died."""

    path: str
    user: str
    agent_id: str
    session: int
    reason: str
