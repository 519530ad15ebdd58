"""When an expression is due, found the slow way: every minute of the world is looked at, with a reader of its own.

It shares nothing with the product but the words of doc/use/cron.md.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
# Both directions of change, half an hour, at midnight, south and north of the equator, and none.
ZONES = (
    "Europe/Berlin",
    "America/New_York",
    "America/Santiago",
    "Australia/Lord_Howe",
    "Africa/Cairo",
    "Asia/Kathmandu",
)


class Reader:
    """Reads five fields, and tells whether a wall time fits them."""

    def __init__(self, expression: str) -> None:
        minute, hour, day, month, weekday = expression.lower().split()
        self.minutes = _field(minute, 0, 59)
        self.hours = _field(hour, 0, 23)
        self.days = _field(day, 1, 31)
        self.months = _field(month, 1, 12, MONTHS, 1)
        self.weekdays = {each % 7 for each in _field(weekday, 0, 7, DAYS, 0)}
        self.either = not day.startswith("*") and not weekday.startswith("*")
        self.interval = minute.startswith("*") or hour.startswith("*")

    def fits(self, wall: datetime) -> bool:
        weekday = (wall.weekday() + 1) % 7
        by_day, by_weekday = wall.day in self.days, weekday in self.weekdays
        day = (by_day or by_weekday) if self.either else (by_day and by_weekday)
        return wall.minute in self.minutes and wall.hour in self.hours and day and wall.month in self.months


def due(expression: str, zone: str, begin: datetime, end: datetime) -> list[datetime]:
    """Return the moments in UTC, both ends included."""
    reader, here = Reader(expression), ZoneInfo(zone)
    return sorted(set(_intervals(reader, here, begin, end) if reader.interval else _fixed(reader, here, begin, end)))


def _intervals(reader: Reader, zone: ZoneInfo, begin: datetime, end: datetime) -> Iterator[datetime]:
    for at in _minutes(begin, end):
        if reader.fits(at.astimezone(zone).replace(tzinfo=None)):
            yield at


def _fixed(reader: Reader, zone: ZoneInfo, begin: datetime, end: datetime) -> Iterator[datetime]:
    """A wall time is due when a clock first shows it, or something later, as that is how a gap is noticed."""
    shown = (begin - timedelta(days=1)).astimezone(zone).replace(tzinfo=None)
    for at in _minutes(begin - timedelta(days=1) + timedelta(minutes=1), end):
        wall = at.astimezone(zone).replace(tzinfo=None)
        while shown < wall:  # the clock shows more than it ever has
            shown += timedelta(minutes=1)
            if reader.fits(shown) and at >= begin:
                yield at


def _minutes(begin: datetime, end: datetime) -> Iterator[datetime]:
    at = begin.astimezone(UTC)
    while at <= end:
        yield at
        at += timedelta(minutes=1)


def _field(text: str, low: int, high: int, names: tuple[str, ...] = (), first: int = 0) -> set[int]:
    found: set[int] = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        if span == "*":
            begin, end = low, high
        else:
            left, dash, right = span.partition("-")
            begin = _number(left, names, first)
            end = _number(right, names, first) if dash else high if step else begin
        found |= set(range(begin, end + 1, int(step or 1)))
    return found


def _number(text: str, names: tuple[str, ...], first: int) -> int:
    return names.index(text) + first if text in names else int(text)
