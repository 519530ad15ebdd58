"""The breaker: stops asking a provider that is away, and finds out with single calls when it is back.

closed --failures in a row--> open --pause over--> one probe --an answer--> closed
                               ^------- it failed: twice the pause ------'
"""

from collections.abc import Callable
from typing import Final

import trio

from daycare.base.errors import DaycareError
from daycare.base.limits import BREAKER_PAUSE_S

BREAKER_FAILURES: Final = 3  # in a row before a provider counts as away: one call's tries
BREAKER_PAUSE_MAX_S: Final = 300.0  # the longest: a provider is back at most so long before it is noticed
BREAKER_PROBING_S: Final = 5.0  # when to ask again while somebody else's probe is on its way


class Breaker:
    """What is known of one provider's health. `told` hears of each outage once, and of its end (None) once."""

    def __init__(self, told: Callable[[DaycareError | None], None]) -> None:
        self._told = told
        self._failures = 0
        self._pause_s = 0.0
        self._probe_at = 0.0
        self._probe: Permit | None = None
        self.error: DaycareError | None = None  # why it is away; None while it is not

    @property
    def away(self) -> bool:
        """Whether only probes are let through."""
        return self.error is not None

    @property
    def retry_after_s(self) -> float:
        """In how many seconds asking again may help; 0 if it may now."""
        if not self.away:
            return 0.0
        left = max(self._probe_at - trio.current_time(), 0.0)
        return max(left, BREAKER_PROBING_S) if self._probe is not None else left

    def permit(self) -> "Permit | None":
        """Return the permission to make one call, None while the provider is away. The caller releases it."""
        if not self.away:
            return Permit(self)
        if self.retry_after_s > 0:
            return None
        self._probe = Permit(self)
        return self._probe

    def answered(self) -> None:
        """The provider said something: it is there."""
        self._failures = 0
        self._probe = None
        if self.away:
            self.error = None
            self._told(None)

    def failed(self, permit: "Permit", error: DaycareError) -> None:
        """A call failed in a way that others would, too."""
        if self.away:
            if permit is self._probe:
                self._pause(min(self._pause_s * 2, BREAKER_PAUSE_MAX_S), error)
            return  # else it began before the outage was known
        self._failures += 1
        if self._failures >= BREAKER_FAILURES:
            self._pause(BREAKER_PAUSE_S, error)
            self._told(error)

    def released(self, permit: "Permit") -> None:
        """A call ended, perhaps without telling anything of the provider."""
        if permit is self._probe:
            self._probe = None

    def _pause(self, pause_s: float, error: DaycareError) -> None:
        self.error = error
        self._pause_s = pause_s
        wait_s = min(max(pause_s, error.retry_after_s or 0.0), BREAKER_PAUSE_MAX_S)
        self._probe_at = trio.current_time() + wait_s


class Permit:
    """The permission to make one call; a `with` block releases it, whatever becomes of the call."""

    def __init__(self, breaker: Breaker) -> None:
        self._breaker = breaker

    def answered(self) -> None:
        """The first word came."""
        self._breaker.answered()

    def failed(self, error: DaycareError) -> None:
        """No word came, because of `error`."""
        self._breaker.failed(self, error)

    def __enter__(self) -> "Permit":
        return self

    def __exit__(self, *_: object) -> None:
        self._breaker.released(self)
