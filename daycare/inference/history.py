"""What the messages of a request say about the turn that they end with."""

from collections.abc import Sequence
from typing import Final

from daycare.base.messages import Message

UNCERTAIN: Final = "Uncertain: it is not known whether this ran, and it will not be run again. "
"""What a model reads before the result of a call whose effect nobody knows."""


def turn_start(messages: Sequence[Message]) -> int:
    """Return the number of the user message that began the current turn.

    One that came while the turn ran follows a tool's results, and begins none.
    """
    start, within = 0, False
    for number, message in enumerate(messages):
        if message.role == "tool":
            within = True
        elif message.role == "assistant":
            within = False
        elif not within:
            start = number
    return start


def unique_id(given: str, among: Sequence[str], messages: Sequence[Message]) -> str:
    """Return the id of a new tool call: the server's, `given`, unless it is among those of the reply or the request.

    Some servers number calls from 0 in each reply, or not at all; ids must be unique in a turn.
    """
    taken = {call.id for message in messages for call in message.tool_calls} | set(among)
    if given and given not in taken:
        return given
    number = 0
    while (fresh := f"call_{len(messages)}_{number}") in taken:
        number += 1
    return fresh
