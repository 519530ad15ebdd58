"""The forms in which people claim something in English."""

import re
from collections.abc import Iterator
from typing import Final

from daycare.features.memory.facts.learned import Claim
from daycare.features.memory.language.lists import COMMON
from daycare.features.memory.language.name_signs import A_RELATION, PET, RELATION
from daycare.features.memory.language.patterns import either, pattern

CLAUSE_MAX_CHARS: Final = 400  # longer clauses are not looked at: no pattern can be slow on them

_CAP: Final = "(?-i:[A-Z\u00c0-\u00de])"
_NAME: Final = rf"(?:(?:Dr|Mr|Mrs|Ms|Prof)\.? )?{_CAP}[\w'-]*(?: {_CAP}[\w'-]*){{0,3}}"
_FIRST_NAME: Final = (
    rf"(?:(?:Dr|Mr|Mrs|Ms|Prof)\.? )?{_CAP}[a-z\u00df-\u00ff'-]+(?: {_CAP}[a-z\u00df-\u00ff'-]+){{0,2}}"
)

# -- what people like ----------------------------------------------------------------------------------------------

_LATELY: Final = either(
    "ever since, since, nowadays, lately, usually, sometimes, in general, these days, personally, frankly",
)
_WHO: Final = (
    rf"^(?:{_LATELY}\b[\w' ]{{0,40}} )?"
    rf"(?P<who>I|we|they|he|she|(?:my|our|the) [\w'-]{{2,20}}(?: {_CAP}[\w-]+)?|{_CAP}[\w-]+(?: and {_CAP}[\w-]+)?)"
)
_BE: Final = r"(?:\s+(?:am|is|are)|'m|'s|'re)"
_HOW: Final = r"(?:\s+(?:also|still|both|always|all|do|too|usually|generally|so|a bit|big|huge)){0,2}"
_FAN: Final = either(
    r"into, fond of, keen on, crazy about, mad about, obsessed with, an? (?:\w+ )?fan of, fans of, passionate about",
    "addicted to, partial to",
)
_LIKE: Final = either("likes?, loves?, enjoys?, adores?, prefers?, fancy, fancies")
_HATE: Final = either(
    r"hates?, dislikes?, detests?, loathes?, despises?, can(?:'t|not| not) (?:stand|bear), avoids?(?= \w+ing)",
    r"(?:don't|doesn't|do not|does not|never)(?: \w+)? (?:like|enjoy|love|care for|care much for)",
)
_TASTES: Final = tuple(
    (pattern(rf"{start}\s+(?P<what>.+)$"), attribute)
    for start, attribute in (
        (rf"{_WHO}{_HOW}\s+{_HATE}", "dislikes"),
        (rf"{_WHO}{_BE} (?:not|no) {_HOW}(?:\s*\w+)? ?(?:{_FAN}|fan of)", "dislikes"),
        (rf"{_WHO}(?:'ve|\s+have|\s+has) always (?:loved|liked|enjoyed|preferred)", "likes"),
        (rf"{_WHO}{_BE}{_HOW}\s+{_FAN}", "likes"),
        (rf"{_WHO}{_HOW}\s+{_LIKE}", "likes"),
    )
)
_RATHER: Final = pattern(r"^I(?:'d| would) rather (?P<what>(?!not\b).+?) than .+$")
# What is liked for the moment: an answer, an idea, what somebody has just said.
_NO_TASTE: Final = pattern(
    either(
        "it(?! when), that, this, them, him, her, you, yours?, those, these, what, how, whatever, both, all of",
        "when you",
        "the (?:idea|sound|look|fact|part|first|second), hearing, seeing (?:you|how|that), talking (?:to|with) you",
        "to (?:hear|say|see|know|think|admit|help|tell|ask|learn|have|go|get|meet|try|do|make|chat|talk|believe|share)",
        "to be (?!called), being (?:able|part), knowing",
    )
    + r"\b"
)
_SPOKEN_TO: Final = pattern(r"\b(?:you|your|him|them)\b")
_ONE_LIKE: Final = pattern(r"^\s+(?:like|love|enjoy|prefer|hate)\b")  # of one person it is "likes"
_QUOTED: Final = re.compile(r"\"([^\"]{2,80})\"")
_TASTE_END: Final = pattern(
    r"\s*(?:[,;.!?]|\b"
    + either(
        "these days, nowadays, at the moment",
        "because, but, so that, and so, since, although, though, any ?more, too$, as well, a lot$, so much",
        "very much, the most",
        r"most of all, than, over(?= \w+), more than, and (?:I|we|it|he|she|they)\b",
    )
    + r"\b).*$"
)
_FAV: Final = "(?:favou?rite|fave|fav)"
_MINE: Final = r"(?:all-time\s+|absolute\s+|new\s+)?"
_FAVOURITE: Final = pattern(
    rf"(?P<who>\b(?:my|our|his|her|their)|\b{_CAP}\w+'s)\s+{_MINE}(?P<what>{_FAV}\s+\w[\w' -]{{1,50}}?)"
    r"\s+(?:is|are|was|has always been|would be|has to be)\s+(?P<value>.+)$"
)
_IS_FAVOURITE: Final = pattern(
    r"^(?P<value>[\w'\"& -]{2,60}?)\s+(?:is|are|was)\s+(?:definitely |still )?(?:my|our)\s+"
    rf"{_MINE}(?P<what>{_FAV}(?:\s+\w[\w' -]{{1,40}})?)$"
)
_POINTS: Final = pattern(r"(?:it|that|this|they|these|those|he|she|which|what|one|there)\b")

# -- "my X is Y" ---------------------------------------------------------------------------------------------------

_MY: Final = pattern(
    r"^(?:my|our)\s+(?P<what>[\w'-]+(?: [\w'-]+){0,4}?)(?P<is> is| are| was|'s)"
    r"(?: now| still| currently| called| named)?\s+(?P<value>.+)$"
)
_NAMED: Final = pattern(
    r"\b(?:my|our)\s+(?P<what>[\w-]+(?: [\w-]+){0,2}?(?:'s name(?= is))?)"
    rf"(?:(?<=name) is|,? (?:is |are )?(?:called|named))\s+(?P<value>{_NAME}(?: and {_NAME})?|\w+$)"
)
_RELATION_NAMED: Final = re.compile(rf"\b{RELATION} (?P<name>{_CAP}[\w-]+(?: {_CAP}[\w-]+)?)$")
_IS_MY: Final = pattern(rf"^(?P<value>{_NAME}) (?:is|was) (?:my|our) (?P<what>(?:\w+ )?{RELATION})$")
_NO_THING: Final = pattern(
    either(
        "point, question, guess, bad, pleasure, problem, advice, ideas?, opinion, issue, apologies, answer",
        "thoughts?, hopes?",
        "plans?, goals?, dreams?, concerns?, understanding, impression, suggestion, heart, mind, head, hands",
        "eyes, feelings?, day",
        "week, weekend, morning, evening, life, love, passion, aim, focus, biggest, main, next, first, last",
        "only, own, way, turn",
        "fault, experience, progress, support, journey, words?, best bet, time, trip, favou?rite, fave, kind, name",
    )
    + r"\b"
)
_NO_VALUE: Final = pattern(
    either(
        "that, to, so, very, too, not, just, because, why, how, what, as, like, about, always, also, already",
        "really, going, gonna",
        "coming, getting, here, there, back, it, this, all, even, gone, done, fine, ok, okay, good, great",
        "amazing, awesome, such",
        "important, special, everything, lovely, nice, one of, mine, yours, with, doing, been, got, had",
        r"\w+ing (?:the|a|an|to|for|in|on|at|up|out|my|his|her|us|me|with|down), \w+ed",
    )
    + r"\b"
)
_ABBREVIATED: Final = r"(?<!\bDr)(?<!\bMr)(?<!\bMs)(?<!\bMrs)(?<!\bSt)"
_VALUE_END: Final = re.compile(
    rf"\s*(?:[;!?]|,\s(?!\d|[A-Z])|{_ABBREVIATED}\.(?=\s|$)"
    r"|\b(?:because|but|so that|since|although|though|which|who|and (?:I|we|it|she|he|they|my))\b).*$"
)
_VALUE_WORDS_MAX: Final = 8
_STATE_WORDS_MAX: Final = 6  # of "my sister is ..."

# -- what people are, have and do ----------------------------------------------------------------------------------

_REMEMBER: Final = pattern(
    "^(?:please )?(?:can you |could you )?(?:please )?"
    + either(
        "remember, note, make a note, take note, keep in mind, bear in mind, don't forget, do not forget",
        "never forget, fyi",
        "for the record, for your information",
    )
    + r"(?: (?:please|also))?(?:\s+that\b|:)?\s+"
    r"(?P<value>(?!(?:to|when|how|me|this|it|you|your|what|why|those|these|the (?:good|old|time|days))\b)\S.+)$"
)
_WORKER: Final = either(
    r"\w{2,}(?:ist|ian|eer), nurse, chef, cook, student, pilot, clerk, architect, agent, scientist, coach, guide, vet",
    "intern, accountant, assistant, consultant, nanny, monk, judge, barista, postman, paramedic, mechanic, freelancer",
) + r"|\w*" + either(
    "smith, wife, keeper, worker, driver, maker, writer, teacher, builder, dresser, sitter, player, seller, designer",
    "developer, manager, painter, lawyer, officer, fighter, trainer, programmer, photographer, researcher, carpenter",
    "plumber, baker, butcher, waiter, banker, dancer, singer, farmer, engineer, lecturer, professor, doctor, actor",
    "director, editor, author, tutor, contractor, translator, inspector",
)  # fmt: skip
_JOB: Final = rf"(?!(?:vegetar|christ))(?:\w+ ){{0,2}}(?:{_WORKER})(?! (?:fan|person|lover))\b(?: at [^,.;]+)?"
_CONDITION: Final = r"(?:(?:strict|lifelong|single) )?" + either(
    "vegetarian, vegan, pescatarian, diabetic, pregnant, retired, divorced, married, engaged, single, widowed",
    "left-handed",
    "colou?r-?blind, lactose intolerant, gluten intolerant, deaf, blind, teetotall?er, c(?:o)?eliac, dyslexic",
    "asthmatic, adopted",
    "unemployed, self-employed, transgender, trans, gay, lesbian, bisexual, non-binary, only child, night owl",
    "early bird",
    "morning person, introvert, extrovert, widower?, catholic, muslim, jewish, buddhist, hindu, atheist, mother",
    "father, mom, dad",
)
_OWN: Final = either(
    f"{RELATION}, {PET}, children, siblings, garden, car, boat",
    "motorbike, allotment",
)
_ILLNESS: Final = r"(?:type \d )?" + either(
    "diabetes, asthma, migraines?, adhd, epilepsy, dyslexia, depression, arthritis, tinnitus"
)
_HAD: Final = rf"(?:an? |one |two |three |four |five |six |\d+ )(?:\w+ )?{_OWN}s?"
_I: Final = r"(?<![\w'])(?:I|we)"
_I_AM: Final = r"(?<![\w'])(?:I'm|I am)(?: also| actually| currently| now| still)?"
_NOW: Final = r"(?: currently| now| still| actually)?"
_PLAIN: Final = r"(?P<value>[^,.;:]+)"
_STATES: Final = tuple(
    (attribute, pattern(text))
    for attribute, text in (
        (
            "name",
            rf"(?:\bmy name is|\bmy name's|\bcall me|{_I_AM} called|\bI go by|\bpeople call me)\s+(?P<value>{_NAME})",
        ),
        ("name", rf"^(?:I'm|I am|this is)\s+(?P<value>{_FIRST_NAME})(?=,|$| by the way| and )"),
        ("lives in", rf"{_I}{_NOW} (?:live|reside) in {_PLAIN}"),
        ("lives in", rf"{_I}(?:'m| am|'re| are){_NOW} (?:based|living) in {_PLAIN}"),
        (
            "lives in",
            rf"{_I}(?:'ve| have)?(?: just| recently| finally)? (?:moved|relocated) (?:back )?(?:from [\w ]+ )?to "
            rf"(?P<value>(?:the )?{_CAP}[^,.;]*)",
        ),
        ("works at", rf"{_I}(?:{_NOW}| started to| started) work(?:ing)? (?:at|for) (?:the |an? )?{_PLAIN}"),
        ("works at", rf"{_I}(?: have|'ve) been working (?:at|for) (?:the |an? )?{_PLAIN}"),
        ("works at", rf"{_I_AM} working (?:at|for) (?:the |an? )?{_PLAIN}"),
        ("works as", rf"\bwork(?:ing)?(?: [\w-]+){{0,3}} as (?:an? )?{_PLAIN}"),
        ("works as", rf"{_I_AM} an? (?P<value>{_JOB})"),
        ("is", rf"{_I_AM} (?:an? )?(?P<value>{_CONDITION})\b(?! (?:about|with|in|by|of|to)\b)"),
        ("from", rf"(?:{_I_AM}|\bI come) (?:originally )?from (?P<value>{_CAP}[^,.;]*)"),
        ("born in", rf"\bI was born\b.{{0,30}}?\bin (?P<value>{_NAME})"),
        ("born on", rf"\bI was born\b.{{0,40}}?\bon (?:the )?(?P<value>\d{{1,2}}[^,.;]*|{_CAP}\w+ \d[^.;]*)"),
        ("grew up in", rf"\bI (?:grew up|was raised) in {_PLAIN}"),
        ("age", rf"{_I_AM} (?:only |already )?(?P<value>\d{{1,3}})(?= years?[ -]old|\s*$|,)"),
        ("allergic to", rf"{_I_AM} (?:\w+ )?(?:allergic|intolerant) to {_PLAIN}"),
        ("allergic to", r"\bI have an? (?P<value>\w+) allergy\b"),
        ("afraid of", rf"{_I_AM} (?:\w+ )?(?:afraid|scared|terrified|frightened) of {_PLAIN}"),
        ("speaks", rf"\bI (?:also |can )?speak (?P<value>{_CAP}[^,.;]*)"),
        ("studied", rf"\bI (?:studied|majored in|have a degree in) (?P<value>[^,.;]+?)(?= at | in {_CAP}|$|[,.;])"),
        ("studies", rf"(?:\bI study|{_I_AM} studying) (?P<value>[^,.;]+?)(?= at | in {_CAP}|$|[,.;])"),
        (
            "has",
            rf"(?:{_I}|\bmy \w+ and I)(?: also)?(?: have|'ve got| have got) (?P<value>{_HAD}|{_ILLNESS})"
            r"(?=$|[,.;]| and | named | called | who | that )",
        ),
    )
)
_SELF: Final = pattern(r"(?<![\w'])(?:I|I'm|my|we|we're|call me|work\w*|this is)\b")  # without it none of them matches
_STATE_END: Final = pattern(
    r"\s+"
    + either(
        "and (?:I|we|work|live|my|am|have|love|enjoy), with my, since, but, now, at the moment, any ?more, last",
        "next, because",
        r"in (?:19|20)\d\d, when, where, by the way, as an?\b, to be, right now, these days",
        r"for (?:\w+ ){1,3}(?:years?|months?|weeks?), (?:a|two|three|four|five|six|\d+|few) \w+ ago",
    )
    + ".*$"
)
_NO_FIRST_NAME: Final = pattern(
    "^"
    + either(
        "sure, back, happy, sorry, glad, home, fine, ok, here, going, not, so, in, very, just, french, german, dutch"
    )
    + r"$|\w(?:ish|ese|[aeit]an|lan)$"
)
_NO_LONGER: Final = pattern(
    r"(?<![\w'])(?:I|we) (?:don't|do not|no longer) (?P<verb>live|work) (?:in|at|for) "
    r"(?P<value>.+?)(?: any ?more\b.*| any longer.*|[,.;].*|$)"
)
_HEDGE: Final = pattern(r"\b(?:if|maybe|perhaps|suppose|imagine|pretend|might|could|would|should|wish|once|whenever)\b")


def claims(clause: str, last_subject: str = "") -> Iterator[Claim]:
    """Yield what a clause claims; the same attribute may come twice, the first is the better one."""
    clause = clause[:CLAUSE_MAX_CHARS]
    remember = _REMEMBER.match(clause)
    if remember:
        clause = remember["value"]
        yield Claim("remember", clause, confidence=0.95)
    yield from _tastes(clause, last_subject)
    yield from _states(clause)
    yield from _mine(clause)


def _tastes(clause: str, last_subject: str) -> Iterator[Claim]:
    favourite = _FAVOURITE.search(clause)
    if favourite and not _HEDGE.search(clause[: favourite.start()]):
        value = re.sub(r"^(?:now|still|currently) ", "", _VALUE_END.sub("", favourite["value"]))
        if value[:1].isupper() or not _NO_VALUE.match(value):
            who = favourite["who"]
            of = "" if who.lower() in ("my", "our") else last_subject if who[0].islower() else who.removesuffix("'s")
            yield Claim(favourite["what"], value, "preference", of)
        return
    favourite = _IS_FAVOURITE.match(clause)
    if favourite:
        if not _POINTS.match(favourite["value"]):
            yield Claim(favourite["what"], favourite["value"], "preference")
        return
    rather = _RATHER.match(clause)
    if rather:
        yield Claim("likes", rather["what"], "preference")
        return
    for form, attribute in _TASTES:
        found = form.match(clause)
        if found:
            quoted = _QUOTED.match(found["what"])
            what = quoted[1] if quoted else _TASTE_END.sub("", found["what"])
            if "prefer" in found[0][: found.start("what")].lower():
                what = re.sub(r"(?<=\w) to (?:the|my|a)?\b.*$", "", what)
            who = _person(found, last_subject)
            if who is not None and not _NO_TASTE.match(what) and not _SPOKEN_TO.search(what):
                yield Claim(attribute, what.removeprefix("to "), "preference", who)
            return


def _person(found: re.Match[str], last_subject: str) -> str | None:
    """Return who likes something, "" for the speaker; None if that is not to be known."""
    who, low = found["who"], found["who"].lower()
    if low in ("i", "we"):
        return ""
    if low in ("he", "she", "they"):
        return last_subject or None
    first = low.split()[0]
    if first not in ("my", "our", "the") and (first in COMMON or _ONE_LIKE.search(found[0][found.end("who") :])):
        return None  # "Sounds like a plan"
    return who


def _states(clause: str) -> Iterator[Claim]:
    gone = _NO_LONGER.search(clause)
    if gone:
        attribute = "lives in" if gone["verb"].lower() == "live" else "works at"
        yield Claim(attribute, gone["value"], ended=True)
        clause = clause[gone.end() :]
    if not _SELF.search(clause):
        return
    for attribute, form in _STATES:
        found = form.search(clause)
        if found and not _HEDGE.search(clause[: found.start("value")]):
            value = _STATE_END.sub("", found["value"])
            if attribute == "works as":
                value = re.sub(r" in [A-Z].*$", "", value)
            if attribute != "name" or not _NO_FIRST_NAME.search(value):
                yield Claim(attribute, value)


def _mine(clause: str) -> Iterator[Claim]:
    named = _NAMED.search(clause)
    if named and not _NO_THING.match(named["what"]):
        yield Claim(named["what"], named["value"])
        return
    called = _IS_MY.match(clause)
    if called:
        yield Claim(called["what"], called["value"])
        return
    found = _MY.match(clause)
    if found is None or _NO_THING.match(found["what"]):
        return
    value = re.sub(r"^(?:on|the|an?)\s+", "", _VALUE_END.sub("", found["value"]), flags=re.IGNORECASE)
    count, past = len(value.split()), found["is"].strip() == "was"
    if not value or past or _NO_VALUE.match(value) or count > _VALUE_WORDS_MAX:
        return
    what = found["what"]
    if found["is"] == "'s" and not value[0].isupper():
        return  # "my neighbour's dog barks"
    named = _RELATION_NAMED.search(what)
    if named:
        yield Claim("is", value, of=named["name"], confidence=0.7)
        return
    if not value[0].isupper() and (A_RELATION.match(what.split()[-1]) or re.fullmatch(PET, what.split()[-1])):
        if count <= _STATE_WORDS_MAX:
            yield Claim("is", value, of=f"my {what}", confidence=0.7)
        return
    sure = value[0].isupper() or any(letter.isdigit() for letter in value)
    yield Claim(what, value, confidence=0.9 if sure else 0.6)
