"""Shortening a turn that is too long by itself: old results of its tools leave the prompt but for their ends.

The journal keeps them whole, and so does a file that the model can read again.
"""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from daycare.agent import tokens
from daycare.base.errors import DaycareError
from daycare.base.messages import Message, Origin, ToolResult
from daycare.plugin import ToolSpec
from daycare.store.records import Agent, Turn
from daycare.store.sqlite.store import Store

CLEARED_SHOWN_CHARS: Final = 200  # of each end of a tool's result that had to leave the prompt

_READ: Final = "read_result"  # the tool that reads kept results
_WORTH_CHARS: Final = 4 * CLEARED_SHOWN_CHARS  # a shorter result is shown as it is, one that was shortened among them


class Shortener:
    """Remembers which results of a turn are shortened, so that they stay so, byte for byte, until its end."""

    def __init__(self, store: Store, agent: Agent, turn: Turn) -> None:
        self._store = store
        self._agent = agent
        self._turn = turn
        self._short: dict[tuple[int, int], ToolResult] = {}  # by message and part: ids may repeat

    @property
    def count(self) -> int:
        """How many results are shortened."""
        return len(self._short)

    def shortened(self, said: Sequence[Message]) -> tuple[Message, ...]:
        """Return the turn's messages with the results shortened that were before."""
        return tuple(self._of(number, message) for number, message in enumerate(said))

    async def shorten(
        self, said: Sequence[Message], tokens_over: int, *, keep_last: bool, tools: Sequence[ToolSpec]
    ) -> tuple[Message, ...]:
        """Shorten the oldest results until `tokens_over` are saved; with `keep_last` none of the last calls'."""
        end = len(said)
        while keep_last and end and said[end - 1].role != "assistant":
            end -= 1
        readable = any(tool.name == _READ for tool in tools)
        for number, message in enumerate(said[:end]):
            for at, part in enumerate(message.parts):
                if tokens_over <= 0:
                    return self.shortened(said)
                if isinstance(part, ToolResult) and len(part.text) > _WORTH_CHARS:
                    short = replace(part, text=await self._ends(part, f"{number}:{at}", readable))
                    self._short[number, at] = short
                    tokens_over -= tokens.of_text(part.text) - tokens.of_text(short.text)
        return self.shortened(said)

    def _of(self, number: int, message: Message) -> Message:
        if message.role != "tool":
            return message
        parts = tuple(self._short.get((number, at), part) for at, part in enumerate(message.parts))
        return message if parts == message.parts else replace(message, parts=parts)

    async def _ends(self, result: ToolResult, key: str, readable: bool) -> str:
        """Return both ends of a result, and how to read it again."""
        again = f"do not call `{result.name}` again unless a repeat does no harm"
        if readable:
            try:
                file = await self._store.files.put(
                    f"shortened:{self._turn.turn}:{key}",
                    self._agent.user,
                    Origin.AGENT,
                    f"{result.name}-{self._turn.turn}.txt",
                    "text/plain",
                    result.text.encode(errors="replace"),
                )
                again = f"read it again with {_READ}, file {file.id}, from offset 0"
            except DaycareError:  # the prompt has to become shorter all the same
                pass
        left_out = len(result.text) - 2 * CLEARED_SHOWN_CHARS
        return (
            f"{result.text[:CLEARED_SHOWN_CHARS]}\n"
            f"[{left_out} characters left out here to make room; the call had ended: {again}]\n"
            f"{result.text[-CLEARED_SHOWN_CHARS:]}"
        )
