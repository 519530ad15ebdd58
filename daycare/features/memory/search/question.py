"""What a question names: what it is about, who said it, when that was, and what kind of answer it wants."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Final, NamedTuple

from daycare.features.memory.language import analysis, dates
from daycare.features.memory.language.analysis import Term
from daycare.features.memory.language.patterns import either, pattern
from daycare.features.memory.language.periods import Period, Unit

RECENT_WEIGHT: Final = 0.25  # of words that were said before a question that has few of its own
_FEW: Final = 2  # terms of a question that is understood by what was said before
_RECENT_MAX: Final = 6  # terms taken from there
_LOOKED_AT: Final = 1_000  # characters of a question: what is longer was pasted
_ASKER_WEIGHT: Final = 0.4  # of "I" beside a name: an answer about somebody may be in what they were told
_SPANS: Final[Mapping[Unit, float]] = {"year": 0.15}  # a year leaves much to choose from; shorter ones count whole
_NAME_MIN: Final = 2  # letters

_WHEN: Final = pattern(
    "^"
    + either("when, since when, wann, seit wann, quand, depuis quand, cuándo, cuando, desde cuándo")
    + r"\b|\b"
    + either(
        r"how long, how old, (?:what|which) (?:year|month|date|day|week|time)",
        r"how (?:many|much) (?:years|months|weeks|days|time|hours)",
        r"wie lange?, wie alt, wie viel uhr, welche[mnrs]? (?:jahr|monat|tag|woche|datum)",
        "combien de temps, quel âge, quelle? (?:jour|mois|année|date|heure)",
        "cuánto tiempo, qué edad, qué (?:día|mes|año|fecha|hora)",
    )
    + r"\b"
)
_NUMBER: Final = pattern(
    r"\b"
    + either(
        "how (?:many|much|often|old|long|far|tall), what (?:number|age|percentage|amount)",
        "wie (?:viele?|oft|alt|lange?|weit|groß|hoch|teuer), combien, quel âge, cuánt[oa]s?, qué edad",
    )
    + r"\b"
)
_NAME: Final = pattern(
    r"\b"
    + either(
        "who, whom, whose, where, which, called, names?",
        "wer, wem, wen, wessen, wo, wohin, woher, welche[mnrs]?, heißt",
        "qui, où, quel(?:le)?s?, appelle, nom, quiénes?, dónde, adónde, cuál(?:es)?, llama, nombre",
    )
    + r"\b"
)
_FIRST: Final = pattern(
    r"\b"
    + either(
        "I, me, my, mine, we, our, us, ich, mir, mich, meine?[mnrs]?, wir, uns, unsere?[mnrs]?",
        "je, j, moi, mon, ma, mes, nous, notre, yo, mi, mis, me, nosotros",
    )
    + r"\b"
)
_TOLD: Final = pattern(
    r"\b(?:did|have|had|were) you (?:\w+ )?"
    + either(
        r"say, said, tell, told, suggest\w*, recommend\w*, advise\w*, mention\w*, explain\w*, write, wrote",
        r"promise\w*, give, gave, list\w*, propose\w*, call\w*",
    )
    + r"\b|\b(?:hast|hattest) du (?:\w+ ){0,4}"
    + either("gesagt, erzählt, vorgeschlagen, empfohlen, erwähnt, erklärt, geschrieben")
    + r"\b|\bas[- ]tu (?:\w+ )?dit\b|\b(?:me )?(?:dijiste|recomendaste)\b"
)
_AHEAD: Final = pattern(
    r"\b"
    + either(
        "tomorrow, tonight, next, (?:this )?coming, upcoming, in, within, from now, today",
        r"morgen, übermorgen, heute, nächste\w*, kommende\w*",
    )
    + r"\b"
)


class TimeSpan(NamedTuple):
    """A stretch of time that a question names, in milliseconds; `weight` says how exactly."""

    begin_ms: int
    end_ms: int
    weight: float = 1.0


class SearchQuestion(NamedTuple):
    """A question as ranking takes it. `speakers` are the codes of those it names, with weights."""

    terms: tuple[Term, ...]
    speakers: Mapping[int, float] = {}
    spans: tuple[TimeSpan, ...] = ()
    wants_time: bool = False
    wants_number: bool = False
    wants_name: bool = False


class NamedPeople(NamedTuple):
    """Whom a question may name: `called` has for each word of a name the codes of its bearers.

    `asker` and `answerer` are the codes of who asks and of the agent that is asked, None if nobody knows.
    """

    called: Mapping[str, frozenset[int]] = {}
    asker: int | None = None
    answerer: int | None = None


class HeardQuestion(NamedTuple):
    """What a question says whoever is known where it is asked: its telling words and times, and what it wants.

    `written` are the words as they stand in it.
    """

    text: str
    words: Sequence[str]
    written: frozenset[str]
    spans: tuple[TimeSpan, ...]
    wants_time: bool
    wants_number: bool
    wants_name: bool

    @property
    def is_vague(self) -> bool:
        """Whether it may take the words before it to understand it."""
        return sum(word in self.written for word in self.words) < _FEW  # the others may be names


def hear(text: str, now_ms: int, zone: str = "UTC") -> HeardQuestion:
    """Read a question."""
    text = text[:_LOOKED_AT].strip()
    spans, rest = _times(text, now_ms, zone)
    return HeardQuestion(
        text,
        analysis.telling(rest),
        frozenset(rest.split()),
        spans,
        wants_time=_WHEN.search(text) is not None,
        wants_number=_NUMBER.search(text) is not None,
        wants_name=_NAME.search(text) is not None,
    )


def read(heard: HeardQuestion, people: NamedPeople | None = None, recent: Sequence[str] = ()) -> SearchQuestion:
    """Return what a question names where these people are known. `recent` are the words before it, the oldest first."""
    people = people or NamedPeople()
    names = [word for word in heard.words if word in people.called]
    names_only = set(names) - heard.written  # "bob" and "rose" may be meant as words, "Bob" and "Rose" are not
    words = [word for word in heard.words if word not in names_only]
    terms = analysis.terms(words)
    if len(terms) < _FEW and recent:
        before = [word for said in reversed(recent) for word in analysis.telling(said[:_LOOKED_AT])]
        fresh = dict.fromkeys(word for word in before if word not in words and word not in people.called)
        terms += analysis.terms(list(fresh)[:_RECENT_MAX], RECENT_WEIGHT)
    return SearchQuestion(
        tuple(terms),
        _speakers(heard.text, names, people),
        heard.spans,
        heard.wants_time,
        heard.wants_number,
        heard.wants_name,
    )


def called(names: Sequence[str]) -> dict[str, frozenset[int]]:
    """Return what `NamedPeople.called` is for speakers whose codes are their places in `names`."""
    found: dict[str, frozenset[int]] = {}
    for code, name in enumerate(names):
        for word in analysis.words_of(name):
            if len(word) >= _NAME_MIN:
                found[word] = found.get(word, frozenset()) | {code}
    return found


def _speakers(text: str, names: Sequence[str], people: NamedPeople) -> dict[int, float]:
    """Return whose words are asked for. Of two people who are named neither is preferred to the other."""
    bearers = [people.called[name] for name in names]
    if bearers:
        both = frozenset.intersection(*bearers)  # "Ann Smith", where there are other Anns
        one = both if len(both) == 1 else frozenset.union(*bearers)
        return dict.fromkeys(one, 1.0) if len(one) == 1 else {}
    if people.answerer is not None and _TOLD.search(text):
        return {people.answerer: _ASKER_WEIGHT}
    if people.asker is not None and _FIRST.search(text):
        return {people.asker: _ASKER_WEIGHT}
    return {}


def _times(text: str, now_ms: int, zone: str) -> tuple[tuple[TimeSpan, ...], str]:
    """Return the times that a question names, and the question without them."""
    where = dates.zone_of(zone)
    said_on = dates.today(now_ms, where)
    moments = dates.find(text, said_on) or dates.find(text, said_on, "de")
    spans = []
    for moment in reversed(moments):
        period = _past(moment.period, text[moment.start : moment.end], said_on)
        if period is None:
            continue
        begin, end = dates.begin_ms(period.begin, where), dates.begin_ms(period.end, where)
        if moment.bound == "since":
            end = now_ms
        elif moment.bound == "until":
            begin = min(begin, 0)
        spans.append(TimeSpan(begin, end, _SPANS.get(period.unit, 1.0)))
        text = f"{text[: moment.start]} {text[moment.end :]}"
    return tuple(reversed(spans)), text


def _past(period: Period, words: str, today: date) -> Period | None:
    """Return the last one of a period that has a name, such as "in March"; None for what is yet to come."""
    if period.begin <= today:
        return period
    if _AHEAD.search(words) or period.unit not in ("day", "month", "season"):
        return None
    return Period(period.unit, _year_before(period.begin), _year_before(period.end))


def _year_before(day: date) -> date:
    last = day.year - 1
    return day.replace(year=last, day=28) if (day.month, day.day) == (2, 29) else day.replace(year=last)
