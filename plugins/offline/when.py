"""Times as people write them: "in ten minutes", "at 18:30", "tomorrow at 9". English; the zone is handed in."""

import re
from datetime import UTC, datetime, time, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

_WORDS: Final = (
    "a an one two three four five six seven eight nine ten eleven twelve fifteen twenty thirty forty-five ninety"
)
_VALUES: Final = dict(zip(_WORDS.split(), (1, 1, *range(1, 13), 15, 20, 30, 45, 90), strict=True))
_UNITS_S: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
# No letter follows a unit, but digits may: "1h30m".
_UNIT: Final = r"(?:s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|w|weeks?)(?![^\W\d_])"
_NUMBER: Final = rf"(?:\d{{1,9}}(?:\.\d{{1,3}})?|half an?\b|(?:{'|'.join(sorted(_VALUES, key=len, reverse=True))})\b)"
_AMOUNT: Final = rf"{_NUMBER}\s*{_UNIT}"
CLOCK: Final = r"(?:\d{1,2}(?:[:.h]\d{2})?(?:\s?[ap]\.?m\b\.?)?|noon|midnight)"
DAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_DAY: Final = rf"(?:today|tomorrow|(?:(?:on|next)\s+)?(?:{'|'.join(DAYS)}))"

WHEN: Final = (
    rf"(?:in\s+{_AMOUNT}(?:(?:\s*,\s*|\s+and\s+|\s*){_AMOUNT}){{0,3}}"
    rf"|{_DAY}(?:\s+at\s+{CLOCK})?|at\s+{CLOCK}(?:\s+{_DAY})?)"
)
"""What `due` understands, as a regular expression without groups, for `re.IGNORECASE`."""

LATEST: Final = timedelta(days=3_660)  # ten years: further is a slip of the keyboard
_MORNING: Final = time(9)  # "tomorrow" without a time


def zone_of(name: str) -> tzinfo:
    """Return the IANA zone, UTC if there is none of that name."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return UTC


def due(when: str, now: datetime) -> datetime | None:
    """Return when `when` is, seen from the local time `now`; None if it is no time, is past, or after `LATEST`.

    A clock time alone is its next occurrence. A time that summer time skips is moved as the zone's rules say.
    """
    words = when.casefold().strip()
    at = _after(words, now) if words.startswith("in ") else _on(words, now)
    # Differences between local times ignore changes of the zone's offset, those between UTC times do not.
    if at is None or not timedelta(0) < at.astimezone(UTC) - now.astimezone(UTC) <= LATEST:
        return None
    return at


def _after(words: str, now: datetime) -> datetime | None:
    seconds = 0.0
    for number, unit in re.findall(rf"({_NUMBER})\s*({_UNIT})", words):
        if number.startswith("half"):
            value = 0.5
        else:
            value = _VALUES[number] if number in _VALUES else float(number)
        seconds += value * _UNITS_S[unit[0]]
    if not 0 < seconds <= LATEST.total_seconds():
        return None
    return (now.astimezone(UTC) + timedelta(seconds=seconds)).astimezone(now.tzinfo)


def _on(words: str, now: datetime) -> datetime | None:
    clock_words = re.search(rf"\bat\s+({CLOCK})", words)
    shown = clock(clock_words[1]) if clock_words else _MORNING
    if shown is None:
        return None
    day = next((name for name in ("today", "tomorrow", *DAYS) if name in words), None)
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    at = midnight.replace(hour=shown.hour, minute=shown.minute)
    if day == "tomorrow":
        return at + timedelta(days=1)
    if day in DAYS:
        return at + timedelta(days=(DAYS.index(day) - now.weekday()) % 7 or 7)
    return at if day or at > now else at + timedelta(days=1)


def clock(words: str) -> time | None:
    """Return the time that a clock shows, None if none does."""
    if words in ("noon", "midnight"):
        return time(12 if words == "noon" else 0)
    found = re.fullmatch(r"(\d{1,2})(?:[:.h](\d{2}))?\s?(?:([ap])\.?m\.?)?", words)
    if found is None:
        return None
    hour, minute, half = int(found[1]), int(found[2] or 0), found[3]
    if half and not 1 <= hour <= 12:
        return None
    if half:
        hour = hour % 12 + (12 if half == "p" else 0)
    return time(hour, minute) if hour < 24 and minute < 60 else None
