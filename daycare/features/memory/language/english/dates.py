"""How dates are written in English: patterns, and the period that each stands for."""

import re
from datetime import date, timedelta
from typing import Final

from daycare.features.memory.language import periods
from daycare.features.memory.language.periods import Period, SaidAt, Unit, Which

_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_ORDINALS: Final = (
    *("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh"),
    *("twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth", "seventeenth", "eighteenth", "nineteenth"),
    "twentieth",
)
_NUMBERS: Final = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_COUNTS: Final = {"a": 1, "an": 1, "couple": 2, **{name: number for number, name in enumerate(_NUMBERS, 1)}}

_MONTH: Final = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sep(?:t(?:ember)?)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_DAY: Final = rf"(?:the )?(?:(?P<day>\d{{1,2}})(?:st|nd|rd|th)?|(?P<ordinal>{'|'.join(_ORDINALS)}))\b(?: of)?"
_YEAR: Final = r"(?P<year>(?:19|20)\d\d)\b"
_LONG_DAY: Final = "(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_WEEKDAY: Final = rf"(?P<weekday>{_LONG_DAY}|(?:mon|tues?|wed|thurs?|fri)\b\.?)"
_IN_WEEK: Final = rf"(?:{_LONG_DAY},? (?:the )?)?"  # "Thursday, 16 May"
_COUNT: Final = rf"(?P<count>\d{{1,3}}|an?(?: couple(?: of)?)?|couple of|{'|'.join(_NUMBERS)})"
_UNIT: Final = r"(?P<unit>day|week|weekend|month|year)s?\b"
_SEASON: Final = r"(?P<season>spring|summer|autumn|fall|winter)\b"
_WHICH: Final = r"(?P<which>last|this past|past|this coming|coming|upcoming|this|next)"
_PART: Final = r"(?:\s(?:morning|afternoon|evening|night)\b)?"

TRIGGER: Final = re.compile(
    r"\d|day\b|days\b|week|month|year|night|morning|\bago\b|\b(?:last|this|next|in|on|since|until|till|by|of|early|late"
    r"|mid|from|during|christmas|easter|halloween)\b|today|tonight|tomorrow|yesterday",
    re.IGNORECASE,
)
"""A text without any of these holds no date."""

FUTURE: Final = re.compile(
    r"\b(?:will|shall|going to|gonna|plan|planning|plans|hope|hoping|want|wanna|would like|due|must|next|tomorrow"
    r"|upcoming|looking forward|can't wait|expecting|expires?|ends?|leaves?|starts?|begins?|arrives?|turns?|needs?"
    r"|(?:'m|am|is|are|'s|'re|be) (?:going|coming|moving|flying|visiting|leaving|getting|starting|having|meeting|taking"
    r"|opening|seeing|staying|travel\w+|arriving|hosting|throwing))\b|\w'll\b",
    re.IGNORECASE,
)
PAST: Final = re.compile(
    r"\b(?:was|were|had|did|didn't|wasn't|went|got|came|saw|met|took|made|bought|sold|ran|left|lost|found|won|told|said"
    r"|gave|began|started|moved|became|broke|built|caught|chose|drove|ate|fell|felt|flew|grew|heard|held|kept|knew|led"
    r"|lent|paid|quit|rode|sang|sent|sold|spent|spoke|stood|swam|taught|thought|threw|woke|wore|wrote|been|ago"
    r"|last(?! \w+ of)|yesterday|\w{2,}ed)\b",
    re.IGNORECASE,
)

_UNITS: Final[dict[str, Unit]] = {name: name for name in ("day", "week", "weekend", "month", "year")}

Found = tuple[Period | None, str]  # the period, and how it is written down: keep, year, replace, since


def _day_of(found: re.Match[str]) -> int:
    named = found["ordinal"]
    return _ORDINALS.index(named.lower()) + 1 if named else int(found["day"])


def _month_of(found: re.Match[str]) -> int:
    return _MONTHS.index(found["month"].lower()[:3]) + 1


def _which(word: str | None) -> Which:
    word = (word or "").lower()
    if word in ("last", "past", "this past"):
        return "last"
    return "next" if word == "next" else "this" if word == "this" else ""


def _written(found: re.Match[str], said: SaidAt) -> Found:
    number, at = _month_of(found), _day_of(found)
    if found["year"]:
        return periods.of(int(found["year"]), number, at), "keep"
    before = found.string[: found.start()].lower()
    if before.endswith(" to ") and "from " not in before:
        said = said._replace(past=False)  # "was moved to 19 June"
    return said.date(number, at), "year"


def _iso(found: re.Match[str], said: SaidAt) -> Found:
    return periods.of(*(int(part) for part in found[0].split("-"))), "keep"


def _slashed(found: re.Match[str], said: SaidAt) -> Found:
    first, second, number = int(found["a"]), int(found["b"]), int(found["year"])
    if first <= 12 and second <= 12 and first != second and found["by"] == "/":
        return None, "keep"  # nobody can tell which is the month
    return periods.of(number, *((second, first) if second <= 12 else (first, second))), "keep"


_NEAR_DAYS: Final = {
    "day before yesterday": -2,
    "yesterday": -1,
    "last night": -1,
    "night before last": -2,
    "tomorrow": 1,
    "day after tomorrow": 2,
}


def _relative(found: re.Match[str], said: SaidAt) -> Found:
    return periods.day(said.today + timedelta(days=_NEAR_DAYS.get(found["word"].lower(), 0))), "replace"


def _ago(found: re.Match[str], said: SaidAt) -> Found:
    count = _number(found["count"])
    if not found["today"]:
        return said.away(_unit(found), -count), "replace"
    return periods.of(said.today.year - count, said.today.month, said.today.day), "replace"


def _ahead(found: re.Match[str], said: SaidAt) -> Found:
    if said.past:
        return None, "replace"  # "I learned it in two weeks"
    return said.away(_unit(found), _number(found["count"])), "replace"


def _number(word: str) -> int:
    word = word.lower().removesuffix(" of").removeprefix("a ").removeprefix("an ")
    return int(word) if word.isdecimal() else _COUNTS[word]


def _unit(found: re.Match[str]) -> Unit:
    return _UNITS[found["unit"].lower()]


def _near(found: re.Match[str], said: SaidAt) -> Found:
    unit = _unit(found)
    which = _which(found["which"])
    if not which:
        which = "this" if unit == "weekend" else "next"
    return said.near(unit, which), "replace"


def _month_near(found: re.Match[str], said: SaidAt) -> Found:
    number = _month_of(found)
    if found["year"]:
        return periods.month(int(found["year"]), number), "keep"
    if found["which"]:
        return said.month(number, _which(found["which"])), "replace"
    if found.string[: found.start()].lower().endswith("since "):
        said = said._replace(past=True)
    return said.month(number), "year"


def _weekday(found: re.Match[str], said: SaidAt) -> Found:
    which = _which(found["which"])
    if found["to"] is not None:
        said = said._replace(past=False)  # "was moved to Thursday"
    return said.weekday(_DAYS.index(found["weekday"].lower()[:3]), which), "replace"


def _season(found: re.Match[str], said: SaidAt) -> Found:
    name = found["season"].lower().replace("fall", "autumn")
    if found["year"]:
        return periods.season(int(found["year"]), name), "keep"
    if not found["which"] and said.past is None:
        return None, "replace"  # "the garden is lovely in spring"
    return said.season(name, _which(found["which"])), "replace"


def _year(found: re.Match[str], said: SaidAt) -> Found:
    return periods.year(int(found["year"])), "keep"


def _day_of_month(found: re.Match[str], said: SaidAt) -> Found:
    return said.day_of_month(_day_of(found)), "replace"


_HOLIDAYS: Final = {
    "christmas eve": (12, 24), "christmas": (12, 25), "new year's eve": (12, 31), "new year's": (1, 1),
    "valentine's": (2, 14), "halloween": (10, 31),
}  # fmt: skip


def _holiday(found: re.Match[str], said: SaidAt) -> Found:
    name = found["holiday"].lower().replace("\u2019", "'").removesuffix(" day")
    if name == "easter":
        return _easter(said), "keep"
    number, at = _HOLIDAYS[name]
    which = _which(found["which"])
    if which == "last":
        said = said._replace(past=True)
    return said.date(number, at), "keep"


def easter(year: int) -> date:
    """Return Easter Sunday of a year in the Gregorian calendar."""
    golden, century = year % 19, year // 100
    moon = (19 * golden + century - century // 4 - (century - (century + 8) // 25 + 1) // 3 + 15) % 30
    shift = (32 + 2 * (century % 4) + 2 * (year % 100 // 4) - moon - year % 100 % 4) % 7
    late = (golden + 11 * moon + 22 * shift) // 451
    number, at = divmod(moon + shift - 7 * late + 114, 31)
    return date(year, number, at + 1)


def _easter(said: SaidAt) -> Period:
    here = periods.day(easter(said.today.year))
    if said.past and here.begin > said.today:
        return periods.day(easter(said.today.year - 1))
    if not said.past and here.end <= said.today:
        return periods.day(easter(said.today.year + 1))
    return here


def _permanent(found: re.Match[str], said: SaidAt) -> Found:
    return said.away(_unit(found), -_number(found["count"])), "since"


def _rule(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"\b{pattern}", re.IGNORECASE)


def _behind(words: str) -> str:
    return "(?:" + "|".join(rf"(?<=\b{word}[ -])" for word in words.split()) + ")"


_APOSTROPHE: Final = "['\u2019]"
_BEFORE_MONTH: Final = _behind("in early late mid end of since until till by from during")
_BEFORE_DAY: Final = _behind("on by from until till for since before after")
_BEFORE_YEAR: Final = _behind("in since until till by from of during before after around to about")
RULES: Final = (
    (_rule(r"\d{4}-\d{2}-\d{2}\b"), _iso),
    (_rule(rf"(?P<a>\d{{1,2}})(?P<by>[/.])(?P<b>\d{{1,2}})[/.]{_YEAR}"), _slashed),
    (_rule(rf"{_IN_WEEK}{_DAY} {_MONTH}(?:,? {_YEAR})?"), _written),
    (_rule(rf"{_IN_WEEK}{_MONTH} {_DAY}(?:,? {_YEAR})?(?! (?:of|year|day|week|month|hour|percent))"), _written),
    (_rule(rf"{_COUNT} {_UNIT} ago\b(?P<today> today\b)?"), _ago),
    (_rule(rf"(?:(?:for )?(?:about |over |almost |nearly |around )?)?{_COUNT} {_UNIT} now\b"), _permanent),
    (_rule(rf"been (?:\w+ ){{0,4}}(?P<at>for (?:about |over |almost |nearly |around )?{_COUNT} {_UNIT})"), _permanent),
    (_rule(rf"(?:in|within) {_COUNT} {_UNIT}(?! ago)"), _ahead),
    (_rule(rf"{_COUNT} {_UNIT} from (?:now|today)\b"), _ahead),
    (_rule(r"(?:the )?(?P<word>day before yesterday|day after tomorrow|night before last|last night|tonight|today"
           rf"|tomorrow|yesterday|this (?:morning|afternoon|evening))\b{_PART}"), _relative),
    (_rule(rf"(?:the )?{_WHICH} (?P<unit>week|weekend|month|year)\b(?!s| of)"), _near),
    (_rule(rf"(?:{_WHICH} )?{_SEASON}(?: of)? {_YEAR}"), _season),
    (_rule(rf"{_WHICH} {_SEASON}(?P<year>)"), _season),
    (_rule(rf"{_behind('in during')}(?P<which>)(?:the )?{_SEASON}(?P<year>)(?! of)"), _season),
    (_rule(rf"(?:{_WHICH} )?{_MONTH},? (?:of )?{_YEAR}"), _month_near),
    (_rule(rf"{_WHICH} {_MONTH}(?P<year>)"), _month_near),
    (_rule(rf"{_BEFORE_MONTH}(?P<which>)(?!may (?:I|we|you)\b){_MONTH}(?P<year>)(?! \d)"), _month_near),
    (_rule(rf"(?:{_WHICH} |(?P<to>(?<=\bto ))|{_BEFORE_DAY})(?:the )?{_WEEKDAY}\b{_PART}"), _weekday),
    (_rule(rf"(?P<which>)(?P<to>(?!))?(?P<weekday>{_LONG_DAY})"
           rf"(?:\s(?:morning|afternoon|evening|night)\b|(?={_APOSTROPHE}s\b))"), _weekday),
    (_rule(rf"^(?P<which>)(?P<to>(?!))?(?P<weekday>{_LONG_DAY})\b(?= (?:I|we|my|the|at|is|was)\b|,)"), _weekday),
    (_rule(rf"(?:{_WHICH} )?(?P<holiday>christmas eve|christmas(?: day)?|new year{_APOSTROPHE}s(?: eve| day)?"
           rf"|valentine{_APOSTROPHE}s day|halloween|easter)\b"), _holiday),
    (_rule(r"(?<=\bon )the (?P<day>\d{1,2})(?:st|nd|rd|th)\b(?P<ordinal>)(?! (?:of|floor|century|birthday))"),
     _day_of_month),
    (_rule(rf"{_BEFORE_YEAR}{_YEAR}(?![-/:%\w]|\.\d)"), _year),
)  # fmt: skip
"""Tried in this order; what one has found is not looked at by the others."""
