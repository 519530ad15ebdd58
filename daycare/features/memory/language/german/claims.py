"""The forms in which people claim something in German: the most common ones only."""

import re
from collections.abc import Iterator
from typing import Final

from daycare.features.memory.facts.learned import Claim
from daycare.features.memory.language.name_signs import PET, RELATION
from daycare.features.memory.language.patterns import either, pattern

CLAUSE_MAX_CHARS: Final = 400  # longer clauses are not looked at: no pattern can be slow on them

_CAP: Final = "(?-i:[A-Z\u00c0-\u00de])"
_NAME: Final = rf"{_CAP}[\w'-]*(?: {_CAP}[\w'-]*){{0,2}}"
_PLAIN: Final = r"(?P<value>[^,.;:]+)"
_MY: Final = r"(?:mein|meine|unser|unsere)"


_TASTES: Final = (
    ("dislikes", pattern(r"^ich (?:mag|liebe) (?:gar |überhaupt )?kein(?:e|en)? (?P<what>.+)$")),
    ("dislikes", pattern(r"^ich (?:hasse|verabscheue) (?P<what>.+)$")),
    ("dislikes", pattern(r"^ich kann (?P<what>.+?) nicht (?:leiden|ausstehen|ab)$")),
    ("dislikes", pattern(r"^ich (?:mag|esse|trinke) (?P<what>.+?) (?:gar |überhaupt )?nicht(?: gern)?$")),
    ("likes", pattern(r"^ich (?:esse|trinke|lese|höre|spiele|mag) (?:am liebsten|lieber|gern|gerne) (?P<what>.+)$")),
    ("likes", pattern(r"^ich (?:mag|liebe|bevorzuge) (?P<what>.+)$")),
    ("likes", pattern(rf"^(?P<who>{_CAP}[\w-]+|{_MY} \w+(?: {_CAP}[\w-]+)?) (?:mag|liebt) (?P<what>.+)$")),
)
_NO_TASTE: Final = pattern(r"(?:es|das|dies|dich|sie|ihn|dass|wie|wenn|nicht|kein\w*|deine?\w*|dir|zu)\b")
_TASTE_END: Final = pattern(r"\s*(?:[,;.!?]|\b(?:weil|aber|als|sehr|und ich|am meisten|auch$)\b).*$")
_FAVOURITE: Final = pattern(rf"\b{_MY} (?P<what>lieblings\w+) (?:ist|sind|war|heißt) (?P<value>[^,.;]+)")
_WHERE: Final = (
    either("ich wohne, ich lebe, wir wohnen, wir leben") + r"(?: jetzt| zurzeit| momentan| inzwischen| seit [\w ]+)? in"
)
_CONDITION: Final = either(
    "vegetarier(?:in)?, veganer(?:in)?, vegan, vegetarisch, diabetiker(?:in)?, schwanger, verheiratet, geschieden",
    "rentner(?:in)?",
)
_CALLED: Final = either("mein name ist, ich heiße, nenn mich, ich bin")
_JOB: Final = either("pfleger, lehrer, arzt, meister, fahrer, macher, bauer, ist, eur, techniker, verkäufer, berater")
_COUNT: Final = r"(?:ein|eine|einen|zwei|drei|vier|fünf|\d+)"
_OWN: Final = either(f"{RELATION}, {PET}, kinder, geschwister, söhne, töchter, brüder, schwestern, katzen, hunde")
_STATES: Final = tuple(
    (attribute, pattern(rf"\b{text}"))
    for attribute, text in (
        ("works as", rf"ich bin (?:ein |eine )?(?P<value>{_CAP}\w+{_JOB}(?:in)?)$"),
        ("name", rf"{_CALLED}\s+(?P<value>(?!\w+{_JOB}(?:in)?$){_NAME})(?=$|,| und )"),
        ("lives in", rf"{_WHERE} {_PLAIN}"),
        ("lives in", rf"(?:ich bin|wir sind)(?: .{{1,30}})? nach (?P<value>{_NAME})(?: .{{1,20}})? (?:um)?gezogen\b"),
        ("works as", rf"arbeite(?: \w+)? als {_PLAIN}"),
        ("works at", rf"arbeite(?: \w+)? (?:bei|für) (?:der |dem |den )?(?P<value>.+?)(?= in {_CAP}| als |$|[,.;])"),
        ("born in", rf"ich (?:bin|wurde)(?: .{{1,40}})? in (?P<value>{_NAME}) geboren\b"),
        ("born on", r"ich (?:bin|wurde) am (?P<value>\d{1,2}\..{1,20}?)(?: in .{1,30})? geboren\b"),
        ("grew up in", rf"ich bin in (?P<value>{_NAME}) aufgewachsen\b"),
        ("from", rf"ich komme aus (?P<value>{_NAME})"),
        ("age", r"ich bin (?P<value>\d{1,3})(?: jahre alt|$)"),
        ("allergic to", rf"ich bin (?:\w+ )?allergisch (?:gegen|auf) {_PLAIN}"),
        ("afraid of", rf"ich habe (?:\w+ )?angst vor {_PLAIN}"),
        ("speaks", rf"ich spreche (?P<value>{_CAP}[^,.;]*)"),
        ("studies", r"ich studiere (?P<value>[^,.;]+?)(?= an | in |$)"),
        ("is", rf"ich bin (?:ein |eine )?(?P<value>{_CONDITION})\b"),
        ("has", rf"(?:ich habe|wir haben) (?P<value>{_COUNT} (?:\w+ )?{_OWN})\b"),
    )
)
_REMEMBER: Final = pattern(
    r"^(?:bitte )?(?:merk(?:e)? dir|denk(?:e)? daran|vergiss nicht|nicht vergessen|notier(?:e)?)(?: bitte)?[,:]?"
    r"(?:\s+dass\b|\s*[,:])?\s+(?P<value>\S.+)$"
)
_NAMED: Final = pattern(rf"\b{_MY} (?P<what>\w+(?: \w+)?) (?:heißt|ist|sind) (?P<value>.+)$")
_BIRTHDAY: Final = pattern(r"\b(?:mein|ihr|sein) (?P<what>geburtstag) ist am (?P<value>[^,;]+)$")
_NO_THING: Final = pattern(
    r"(?:name|meinung|frage|idee|problem|fehler|tag|woche|leben|plan|lieblings\w+|ziel|eindruck|vorschlag|geburtstag)\b"
)
_NO_VALUE: Final = pattern(
    either(
        "dass, zu, so, sehr, nicht, nur, gut, toll, wichtig, schön, hier, da, weg, es, das, gerade, auch, immer",
        "schon, noch",
        "heute, gestern, morgen, am, im, in, bei, mit",
    )
    + r"\b"
)
_HEDGE: Final = pattern(r"\b(?:wenn|falls|vielleicht|würde|könnte|möchte|hätte|angenommen)\b")


def claims(clause: str) -> Iterator[Claim]:
    """Yield what a clause claims; the same attribute may come twice, the first is the better one."""
    clause = clause[:CLAUSE_MAX_CHARS]
    remember = _REMEMBER.match(clause)
    if remember:
        clause = remember["value"]
        yield Claim("remember", clause, confidence=0.95)
    if _HEDGE.search(clause):
        return
    favourite = _FAVOURITE.search(clause)
    if favourite:
        yield Claim(favourite["what"], favourite["value"], "preference")
    for attribute, form in _TASTES:
        found = form.match(clause)
        if found:
            what = _TASTE_END.sub("", found["what"])
            if not _NO_TASTE.match(what):
                yield Claim(attribute, what, "preference", found.groupdict().get("who") or "")
            break
    for attribute, form in _STATES:
        found = form.search(clause)
        if found:
            value = re.sub(r"\s+(?:und|seit|mit|weil)\b.*$", "", found["value"])
            yield Claim(attribute, re.sub(r" in [A-Z].*$", "", value) if attribute == "works as" else value)
    birthday = _BIRTHDAY.search(clause)
    if birthday:
        yield Claim("birthday", birthday["value"])
    named = _NAMED.search(clause)
    if named and not _NO_THING.match(named["what"]):
        value = re.sub(r"^(?:ein|eine|der|die|das)\s+", "", re.split(r",|;| und | weil ", named["value"])[0])
        if not _NO_VALUE.match(value) and len(value.split()) <= 6:
            sure = value[:1].isupper()
            yield Claim(named["what"], value, confidence=0.8 if sure else 0.6)
