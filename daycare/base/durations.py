"""Lengths of time as people read them."""

from typing import Final

_UNITS: Final = (("d", "day", 86_400), ("h", "hour", 3_600), ("min", "minute", 60), ("s", "second", 1))
_NEARLY: Final = 0.02  # of a unit: what was given seven days a moment ago still has "7 days"


def duration(seconds: float) -> str:
    """Return a length of time in its two largest units: `3 d 4 h`, `12 s`."""
    left = max(int(seconds), 0)
    parts: list[str] = []
    for unit, _, length in _UNITS:
        if left >= length and len(parts) < 2:
            parts.append(f"{left // length} {unit}")
            left %= length
    return " ".join(parts) or "0 s"


def about(seconds: float) -> str:
    """Return a length of time for a sentence, rounded down in the largest unit of which there are two: `40 days`."""
    count = 0
    for _, unit, length in _UNITS:
        count = int(max(seconds, 0.0) / length + _NEARLY)
        if count > 1:
            return f"{count} {unit}s"
    return "1 second" if count else "0 seconds"
