"""How soon the next message may go, to one person and to all together, and cool-downs after a refusal.

Each bucket is a generic cell rate algorithm: it keeps only when the next message is due, and a burst may come earlier.
The numbers are Meta's: one message to one person each 6 s, of which up to 45 may be borrowed from the time to come, and
80 a second overall. Ours are below them, so that a refusal is the exception.
"""

import math
from collections.abc import Callable
from typing import Final

import trio

PAIR_INTERVAL_S: Final = 6.0
PAIR_BURST: Final = 30
ALL_INTERVAL_S: Final = 1 / 40
ALL_BURST: Final = 10
PEOPLE_MAX: Final = 10_000  # remembered; those without a debt are forgotten first
AGAIN_FACTOR: Final = 4.0  # each refusal of the same person in a row waits longer, as Meta asks for
AGAIN_MAX_S: Final = 600.0


class CloudRateLimit:
    """Says when messages may go. Times are trio's."""

    def __init__(self, now: Callable[[], float] = trio.current_time) -> None:
        self._now = now
        self._due: dict[str, float] = {}
        self._due_all = -math.inf
        self._frozen: dict[str, float] = {}
        self._frozen_all = -math.inf
        self._refused: dict[str, int] = {}  # how often in a row

    def delay_s(self, who: str) -> float:
        """Return the seconds that a message to somebody has to wait now; 0: it may go."""
        own = self._due.get(who, -math.inf) - (PAIR_BURST - 1) * PAIR_INTERVAL_S
        everybody = self._due_all - (ALL_BURST - 1) * ALL_INTERVAL_S
        ready = max(own, everybody, self._frozen.get(who, -math.inf), self._frozen_all)
        return max(ready - self._now(), 0.0)

    def take(self, who: str) -> None:
        """Book a message that goes now."""
        now = self._now()
        self._due[who] = max(now, self._due.get(who, now)) + PAIR_INTERVAL_S
        self._due_all = max(now, self._due_all) + ALL_INTERVAL_S
        if len(self._due) > PEOPLE_MAX:
            owing = {each: due for each, due in self._due.items() if due > now}
            latest = sorted(owing, key=owing.__getitem__)[-PEOPLE_MAX // 2 :]
            self._due = {each: owing[each] for each in latest}

    def refused(self, who: str, wait_s: float, *, pair: bool) -> float:
        """Let nothing go for a while, to one person or to all; return how long."""
        now = self._now()
        if not pair:
            self._frozen_all = max(self._frozen_all, now + wait_s)
            return wait_s
        if len(self._frozen) > PEOPLE_MAX:
            self._frozen = {each: until for each, until in self._frozen.items() if until > now}
            self._refused = {each: times for each, times in self._refused.items() if each in self._frozen}
        times = self._refused[who] = self._refused.get(who, 0) + 1
        wait_s = min(wait_s * AGAIN_FACTOR ** (times - 1), AGAIN_MAX_S)
        self._frozen[who] = now + wait_s
        return wait_s

    def went(self, who: str) -> None:
        """Somebody's message was taken."""
        self._refused.pop(who, None)
