"""When a schedule is due: five-field expressions and single times, in any zone, through every change of its clocks.

The expression itself is read by `cronsim`, which knows nothing of zones here: it yields wall times. What a wall time
means in a zone is decided below.

- A fixed time (neither minute nor hour begins with `*`) that the clocks skip is due right after the gap; one that comes
  twice is due the first time only.
- An interval (minute or hour begins with `*`) goes by the clock on the wall: what the clocks skip does not happen, and
  what they repeat happens twice.
"""

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from daycare.base.errors import InvalidError
from daycare.base.times import local_time

EXPRESSION_MAX_CHARS: Final = 200  # an hour's every minute as a list has 169
NICKNAMES: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

_RANGE_OF_ONE: Final = re.compile(r"(?<![\w-])(\w+)-\1/\d+", re.IGNORECASE)  # cronsim reads 3-3/2 as 3/2
_EPOCH: Final = datetime(1970, 1, 1)  # of wall times, which have no zone
_DAY_S: Final = 86_400
_LAST_S: Final = 7_258_118_400  # the year 2200: what comes later is never due
_HINT: Final = 'minute hour day-of-month month day-of-week, such as "30 7 * * MON-FRI", or @daily; doc/use/cron.md'


def expression(text: str) -> str:
    """Return an expression in five fields, nicknames spelled out; raises `InvalidError` CRON_EXPRESSION."""
    shown = ascii(text[:80])
    if len(text) > EXPRESSION_MAX_CHARS:
        raise _wrong(f"read {shown}: it has over {EXPRESSION_MAX_CHARS} characters")
    words = " ".join(text.split())
    if words.startswith("@"):
        if words.lower() not in NICKNAMES:
            raise _wrong(f"read {shown}: known are {', '.join(NICKNAMES)}")
        words = NICKNAMES[words.lower()]
    if (found := len(words.split())) != 5:
        raise _wrong(f"read {shown}: it has {found} fields, not five")
    words = _RANGE_OF_ONE.sub(r"\1", words)
    try:
        sim = CronSim(words, datetime(2027, 1, 1))
    except CronSimError as error:
        raise _wrong(f"read {shown}: {str(error).lower()}") from error
    if next(sim, None) is None:
        raise _wrong(f"read {shown}: no day ever fits")
    return words


def instant(text: str, zone: ZoneInfo) -> int:
    """Return the wall milliseconds of an ISO date and time, which is the zone's unless it names an offset.

    One that the clocks skip is the end of the gap, one that comes twice is the first. Raises `InvalidError`.
    """
    try:
        at = datetime.fromisoformat(text.strip())
        seconds = _of_wall(at.replace(fold=0), zone) if at.tzinfo is None else int(at.timestamp())
    except (ValueError, OverflowError, OSError) as error:
        hint = "write it as 2027-03-01T09:00, or with an offset as 2027-03-01T09:00+01:00"
        raise InvalidError("TIME_INVALID", f"read the time {text[:80]!a}: {error}", hint=hint) from error
    if not 0 <= seconds <= _LAST_S:
        raise InvalidError("TIME_INVALID", f"read the time {text[:80]!a}: only 1970 to 2200 can be meant")
    return seconds * 1000


def occurrences(text: str, zone: ZoneInfo, after_ms: int) -> Iterator[int]:
    """Yield the times in ms at which an expression is due after `after_ms`, in order; `text` was checked."""
    after = after_ms // 1000
    minute, hour, *_ = text.split()
    if minute.startswith("*") or hour.startswith("*"):
        found = _by_intervals(text, zone, after)
    else:
        found = _at_fixed_times(text, zone, after)
    for seconds in found:
        if seconds > _LAST_S:
            return
        yield seconds * 1000


@lru_cache(256)  # a list of jobs has the same few again and again
def words(text: str) -> str:
    """Return what an expression means, `At 07:30 on Monday through Friday`; it was checked."""
    return CronSim(expression(text), datetime(2027, 1, 1)).explain()


def local(at_ms: int, zone: ZoneInfo) -> str:
    """Return a time as ISO text in a zone, with its offset."""
    return local_time(at_ms // 1000 * 1000, zone).isoformat()


def _at_fixed_times(text: str, zone: ZoneInfo, after: int) -> Iterator[int]:
    last = after
    for wall in CronSim(text, _wall(after, _offset(after, zone))):
        seconds = _of_wall(wall, zone)
        if seconds > last:  # several of one gap are due together, once
            last = seconds
            yield seconds


def _by_intervals(text: str, zone: ZoneInfo, after: int) -> Iterator[int]:
    start = after
    while True:
        offset = _offset(start, zone)
        clear = start  # up to here the offset is known not to change
        changed = None
        for wall in CronSim(text, _wall(after, offset)):
            seconds = _seconds(wall) - offset
            if seconds > clear:
                changed = _first_change(zone, clear, seconds)
                if changed is not None:
                    break
                clear = seconds
            yield seconds
        if changed is None:
            return
        start, after = changed, changed - 1  # the moment of the change may be due itself


def _first_change(zone: ZoneInfo, start: int, end: int) -> int | None:
    """Return the first second after `start`, and not after `end`, with another offset. No zone has two in one day."""
    offset = _offset(start, zone)
    while start < end:
        ahead = min(start + _DAY_S, end)
        if _offset(ahead, zone) != offset:
            return _bisect(zone, start, ahead)
        start = ahead
    return None


def _bisect(zone: ZoneInfo, low: int, high: int) -> int:
    """Return the second of the one change of offset between the two."""
    offset = _offset(low, zone)
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(middle, zone) == offset:
            low = middle
        else:
            high = middle
    return high


def _of_wall(wall: datetime, zone: ZoneInfo) -> int:
    """Return the second of a wall time: the first of two, and of none the end of the gap."""
    wall = wall.replace(microsecond=0)
    first = int(wall.replace(tzinfo=zone).timestamp())
    if datetime.fromtimestamp(first, zone).replace(tzinfo=None, fold=0) == wall:
        return first
    return _bisect(zone, int(wall.replace(tzinfo=zone, fold=1).timestamp()), first)


def _offset(seconds: int, zone: ZoneInfo) -> int:
    delta = datetime.fromtimestamp(seconds, zone).utcoffset()
    return 0 if delta is None else round(delta.total_seconds())


def _wall(seconds: int, offset: int) -> datetime:
    return _EPOCH + timedelta(seconds=seconds + offset)


def _seconds(wall: datetime) -> int:
    return int((wall - _EPOCH).total_seconds())


def _wrong(what: str) -> InvalidError:
    return InvalidError("CRON_EXPRESSION", what, hint=_HINT)
