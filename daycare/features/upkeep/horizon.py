"""How late it surely is, for whoever deletes what is old: a clock that is ahead must not make anything old."""

from collections.abc import Mapping
from typing import Final

from daycare.base.clock import CLOCK_OFF_S, CLOCK_SETTLED_S, Clock, ClockWatch
from daycare.base.durations import about
from daycare.base.health import Finding
from daycare.observe import log

_DOUBTED_MS: Final = CLOCK_SETTLED_S * 1000  # further ahead of what was sure than a start takes for right


class Horizon:
    """The time that has surely come: the newest commit of the run before, and the time that passed since this start.

    `newest_ms` is that commit's wall time, 0 if there is none. It may bear the time of a clock that is ahead. So it is
    believed where it lies less than a day after the time that had surely come at the last look, which `state` keeps
    over starts, or once the daemon has run for `CLOCK_SETTLED_S` with it, in however many runs that go on from where
    the one before stood. A home with a past that no look has noted has nothing that is sure until then, but that time
    passes.

    Nothing is to be deleted while the wall clock was set by over `CLOCK_OFF_S` since the start, or since it was last
    found in order: whether it is right before or after that, nobody knows. Once it has stayed so for `CLOCK_SETTLED_S`
    it counts as right.
    """

    def __init__(self, clock: Clock, newest_ms: int) -> None:
        self._clock = clock
        self._begin_s = clock.steady_s()
        self._newest_ms = newest_ms or clock.now_ms()
        self._sure_ms = 0 if newest_ms else self._newest_ms  # the time that had surely come at the start
        self._settled_s = 0.0  # for how long the runs before have gone on from where the newest commit stands
        self._carried = False
        self._watch = ClockWatch(clock)
        self._set: ClockWatch | None = None  # since it was seen to be set
        self._set_s = 0.0  # when that was, by the clock that nobody sets
        self._logged = False

    def now_ms(self) -> int:
        """Return the latest wall time that has surely come."""
        if self._stood_s() >= CLOCK_SETTLED_S:
            self._sure_ms = self._newest_ms
        return min(self._clock.now_ms(), self._sure_ms + self._passed_ms())

    def carry(self, state: object) -> None:
        """Take up what the run before has left in `state`, if anything; only the first call of a run counts."""
        if self._carried:
            return
        self._carried = True
        if not isinstance(state, Mapping):
            return
        sure_ms = int(state["sure_ms"])
        if self._newest_ms - sure_ms < _DOUBTED_MS:
            self._sure_ms = self._newest_ms
            return
        self._sure_ms = sure_ms
        if abs(self._newest_ms - int(state.get("stood_ms", sure_ms))) < _DOUBTED_MS:
            self._settled_s = float(state["settled_s"])

    def state(self) -> dict[str, float]:
        """Return what is to be kept for the next run."""
        return {
            "sure_ms": self.now_ms(),
            "stood_ms": self._newest_ms + self._passed_ms(),
            "settled_s": self._stood_s() if self._sure_ms < self._newest_ms else 0.0,
        }

    def _passed_ms(self) -> int:
        return round((self._clock.steady_s() - self._begin_s) * 1000)

    def _stood_s(self) -> float:
        """Return for how long the clock has gone on from the newest commit: not at all while it is set."""
        return 0.0 if self._watch.is_off else self._settled_s + self._passed_ms() / 1000

    def problem(self) -> str:
        """Return why nothing is to be deleted now, in words; empty if something may be."""
        if not self._watch.is_off:
            self._set = None
            self._logged = False
            self._watch.begin()  # from here on, so that slow corrections do not add up
            return ""
        now_s = self._clock.steady_s()
        if self._set is None or self._set.is_off:
            self._set, self._set_s = ClockWatch(self._clock), now_s
        if now_s - self._set_s >= CLOCK_SETTLED_S:
            self._watch.begin()
            return self.problem()
        off_s = self._watch.off_s
        words = (
            f"the machine's clock was set {'forward' if off_s > 0 else 'back'} by {about(abs(off_s))}: nothing old is"
            f" deleted until that is undone, or has lasted for {about(CLOCK_SETTLED_S)}"
        )
        if not self._logged:
            self._logged = True
            log.logger().warning("clock.set", by_s=round(off_s), reason=words)
        return words

    def finding(self) -> Finding:
        """Return how the clock is, for who watches."""
        words = self.problem()
        fine = f"nobody has set it by over {CLOCK_OFF_S / 3600:.0f} hour lately"
        return Finding(name="clock", ok=not words, text=words or fine, watched=True)
