"""Spans of a message's path, made of events: accepted, waited, turn, memory, model, tools, delivery; one trace each.

A trace is the message's own trace id: `daycare trace ID` and a tracing system show the same. Ids of spans are derived
from what they are of, so that what happens after a restart still hangs on what happened before it.
"""

import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import msgspec

from daycare.base import events
from daycare.base.bounded import Bounded
from daycare.base.secrecy import without_secrets
from daycare.observe.bus import Bus

_OPEN_MAX: Final = 2_048  # turns and calls whose end is awaited, and traces that came from outside
_OURS: Final = re.compile(r"[0-9a-f]{16}")
_THEIRS: Final = re.compile(r"[0-9a-f]{32}")
_PARENT: Final = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?")

Attributes: TypeAlias = Mapping[str, str | int | float]


class Span(msgspec.Struct, kw_only=True):
    """A stretch of time in a trace. `links` are (trace, span) it has to do with; `error` says why it failed."""

    trace: str
    id: str
    name: str
    start_ms: int
    end_ms: int
    parent: str = ""
    incoming: bool = False
    outgoing: bool = False
    attributes: dict[str, str | int | float] = {}
    links: tuple[tuple[str, str], ...] = ()
    error: str = ""


class JoinedTrace(msgspec.Struct, frozen=True):
    """What a `traceparent` says: the trace, the span it was made in, and whether that is recorded."""

    trace: str
    parent: str
    sampled: bool


def joined(traceparent: str) -> JoinedTrace | None:
    """Read a W3C `traceparent`, None for what is none."""
    match = _PARENT.fullmatch(traceparent.strip())
    if match is None or set(match[1]) == {"0"} or set(match[2]) == {"0"}:
        return None
    return JoinedTrace(match[1], match[2], bool(int(match[3], 16) & 1))


def trace_id(trace: str) -> str:
    """Return the 32 hex digits of a trace: ours has 16, before which stand zeros, as in other systems of that size."""
    if _OURS.fullmatch(trace):
        return trace.rjust(32, "0")
    return trace if _THEIRS.fullmatch(trace) else hashlib.sha256(trace.encode()).hexdigest()[:32]


def ours(trace: str) -> str:
    """Return our trace id for one that a tracing system shows; what is none comes back as it is."""
    found = trace.lower()
    return found[16:] if _THEIRS.fullmatch(found) and found.startswith("0" * 16) else trace


def span_id(trace: str, *of: object) -> str:
    """Return the 16 hex digits of a span, always the same for the same thing."""
    return hashlib.sha256("|".join(map(str, (trace, *of))).encode()).hexdigest()[:16]


class Spans:
    """Makes spans of a bus's events and gives each to `take` when it has ended. `ratio` of the traces are recorded."""

    def __init__(self, bus: Bus, take: Callable[[Span], None], ratio: float) -> None:
        self._take = take
        self._limit = ratio * 2**64
        self._from_outside: Bounded[str, JoinedTrace] = Bounded(_OPEN_MAX)
        self._turns: Bounded[int, Span] = Bounded(_OPEN_MAX)  # that run, by number
        self._tools: Bounded[tuple[int, int], Span] = Bounded(_OPEN_MAX)  # that run, by turn and step
        self._at: Bounded[str, str] = Bounded(_OPEN_MAX)  # the id of the turn that an agent takes or took last
        self._last: Bounded[str, str] = Bounded(_OPEN_MAX)  # the id of the turn that a trace went through last
        tap = bus.tap
        tap(events.MessageAccepted, self._accepted)
        tap(events.TurnStarted, self._started)
        tap(events.MemoryRecalled, self._recalled)
        tap(events.ModelCalled, self._called)
        tap(events.ToolStarted, self._tool_started)
        tap(events.ToolFinished, self._tool_finished)
        tap(events.TurnFinished, self._finished)
        tap(events.TurnWaiting, self._aside)
        tap(events.TurnFailed, self._failed)
        tap(events.ReplySent, self._sent)
        tap(events.DeliveryFailed, self._unsent)
        tap(events.DeadLettered, self._dead)

    def join(self, it: JoinedTrace) -> None:
        """Let a message that is about to be accepted belong to a trace from outside."""
        self._from_outside[it.trace] = it

    def recorded(self, trace: str) -> bool:
        """Whether spans of a trace are made; the same answer in each process that asks."""
        outside = self._from_outside.get(trace)
        if not trace or outside is not None:
            return outside is not None and outside.sampled
        return int(trace_id(trace)[-16:], 16) < self._limit

    # -- in ------------------------------------------------------------------------------------------------------------

    def _accepted(self, it: events.MessageAccepted) -> None:
        if it.duplicate or not self.recorded(it.trace):
            return
        outside = self._from_outside.get(it.trace)
        parent = self._at.get(it.sender, "") if it.sender.startswith("/") else outside.parent if outside else ""
        self._give(
            it,
            "message accepted",
            accept_id(it.trace, it.seq),
            parent,
            it.took_ms,
            incoming=True,
            attributes={"daycare.message": it.seq, "daycare.source": it.sender.partition(":")[0].partition("/")[0]},
        )

    def _started(self, it: events.TurnStarted) -> None:
        rows = list(zip(it.traces, it.seqs, it.waits_ms, strict=False))
        for trace, seq, waited_ms in rows if it.attempt == 1 else ():
            if self.recorded(trace):
                wait = msgspec.structs.replace(it, trace=trace)
                accept = accept_id(trace, seq)
                self._give(wait, "inbox wait", span_id(trace, "wait", seq), accept, waited_ms)
        if not self.recorded(it.trace):
            return
        own = next((accept_id(trace, seq) for trace, seq, _ in rows if trace == it.trace), "")
        others = ((trace_id(trace), accept_id(trace, seq)) for trace, seq, _ in rows if trace != it.trace)
        turn = self._made(it, "turn", span_id(it.trace, "turn", it.turn, it.attempt), own, 0)
        turn.links = tuple(others)
        turn.attributes |= {"daycare.turn": it.turn, "daycare.attempt": it.attempt, "daycare.messages": it.messages}
        self._turns[it.turn] = turn
        self._at[it.path] = turn.id
        self._last[it.trace] = turn.id

    # -- the turn ------------------------------------------------------------------------------------------------------

    def _recalled(self, it: events.MemoryRecalled) -> None:
        if turn := self._turns.get(it.turn):
            found = {"daycare.memories": len(it.numbers)}
            self._give(it, "recall", span_id(turn.id, "recall"), turn.id, round(it.took_ms), attributes=dict(found))

    def _called(self, it: events.ModelCalled) -> None:
        if not self.recorded(it.trace):
            return
        self._give(
            it,
            f"model {it.provider}/{it.model}",
            span_id(it.trace, "model", it.path, it.at_ms, it.took_ms, it.code),
            self._at.get(it.path, ""),
            it.took_ms,
            outgoing=True,
            error=it.code,
            attributes={
                "gen_ai.system": it.provider,
                "gen_ai.request.model": it.model,
                "gen_ai.usage.input_tokens": it.input_tokens,
                "gen_ai.usage.output_tokens": it.output_tokens,
                "daycare.cached_tokens": it.cached_tokens,
                "daycare.cost_usd": it.cost_micros / 1e6,
            },
        )

    def _tool_started(self, it: events.ToolStarted) -> None:
        if turn := self._turns.get(it.turn):
            name = span_id(turn.id, "tool", it.step)
            self._tools[it.turn, it.step] = self._made(it, f"tool {it.tool}", name, turn.id, 0)

    def _tool_finished(self, it: events.ToolFinished) -> None:
        if span := self._tools.pop((it.turn, it.step), None):
            span.attributes["daycare.status"] = it.status
            self._end(span, it.at_ms, it.status if it.status in ("error", "uncertain") else "")

    def _finished(self, it: events.TurnFinished) -> None:
        self._turn_ended(it.turn, it.at_ms, "stopped" if it.stopped else "done")

    def _aside(self, it: events.TurnWaiting) -> None:
        self._turn_ended(it.turn, it.at_ms, "aside")

    def _failed(self, it: events.TurnFailed) -> None:
        self._turn_ended(it.turn, it.at_ms, "failed", it.code)

    def _turn_ended(self, number: int, at_ms: int, outcome: str, error: str = "") -> None:
        if turn := self._turns.pop(number, None):
            turn.attributes["daycare.outcome"] = outcome
            self._end(turn, at_ms, error)

    # -- out -----------------------------------------------------------------------------------------------------------

    def _sent(self, it: events.ReplySent) -> None:
        self._delivery(it, it.outbox, it.connector, it.waited_ms, "")

    def _unsent(self, it: events.DeliveryFailed) -> None:
        self._delivery(it, it.outbox, it.connector, 0, it.reason)

    def _delivery(self, it: events.Event, outbox: int, connector: str, took_ms: int, error: str) -> None:
        if self.recorded(it.trace):
            own = span_id(it.trace, "deliver", outbox, it.at_ms if error else "")
            parent = self._last.get(it.trace, "")
            number: Attributes = {"daycare.reply": outbox, "daycare.connector": connector}
            self._give(it, f"deliver {connector}", own, parent, took_ms, outgoing=True, error=error, attributes=number)

    def _dead(self, it: events.DeadLettered) -> None:
        if self.recorded(it.trace):
            own, parent = span_id(it.trace, "dead", it.no), self._last.get(it.trace, "")
            self._give(
                it, f"dead letter {it.source}", own, parent, 0, error=it.code, attributes={"daycare.letter": it.no}
            )

    # -- making --------------------------------------------------------------------------------------------------------

    def _made(self, it: events.Event, name: str, own: str, parent: str, took_ms: int) -> Span:
        start_ms = it.at_ms - max(0, took_ms)
        about: dict[str, str | int | float] = {"daycare.trace": it.trace, "daycare.agent": it.path}
        return Span(
            trace=trace_id(it.trace),
            id=own,
            parent=parent,
            name=without_secrets(name),
            start_ms=start_ms,
            end_ms=it.at_ms,
            attributes=about,
        )

    def _give(
        self,
        it: events.Event,
        name: str,
        own: str,
        parent: str,
        took_ms: int,
        *,
        incoming: bool = False,
        outgoing: bool = False,
        error: str = "",
        attributes: Attributes | None = None,
    ) -> None:
        span = self._made(it, name, own, parent, took_ms)
        span.incoming, span.outgoing = incoming, outgoing
        span.attributes.update(attributes or {})
        self._end(span, it.at_ms, error)

    def _end(self, span: Span, at_ms: int, error: str = "") -> None:
        span.end_ms = max(at_ms, span.start_ms)
        span.error = without_secrets(error)
        for key, value in span.attributes.items():
            if isinstance(value, str):
                span.attributes[key] = without_secrets(value)
        self._take(span)


def accept_id(trace: str, seq: int) -> str:
    """Return the span in which a message was accepted."""
    return span_id(trace, "accepted", seq)
