"""How often somebody may call over the network, how much at the same time, and how often with a wrong token."""

import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Final

from daycare.base.bounded import Bounded
from daycare.base.errors import BusyError, DaycareError

API_WRONG_TOKENS_MAX: Final = 10  # of an address within API_WRONG_S; then wrong ones are not looked at any more
API_WRONG_S: Final = 60.0
API_CALLS_BURST: Final = 200  # of a token at once ...
API_CALLS_PER_S: Final = 50.0  # ... and for long
API_CALLS_OPEN_MAX: Final = 128  # of a token, streams included: half of all connections
_ADDRESSES_MAX: Final = 10_000
_CALLERS_MAX: Final = 10_000


class Rates:
    """Counts calls by who calls: by the name of a token, or of somebody at an address."""

    def __init__(self) -> None:
        self._wrong: Bounded[str, tuple[int, float]] = Bounded(_ADDRESSES_MAX)  # how many, and when the first
        self._calls: Bounded[str, tuple[float, float]] = Bounded(_CALLERS_MAX)  # how many are left, and when it was
        self._open: Counter[str] = Counter()

    def take(self, who: str) -> Callable[[], None]:
        """Take one call of those that somebody has, which come back with time; return what ends it.

        Raises `BusyError` API_CALLS.
        """
        now = time.monotonic()
        left, at = self._calls.get(who, (float(API_CALLS_BURST), now))
        left = min(float(API_CALLS_BURST), left + (now - at) * API_CALLS_PER_S)
        if left < 1:
            raise BusyError(
                "API_CALLS", "call the API: too many calls with this token", retry_after_s=1 / API_CALLS_PER_S
            )
        if self._open[who] >= API_CALLS_OPEN_MAX:
            raise BusyError("API_CALLS", "call the API: too many calls are open with this token", retry_after_s=1.0)
        self._calls[who] = (left - 1, now)
        self._open[who] += 1
        return partial(self._end, who)

    def _end(self, who: str) -> None:
        self._open[who] -= 1
        if not self._open[who]:
            del self._open[who]

    def wrong(self, address: str, error: DaycareError) -> DaycareError:
        """Count a wrong token of an address and return what to say: `error`, or, if there were too many, to wait.

        Others at the same address, such as a proxy's, pay for nothing.
        """
        now = time.monotonic()
        wrong, since = self._wrong.get(address, (0, now))
        left_s = since + API_WRONG_S - now
        if left_s <= 0:
            wrong, since = 0, now
        if wrong >= API_WRONG_TOKENS_MAX:
            return BusyError(
                "TOKENS_WRONG", "call the API: too many wrong tokens came from this address", retry_after_s=left_s
            )
        self._wrong[address] = (wrong + 1, since)
        return error
