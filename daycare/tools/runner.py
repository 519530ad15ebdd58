"""Running one tool call: known -> validated -> under a deadline -> a bounded result.

It never raises for what the model did wrong.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

import msgspec
import trio

from daycare.base.clock import Clock
from daycare.base.errors import DaycareError, InvalidError
from daycare.base.limits import MESSAGE_MAX_BYTES, TOOL_DEADLINE_S, TOOL_RESULT_MAX_CHARS
from daycare.base.messages import Envelope, EnvelopeKind, Origin, ToolCall
from daycare.plugin import Tool, ToolSpec
from daycare.store.records import Agent, Effects, NewTimer, Turn, User


class Done(msgspec.Struct, frozen=True):
    """What came of a call, and what it wants changed when the turn commits."""

    text: str
    status: Literal["ok", "error", "uncertain"] = "ok"
    effects: Effects = Effects()


class Desk(msgspec.Struct, frozen=True):
    """What tools reach through their context; handed in, as directory and router are siblings of the tools.

    `may_reach(path, user)` raises unless the user has an agent there; `ask(envelope, asker, deadline)` posts and waits.
    """

    may_reach: Callable[[str, str], Awaitable[object]]
    ask: Callable[[Envelope, str, float], Awaitable[str]]


class Context:
    """A `ToolContext`: collects effects instead of carrying them out, so that a failed turn leaves nothing behind."""

    def __init__(self, desk: Desk, agent: Agent, user: User, turn: Turn, step: int, call_id: str, now_ms: int) -> None:
        self.path = agent.path
        self.user = agent.user
        self.zone = user.zone
        self.now_ms = now_ms
        self.trace = turn.trace
        self.turn = turn.turn
        self.step = step
        self.call_id = call_id
        self._desk = desk
        self._agent = agent
        self._posts: list[Envelope] = []
        self._timers: list[NewTimer] = []

    async def send(self, to: str, text: str) -> None:
        """Send `text` to the agent at `to` when the turn commits."""
        await self._desk.may_reach(to, self.user)
        if len(text.encode()) > MESSAGE_MAX_BYTES:
            raise InvalidError(
                "MESSAGE_TOO_LONG", f"sending to {to}: over {MESSAGE_MAX_BYTES} bytes", hint="shorten it"
            )
        self._posts.append(self._envelope(to, text, Origin.AGENT, EnvelopeKind.TEXT, f"{len(self._posts)}"))

    def remind(self, after_s: float, text: str) -> int:
        """Have `text` posted to this agent after so many seconds; return the due wall time in ms."""
        due_ms = self.now_ms + round(after_s * 1000)
        key = self._key(f"t{len(self._timers)}")
        envelope = self._envelope(self.path, text, Origin.TIMER, EnvelopeKind.NOTICE, f"t{len(self._timers)}")
        self._timers.append(NewTimer(agent_id=self._agent.id, key=key, due_at=due_ms, envelope=envelope))
        return due_ms

    async def ask(self, to: str, text: str, deadline_s: float) -> str:
        """Post to another agent and wait for its answer."""
        await self._desk.may_reach(to, self.user)
        return await self._desk.ask(
            self._envelope(to, text, Origin.AGENT, EnvelopeKind.TEXT, "ask"), self.path, deadline_s
        )

    def effects(self) -> Effects:
        """Return what was asked for so far."""
        return Effects(posts=tuple(self._posts), timers=tuple(self._timers))

    def _envelope(self, to: str, text: str, origin: Origin, kind: EnvelopeKind, mark: str) -> Envelope:
        return Envelope(
            to=to,
            user=self.user,
            origin=origin,
            sender=self.path,
            key=self._key(mark),
            text=text,
            trace=self.trace,
            kind=kind,
        )

    def _key(self, mark: str) -> str:
        return f"turn:{self.turn}:{self.step}:{mark}"


class Runner:
    """Knows every tool and runs calls of them."""

    def __init__(self, tools: Sequence[Tool], desk: Desk, clock: Clock) -> None:
        self._tools = {tool.spec.name: tool for tool in tools}
        self._desk = desk
        self._clock = clock

    def specs(self, agent: Agent) -> tuple[ToolSpec, ...]:
        """Return the tools an agent may use."""
        allowed = agent.config.tools
        return tuple(tool.spec for name, tool in self._tools.items() if allowed is None or name in allowed)

    def idempotent(self, name: str) -> bool:
        """Return whether a call may be repeated after a crash; one of an unknown tool does nothing, so it may."""
        tool = self._tools.get(name)
        return tool is None or tool.idempotent

    async def run(self, agent: Agent, user: User, turn: Turn, step: int, call: ToolCall) -> Done:
        """Run one call. Whatever the model did wrong comes back as an error it can read; a defect raises."""
        tool = self._tools.get(call.name)
        if tool is None or all(spec.name != call.name for spec in self.specs(agent)):
            known = ", ".join(spec.name for spec in self.specs(agent)) or "none"
            return Done(f"there is no tool called {call.name}; there are: {known}", "error")
        try:
            arguments = tool.decode(call.arguments)
        except msgspec.ValidationError as error:
            return Done(f"wrong arguments for {call.name}: {error}", "error")
        context = Context(self._desk, agent, user, turn, step, call.id, self._clock.now_ms())
        try:
            with trio.fail_after(TOOL_DEADLINE_S):
                text = await tool.run(context, arguments)
        except trio.TooSlowError:
            late = f"{call.name} did not finish within {TOOL_DEADLINE_S:g} s"
            return Done(late, "error") if tool.idempotent else Done(f"{late}; it may have taken effect", "uncertain")
        except DaycareError as error:
            return Done(str(error), "error")
        if len(text) > TOOL_RESULT_MAX_CHARS:
            text = text[:TOOL_RESULT_MAX_CHARS] + f"\n[cut: {len(text)} characters in all]"
        return Done(text, "ok", context.effects())
