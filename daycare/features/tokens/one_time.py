"""What is good once and for a moment: the codes of links that log a browser in, and tickets. Kept in memory only."""

import hashlib
import secrets
from typing import Final, Generic, TypeVar

from daycare.base.bounded import Bounded
from daycare.base.clock import Clock

V = TypeVar("V")

_BYTES: Final = 32


class OneTime(Generic[V]):
    """Random texts that stand for values: at most `most`, the oldest make room. It goes by steady time."""

    def __init__(self, clock: Clock, seconds: float, most: int) -> None:
        self._clock = clock
        self._seconds = seconds
        self._waiting: Bounded[bytes, tuple[V, float]] = Bounded(most)  # by the text's hash; until when

    def make(self, value: V) -> str:
        """Return a text for a value."""
        text = secrets.token_urlsafe(_BYTES)
        self._waiting[_hash(text)] = value, self._clock.steady_s() + self._seconds
        return text

    def take(self, text: str) -> V | None:
        """Return what a text stands for, and forget it; None if it was used, is late, or stands for nothing."""
        value, until = self._waiting.pop(_hash(text), (None, 0.0))
        return value if self._clock.steady_s() < until else None

    def forget(self) -> None:
        """Let no text stand for anything."""
        self._waiting.clear()

    @property
    def some(self) -> bool:
        """Whether a text may still be used."""
        now = self._clock.steady_s()
        return any(now < until for _, until in self._waiting.values())


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
