"""Durable timers: posts what is due, and sleeps until the next is."""

from typing import Final

from daycare.base.clock import Clock, wait_s
from daycare.store.records import Commit
from daycare.store.sqlite.store import Store
from daycare.store.worker import Worker

TIMERS_PAGE: Final = 256  # timers fired in one transaction

_LOOK_AGAIN_S = 60.0  # the wall clock may be set meanwhile


class TimerService:
    """Fires timers in the order of their due times; a late one fires as soon as the daemon is up again.

    Where the clock was set back, perhaps before this start, deadlines are counted from now.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self.worker = Worker(self._look)
        self._seen_ms = 0  # the wall time of the last look

    def committed(self, commit: Commit) -> None:
        """Look again if a commit added a timer."""
        if commit.timers:
            self.worker.wake()

    async def _look(self) -> float:
        now_ms = self._clock.now_ms()
        if now_ms < self._seen_ms or not self._seen_ms:
            await self._store.timers.rewind(now_ms)
        self._seen_ms = now_ms
        fired = await self._store.timers.fire(now_ms, TIMERS_PAGE)
        due = await self._store.timers.next_due()
        if fired == TIMERS_PAGE:
            return 0.0
        return _LOOK_AGAIN_S if due is None else wait_s(self._clock, due, _LOOK_AGAIN_S)
