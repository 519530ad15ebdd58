"""What becomes of what was learned, given what is known: what is new, what is said again, what holds no more.

A newer fact supersedes an older one that it contradicts; the older one gets an end and is kept. What is read late,
such as an old conversation that is imported now, supersedes nothing that was said after it.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from daycare.features.memory.facts.learned import ALIASES_MAX, EntityKind, NewEntity, NewFact, plain
from daycare.features.memory.language.patterns import pattern, words

MANY: Final = frozenset(("likes", "dislikes", "allergic to", "afraid of", "speaks", "has", "is", "remember", "studied"))
"""Attributes of which somebody may have several values; of all others the newest holds."""
_MANY_RELATIVES: Final = words(
    "friend sister brother son daughter child kid cousin aunt uncle nephew niece colleague neighbour neighbor dog cat",
    "pet grandson granddaughter twin classmate teammate roommate flatmate client student freund freundin schwester",
    "bruder sohn tochter kind cousine tante onkel neffe nichte kollege kollegin nachbar nachbarin hund katze",
)
_OPPOSITES: Final = {"likes": "dislikes", "dislikes": "likes"}
_FAVOURITE: Final = pattern(r"^(?:favorite|fave|fav)\b")
_NO_ATTRIBUTE: Final = pattern(r"^(?:new|current)\s+|(?:'s name|s' names?)$")
_ARTICLE: Final = pattern(r"^(?:the|a|an|my|our|in|at|on|das|die|der|den|mein|meine|im)\s+")
_BETWEEN: Final = re.compile(r"[\W_]+")
_FORMS_KEPT: Final = 4_096  # while facts are compared, each with each: making a form costs a hundred look-ups
_subject = lru_cache(_FORMS_KEPT)(plain)


class KnownFact(msgspec.Struct, frozen=True, kw_only=True):
    """A fact that is stored. `said_ms`: when its newest source was said; `valid_until_ms`: it holds no more."""

    id: int
    statement: str
    subject: str
    said_ms: int
    attribute: str = ""
    value: str = ""
    valid_from_ms: int | None = None
    valid_until_ms: int | None = None


class KnownEntity(msgspec.Struct, frozen=True, kw_only=True):
    """An entity that is stored."""

    id: int
    name: str
    kind: EntityKind
    aliases: tuple[str, ...] = ()
    description: str = ""


class Ended(NamedTuple):
    """A stored fact that holds no more, since when, and which of the added ones says so (its place among them)."""

    id: int
    valid_until_ms: int
    by: int


class Repeated(NamedTuple):
    """A stored fact that was said again: one mention more, and these sources."""

    id: int
    sources: tuple[int, ...]


class MergedFacts(NamedTuple):
    """What to do with new facts."""

    add: tuple[NewFact, ...]
    ended: tuple[Ended, ...]
    repeated: tuple[Repeated, ...]


class Widened(NamedTuple):
    """A stored entity that was mentioned again: all its aliases now, its description, and the lines that name it."""

    id: int
    aliases: tuple[str, ...]
    description: str
    sources: tuple[int, ...]


class MergedEntities(NamedTuple):
    """What to do with new entities."""

    add: tuple[NewEntity, ...]
    widened: tuple[Widened, ...]


def supersedes(new: NewFact, old: NewFact | KnownFact) -> bool:
    """Tell whether a new fact means that an older one, which holds until now, holds no more.

    Which one was said later is not looked at.
    """
    return old.valid_until_ms is None and _contradicts(new, old)


def _contradicts(new: NewFact, old: NewFact | KnownFact) -> bool:
    if not new.attribute or not old.attribute:
        return False
    if _subject(new.subject) != _subject(old.subject):
        return False
    same = _same_value(new.value, old.value)
    if _OPPOSITES.get(new.attribute) == old.attribute:
        return same
    if _attribute(new) != _attribute(old):
        return False
    if _ends_itself(new):
        return same  # "I don't live in Bonn any more"
    return not same and not _is_many(_attribute(new))


def repeats(new: NewFact, old: NewFact | KnownFact) -> bool:
    """Tell whether a new fact says no more than an older one. Whether that one still holds is not looked at."""
    if _subject(new.subject) != _subject(old.subject):
        return False
    if _ends_itself(new):
        return old.valid_until_ms is not None and _plain(new.statement) == _plain(old.statement)
    if new.attribute and old.attribute:
        return _attribute(new) == _attribute(old) and _same_value(new.value, old.value)
    return _plain(new.statement) == _plain(old.statement)


def merge_facts(new: Sequence[NewFact], known: Sequence[KnownFact], said_ms: Mapping[int, int]) -> MergedFacts:
    """Compare new facts with the known ones of the same subjects. `said_ms` has when each source was said.

    The new ones are taken in the order in which they were said, each against what those before it have left.
    """
    merging = _Merging(known)
    dated = [(max((said_ms.get(no, 0) for no in fact.sources), default=0), fact) for fact in new]
    try:
        for said, fact in sorted(dated, key=lambda one: one[0]):
            merging.take(fact, said)
    finally:
        for forms in (_plain, _subject):
            forms.cache_clear()  # what was said does not stay here
    return merging.result()


class _Row:
    """A fact as it stands while others are merged into it."""

    def __init__(self, fact: NewFact | KnownFact, said_ms: int) -> None:
        self.fact = fact
        self.said_ms = said_ms

    @property
    def until_ms(self) -> int | None:
        return self.fact.valid_until_ms

    def end(self, at_ms: int) -> None:
        """Let it hold no longer; when it was last said it did."""
        until = max(at_ms, self.said_ms, _first(self.fact.valid_from_ms, at_ms))
        self.fact = msgspec.structs.replace(self.fact, valid_until_ms=until)


class _Merging:
    def __init__(self, known: Sequence[KnownFact]) -> None:
        self._known = [_Row(fact, fact.said_ms) for fact in known]
        self._added: list[_Row] = []
        self._ended: dict[int, int] = {}  # the number of a known fact, the place of the one that ended it
        self._repeated: list[Repeated] = []

    def take(self, fact: NewFact, said_ms: int) -> None:
        """Take the next fact."""
        rows = [*self._known, *self._added]
        for row in rows:
            if repeats(fact, row.fact) and (row.until_ms is None or said_ms < row.until_ms or _ends_itself(fact)):
                self._repeat(row, fact, said_ms)
                return
        later = [row for row in rows if row.said_ms > said_ms and _contradicts(fact, row.fact)]
        if later and fact.valid_until_ms is None:  # read late: it held until the other one was said
            until = min(_first(row.fact.valid_from_ms, row.said_ms) for row in later)
            until = max(until, said_ms, _first(fact.valid_from_ms, until))
            fact = msgspec.structs.replace(fact, valid_until_ms=until)
        for row in rows:
            if row.said_ms <= said_ms and supersedes(fact, row.fact):
                row.end(_first(fact.valid_from_ms, fact.valid_until_ms, said_ms))
                if isinstance(row.fact, KnownFact):
                    self._ended[row.fact.id] = len(self._added)
        self._added.append(_Row(fact, said_ms))

    def _repeat(self, row: _Row, fact: NewFact, said_ms: int) -> None:
        row.said_ms = max(row.said_ms, said_ms)
        if isinstance(row.fact, KnownFact):
            self._repeated.append(Repeated(row.fact.id, fact.sources))
            return
        sources = tuple(sorted({*row.fact.sources, *fact.sources}))
        sure = max(row.fact.confidence, fact.confidence)
        row.fact = msgspec.structs.replace(row.fact, sources=sources, confidence=sure)

    def result(self) -> MergedFacts:
        """Return what to do."""
        ended = [
            Ended(row.fact.id, row.until_ms, self._ended[row.fact.id])
            for row in self._known
            if isinstance(row.fact, KnownFact) and row.fact.id in self._ended and row.until_ms is not None
        ]
        add = [row.fact for row in self._added if isinstance(row.fact, NewFact)]
        return MergedFacts(tuple(add), tuple(ended), tuple(self._repeated))


def merge_entities(new: Iterable[NewEntity], known: Iterable[KnownEntity]) -> MergedEntities:
    """Compare new entities with the known ones: by name, alias, title, case, accent and part of a person's name."""
    rows: list[KnownEntity | NewEntity] = list(known)
    named = [_names(row) for row in rows]
    widened: dict[int, Widened] = {}
    for entity in new:
        place = _found(entity, rows, named)
        if place is None:
            rows.append(entity)
            named.append(_names(entity))
            continue
        row = rows[place]
        sources = widened[row.id].sources if isinstance(row, KnownEntity) and row.id in widened else ()
        aliases, description = _aliases(row, entity), row.description or entity.description
        if isinstance(row, NewEntity):
            sources = row.sources
        sources = tuple(sorted({*sources, *entity.sources}))
        if isinstance(row, KnownEntity):
            widened[row.id] = Widened(row.id, aliases, description, sources)
            rows[place] = msgspec.structs.replace(row, aliases=aliases, description=description)
        else:
            rows[place] = msgspec.structs.replace(row, aliases=aliases, description=description, sources=sources)
        named[place] = _names(rows[place])
    add = tuple(row for row in rows if isinstance(row, NewEntity))
    return MergedEntities(add, tuple(widened.values()))


def _found(entity: NewEntity, rows: Sequence[KnownEntity | NewEntity], named: Sequence[Sequence[str]]) -> int | None:
    """Return the place of the entity that is meant; None if there is none, or more than one may be."""
    names = set(_names(entity))
    alike = [at for at, row in enumerate(rows) if _same_kind(entity.kind, row.kind)]
    for at in alike:
        if not names.isdisjoint(named[at]):
            return at
    if entity.kind != "person":
        return None
    parts = [at for at in alike if any(_is_part(one, other) for one in names for other in named[at])]
    return parts[0] if len(parts) == 1 else None


def _names(entity: NewEntity | KnownEntity) -> list[str]:
    return [_folded(plain(name)) for name in (entity.name, *entity.aliases)]


def _is_part(one: str, other: str) -> bool:
    """Tell whether one name is some of the words of another: Anna, Anna Smith."""
    mine, theirs = set(one.split()), set(other.split())
    return bool(mine) and bool(theirs) and (mine < theirs or theirs < mine)


def _same_kind(one: EntityKind, other: EntityKind) -> bool:
    return one == other or {one, other} == {"thing", "concept"}


def _aliases(row: KnownEntity | NewEntity, entity: NewEntity) -> tuple[str, ...]:
    names = dict.fromkeys((*row.aliases, entity.name, *entity.aliases))
    return tuple(name for name in names if name and name != row.name)[:ALIASES_MAX]


def _folded(text: str) -> str:
    return "".join(letter for letter in unicodedata.normalize("NFKD", text) if not unicodedata.combining(letter))


@lru_cache(_FORMS_KEPT)
def _plain(text: str) -> str:
    return " ".join(_BETWEEN.sub(" ", _folded(text).casefold()).split())


def _same_value(one: str, other: str) -> bool:
    return _plain(_ARTICLE.sub("", one)) == _plain(_ARTICLE.sub("", other))


def _attribute(fact: NewFact | KnownFact) -> str:
    """Return an attribute in the form in which they are compared."""
    return _plain(_FAVOURITE.sub("favourite", _NO_ATTRIBUTE.sub("", fact.attribute)))


def _is_many(attribute: str) -> bool:
    return attribute in MANY or attribute in _MANY_RELATIVES


def _ends_itself(fact: NewFact) -> bool:
    """Tell whether a fact says of something only that it is over."""
    return fact.valid_from_ms is None and fact.valid_until_ms is not None


def _first(*times: int | None) -> int:
    """Return the first time that there is."""
    return next(time for time in times if time is not None)
