"""Schedules of other programs as ours: times and expressions stay what they are, "every" becomes an expression."""

import re
from datetime import UTC
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from daycare.base import crontab
from daycare.base.cron import PROMPT_MAX_BYTES, CronSpec
from daycare.base.errors import DaycareError
from daycare.base.times import local_time
from daycare.base.zones import zone_of
from daycare.ops.importers.words import moment, text_of

_MINUTE: Final = 60_000
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_INTERVAL_MAX_MS: Final = 3_650 * _DAY
_MINUTES: Final = (1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30)
_HOURS: Final = (1, 2, 3, 4, 6, 8, 12)
_PLACE: Final = re.compile(r"\{\{(?=\s*[a-z][a-z0-9_]{0,31}\s*\}\})")
_DESCRIPTION_MAX_CHARS: Final = 200


class ImportedSchedule(NamedTuple):
    """A schedule of ours: an expression, or a single time, with a zone (empty: its user's); and how it was changed."""

    cron: str = ""
    at: str = ""
    zone: str = ""
    changes: tuple[str, ...] = ()


def expression(text: str, zone: str = "") -> ImportedSchedule:
    """Return a cron expression. Raises `DaycareError` for one that cannot be."""
    changes: tuple[str, ...] = ()
    fields = text.split()
    if len(fields) == 6:
        changes = (f"its seconds ({fields[0]}) are left out",)
        fields = fields[1:]
    elif len(fields) == 7:
        changes = ("its seconds and years are left out",)
        fields = fields[1:6]
    words = crontab.expression(" ".join(fields))
    if zone:
        zone_of(zone)
    return ImportedSchedule(cron=words, zone=zone, changes=changes)


def once(value: Any, zone: str = "") -> ImportedSchedule:
    """Return a single time, as ISO text or milliseconds. Raises `DaycareError` for what is none."""
    if isinstance(value, int | float) and (ms := moment(value)) is not None:
        return ImportedSchedule(at=local_time(ms, UTC).isoformat(timespec="seconds"))
    text = text_of(value)
    crontab.instant(text, zone_of(zone or "UTC"))
    return ImportedSchedule(at=text, zone=zone)


def interval(value: Any, unit_ms: int) -> int:
    """Return an interval in milliseconds. Raises `ValueError` for what is none, or longer than some years."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value * unit_ms <= _INTERVAL_MAX_MS:
        return max(1, round(value * unit_ms))
    raise ValueError("its interval cannot be read")


def every(interval_ms: int, anchor_ms: int | None, zone: str) -> ImportedSchedule:
    """Return an expression for an interval, counted from its anchor where it is in days or weeks.

    What no expression can say becomes the nearest that is not more often.
    """
    told = f"every {_told(interval_ms)}"
    here = zone_of(zone or "UTC")
    start = local_time(anchor_ms, here) if anchor_ms else None
    minute, hour = (start.minute, start.hour) if start else (0, 9)
    if interval_ms < _HOUR:
        wanted = max(1, -(-interval_ms // _MINUTE))
        minutes = next((each for each in _MINUTES if each >= wanted), 0)
        cron = f"*/{minutes} * * * *" if minutes else "0 * * * *"
        exact = minutes * _MINUTE == interval_ms
    elif interval_ms < _DAY:
        hours = next((each for each in _HOURS if each * _HOUR >= interval_ms), 0)
        cron = f"{minute} {f'*/{hours}' if hours > 1 else '*'} * * *" if hours else f"{minute} {hour} * * *"
        exact = hours * _HOUR == interval_ms
    elif interval_ms < 7 * _DAY:
        days = -(-interval_ms // _DAY)
        cron = f"{minute} {hour} */{days} * *" if days > 1 else f"{minute} {hour} * * *"
        exact = interval_ms == _DAY
    elif interval_ms < 28 * _DAY:
        cron = f"{minute} {hour} * * {(start.isoweekday() % 7) if start else 1}"
        exact = interval_ms == 7 * _DAY
    else:
        cron = f"{minute} {hour} {min(start.day, 28) if start else 1} * *"
        exact = False
    said = f"{told} became {cron}" + ("" if exact else ", the nearest that an expression can say")
    return ImportedSchedule(cron=crontab.expression(cron), zone=zone, changes=(said,))


def spec_of(
    schedule: ImportedSchedule, prompt: str, *, description: str = "", delete: bool = False, fresh: bool = True
) -> tuple[CronSpec, tuple[str, ...]]:
    """Return a job, checked, and what was changed of it. Raises `DaycareError`, and `ValueError` for a zone."""
    changes = list(schedule.changes)
    said = prompt.replace("\0", "")
    if _PLACE.search(said):  # ours are filled in, theirs were words
        said = _PLACE.sub("{ {", said)
        changes.append("what looked like a place for a parameter, {{...}}, was parted: { {...}}")
    if len(said.encode()) > PROMPT_MAX_BYTES:
        said = said.encode()[:PROMPT_MAX_BYTES].decode(errors="ignore")
        changes.append(f"its text was cut after {PROMPT_MAX_BYTES:,} bytes")
    spec = CronSpec(
        cron=schedule.cron,
        at=schedule.at,
        zone=schedule.zone,
        prompt=said.strip(),
        description=" ".join(description.split())[:_DESCRIPTION_MAX_CHARS],
        session="fresh" if fresh else "continue",
        delete_after_run=delete or bool(schedule.at),
    )
    return spec.checked(), tuple(changes)


def zone_or_none(name: str) -> str:
    """Return the name of a time zone if it is one that is known, else nothing."""
    try:
        return zone_of(name).key if name else ""
    except DaycareError:
        return ""


def _told(interval_ms: int) -> str:
    for size, name in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min"), (1_000, "s")):
        if interval_ms >= size and interval_ms % size == 0:
            return f"{interval_ms // size} {name}"
    return f"{interval_ms} ms"


def local_day(at_ms: int, zone: ZoneInfo) -> tuple[str, str]:
    """Return the date and the time of day of a moment in a zone."""
    here = local_time(at_ms, zone)
    return f"{here:%Y-%m-%d}", f"{here:%H:%M}"
