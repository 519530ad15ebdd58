"""The rows of a trace as stretches of time, each below what caused it."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Final

from msgspec.structs import replace

from daycare.base.messages import ToolResult
from daycare.features.traffic.records import TraceSpan
from daycare.features.traffic.rows import outside
from daycare.features.traffic.rows_trace import TracedCall, TracedMessage, TracedStep, TracedTurn, TraceRows

Key = tuple[str, int]  # of a span that others stand below: what it is, and its number

_MESSAGE_STATES: Final = ("waiting", "answered", "given up", "waiting")
_REPLY_STATES: Final = ("waiting", "sending", "delivered", "given up", "given up")


def spans_of(rows: TraceRows, sees: Callable[[str], bool]) -> tuple[TraceSpan, ...]:
    """Return the spans, each followed by those below it in the order of time.

    Those of paths that are not to be seen are left out; what they caused stands by itself.
    """
    shown = [each for each in _spans(rows, sees) if sees(each[2].path)]
    keys = {key for _, key, _ in shown}
    below: dict[Key | None, list[tuple[Key | None, TraceSpan]]] = defaultdict(list)
    for above, key, span in shown:
        below[above if above in keys else None].append((key, span))

    def walk(above: Key | None, depth: int) -> Iterator[TraceSpan]:
        for key, span in sorted(below[above], key=lambda each: (each[1].start_ms, each[0] is not None)):
            yield replace(span, depth=depth)
            if key is not None:
                yield from walk(key, depth + 1)

    return tuple(walk(None, 0))


def _spans(rows: TraceRows, sees: Callable[[str], bool]) -> Iterator[tuple[Key | None, Key | None, TraceSpan]]:
    """Yield each span with the key of what it stands below, and its own if something may stand below it."""
    for message in rows.messages:
        came, waited = _message(message, rows.turns, sees)
        yield _sent_by(message, rows.turns), ("message", message.seq), came
        if waited.end_ms != waited.start_ms:
            yield ("message", message.seq), None, waited
    own = {message.seq for message in rows.messages}
    steps: dict[int, list[TracedStep]] = defaultdict(list)
    for each in rows.steps:
        steps[_made_in(each, rows.turns)].append(each)
    calls = {turn: list(those) for turn, those in groupby(rows.calls, key=lambda each: each.turn)}
    for turn in rows.turns:
        cause = next((("message", seq) for seq in turn.seqs if seq in own), None)
        yield cause, ("turn", turn.turn), _turn(turn)
        agains = [it.at_ms + round(1000 * (it.retry_in_s or 0)) for it in rows.failures if it.turn == turn.turn]
        for span in _steps(turn, steps[turn.turn], calls.get(turn.turn, []), agains):
            yield ("turn", turn.turn), None, span
    for it in rows.failures:
        then = "given up" if it.retry_in_s is None else f"next try in {it.retry_in_s:.0f} s"
        failure = TraceSpan(
            kind="failure",
            name=f"try {it.attempt} failed",
            path=it.path,
            start_ms=it.at_ms,
            end_ms=it.at_ms,
            state=then,
            error=f"{it.code}: {it.reason}",
            turn=it.turn,
        )
        yield ("turn", it.turn), None, failure
    for reply in rows.replies:
        sent = TraceSpan(
            kind="reply",
            name=f"reply over {reply.connector}",
            path=reply.path,
            start_ms=reply.at_ms,
            end_ms=reply.ended_at or (reply.at_ms if reply.state > 2 else None),
            state=_REPLY_STATES[reply.state],
            error=reply.error if reply.ended_at is None else "",
            turn=reply.turn,
            seq=reply.seq,
        )
        yield ("turn", reply.turn) if reply.turn is not None else None, ("reply", reply.seq), sent
    for letter in rows.letters:
        dead = TraceSpan(
            kind="dead",
            name=f"dead letter {letter.no}",
            path=letter.path,
            start_ms=letter.at_ms,
            end_ms=letter.at_ms,
            error=f"{letter.code}: {letter.reason}",
            hint=f"daycare dead show {letter.no}",
            seq=letter.seq,
        )
        yield ("reply" if letter.source == "outbox" else "message", letter.seq), None, dead


def _message(
    it: TracedMessage, turns: Sequence[TracedTurn], sees: Callable[[str], bool]
) -> tuple[TraceSpan, TraceSpan]:
    """Return a message, and how long it waited for its first turn."""
    source = outside(it.sender) if sees(it.sender) or not it.sender.startswith("/") else "another agent"
    begun = next((turn.started_at for turn in turns if it.seq in turn.seqs), it.ended_at)
    came = TraceSpan(
        kind="message",
        name=f"message from {source}",
        path=it.path,
        start_ms=it.at_ms,
        end_ms=it.ended_at,
        state=_MESSAGE_STATES[it.state],
        turn=it.turn,
        seq=it.seq,
    )
    return came, replace(came, kind="wait", name="waited for its turn", end_ms=begun, state="", turn=None)


def _sent_by(it: TracedMessage, turns: Sequence[TracedTurn]) -> Key | None:
    """Return the turn that a message was sent in: one of its sender that ran then, whose own messages came before."""
    ran = (
        turn
        for turn in reversed(turns)
        if turn.path == it.sender
        and turn.started_at <= it.at_ms
        and (turn.ended_at is None or it.at_ms <= turn.ended_at)
        and it.seq > max(turn.seqs, default=0)
    )
    found = next(ran, None)
    return None if found is None else ("turn", found.turn)


def _turn(it: TracedTurn) -> TraceSpan:
    return TraceSpan(
        kind="turn",
        name=f"turn {it.turn}",
        path=it.path,
        start_ms=it.started_at,
        end_ms=it.ended_at,
        state=it.state or "running",
        error=it.error,
        turn=it.turn,
    )


def _made_in(it: TracedStep, turns: Sequence[TracedTurn]) -> int:
    """Return the turn that a step was made in: one that waited goes on under another number, and takes them along."""
    agent_id, started_at = next(
        ((each.agent_id, each.started_at) for each in turns if each.turn == it.step.turn), ("", 0)
    )
    if it.step.at_ms >= started_at:
        return it.step.turn
    before = (each.turn for each in reversed(turns) if each.agent_id == agent_id and each.started_at <= it.step.at_ms)
    return next(before, it.step.turn)


def _steps(
    turn: TracedTurn, steps: Sequence[TracedStep], calls: list[TracedCall], agains: Sequence[int]
) -> Iterator[TraceSpan]:
    """Yield the steps of a turn; `agains` are when it was tried again. The last answer is a call without a step.

    A model is called as soon as the step before it has ended.
    """
    last_ms = turn.started_at
    for at_ms, step in steps:
        said = step.message
        ended_ms = said.at_ms if said is not None and said.at_ms else at_ms
        status = next((part.status for part in said.parts if isinstance(part, ToolResult)), "ok") if said else "ok"
        is_call = step.kind in ("model", "summary")
        last_ms = max(last_ms, *(again for again in agains if again <= ended_ms), 0)
        span = TraceSpan(
            kind=step.kind,
            name=step.name,
            path=turn.path,
            start_ms=min(last_ms, ended_ms) if is_call else step.at_ms or at_ms,
            end_ms=ended_ms if step.state == "done" else turn.ended_at,
            state=step.state,
            error="" if status == "ok" else status,
            turn=turn.turn,
        )
        paid = [call for call in calls if is_call and call.at_ms <= ended_ms]
        calls = calls[len(paid) :]
        yield _with_calls(span, paid)
        last_ms = max(last_ms, ended_ms)
    for call in calls:
        last_ms = max(last_ms, *(again for again in agains if again <= call.at_ms), 0)
        ended_ms = max(last_ms, call.at_ms)
        span = TraceSpan(
            kind="model", name=call.model, path=turn.path, start_ms=last_ms, end_ms=ended_ms, turn=turn.turn
        )
        yield _with_calls(span, [call])
        last_ms = ended_ms


def _with_calls(span: TraceSpan, calls: Sequence[TracedCall]) -> TraceSpan:
    return replace(
        span,
        input_tokens=sum(call.input_tokens for call in calls),
        cached_tokens=sum(call.cached_tokens for call in calls),
        output_tokens=sum(call.output_tokens for call in calls),
        cost_micros=sum(call.cost_micros for call in calls),
    )
