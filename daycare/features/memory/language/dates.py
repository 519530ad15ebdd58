"""Dates in what people say, absolute and relative, resolved against the day on which it was said."""

import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Final, Literal, NamedTuple
from zoneinfo import ZoneInfo

from daycare.base.times import local_time
from daycare.features.memory.language.english import dates as dates_english
from daycare.features.memory.language.german import dates as dates_german
from daycare.features.memory.language.periods import YEAR_MAX, YEAR_MIN, Period, SaidAt, day

Found = tuple[Period | None, str]
Bound = Literal["since", "until", "to", ""]
Rule = tuple[re.Pattern[str], Callable[[re.Match[str], SaidAt], Found]]

_EPOCH: Final = date(1970, 1, 1)
_MOMENTS_MAX: Final = 8  # in one sentence: more is a timetable
_UNTIL: Final = re.compile(r"\b(?:(?P<to>to)|until|till|through|bis(?: zum)?) $", re.IGNORECASE)
_SINCE: Final = re.compile(r"\b(?:since|from|starting|seit(?: dem)?|ab(?: dem)?|vom) $", re.IGNORECASE)
_WORDS: Final = {
    "en": {"week": "week of {}", "weekend": "weekend of {}"},
    "de": {"week": "Woche vom {}", "weekend": "Wochenende vom {}"},
}


class Moment(NamedTuple):
    """A date in a text, from `start` to `end`, and how it reads when nobody knows any more when it was said."""

    start: int
    end: int
    period: Period
    bound: Bound
    words: str


def today(at_ms: int, zone: tzinfo) -> date:
    """Return the day of a wall time as the people of `zone` read it; that of the epoch if it is out of this world."""
    found = local_time(at_ms, zone).date()
    return found if YEAR_MIN <= found.year <= YEAR_MAX else _EPOCH


def zone_of(name: str) -> tzinfo:
    """Return the IANA zone, UTC if there is none of that name."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return UTC


def begin_ms(day: date, zone: tzinfo) -> int:
    """Return when a day begins there, in milliseconds of wall time."""
    return int(datetime(day.year, day.month, day.day, tzinfo=zone).timestamp() * 1000)


def speaks_of_past(text: str, language: str) -> bool | None:
    """Tell whether a sentence tells of the past; None if it does not show."""
    words = dates_german if language == "de" else dates_english
    if words.FUTURE.search(text):
        return False
    return True if words.PAST.search(text) else None


def find(text: str, said_on: date, language: str = "en") -> list[Moment]:
    """Return the dates in a sentence, in order."""
    module = dates_german if language == "de" else dates_english
    if not module.TRIGGER.search(text):
        return []
    said = SaidAt(said_on, speaks_of_past(text, language))
    rules: tuple[Rule, ...] = module.RULES
    taken: list[Moment] = []
    for pattern, period_of in rules:
        for found in pattern.finditer(text):
            if len(taken) == _MOMENTS_MAX:
                break
            if any(found.start() < other.end and other.start < found.end() for other in taken):
                continue
            period, manner = period_of(found, said)
            if period is not None:
                taken.append(_moment(text, found, period, manner, language))
    taken.sort()
    return [_in_order(moment, before) for before, moment in zip([None, *taken], taken, strict=False)]


def _in_order(moment: Moment, before: Moment | None) -> Moment:
    """Return the end of a stretch of days after its beginning: "from Monday to Thursday"."""
    if not before or before.bound != "since" or moment.bound not in ("to", "until"):
        return moment._replace(bound="") if moment.bound == "to" else moment
    moment = moment._replace(bound="until")
    begin = moment.period.begin
    later = day(begin + timedelta(days=7))
    if begin < before.period.begin <= later.begin and moment.words == begin.isoformat():
        return moment._replace(period=later, words=later.iso)
    return moment


def _moment(text: str, found: re.Match[str], period: Period, manner: str, language: str) -> Moment:
    start, end = found.span("at" if "at" in found.re.groupindex else 0)
    before = text[max(0, start - 24) : start]
    until, since = _UNTIL.search(before), _SINCE.search(before)
    bound: Bound = "to" if until and until["to"] else "until" if until else "since" if since else ""
    words = text[start:end]
    if manner == "since":
        bound, words = "since", f"since {period.iso}"
    elif manner == "year":
        words = f"{words.rstrip('.')} {period.begin.year}"
    elif manner == "replace":
        words = _resolved(period, before, language)
    return Moment(start, end, period, bound, words)


def _resolved(period: Period, before: str, language: str) -> str:
    """Return a relative date as an absolute one that fits into the sentence."""
    if period.unit in ("week", "weekend"):
        return _WORDS[language][period.unit].format(period.begin.isoformat())
    if period.unit == "season":
        name = {3: ("spring", "Frühjahr"), 6: ("summer", "Sommer"), 9: ("autumn", "Herbst"), 12: ("winter", "Winter")}
        words = f"{name[period.begin.month][language == 'de']} {period.begin.year}"
    else:
        words = period.iso
    if period.unit != "day" and not re.search(
        r"\b(?:in|of|since|by|until|from|im|seit|bis|ab) (?:the )?$", before, re.I
    ):
        return f"in {words}" if language == "en" else words
    return words


def resolve(text: str, moments: Sequence[Moment]) -> str:
    """Return a text in which each date reads the same on any day."""
    for moment in reversed(moments):
        text = text[: moment.start] + moment.words + text[moment.end :]
    return text
