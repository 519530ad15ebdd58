"""Time, handed in, so that days pass in milliseconds of test: the wall clock, and the clock that nobody can set.

What is due at a time of the calendar, such as a reminder, is stored and obeyed as wall time. How long something is
waited for is stored as wall time, too, since it has to survive a restart, but obeyed for at most as long as such a wait
may take (`wait_s`): the wall clock may have been ahead when the time was stored, or be set back since. A clock that is
set forward looks like a machine that was off meanwhile: what is due by then is due. Waiting itself is trio's.
"""

import time
from typing import Final, Protocol

from daycare.base.bounded import Bounded

CLOCK_OFF_S: Final = 3_600.0  # that the wall clock was set by: time servers correct it by seconds, after a start
CLOCK_SETTLED_S: Final = 86_400.0  # after which a clock that was set counts as right: a wrong one is noticed in a day
_TIMED_MAX: Final = 4_096  # things whose beginning is remembered, under 1 MB


class Clock(Protocol):
    """Tells the wall time in whole milliseconds since the Unix epoch, UTC, and how much time passes."""

    def now_ms(self) -> int:
        """Return the wall time now; it may step backwards when the machine's clock is set."""
        ...

    def steady_s(self) -> float:
        """Return seconds since some moment; they pass while the machine sleeps, too, and nobody can set them."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        """Return the machine's wall time."""
        return time.time_ns() // 1_000_000

    def steady_s(self) -> float:
        """Return the seconds since the machine was started."""
        return time.clock_gettime(_BOOTTIME) if _BOOTTIME is not None else time.monotonic()


_BOOTTIME: Final[int | None] = getattr(time, "CLOCK_BOOTTIME", None)  # on Linux; elsewhere sleep may look like a step


def wait_s(clock: Clock, until_ms: int, at_most_s: float) -> float:
    """Return how many seconds to wait until a stored wall time: none if it has passed, and never over `at_most_s`.

    Ask once and wait for that long; to ask again in between is to wait again for what the clock was set back by.
    """
    return min(max(0.0, (until_ms - clock.now_ms()) / 1000), at_most_s)


def is_within(at_ms: int, now_ms: int, span_s: float) -> bool:
    """Return whether something was at most so long ago, and not later than now, where a clock that was ahead saw it."""
    return 0 <= now_ms - at_ms < span_s * 1000


class ClockWatch:
    """Sees that the wall clock was set: it has gone further, or less far, than time has passed since `begin`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.begin()

    def begin(self) -> None:
        """Take the wall clock as it is for the right one."""
        self._wall_ms, self._steady_s = self._clock.now_ms(), self._clock.steady_s()

    @property
    def off_s(self) -> float:
        """How far the wall clock was set since: forward, or back if negative."""
        return (self._clock.now_ms() - self._wall_ms) / 1000 - (self._clock.steady_s() - self._steady_s)

    @property
    def is_off(self) -> bool:
        """Whether that is more than clocks are corrected by in passing."""
        return abs(self.off_s) > CLOCK_OFF_S


class TimeLimit:
    """Whether things have gone on for longer than `at_most_s`.

    By the wall clock, which knows of the time before this start, unless it was set since; and by the time that has
    passed here since each was first asked about, so that no wrong date makes anything go on for longer.
    """

    def __init__(self, clock: Clock, at_most_s: float) -> None:
        self._clock = clock
        self._at_most_s = at_most_s
        self._watch = ClockWatch(clock)
        self._first: Bounded[int, float] = Bounded(_TIMED_MAX)

    def is_over(self, number: int, began_ms: int) -> bool:
        """Return whether the thing with this number, which began at a wall time, has gone on for too long."""
        now = self._clock.steady_s()
        if now - self._first.touch(number, now) >= self._at_most_s:
            return True
        return not self._watch.is_off and self._clock.now_ms() - began_ms >= self._at_most_s * 1000
