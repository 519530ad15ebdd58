"""How late it surely is, for whoever deletes what is old: a clock that is ahead must not make anything old."""

from collections.abc import Mapping

from daycare.base.clock import CLOCK_OFF_S, CLOCK_SETTLED_S, Clock, ClockWatch
from daycare.base.health import Finding
from daycare.observe import log


class Horizon:
    """The time that has surely come: the newest commit of the run before, and the time that passed since this start.

    `newest_ms` is that commit's wall time, 0 if there is none. Where it lies a day or more after the time that had
    surely come at the last look, which `state` keeps over starts, it may bear the time of a clock that is ahead: it is
    believed once the daemon has run for `CLOCK_SETTLED_S`, in however many runs.

    Nothing is to be deleted while the wall clock was set by over `CLOCK_OFF_S` since the start, or since it was last
    found in order: whether it is right before or after that, nobody knows. Once it has stayed so for `CLOCK_SETTLED_S`
    it counts as right.
    """

    def __init__(self, clock: Clock, newest_ms: int) -> None:
        self._clock = clock
        self._begin_ms = newest_ms or clock.now_ms()
        self._begin_s = clock.steady_s()
        self._doubted_ms = 0  # by how much the newest commit is later than was sure
        self._settled_s = 0.0  # for how long the runs before have seen it so
        self._carried = False
        self._watch = ClockWatch(clock)
        self._set: ClockWatch | None = None  # since it was seen to be set
        self._set_s = 0.0  # when that was, by the clock that nobody sets
        self._logged = False

    def now_ms(self) -> int:
        """Return the latest wall time that has surely come."""
        return min(self._clock.now_ms(), self._begin_ms + round((self._clock.steady_s() - self._begin_s) * 1000))

    def carry(self, state: object) -> None:
        """Take up what the run before has left in `state`; only the first call of a run counts."""
        if self._carried or not isinstance(state, Mapping):
            return
        self._carried = True
        self._doubted_ms = max(0, self._begin_ms - int(state["sure_ms"]))
        if self._doubted_ms >= CLOCK_SETTLED_S * 1000:
            self._begin_ms -= self._doubted_ms
            self._settled_s = float(state["settled_s"])
        else:
            self._doubted_ms = 0

    def state(self) -> dict[str, float]:
        """Return what is to be kept for the next run; the newest commit may count as right from now on."""
        self._carried = True
        settled_s = (
            self._settled_s + self._clock.steady_s() - self._begin_s
            if self._doubted_ms and not self._watch.is_off
            else 0.0
        )
        if settled_s >= CLOCK_SETTLED_S:
            self._begin_ms += self._doubted_ms
            self._doubted_ms, settled_s = 0, 0.0
        return {"sure_ms": self.now_ms(), "settled_s": settled_s}

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
            f"the machine's clock was set {'forward' if off_s > 0 else 'back'} by {_span(abs(off_s))}: nothing old is"
            f" deleted until that is undone, or has lasted for {CLOCK_SETTLED_S / 3600:.0f} hours"
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


def _span(seconds: float) -> str:
    return f"{seconds / 86_400:.0f} days" if seconds >= 2 * 86_400 else f"{seconds / 3600:.0f} hours"
