"""Deliveries that were refused: counted for people to see, without letting strangers fill the disk."""

from typing import Final

import msgspec
from msgspec.structs import replace

from daycare.base.bounded import Bounded
from daycare.base.clock import Clock
from daycare.base.errors import DaycareError
from daycare.features.hooks.records import InboundHook
from daycare.features.hooks.rows import HOOKS_MAX, HookRows

HOOK_REFUSED_WRITE_S: Final = 60.0  # between two writes of one webhook's count; what is counted since is in memory


class _Counted(msgspec.Struct):
    """Refused deliveries of a webhook: not `written` yet, and since one was taken; `written_s` is when some were."""

    unwritten: int = 0
    failing: int = 0
    at_ms: int = 0
    why: str = ""
    written_s: float = float("-inf")


class HookRefusals:
    """Counts them. The first is written at once, further ones once a minute; how many in a row is in memory only."""

    def __init__(self, rows: HookRows, clock: Clock) -> None:
        self._rows = rows
        self._clock = clock
        self._counted: Bounded[int, _Counted] = Bounded(HOOKS_MAX)

    async def count(self, hook: InboundHook, why: str) -> None:
        """Count one. It raises nothing: who delivers is told why it was refused, whether or not that is counted."""
        it = self._counted.touch(hook.no, _Counted())
        it.unwritten, it.failing, it.at_ms, it.why = it.unwritten + 1, it.failing + 1, self._clock.now_ms(), why
        now_s = self._clock.steady_s()
        if now_s - it.written_s < HOOK_REFUSED_WRITE_S:
            return
        many, it.unwritten, it.written_s = it.unwritten, 0, now_s
        try:
            await self._rows.refused(hook.no, many, it.at_ms, why)
        except DaycareError:  # the disk refuses: it is counted with the next
            it.unwritten += many

    def forgive(self, hook: InboundHook) -> None:
        """Hear that a delivery was taken: those before it were no lasting trouble."""
        if (it := self._counted.get(hook.no)) is not None:
            it.failing = 0

    def with_them(self, hook: InboundHook) -> InboundHook:
        """Return a webhook with those that are not written yet, and how many there were in a row."""
        it = self._counted.get(hook.no)
        if it is None:
            return hook
        return replace(
            hook,
            refused=hook.refused + it.unwritten,
            failing=it.failing,
            refused_at=it.at_ms,
            refused_why=it.why,
        )
