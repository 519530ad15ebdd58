"""Running one tool call: known -> validated -> permitted -> under a deadline -> a bounded result.

It never raises for what the model did wrong, nor for what a tool does wrong: both come back as words for the model.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, Literal, Protocol

import msgspec
import trio

from daycare.base.clock import Clock
from daycare.base.error_boundary import error_boundary
from daycare.base.errors import DaycareError, ForbiddenError, StoreAwayError, UncertainError
from daycare.base.limits import STORE_RETRY_S
from daycare.base.messages import Chains, File, Origin, Origins, Told, ToolCall
from daycare.base.permission import PersonsSay, persons_say
from daycare.base.secrecy import without_known
from daycare.base.tool import Sourced, asks, is_gated
from daycare.plugin import Tool, ToolSpec, Waiting
from daycare.store.records import Agent, Effects, InboxRow, Turn, User
from daycare.store.retry import with_retry
from daycare.tools.catalogue import Catalogue
from daycare.tools.context import Call, Reach, ToolCallContext

TOOL_DEADLINE_S: Final = 120.0
TOOL_RESULT_MAX_CHARS: Final = 16_000  # about 4,000 tokens

CRASHED = "TOOL_CRASHED"


class Done(msgspec.Struct, frozen=True):
    """What came of a call, and what it wants changed when the turn commits. With `waiting` its result comes later.

    `origins` are those of the words of others in it: none where the daemon itself says why there is no result. `told`
    is what of it is out of memory.
    """

    text: str
    status: Literal["ok", "error", "uncertain", "waiting"] = "ok"
    effects: Effects = Effects()
    waiting: Waiting | None = None
    origins: Origins = None
    told: Told | None = None


Permit = Callable[[Agent, User, ToolSpec, Any], Awaitable[None]]
ApprovedCalls = Callable[[Agent, int, Sequence[InboxRow]], Awaitable[list[ToolCall]]]
FirstCalls = Callable[[Agent, Turn, Sequence[InboxRow]], Awaitable[list[ToolCall]]]
Keep = Callable[[str, str, Origin, str, str, bytes], Awaitable[File]]


class Gate(Protocol):
    """How a person's yes comes before a call."""

    async def claim(self, agent: Agent, turn: Turn, rows: Sequence[InboxRow]) -> list[ToolCall]:
        """Return the calls that a turn with these messages is there to make, as a person has approved them."""
        ...

    async def approved(self, agent: Agent, turn: Turn, step: int, call: ToolCall) -> bool:
        """Return whether a person has approved just this call, and it was not made yet."""
        ...

    async def ask(self, agent: Agent, user: User, turn: Turn, step: int, call: ToolCall, because: str) -> str:
        """Ask a person; return what the model reads in place of a result, "" where the call may be made all the same.

        `because` is the rule that demands it, "" where only others' words do, if the turn has read any.
        """
        ...


class NoGate:
    """Lets every call be made that no rule wants to be asked for, as long as nobody can be asked."""

    async def claim(self, agent: Agent, turn: Turn, rows: Sequence[InboxRow]) -> list[ToolCall]:
        """Make no call that the model has not asked for."""
        return []

    async def approved(self, agent: Agent, turn: Turn, step: int, call: ToolCall) -> bool:
        """Nobody approves any."""
        return False

    async def ask(self, agent: Agent, user: User, turn: Turn, step: int, call: ToolCall, because: str) -> str:
        """Refuse what a rule wants to be asked for."""
        return f"{call.name} is not permitted: {because}" if because else ""


async def everything(agent: Agent, user: User, tool: ToolSpec, arguments: Any) -> None:
    """Permit every call: the rule as long as there are no others."""


class Runner:
    """Runs calls of the tools that a catalogue knows.

    `permit` is asked before a call and raises `ForbiddenError` why not. `gate` is asked before one that acts elsewhere
    or later, and before what a rule wants a person's yes for: PERMISSION_ASK, by `permit` or by the tool itself. `keep`
    stores a result that is too long for a prompt, once for each key. Each of `asked` tells which calls a person's
    message asks for by itself.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        reach: Reach,
        clock: Clock,
        keep: Keep,
        permit: Permit = everything,
        gate: Gate = NoGate(),  # noqa: B008  # immutable
    ) -> None:
        self._catalogue = catalogue
        self.specs = catalogue.specs
        self._reach = reach
        self._clock = clock
        self._keep = keep
        self._permit = permit
        self._gate = gate
        self.asked: list[FirstCalls] = []

    async def claim(self, agent: Agent, turn: Turn, rows: Sequence[InboxRow]) -> list[ToolCall]:
        """Return the calls with which a turn begins: those that a person has approved, and has asked for."""
        calls = await self._gate.claim(agent, turn, rows)
        for each in self.asked:
            calls = [*calls, *await each(agent, turn, rows)]
        return calls

    def idempotent(self, name: str) -> bool:
        """Return whether a call may be repeated after a crash; one of an unknown tool does nothing, so it may."""
        tool = self._catalogue.get(name)
        return tool is None or tool.idempotent

    async def run(
        self,
        agent: Agent,
        user: User,
        turn: Turn,
        step: int,
        call: ToolCall,
        chains: Chains = Chains(),  # noqa: B008  # immutable
        progress: Callable[[str], None] = lambda _: None,
        begins: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint,
    ) -> Done:
        """Run one call. `chains` say how the turn came about; `progress` hears how far a long call is.

        `begins` is awaited before the tool itself runs: until then nothing has been brought about but a request.
        """
        tool = self._catalogue.get(call.name)
        allowed = tuple(spec.name for spec in self.specs(agent))
        if tool is None or call.name not in allowed:
            there = ", ".join(allowed) or "none"
            return Done(f"there is no tool called {call.name}; there are: {there}", "error", origins=())
        now_ms = self._clock.now_ms()

        def fresh() -> ToolCallContext:
            return ToolCallContext(
                self._reach, Call(agent, user, turn, step, call.id), now_ms, chains, allowed, progress
            )

        ask = partial(self._gate.ask, agent, user, turn, step, call)
        context = fresh()
        result: str | Waiting | Sourced | None = None
        ran = False
        try:
            with error_boundary(CRASHED, f"{call.name} crashed"):
                try:
                    arguments = tool.decode(call.arguments)
                except msgspec.ValidationError as error:
                    return Done(f"wrong arguments for {call.name}: {error}", "error", origins=())
                approved = await with_retry(lambda: self._gate.approved(agent, turn, step, call))
                say = PersonsSay.YES if approved else PersonsSay.LATER
                with trio.move_on_after(TOOL_DEADLINE_S):
                    while True:
                        try:
                            with persons_say(say):
                                await self._permit(agent, user, tool.spec, arguments)
                                if say is PersonsSay.LATER and (asked := await _asked(tool, context, arguments, ask)):
                                    return Done(asked, origins=())
                                await begins()
                                ran = True
                                result = await tool.run(context, arguments)
                            break
                        except ForbiddenError as refused:
                            if refused.code != "PERMISSION_ASK" or say is PersonsSay.YES:
                                raise
                            if asked := await ask(refused.message):
                                return Done(asked, origins=())
                            say = PersonsSay.YES  # in advance
                            context = fresh()
                        except StoreAwayError:
                            if ran and not tool.idempotent:
                                raise
                            await trio.sleep(STORE_RETRY_S)
                            context = fresh()  # what it had begun to bring about is begun again
        except DaycareError as error:
            if ran and (error.code == CRASHED or isinstance(error, UncertainError)):
                return _unsure(tool, error.message)
            return Done(str(error)[:TOOL_RESULT_MAX_CHARS], "error", origins=())
        if result is None:
            return _unsure(tool, f"{call.name} did not finish within {TOOL_DEADLINE_S:g} s")
        effects = await with_retry(context.effects)
        if isinstance(result, Waiting):
            return Done("", "waiting", effects, result)
        otherwise = (Origin.FILE,) if tool.spec.reads_outside else None
        origins = result.origins if isinstance(result, Sourced) else otherwise
        # What a tool read or was told goes to a provider, to people and into memory.
        text = without_known(result.text if isinstance(result, Sourced) else str(result))
        bounded = await self._bounded(turn, step, call, user, text)
        return Done(bounded, "ok", effects, origins=origins, told=context.memory.told)

    async def _bounded(self, turn: Turn, step: int, call: ToolCall, user: User, text: str) -> str:
        """Keep what is too long for a prompt where the model can read on."""
        if len(text) <= TOOL_RESULT_MAX_CHARS:
            return text
        name = f"{call.name}-{turn.turn}-{step}.txt"
        try:
            file = await self._keep(
                f"result:{turn.turn}:{step}", user.id, Origin.AGENT, name, "text/plain", text.encode(errors="replace")
            )
        except DaycareError as error:
            more = f"the rest could not be kept: {error.message}"
        else:
            read = len(text[:TOOL_RESULT_MAX_CHARS].encode(errors="replace"))
            more = f"read on with read_result, file {file.id}, from offset {read}"
        return f"{text[:TOOL_RESULT_MAX_CHARS]}\n[cut: {len(text)} characters in all; {more}]"


async def _asked(tool: Tool, context: ToolCallContext, arguments: Any, ask: Callable[[str], Awaitable[str]]) -> str:
    """Return what the model reads in place of a result, where a person has to say yes to a call first."""
    because = await asks(tool, context, arguments)
    return await ask(because) if because or is_gated(tool, arguments) else ""


def _unsure(tool: Tool, what: str) -> Done:
    if tool.idempotent:
        return Done(what, "error", origins=())
    return Done(f"{what}; it may have taken effect", "uncertain", origins=())
