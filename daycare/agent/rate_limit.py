"""How fast people may write: a rate limit for each sender and each connector, by the clock of the platform.

The generic cell rate algorithm (ITU-T I.371): one number for each, the time at which its debt is paid. Time is that of
the message where the platform tells it, so that what piled up while the daemon was away costs nobody their turn.
"""

from typing import Final

from daycare.base.bounded import Bounded
from daycare.base.clock import is_within
from daycare.base.limits import PAIR_NOTICE_S, SENDER_BURST

SENDER_PER_MINUTE: Final = 60.0  # past the burst; by the platform's clock, so that an outage of ours costs nobody
CONNECTOR_BURST: Final = 20_000  # of all senders of one connector
CONNECTOR_PER_MINUTE: Final = 3_000.0
RATE_LIMIT_MAX_SENDERS: Final = 4_096  # whose pace is remembered

_NEVER = (float("-inf"), float("-inf"))


class SenderRateLimit:
    """Judges messages before they are committed; what it knows is in memory and bounded."""

    def __init__(self) -> None:
        # when the debt is paid, and when the last message came
        self._pace: Bounded[str, tuple[float, float]] = Bounded(RATE_LIMIT_MAX_SENDERS)
        self._told_at: Bounded[str, int] = Bounded(RATE_LIMIT_MAX_SENDERS)

    def admit(self, connector: str, sender: str, at_ms: int, now_ms: int | None = None) -> bool:
        """Return whether a message may come in, and count it if so. `now_ms` is our clock, which may be set back."""
        at = at_ms / 1000
        now = float("inf") if now_ms is None else now_ms / 1000
        mine = self._next(sender, at, now, SENDER_PER_MINUTE, SENDER_BURST)
        all_ = self._next(f"{connector}:", at, now, CONNECTOR_PER_MINUTE, CONNECTOR_BURST)
        if mine is None or all_ is None:
            return False
        self._pace[sender] = mine
        self._pace[f"{connector}:"] = all_
        return True

    def forgive(self, connector: str, sender: str) -> None:
        """Take one message back that was counted: it had come before, or nothing of it was committed."""
        for who, per_minute in ((sender, SENDER_PER_MINUTE), (f"{connector}:", CONNECTOR_PER_MINUTE)):
            if who in self._pace:
                paid_at, last_at = self._pace[who]
                self._pace[who] = paid_at - 60.0 / per_minute, last_at

    def tell(self, sender: str, now_ms: int) -> bool:
        """Return whether a sender is to be told that something of theirs was not taken: at most once an hour."""
        told_ms = self._told_at.get(sender)
        if told_ms is not None and is_within(told_ms, now_ms, PAIR_NOTICE_S):
            return False
        self._told_at[sender] = now_ms
        return True

    def _next(self, who: str, at: float, now: float, per_minute: float, burst: int) -> tuple[float, float] | None:
        every = 60.0 / per_minute
        paid_at, last_at = self._pace.get(who, _NEVER)
        if last_at > (latest := max(now, at)):  # by a clock that was ahead: the debt of then is paid off from now on
            paid_at, last_at = self._pace[who] = latest, latest
        at = max(at, last_at)  # what bears an older time, such as an edit, is not late in paying
        paid_at = max(paid_at, at - burst * every)
        return None if paid_at > at - every else (paid_at + every, at)
