"""Times that come again, as people write them: "every weekday at 8", "every two hours", as cron expressions."""

import re
from typing import Final

from daycare_plugins.offline.when import CLOCK, DAYS, clock

_DAYS_OF_WEEK: Final = {
    "day": "*",
    "weekday": "1-5",
    "workday": "1-5",
    "weekend": "6,0",
    "morning": "*",
    "evening": "*",
    "night": "*",
    **{name: str((number + 1) % 7) for number, name in enumerate(DAYS)},
}
_HOURS: Final = {"morning": 8, "evening": 19, "night": 22}
_USUAL_HOUR: Final = 9
_NOON: Final = 12
_DAY: Final = "|".join(sorted(_DAYS_OF_WEEK, key=len, reverse=True))

EVERY: Final = (
    rf"(?:(?:every|each)\s+(?:{_DAY})s?(?:\s+and\s+(?:{_DAY})s?)?|on\s+(?:weekdays|weekends)|daily|hourly"
    rf"|every\s+(?:hour|(?:two|three|four|six|\d{{1,2}})\s+hours|\d{{1,2}}\s+minutes))(?:\s+at\s+{CLOCK})?"
)
"""What `cron_of` understands, as a regular expression without groups, for `re.IGNORECASE`."""

_WORDS: Final = {"two": 2, "three": 3, "four": 4, "six": 6}


def cron_of(every: str) -> str | None:
    """Return a cron expression in five fields; None for what no calendar repeats evenly, such as every 7 hours."""
    words = every.casefold()
    if words.startswith("hourly"):
        return "0 * * * *"
    if found := re.match(r"every\s+(?:(\S+)\s+)?(hour|minute)s?", words):
        return _step(_WORDS.get(found[1] or "1") or int(found[1] or "1"), found[2])
    spoken = re.search(rf"\bat\s+({CLOCK})", words)
    at = clock(spoken[1]) if spoken else None
    if spoken and at is None:
        return None
    days = re.findall(rf"\b({_DAY})s?\b", words) or ["day"]
    hour, minute = (at.hour, at.minute) if at else (_HOURS.get(days[0], _USUAL_HOUR), 0)
    if at and at.hour < _NOON and {"evening", "night"}.intersection(days):
        hour += _NOON  # "every evening at 8"
    weekdays = {_DAYS_OF_WEEK[name] for name in days}
    return f"{minute} {hour} * * {'*' if '*' in weekdays else ','.join(sorted(weekdays))}"


def _step(number: int, unit: str) -> str | None:
    most = 24 if unit == "hour" else 60
    if number < 1 or most % number or number == most:
        return None
    every = "*" if number == 1 else f"*/{number}"
    return f"0 {every} * * *" if unit == "hour" else f"{every} * * * *"
