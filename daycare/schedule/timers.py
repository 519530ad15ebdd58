"""Durable timers: posts what is due, and sleeps until the next is."""

import trio

from daycare.base.clock import Clock, wait_s
from daycare.base.errors import BusyError, UnavailableError
from daycare.base.limits import STORE_RETRY_S, TIMERS_PAGE
from daycare.store.contract import Store

_LOOK_AGAIN_S = 60.0  # the wall clock may be set meanwhile


class TimerService:
    """Fires timers in the order of their due times; a late one fires as soon as the daemon is up again.

    Where the clock was set back, perhaps before this start, deadlines are counted from now.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._changed = trio.Event()
        self._seen_ms = 0  # the wall time of the last look

    def changed(self) -> None:
        """Look again: a timer was added. Called after the commit that added it."""
        self._changed.set()

    async def run(self) -> None:
        """Fire until cancelled."""
        while True:
            self._changed = trio.Event()  # before looking: a timer added after the look sets this one
            try:
                now_ms = self._clock.now_ms()
                if now_ms < self._seen_ms or not self._seen_ms:
                    await self._store.timers.rewind(now_ms)
                self._seen_ms = now_ms
                fired = await self._store.timers.fire(now_ms, TIMERS_PAGE)
                due = await self._store.timers.next_due()
            except (UnavailableError, BusyError):
                await trio.sleep(STORE_RETRY_S)
                continue
            if fired == TIMERS_PAGE:
                continue
            with trio.move_on_after(_LOOK_AGAIN_S if due is None else wait_s(self._clock, due, _LOOK_AGAIN_S)):
                await self._changed.wait()
