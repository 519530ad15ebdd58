"""Wall-clock time, handed in, so that days pass in milliseconds of test.

Waiting is trio's, whose clock tests replace.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """Tells the wall time in whole milliseconds since the Unix epoch, UTC."""

    def now_ms(self) -> int:
        """Return the wall time now; it may step backwards when the machine's clock is set."""
        ...


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Return the machine's wall time."""
        return time.time_ns() // 1_000_000
