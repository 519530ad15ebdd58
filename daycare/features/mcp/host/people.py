"""Asking people in the name of a server: which call a question belongs to, how many there may be, and their answers."""

from collections.abc import Callable, Collection
from contextvars import ContextVar
from itertools import count
from typing import Any, Final

import mcp_types as types
import trio
from mcp.client.session import ClientRequestContext
from pydantic import ValidationError

from daycare.features.mcp import frames
from daycare.features.mcp.frames import McpAnswer, McpUnasked
from daycare.features.mcp.host.asking import QuestionRefusedError, question

PAGES_MAX: Final = 3  # that one call wants opened first
CALL: Final = ContextVar[int]("CALL")  # the one that a task works on, as far as transports pass that on

_NOBODY: Final = types.ElicitResult(action="cancel")


class PeopleAsked:
    """Asks them, by the daemon. `calls` are those that run, `says` takes a line for the log."""

    def __init__(
        self,
        outward: trio.MemorySendChannel[frames.McpFrame],
        calls: Collection[int],
        says: Callable[[str], None],
    ) -> None:
        self._outward = outward
        self._calls = calls
        self._says = says
        self._numbers = count(1)
        self._open: dict[int, tuple[int, trio.Event]] = {}  # by number: its call, and whether there is an answer
        self._answers: dict[int, McpAnswer] = {}
        self._asked: dict[int, int] = {}  # how many each call has had

    async def ask(
        self, context: ClientRequestContext | None, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        """Return what a person answers; that they do not where nobody can be asked now."""
        call = self._call()
        if call is None:
            self._says("it asks something, and nobody can tell during which of its calls: nobody was asked")
            return _NOBODY
        number = next(self._numbers)
        try:
            frame = question(params, number, call)
        except QuestionRefusedError as refused:
            self._says(f"a question of it was refused: {refused}")
            return types.ErrorData(code=types.INVALID_PARAMS, message=str(refused))
        self._asked[call] = self._asked.get(call, 0) + 1
        if len(self._open) >= frames.QUESTIONS_OPEN_MAX or self._asked[call] > frames.QUESTIONS_MAX:
            self._says("it asks too much: nobody was asked")
            return _NOBODY
        answered = trio.Event()
        self._open[number] = call, answered
        try:
            await self._outward.send(frame)
            await answered.wait()
        finally:
            del self._open[number]
            answer = self._answers.pop(number, None)
            if answer is None:
                with trio.CancelScope(shield=True):
                    await self._outward.send(McpUnasked(id=number))
        if answer is None:
            return _NOBODY
        wanted = answer.action == "accept" and isinstance(params, types.ElicitRequestFormParams)
        return types.ElicitResult(action=answer.action, content=answer.fields if wanted else None)

    async def pages(self, data: Any) -> str:
        """Ask a person to open the pages that a call wants opened before it; return what its agent is told."""
        try:
            wanted = types.ElicitationRequiredErrorData.model_validate(data).elicitations[:PAGES_MAX]
        except ValidationError:
            return "it wants a page to be opened first, and does not say which"
        for each in wanted:
            said = await self.ask(None, each)
            if not isinstance(said, types.ElicitResult) or said.action != "accept":
                return "it wants a page to be opened first, and nobody has agreed to that; nothing was done"
        return "it wants a page to be opened first, which the user has agreed to; call it again when they have done so"

    def answer(self, frame: McpAnswer) -> None:
        """Pass on what a person says, unless nobody wants it any more."""
        if frame.id in self._open:
            self._answers[frame.id] = frame
            self._open[frame.id][1].set()

    def over(self, call: int) -> None:
        """Leave unanswered what was asked during a call that has ended."""
        self._asked.pop(call, None)
        for of_call, answered in self._open.values():
            if of_call == call:
                answered.set()

    def _call(self) -> int | None:
        """Return the call during which a server asks: the one it says, or the only one that there is."""
        known = CALL.get(0)
        if known in self._calls:
            return known
        return next(iter(self._calls)) if len(self._calls) == 1 else None
