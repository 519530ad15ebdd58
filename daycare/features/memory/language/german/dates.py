"""How dates are written in German: patterns, and the period that each stands for."""

import re
from datetime import timedelta
from typing import Final

from daycare.features.memory.language import periods
from daycare.features.memory.language.periods import Period, SaidAt, Unit, Which

_MONTHS: Final = (
    *("januar", "februar", "märz", "april", "mai", "juni", "juli", "august", "september", "oktober", "november"),
    "dezember",
)
_DAYS: Final = ("montag", "dienstag", "mittwoch", "donnerstag", "freitag", "samstag", "sonntag")
_NUMBERS: Final = ("zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn", "elf", "zwölf")

_MONTH: Final = rf"(?P<month>{'|'.join(_MONTHS)}|jänner)\b"
_WEEKDAY: Final = rf"(?P<weekday>{'|'.join(_DAYS)}|sonnabend)"
_YEAR: Final = r"(?P<year>(?:19|20)\d\d)\b"
_COUNT: Final = rf"(?P<count>\d{{1,3}}|eine[mnrs]?|{'|'.join(_NUMBERS)})"
_UNIT: Final = r"(?P<unit>tag|woche|monat|jahr)(?:en|e|n)?\b"
_SEASON: Final = r"(?P<season>frühling|frühjahr|sommer|herbst|winter)\b"
_WHICH: Final = r"(?P<which>letzte|vergangene|vorige|diese|kommende|nächste)[mnrs]?"
_PART: Final = r"(?:\s?(?:früh|morgen|vormittag|mittag|nachmittag|abend|nacht)\b)?"

TRIGGER: Final = re.compile(
    r"\d|tag\b|tagen\b|gestern|heute|morgen|woche|monat|jahr|mittwoch|abend|\b(?:am|im|in|seit|vor|bis|letzte|ab)\b",
    re.IGNORECASE,
)
FUTURE: Final = re.compile(
    r"\b(?:werde|wirst|wird|werden|will|wollen|möchte|plane|planen|kommende[mnrs]?|nächste[mnrs]?|morgen|übermorgen"
    r"|gehe|gehen|fliege|fliegen|fahre|fahren|treffe|treffen|habe einen|haben einen|beginnt|endet|läuft|kommt)\b",
    re.IGNORECASE,
)
PAST: Final = re.compile(
    r"\b(?:war|waren|hatte|hatten|wurde|wurden|ging|kam|sah|gestern|vorgestern|letzte[mnrs]?|(?:habe?|hat|haben|bin|ist"
    r"|sind)\b.{1,80}\b(?:ge\w{2,}(?:t|en)|\w{2,}ge\w{2,}(?:t|en)|be\w{3,}(?:t|en)|ver\w{3,}(?:t|en)))\b",
    re.IGNORECASE,
)

Found = tuple[Period | None, str]
_UNITS: Final[dict[str, Unit]] = {
    "tag": "day",
    "woche": "week",
    "monat": "month",
    "jahr": "year",
    "wochenende": "weekend",
}
_SEASONS: Final = {
    "frühling": "spring",
    "frühjahr": "spring",
    "sommer": "summer",
    "herbst": "autumn",
    "winter": "winter",
}


def _which(word: str | None) -> Which:
    word = (word or "").lower()
    if word.startswith(("letzt", "vergangen", "vorig")):
        return "last"
    return "next" if word.startswith(("nächst", "kommend")) else "this" if word.startswith("dies") else ""


def _month_of(found: re.Match[str]) -> int:
    name = found["month"].lower().replace("jänner", "januar")
    return _MONTHS.index(name) + 1


def _written(found: re.Match[str], said: SaidAt) -> Found:
    number, at = _month_of(found), int(found["day"])
    if found["year"]:
        return periods.of(int(found["year"]), number, at), "keep"
    return said.date(number, at), "year"


def _dotted(found: re.Match[str], said: SaidAt) -> Found:
    number, at = int(found["number"]), int(found["day"])
    if found["year"]:
        return periods.of(int(found["year"]), number, at), "keep"
    if not 1 <= number <= 12 or not 1 <= at <= 31:
        return None, "keep"
    return said.date(number, at), "replace"


def _iso(found: re.Match[str], said: SaidAt) -> Found:
    return periods.of(*(int(part) for part in found[0].split("-"))), "keep"


def _relative(found: re.Match[str], said: SaidAt) -> Found:
    days = {"vorgestern": -2, "gestern": -1, "heute": 0, "morgen": 1, "übermorgen": 2}[found["word"].lower()]
    return periods.day(said.today + timedelta(days=days)), "replace"


def _ago(found: re.Match[str], said: SaidAt) -> Found:
    return said.away(_UNITS[found["unit"].lower()], -_number(found["count"])), "replace"


def _ahead(found: re.Match[str], said: SaidAt) -> Found:
    if said.past:
        return None, "replace"
    return said.away(_UNITS[found["unit"].lower()], _number(found["count"])), "replace"


def _number(word: str) -> int:
    word = word.lower()
    if word.isdecimal():
        return int(word)
    return _NUMBERS.index(word) + 2 if word in _NUMBERS else 1


def _near(found: re.Match[str], said: SaidAt) -> Found:
    return said.near(_UNITS[found["unit"].lower()], _which(found["which"]) or "this"), "replace"


def _month_near(found: re.Match[str], said: SaidAt) -> Found:
    if found["year"]:
        return periods.month(int(found["year"]), _month_of(found)), "keep"
    which = _which(found["which"])
    if found.string[: found.start()].lower().endswith("seit "):
        said = said._replace(past=True)
    return said.month(_month_of(found), which), "replace" if which else "year"


def _season(found: re.Match[str], said: SaidAt) -> Found:
    name = _SEASONS[found["season"].lower()]
    if found["year"]:
        return periods.season(int(found["year"]), name), "keep"
    return said.season(name, _which(found["which"])), "replace"


def _weekday(found: re.Match[str], said: SaidAt) -> Found:
    name = found["weekday"].lower().replace("sonnabend", "samstag")
    return said.weekday(_DAYS.index(name), _which(found["which"])), "replace"


def _year(found: re.Match[str], said: SaidAt) -> Found:
    return periods.year(int(found["year"])), "keep"


def _rule(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"\b{pattern}", re.IGNORECASE)


def _behind(words: str) -> str:
    return "(?:" + "|".join(rf"(?<=\b{word} )" for word in words.split()) + ")"


RULES: Final = (
    (_rule(r"\d{4}-\d{2}-\d{2}\b"), _iso),
    (_rule(rf"(?P<day>\d{{1,2}})\.(?P<number>\d{{1,2}})\.(?:{_YEAR})?"), _dotted),
    (_rule(rf"(?P<day>\d{{1,2}})\. ?{_MONTH}(?: {_YEAR})?"), _written),
    (_rule(r"(?<!guten )(?<!am )(?<!jeden )(?P<word>vorgestern|gestern|heute|übermorgen|morgen)\b" + _PART), _relative),
    (_rule(rf"vor {_COUNT} {_UNIT}"), _ago),
    (_rule(rf"in {_COUNT} {_UNIT}"), _ahead),
    (_rule(rf"{_WHICH} (?P<unit>woche|wochenende|monat|jahr)(?:s|es)?\b"), _near),
    (_rule(r"(?<=\bam )(?P<which>)(?P<unit>wochenende)\b"), _near),
    (_rule(rf"(?P<which>){_SEASON} {_YEAR}"), _season),
    (_rule(rf"{_WHICH} {_SEASON}(?P<year>)"), _season),
    (_rule(rf"(?<=\bim )(?P<which>){_SEASON}(?P<year>)"), _season),
    (_rule(rf"(?P<which>){_MONTH} {_YEAR}"), _month_near),
    (_rule(rf"{_WHICH} {_MONTH}(?P<year>)"), _month_near),
    (_rule(rf"{_behind('im seit bis ende anfang mitte')}(?P<which>){_MONTH}(?P<year>)"), _month_near),
    (_rule(rf"(?:{_WHICH} |{_behind('am bis ab seit von')})(?:zum )?{_WEEKDAY}{_PART}\b"), _weekday),
    (_rule(rf"{_behind('seit bis haben habe hat ab jahr waren war bin')}{_YEAR}(?![-/:%\w]|\.\d)"), _year),
    (re.compile(rf"^{_YEAR}(?= \w)"), _year),
)
"""Tried in this order; what one has found is not looked at by the others."""
