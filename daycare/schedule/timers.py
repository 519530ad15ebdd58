"""Durable timers: posts what is due, and sleeps until the next is."""

import trio

from daycare.base.clock import Clock
from daycare.base.errors import BusyError, UnavailableError
from daycare.base.limits import STORE_RETRY_S, TIMERS_PAGE
from daycare.store.contract import Store

_LOOK_AGAIN_S = 60.0  # the wall clock may be set meanwhile


class TimerService:
    """Fires timers in the order of their due times; a late one fires as soon as the daemon is up again."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._changed = trio.Event()

    def changed(self) -> None:
        """Look again: a timer was added. Called after the commit that added it."""
        self._changed.set()

    async def run(self) -> None:
        """Fire until cancelled."""
        while True:
            self._changed = trio.Event()  # before looking: a timer added after the look sets this one
            try:
                fired = await self._store.timers.fire(self._clock.now_ms(), TIMERS_PAGE)
                due = await self._store.timers.next_due()
            except (UnavailableError, BusyError):
                await trio.sleep(STORE_RETRY_S)
                continue
            if fired == TIMERS_PAGE:
                continue
            wait_s = _LOOK_AGAIN_S if due is None else max(0.0, (due - self._clock.now_ms()) / 1000)
            with trio.move_on_after(min(wait_s, _LOOK_AGAIN_S)):
                await self._changed.wait()
