"""How fast people may write: a sender's and a connector's pace, by the clock of the platform.

The generic cell rate algorithm (ITU-T I.371): one number for each, the time at which its debt is paid. Time is that of
the message where the platform tells it, so that what piled up while the daemon was away costs nobody their turn.
"""

from collections import OrderedDict

from daycare.base.limits import (
    CONNECTOR_BURST,
    CONNECTOR_PER_MINUTE,
    PACE_MAX_SENDERS,
    PAIR_NOTICE_S,
    SENDER_BURST,
    SENDER_PER_MINUTE,
)


class Pace:
    """Judges messages before they are committed; what it knows is in memory and bounded."""

    def __init__(self) -> None:
        self._paid_at: OrderedDict[str, float] = OrderedDict()
        self._told_at: OrderedDict[str, float] = OrderedDict()

    def admit(self, connector: str, sender: str, at_ms: int) -> bool:
        """Return whether a message may come in, and count it if so."""
        at = at_ms / 1000
        mine = self._next(sender, at, SENDER_PER_MINUTE, SENDER_BURST)
        all_ = self._next(f"{connector}:", at, CONNECTOR_PER_MINUTE, CONNECTOR_BURST)
        if mine is None or all_ is None:
            return False
        self._keep(self._paid_at, sender, mine)
        self._keep(self._paid_at, f"{connector}:", all_)
        return True

    def tell(self, sender: str, now_ms: int) -> bool:
        """Return whether a sender is to be told that something of theirs was not taken: at most once an hour."""
        now = now_ms / 1000
        if now < self._told_at.get(sender, -PAIR_NOTICE_S) + PAIR_NOTICE_S:
            return False
        self._keep(self._told_at, sender, now)
        return True

    def _next(self, who: str, at: float, per_minute: float, burst: int) -> float | None:
        every = 60.0 / per_minute
        paid_at = max(self._paid_at.get(who, 0.0), at - burst * every)
        return None if paid_at > at - every else paid_at + every

    def _keep(self, known: OrderedDict[str, float], who: str, value: float) -> None:
        known[who] = value
        known.move_to_end(who)
        if len(known) > PACE_MAX_SENDERS:
            known.popitem(last=False)
