"""A worker: the loop that looks for what is to be done, does it, and waits until there is more."""

from collections.abc import Awaitable, Callable
from typing import Final

import trio

from daycare.base.errors import BusyError, UnavailableError
from daycare.base.limits import STORE_RETRY_S

IDLE_S: Final = 3_600.0  # the longest wait: what nobody has told of is noticed within the hour


class Worker:
    """Calls `look` until cancelled: it does what is due and returns how many seconds may pass before the next look.

    A wake ends that wait, also one that comes while it looks; those within `gather_s` of the first are one. While the
    store refuses, nothing is lost: what is due is still there for the next look, in `STORE_RETRY_S`.
    """

    def __init__(self, look: Callable[[], Awaitable[float]], gather_s: float = 0.0) -> None:
        self._look = look
        self._gather_s = gather_s
        self._woken = trio.Event()

    def wake(self) -> None:
        """Look again: something was committed that there may be work in."""
        self._woken.set()

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            self._woken = trio.Event()  # before looking, so that no wake is lost
            try:
                wait_s = await self._look()
            except (UnavailableError, BusyError):
                await trio.sleep(STORE_RETRY_S)
                continue
            with trio.move_on_after(min(wait_s, IDLE_S)):
                await self._woken.wait()
                await trio.sleep(self._gather_s)
