"""A wall clock that follows trio's clock: under `trio.testing.MockClock` days pass in milliseconds."""

import time
from collections.abc import Callable
from typing import Final

import trio
import trio.testing

_LOOK_S: Final = 0.0002  # of real time: how often it is looked whether a thread still works
_PATIENCE_S: Final = 60.0  # of real time: a thread that works longer hangs, and deadlines are to show it
EPOCH_MS: Final = 1_798_761_600_000  # 2027-01-01T00:00:00Z, a Friday


class VirtualClock:
    """A `daycare.base.clock.Clock` that stood at `epoch_ms` when it was created and runs with trio's clock.

    Create it inside of trio. Reading it works from any thread, and nothing but trio's clock, `shift` and `sleep` moves
    it: two runs of a test with `MockClock` see the same times.
    """

    def __init__(self, epoch_ms: int = EPOCH_MS) -> None:
        self._epoch_ms = epoch_ms
        self._clock = trio.lowlevel.current_clock()
        self._start_s = self._clock.current_time()
        self._ahead_ms = 0
        self._slept_s = 0.0

    def shift(self, seconds: float) -> None:
        """Set it forward, or back; the steady clock does not notice, and nothing wakes."""
        self._ahead_ms += round(seconds * 1000)

    def sleep(self, seconds: float) -> None:
        """Let the machine sleep: time passes on both clocks, and trio's, which waits go by, stands still."""
        self.shift(seconds)
        self._slept_s += seconds

    def steady_s(self) -> float:
        """Return the seconds that have passed."""
        return self._clock.current_time() + self._slept_s

    def now_ms(self) -> int:
        """Return the wall time; rounded, so that a sleep of whole milliseconds never ends a millisecond early."""
        return self._epoch_ms + self._ahead_ms + round((self._clock.current_time() - self._start_s) * 1000)


# Each says whether something works in real time: threads, or what else there is in a test, such as a server.
AT_WORK: Final[list[Callable[[], bool]]] = [lambda: trio.testing.active_thread_count() > 0]


def patient_clock() -> trio.testing.MockClock:
    """Return virtual time that does not pass while something is `AT_WORK`, however slow the machine is.

    Where that takes a minute it passes all the same, so that whoever waits for it comes to a deadline; from then on it
    waits no more for what hangs.
    """
    clock = trio.testing.MockClock(autojump_threshold=0)
    jump = clock._autojump
    idle_s = time.monotonic()
    hangs = False

    def jump_when_all_wait() -> None:
        nonlocal hangs, idle_s
        at_work = any(works() for works in AT_WORK)
        if at_work and not hangs and time.monotonic() - idle_s < _PATIENCE_S:
            time.sleep(_LOOK_S)
        else:
            hangs = at_work
            jump()
            idle_s = time.monotonic()

    clock._autojump = jump_when_all_wait  # type: ignore[method-assign]
    return clock
