"""The extractor that needs no model: facts and entities from a range of conversation, by rules.

It knows a few plain forms in which people tell of themselves (claims), the names of people, places and things, and
dates; from the rest it keeps the clauses that are most likely asked about later, up to a tenth of what was said. It
keeps people's words as they are: a relative date becomes an absolute one, "I" becomes the name, tone is left out, and
nothing is added.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from datetime import tzinfo
from typing import Final, NamedTuple

from daycare.base.messages import Origin
from daycare.features.memory.facts import salience
from daycare.features.memory.facts.learned import (
    ENTITIES_MAX,
    FACTS_MAX,
    RULES,
    STATEMENT_MAX_CHARS,
    VALUE_MAX_CHARS,
    Claim,
    Kind,
    Learned,
    NewEntity,
    NewFact,
)
from daycare.features.memory.facts.salience import Candidate
from daycare.features.memory.language import dates, names, sentences
from daycare.features.memory.language.dates import Moment
from daycare.features.memory.language.english import claims as claims_english
from daycare.features.memory.language.german import claims as claims_german
from daycare.features.memory.language.lists import COMMON
from daycare.features.memory.language.names import Gathering
from daycare.features.memory.language.patterns import pattern, words
from daycare.features.memory.store.records import StoredMemory

KEPT_SHARE: Final = 0.099  # of a range's bytes, for facts: with the entities it is a tenth
KEPT_MIN_BYTES: Final = 160  # of a short range: three statements
LINES_MAX: Final = 2_000  # of one range; a whole history comes in several
SCORE_MIN: Final = -1.8  # one in seven is asked about; what is less likely is not kept, however much room there is
_WORDS_MAX_CHARS: Final = 200  # of a clause: what is longer is no statement
_BRIEF_WORDS: Final = 4  # an answer as short as this says little without its question
_HUMAN: Final = (Origin.PERSON, Origin.GROUP)  # not what was forwarded, attached or came from a program
_DATED: Final = ("birthday", "born on", "anniversary", "remember")  # the date is the value, not when it holds
_RELATED: Final = re.compile(
    "^(?:my|our|the|meine?|unsere?) (?P<what>[\\w'-]+)(?: (?P<name>[A-Z\u00c0-\u00de][\\w-]+))?$"
)


class Clause(NamedTuple):
    """A clause of a person, as it may become a fact. `past` is whether it tells of the past, None if unclear."""

    at: int  # of its line in the range
    line: StoredMemory
    statement: str
    sources: tuple[int, ...]
    moments: tuple[Moment, ...]
    claims: tuple[Claim, ...]
    signs: dict[str, float]
    past: bool | None


def extract(lines: Sequence[StoredMemory], people: Collection[str], zone: str, *, share: float = KEPT_SHARE) -> Learned:
    """Return what was told in a range of lines. `people` are the speakers who are persons; the others are context.

    `zone` is where the people are, for "yesterday". `share` of the range's bytes is filled with facts.
    """
    reader = ClauseReader(lines[:LINES_MAX], people, dates.zone_of(zone))
    return conclude(reader, list(reader.clauses()), share=share)


def conclude(reader: "ClauseReader", clauses: Sequence[Clause], *, share: float = KEPT_SHARE) -> Learned:
    """Return what was told, from all clauses of a reader: whoever may not block for long reads them one by one."""
    lines = reader.lines
    facts = [fact for clause in clauses for fact in reader.claimed(clause)]
    room = max(int(share * salience.size(line.text for line in lines)), KEPT_MIN_BYTES) - sum(map(kept_bytes, facts))
    rest = [clause for clause in clauses if not clause.claims]
    candidates = [Candidate(clause.at, clause.statement, salience.score(clause.signs)) for clause in rest]
    chosen = salience.choose(candidates, room, floor=SCORE_MIN)
    facts += [reader.fact(rest[at], confidence=round(candidates[at].likely, 2)) for at in chosen]
    facts.sort(key=lambda fact: fact.sources[-1])
    entities = tuple(reader.gathering.entities())
    return Learned(facts=tuple(facts[:FACTS_MAX]), entities=entities[:ENTITIES_MAX], by=RULES)


def kept_bytes(learned: NewFact | NewEntity) -> int:
    """Return how many bytes of words are kept of a fact or an entity; attribute and value repeat the statement's."""
    if isinstance(learned, NewFact):
        return len(learned.statement.encode())
    return salience.size((learned.name, *learned.aliases, learned.description))


class ClauseReader:
    """Reads a range of lines: its clauses, and the names in them, which are gathered on the way."""

    def __init__(self, lines: Sequence[StoredMemory], people: Collection[str], zone: tzinfo) -> None:
        self.gathering = Gathering(people)
        self.lines = lines
        self._people = people
        self._zone = zone
        self._names = frozenset(name.lower() for person in people for name in person.split())
        self._alone = len({line.speaker for line in lines if line.speaker in people}) < 2
        self._seen: set[str] = set()  # rare words of earlier lines

    def clauses(self) -> Iterator[Clause]:
        """Yield the clauses of people that may become facts."""
        return (step for step in self.steps() if step is not None)

    def steps(self) -> Iterator[Clause | None]:
        """Yield the clauses, and None in between wherever one may pause: after each line and each sentence, some ms."""
        question = ""  # the last one of the line before
        for at, line in enumerate(self.lines):
            text = sentences.clean(line.text)
            if line.speaker in self._people and line.origin in _HUMAN:
                yield from self._of_line(at, line, text, question)
            asked = [sentence.text for sentence in sentences.sentences(text) if sentence.asks]
            question = asked[-1] if asked else ""
            yield None

    def _of_line(self, at: int, line: StoredMemory, text: str, question: str) -> Iterator[Clause | None]:
        language, said_on = sentences.language_of(text), dates.today(line.at_ms, self._zone)
        asker = self.lines[at - 1] if question and self.lines[at - 1].speaker != line.speaker else None
        echo, heard = self._echo(at), set[str]()
        opening, subject = True, ""
        for sentence in sentences.sentences(text):
            for mention in names.find(sentence.text, language):
                self.gathering.add(mention, line.no, line.speaker)
            yield None
            if sentence.asks:
                continue
            past = dates.speaks_of_past(sentence.text, language)
            for part in sentences.clauses(sentence.text):
                words = sentences.squeezed(sentences.unaddressed(part, self._people))
                if not words or len(words) > _WORDS_MAX_CHARS:
                    continue
                moments = tuple(dates.find(words, said_on, language))
                claimed = tuple(claims(words, language, subject))
                rare = salience.rare_words(words, self._names)
                shown = salience.signs(
                    words,
                    rare,
                    len(set(rare) - self._seen),
                    dated=bool(moments),
                    asked=asker is not None,
                    opening=opening,
                    echoed=not echo.isdisjoint(rare),
                    ordered=self._alone,
                )
                statement = told(line.speaker, dates.resolve(words, moments), language)
                sources: tuple[int, ...] = (line.no,)
                if asker and opening and not claimed and len(words.split()) <= _BRIEF_WORDS:
                    statement = f"{statement} ({sentences.gist(question)}?)"
                    sources = (asker.no, *sources)
                yield Clause(at, line, statement, sources, moments, claimed, shown, past)
                heard.update(rare)
                opening, subject = False, subject_of(words) or subject
        self._seen |= heard

    def _echo(self, at: int) -> frozenset[str]:
        """Return the rare words of what somebody else says next."""
        if at + 1 >= len(self.lines) or self.lines[at + 1].speaker == self.lines[at].speaker:
            return frozenset()
        return frozenset(salience.rare_words(sentences.clean(self.lines[at + 1].text), self._names))

    def claimed(self, clause: Clause) -> Iterator[NewFact]:
        """Yield a fact for each claim of a clause; "remember" stands for itself only if nothing else does."""
        others = [claim for claim in clause.claims if claim.attribute != "remember"]
        for number, claim in enumerate(others or clause.claims):
            sure = 0.95 if len(others) < len(clause.claims) else claim.confidence
            yield self.fact(clause, confidence=sure, claim=claim, again=number > 0)

    def fact(self, clause: Clause, *, confidence: float, claim: Claim | None = None, again: bool = False) -> NewFact:
        """Return a clause as a fact; `again`: its words stand in another one already."""
        begin, end = self._validity(clause, claim)
        if claim is None:
            kind: Kind = "fact" if not clause.moments else "plan" if clause.past is False else "date"
            claim = Claim("", "", kind)
        subject = _subject(claim.of, clause.line.speaker)
        return NewFact(
            statement=f"{subject}: {claim.attribute} {claim.value}"
            if again
            else clause.statement[:STATEMENT_MAX_CHARS],
            subject=subject,
            attribute=claim.attribute,
            value=claim.value,
            kind=claim.kind,
            confidence=confidence,
            valid_from_ms=begin,
            valid_until_ms=end,
            sources=clause.sources,
        )

    def _validity(self, clause: Clause, claim: Claim | None) -> tuple[int | None, int | None]:
        """Return when a clause says that it holds or happened."""
        if claim and claim.ended:
            return None, clause.line.at_ms
        if claim and any(word in claim.attribute for word in _DATED):
            return None, None
        begins = [moment.period.begin for moment in clause.moments if moment.bound != "until"]
        ends = [moment.period.end for moment in clause.moments if moment.bound == "until"]
        begin = dates.begin_ms(begins[0], self._zone) if begins else None
        if not ends:
            return begin, None
        begin = clause.line.at_ms if begin is None and claim else begin
        end = dates.begin_ms(ends[0], self._zone)
        return (begin if begin is None or begin < end else None), end  # "until Friday yesterday": one is another's day


def _subject(of: str, speaker: str) -> str:
    """Return whose attribute it is: the speaker's own, "Ann's sister", or a name."""
    found = _RELATED.match(of[:1].lower() + of[1:])
    if found is None:
        return of or speaker
    return found["name"] or f"{speaker}'s {found['what']}"


_LEAD_IN: Final = pattern(r"^(?!(?:if|when|wenn|my|our|i)\b)[\w' ]{1,40}, (?=(?:I|I'm|my|ich|meine?)\b)")


def claims(clause: str, language: str, last_subject: str = "") -> Iterator[Claim]:
    """Yield what a clause claims. `last_subject` is who was spoken of before it, for "they" and "she"."""
    clause = _LEAD_IN.sub("", clause)
    found = claims_german.claims(clause) if language == "de" else claims_english.claims(clause, last_subject)
    seen: set[str] = set()
    for claim in found:
        value = " ".join(claim.value.split()).strip(" .,;:!\"'")
        if value and len(value) <= VALUE_MAX_CHARS and claim.attribute not in seen:
            seen.add(claim.attribute)
            yield claim._replace(value=value, attribute=claim.attribute.lower())


def subject_of(clause: str) -> str:
    """Return who a clause is about, as it names them; empty if that does not show."""
    found = re.match(r"(?:my|our|the|meine?|unsere?) [\w'-]{2,20}\b|[A-Z][\w-]+\b", clause, re.IGNORECASE)
    if found is None or (" " not in found[0] and (found[0].lower() in COMMON or found[0].islower())):
        return ""
    return found[0]


_FIRST: Final = re.compile(
    r"\b(?:I|I'm|I've|I'll|I'd|me|my|mine|myself|we|we're|we've|we'll|us|our|ours|you|your|yours|you're|you've)\b",
    re.IGNORECASE,
)
_AUXILIARIES: Final = {
    "'m": "is", " am": "is", "'ve": "has", " have": "has", "'ll": "will", " do": "does", " don't": "doesn't",
    " haven't": "hasn't", " was": "was", " wasn't": "wasn't", " had": "had", " did": "did", " didn't": "didn't",
    " will": "will", " won't": "won't", " can": "can", " can't": "can't", " could": "could", " couldn't": "couldn't",
    " would": "would", " must": "must", " might": "might", " may": "may", " should": "should", " used": "used",
}  # fmt: skip
_I: Final = re.compile(r"^I(?P<verb>'m|'ve|'ll| [a-z']+)\b(?P<rest>.*)$", re.DOTALL)
_MY: Final = re.compile(r"^my (?P<rest>\S.*)$", re.IGNORECASE | re.DOTALL)
_PRESENT: Final = words(
    "love like enjoy hate prefer live work need want think hope play speak know go study drive run own use plan",
    "teach volunteer",
    "collect believe feel see make take get keep write read paint cook bake sing dance swim hike travel visit",
    "eat drink sleep",
    "train practice practise wear watch find help miss wish dislike adore look start spend try leave come call",
    "remember grow",
    "sell buy support manage organize organise attend meet suffer struggle dream draw knit sew garden surf ski climb",
)
_SAME_IN_PAST: Final = words("read put cut set hit let")
_PAST: Final = words(
    "went got made took bought met saw found won gave came left began lost told spent built ran flew drove wrote",
    "broke caught",
    "felt kept taught sang swam grew became chose fell heard held knew led lent paid quit rode sent sold spoke",
    "stood thought",
    "threw woke wore ate drank slept brought fought hid hurt forgot understood",
)


def told(speaker: str, said: str, language: str = "en") -> str:
    """Return a statement of what somebody said."""
    if language == "en":
        found = _I.match(said)
        if found and not _FIRST.search(found["rest"]):
            verb = _third(found["verb"])
            if verb:
                return f"{speaker} {verb}{found['rest']}"
        found = _MY.match(said)
        if found and not _FIRST.search(found["rest"]):
            return f"{speaker}'s {found['rest']}"
        first, _, rest = said.partition(" ")
        if first.lower() in _PAST and rest and not _FIRST.search(rest):
            return f"{speaker} {first.lower()} {rest}"
    return f"{speaker}: {said}"


def _third(verb: str) -> str:
    """Return the verb behind an "I" in the third person, "" if it is not known."""
    if verb in _AUXILIARIES:
        return _AUXILIARIES[verb]
    verb = verb.strip()
    if verb in _PAST or (verb.endswith("ed") and len(verb) > 3 and verb != "need") or verb in _SAME_IN_PAST - {"read"}:
        return verb
    if verb not in _PRESENT or verb in _SAME_IN_PAST:
        return ""
    if verb.endswith(("s", "sh", "ch", "x", "z", "o")):
        return f"{verb}es"
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return f"{verb[:-1]}ies"
    return f"{verb}s"
