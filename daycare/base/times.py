"""Wall times as people read them: milliseconds since the epoch that came from anywhere, on a calendar that has an end.

What comes in is checked with `is_time`, `is_moment`; what is read from the store is shown with `local_time`, which
never raises: a row that is wrong already costs nobody an answer.
"""

from datetime import UTC, datetime, tzinfo
from typing import Final

# A year within what `datetime` holds, so that no zone and no "a month later" leaves it.
EARLIEST_MS: Final = -62_104_060_800_000  # the year 2
LATEST_MS: Final = 253_370_764_800_000  # the year 9999


def is_time(at_ms: int) -> bool:
    """Whether a calendar holds a time, also one before 1970, such as that since when a fact holds."""
    return EARLIEST_MS <= at_ms <= LATEST_MS


def is_moment(at_ms: int) -> bool:
    """Whether something can have happened, or be due, at a time."""
    return 0 <= at_ms <= LATEST_MS


def moment(at_ms: int) -> int:
    """Return when something can have happened, or be due: the time itself, or the end of the calendar next to it."""
    return min(max(at_ms, 0), LATEST_MS)


def nearest(at_ms: int) -> int:
    """Return a time that a calendar holds: the time itself, or the end of the calendar that is next to it."""
    return min(max(at_ms, EARLIEST_MS), LATEST_MS)


def local_time(at_ms: int, zone: tzinfo | None = UTC) -> datetime:
    """Return a wall time as the people of `zone` read it (None: those of this machine), the `nearest` if it is none."""
    seconds = nearest(at_ms) / 1000
    return datetime.fromtimestamp(seconds, UTC).astimezone() if zone is None else datetime.fromtimestamp(seconds, zone)


def when(at_ms: int | None) -> str:
    """Return a wall time in the terminal's zone, to the second."""
    return "" if at_ms is None else local_time(at_ms, None).strftime("%Y-%m-%d %H:%M:%S")
