"""Calls during which a server may ask a person: the turn is set aside then, and goes on with the call's result.

A call is made beside the turn. Most end at once, and their turn never knows. When the server asks, the question is a
request like any other, for who decides what this agent may do; the turn waits for the call as for another agent, so
that its lane is free. The answer goes to this call on this connection, or to nobody: with the daemon or the server the
question ends, too, and the call is uncertain.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import trio

from daycare.base.causes import Answer
from daycare.base.error_boundary import error_boundary
from daycare.base.errors import DaycareError, UncertainError
from daycare.base.messages import Origin
from daycare.feature import Core
from daycare.features.approvals.questions import QuestionAction
from daycare.features.approvals.records import Approval, ApprovalState
from daycare.features.approvals.service import ApprovalAsk, ApprovalsService
from daycare.features.approvals.unattended import is_unattended
from daycare.features.mcp.connection import CallEars
from daycare.features.mcp.frames import QUESTIONS_MAX, McpAnswer, McpQuestion, McpResult
from daycare.features.mcp.interrupted import QUESTION, tell, wait_of
from daycare.features.mcp.records import PinnedTool
from daycare.features.mcp.rows import McpToolRows
from daycare.features.mcp.tools import words
from daycare.observe import log
from daycare.plugin import ToolContext, Waiting
from daycare.store.records import Agent
from daycare.store.retry import with_retry
from daycare.tools.runner import TOOL_RESULT_MAX_CHARS

SPARE_S: Final = 600.0  # beyond what all questions of a call may take, until its turn goes on without it

Make = Callable[[PinnedTool, dict[str, Any], Callable[[Callable[[McpAnswer], None]], CallEars]], Awaitable[McpResult]]


@dataclass
class _Call:
    """One that is being made, and what came of it."""

    pinned: PinnedTool
    context: ToolContext
    agent: Agent
    within_s: float
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    asked: trio.Event = field(default_factory=trio.Event)
    done: trio.Event = field(default_factory=trio.Event)
    result: McpResult | DaycareError | None = None
    questions: dict[int, trio.CancelScope] = field(default_factory=dict)

    @property
    def wait(self) -> str:
        """The key under which its turn waits for it."""
        return wait_of(self.agent.id, self.context.turn, self.context.step)


class AskingCalls:
    """Makes them, in `tasks`. `make` makes one, and `called` is how agents know its tool."""

    def __init__(self, core: Core, approvals: ApprovalsService, tasks: trio.Nursery, make: Make) -> None:
        self._core = core
        self._rows = core.store.of(McpToolRows)
        self._approvals = approvals
        self._tasks = tasks
        self._make = make
        self._aside: dict[str, _Call] = {}
        self._committed = trio.Event()

    async def run(
        self, pinned: PinnedTool, arguments: dict[str, Any], context: ToolContext, within_s: float
    ) -> McpResult | Waiting:
        """Make a call; a person has `within_s` for each question. Raises what making it raises."""
        call = _Call(pinned, context, await self._core.directory.at(context.path), within_s)
        self._tasks.start_soon(self._run, call, arguments)
        goes_on = False
        try:
            await first(call.asked, call.done)
            goes_on = not call.done.is_set()
        finally:
            if not goes_on:  # the turn was stopped; or it is done, and nothing is left to cancel
                call.scope.cancel()
        if goes_on:
            self._aside[call.wait] = call
            return Waiting(key=call.wait, deadline_s=QUESTIONS_MAX * within_s + SPARE_S)
        if isinstance(call.result, McpResult):
            return call.result
        raise call.result or UncertainError("MCP_UNSURE", f"asking {pinned.server}: it was stopped")

    def committed(self) -> None:
        """Look whether calls are still waited for: something was committed."""
        if self._aside:
            self._committed.set()

    async def tend(self) -> None:
        """Stop calls whose turns wait for them no more, as a person has stopped these, until cancelled."""
        while True:
            await self._committed.wait()
            self._committed = trio.Event()  # before looking, so that no commit is missed
            for key, call in list(self._aside.items()):
                awaited = await with_retry(partial(self._rows.awaited, key, call.context.turn, call.context.step))
                if not awaited and self._aside.get(key) is call:
                    del self._aside[key]  # what comes of it is for nobody: told, it would begin a turn of its own
                    call.scope.cancel()

    async def _run(self, call: _Call, arguments: dict[str, Any]) -> None:
        with call.scope:
            try:
                with error_boundary("MCP_CRASHED", f"calling {call.pinned.tool}"):
                    call.result = await self._make(call.pinned, arguments, partial(self._ears, call))
            except DaycareError as error:
                call.result = error
        for scope in call.questions.values():
            scope.cancel()
        call.done.set()
        if self._aside.pop(call.wait, None) is not None:
            text, answer, origins = await _told(call)
            await tell(
                *(self._core, call.agent, call.wait, call.pinned.tool),
                *(text, call.context.trace, answer, origins),
            )

    # -- what it asks --------------------------------------------------------------------------------------------------

    def _ears(self, call: _Call, answer: Callable[[McpAnswer], None]) -> CallEars:
        def asked(question: McpQuestion) -> None:
            scope = call.questions[question.id] = trio.CancelScope()
            self._tasks.start_soon(self._ask, call, question, scope, answer)

        def unasked(number: int) -> None:
            if (scope := call.questions.get(number)) is not None:
                scope.cancel()

        return CallEars(call.context.progress, asked, unasked)

    async def _ask(
        self, call: _Call, question: McpQuestion, scope: trio.CancelScope, answer: Callable[[McpAnswer], None]
    ) -> None:
        said = McpAnswer(id=question.id, action="cancel")
        try:
            with error_boundary("MCP_CRASHED", f"asking for {call.pinned.server}"):
                it = await self._requested(call, question)
                if it is not None:
                    call.asked.set()
                    said = _answer(question, await self._decided(it, scope, call.within_s))
        except DaycareError as error:
            log.logger("daycare.mcp").info("mcp_not_asked", server=call.pinned.server, reason=error.message)
        call.questions.pop(question.id, None)
        answer(said)

    async def _requested(self, call: _Call, question: McpQuestion) -> Approval | None:
        """Ask the person who decides for this agent; nobody is asked for what runs by itself, where that is so set."""
        core, context = self._core, call.context
        if core.live.now.approvals.unattended == "deny" and await is_unattended(core.store, call.agent, context.turn):
            return None
        ask = ApprovalAsk(
            kind=QUESTION,
            action=QuestionAction(
                server=call.pinned.server,
                tool=call.pinned.tool,
                message=question.message,
                within_s=call.within_s,
                fields=question.fields,
                url=question.url,
            ),
            turn=context.turn,
            step=context.step,
            provenance=(f"the MCP server {call.pinned.server}",),
            trace=context.trace,
            mark=f"asks{question.id}",
        )
        return await self._approvals.request(call.agent, ask)

    async def _decided(self, it: Approval, scope: trio.CancelScope, within_s: float) -> Approval:
        """Return a question as it was answered, or is over: in time, or before nobody wants to know any more."""
        scope.deadline = trio.current_time() + within_s
        with scope:
            return await self._approvals.ended(it.no)
        return await self._approvals.withdraw(it.no, "nobody answered in time, or the call was over")


def _answer(question: McpQuestion, it: Approval) -> McpAnswer:
    assert isinstance(it.action, QuestionAction)
    if it.state is ApprovalState.APPROVED:
        return McpAnswer(id=question.id, action="accept", fields=it.action.answer or {})
    declined = it.state is ApprovalState.REJECTED and not it.action.dismissed
    return McpAnswer(id=question.id, action="decline" if declined else "cancel")


async def _told(call: _Call) -> tuple[str, Answer, tuple[Origin, ...]]:
    """Return what the turn reads of a call that has ended, bounded: it goes by the mail."""
    if isinstance(it := call.result, McpResult):
        text = await words(it, call.context)
        if len(text) > TOOL_RESULT_MAX_CHARS:
            text = f"{text[:TOOL_RESULT_MAX_CHARS]}\n[cut: {len(text)} characters in all]"
        return text, Answer(call.wait, ok=True), (Origin.FILE,)
    if it is None or isinstance(it, UncertainError) or it.code == "MCP_CRASHED":
        why = it.message if it is not None else "it was stopped"
        return f"uncertain: {why}; it may have taken effect", Answer(call.wait, unsure=True), ()
    return it.message, Answer(call.wait), ()


async def first(*events: trio.Event) -> None:
    """Wait until one of them is set."""
    async with trio.open_nursery() as nursery:

        async def wait(event: trio.Event) -> None:
            await event.wait()
            nursery.cancel_scope.cancel()

        for event in events:
            nursery.start_soon(wait, event)
