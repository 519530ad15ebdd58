"""Looks after messages for people: what moved lately, which trace they mean, and what happened in one."""

from collections.abc import Callable
from typing import Any, Final

import trio
from msgspec.structs import replace

from daycare.actors.failures import Trouble
from daycare.base.clock import Clock
from daycare.base.errors import InvalidError, NotFoundError
from daycare.features.traffic.records import FoundTrace, Movement, PathScope, TraceSpan, TraceStory, TrafficPage
from daycare.features.traffic.rows import TrafficRows
from daycare.features.traffic.rows_trace import TracedRows
from daycare.features.traffic.spans import spans_of
from daycare.observe.spans import ours
from daycare.store.sqlite.store import Store

ELSEWHERE: Final = "another agent"

_NUMBER_MAX_DIGITS: Final = 18
_FOREVER: Final = 2**62


class Traffic:
    """Answers what moved; it reads in one thread at a time, so that many who look do not slow down who works."""

    def __init__(self, store: Store, clock: Clock, trouble_of: Callable[[str], Trouble | None]) -> None:
        self._rows, self._traced = store.of(TrafficRows), store.of(TracedRows)
        self._inbox = store.inbox
        self._clock = clock
        self._trouble_of = trouble_of
        self._looking = trio.CapacityLimiter(1)

    async def moved(
        self, own: PathScope, at: PathScope, *, last_s: int, until_ms: int | None, before: str, limit: int
    ) -> TrafficPage:
        """Return a page of movements in the `last_s` seconds until a time, None for now.

        Paths that are not in `own` are not named. Raises `InvalidError` CURSOR_INVALID.
        """
        until = self._clock.now_ms() if until_ms is None else until_ms
        since = until - last_s * 1000
        place = _place(before)
        found, following = await self._apart(
            lambda: self._rows.moved(own, at, since_ms=since, until_ms=until, before=place, limit=limit)
        )
        named = (it if not it.source.startswith("/") or own.has(it.source) else _unnamed(it) for it in found)
        following_text = None if following is None else f"{following[0]}.{following[1]}"
        return TrafficPage(since_ms=since, until_ms=until, movements=tuple(named), next=following_text)

    async def search(self, text: str, own: PathScope, limit: int) -> list[FoundTrace]:
        """Return traces that a text names: see `TrafficRows.search`."""
        found: list[FoundTrace] = await self._apart(lambda: self._rows.search(ours(text.strip()), own, limit))
        return found

    async def story(self, wanted: str, own: PathScope) -> TraceStory:
        """Return what happened to a message, by its number or trace id. Raises `NotFoundError` TRACE_UNKNOWN."""
        trace = ours(wanted)
        if wanted.isdecimal() and len(wanted) <= _NUMBER_MAX_DIGITS:
            receipt = await self._inbox.receipt(int(wanted))
            trace = receipt.trace if receipt else trace  # a trace id, too, may happen to be all digits
        rows = await self._apart(lambda: self._traced.of_trace(trace))
        spans = spans_of(rows, own.has)
        if not spans:
            raise NotFoundError(
                "TRACE_UNKNOWN",
                f"tracing {wanted}: no message has this number or trace id, or it has expired",
                hint="daycare traces TEXT",
            )
        troubles = {turn.turn: self._trouble_of(turn.agent_id) for turn in rows.turns if turn.state is None}
        ends = [span.end_ms for span in spans]
        return TraceStory(
            trace=trace,
            started_at=min(span.start_ms for span in spans),
            ended_at=None if None in ends else max(end for end in ends if end is not None),
            now_ms=self._clock.now_ms(),
            input_tokens=sum(span.input_tokens for span in spans),
            output_tokens=sum(span.output_tokens for span in spans),
            cost_micros=sum(span.cost_micros for span in spans),
            spans=tuple(_with_trouble(span, troubles) for span in spans),
            cut=rows.cut,
        )

    async def _apart(self, read: Callable[[], Any]) -> Any:
        return await trio.to_thread.run_sync(read, limiter=self._looking)


def _with_trouble(span: TraceSpan, troubles: dict[int, Trouble | None]) -> TraceSpan:
    """Say of a turn that waits what keeps it from being done."""
    trouble = troubles.get(span.turn or 0) if span.kind == "turn" else None
    return span if trouble is None else replace(span, state="waiting", error=trouble.reason, hint=trouble.hint)


def _unnamed(it: Movement) -> Movement:
    return replace(it, source=ELSEWHERE)


def _place(cursor: str) -> tuple[int, int]:
    if not cursor:
        return _FOREVER, _FOREVER
    match cursor.split("."):
        case [message, reply] if (
            message.isdecimal() and reply.isdecimal() and len(cursor) <= 2 * _NUMBER_MAX_DIGITS + 3
        ):
            return int(message), int(reply)
    raise InvalidError("CURSOR_INVALID", f"reading on from {cursor[:40]}: there is no such place", hint="use `next`")
