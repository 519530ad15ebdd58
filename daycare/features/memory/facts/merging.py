"""From what an extractor returned to what the store keeps: what is new, what is said again, what holds no more.

A newer fact supersedes an older one that it contradicts; the older one gets an end and is kept. What is read late,
such as an old conversation that is imported now, supersedes nothing that was said after it.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple, TypeVar

from msgspec.structs import replace

from daycare.base.memories import EntityPart, FactPart, NewMemory, Tier
from daycare.base.messages import Origin
from daycare.base.scope import scope_of
from daycare.features.memory.facts.learned import ALIASES_MAX, Learned, NewEntity, NewFact, plain
from daycare.features.memory.language.analysis import indexed
from daycare.features.memory.language.patterns import pattern, words
from daycare.features.memory.store.records import MergeResult, Seen, StoredMemory, Superseded
from daycare.store.records import Agent

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
# The least trustworthy first.
_OUTSIDE: Final = (Origin.FORWARD, Origin.WEBHOOK, Origin.FILE, Origin.GROUP, Origin.AGENT)
_FORMS_KEPT: Final = 4_096  # while facts are compared, each with each: making a form costs a hundred look-ups
_subject = lru_cache(_FORMS_KEPT)(plain)
P = TypeVar("P", FactPart, EntityPart)


class MergedFacts(NamedTuple):
    """What to do with new facts. What is superseded names the place among the added ones of that which says so."""

    add: tuple[NewFact, ...]
    superseded: tuple[Superseded, ...]
    seen: tuple[Seen, ...]


class MergedEntities(NamedTuple):
    """What to do with new entities: those that are known have all their names now."""

    add: tuple[NewEntity, ...]
    seen: tuple[Seen, ...]


def merge_result(
    agent: Agent,
    learned: Learned,
    entries: Sequence[StoredMemory],
    known: Sequence[StoredMemory],
    *,
    after: int,
    through: int,
) -> MergeResult:
    """Return what an agent's worker learned from these log entries, beside what is `known` of the same."""
    by_number = {entry.no: entry for entry in entries}
    said_ms = {entry.no: entry.at_ms for entry in entries}
    facts = merge_facts(learned.facts, known, said_ms)
    entities = merge_entities(learned.entities, known, said_ms)

    def told(sources: Sequence[int]) -> list[StoredMemory]:
        return [by_number[no] for no in sources if no in by_number]

    add = [
        _memory(agent, Tier.FACT, it.statement, told(it.sources), fact=_part(it, FactPart, by=learned.by))
        for it in facts.add
    ]
    for entity in entities.add:
        lines = told(entity.sources)
        part = _part(
            entity,
            EntityPart,
            first_ms=lines[0].at_ms,
            last_ms=lines[-1].at_ms,
            mentions=len(lines),
            by=learned.by,
        )
        add.append(_memory(agent, Tier.ENTITY, described(part), lines, entity=part))
    return MergeResult(
        agent_id=agent.id,
        after=after,
        through=through,
        add=tuple(add),
        superseded=facts.superseded,
        seen=(*facts.seen, *entities.seen),
    )


def merge_facts(new: Sequence[NewFact], known: Sequence[StoredMemory], said_ms: Mapping[int, int]) -> MergedFacts:
    """Compare new facts with the known ones of the same subjects. `said_ms` has when each source was said.

    The new ones are taken in the order in which they were said, each against what those before it have left.
    """
    merging = _Merging(known, said_ms)
    dated = [(max((said_ms.get(no, 0) for no in fact.sources), default=0), fact) for fact in new]
    try:
        for said, fact in sorted(dated, key=lambda one: one[0]):
            merging.take(fact, said)
    finally:
        for forms in (_plain, _subject):
            forms.cache_clear()  # what was said does not stay here
    return merging.result()


class _Row:
    """A fact as it stands while others are merged into it. `no` is its number in the store, 0 for a new one."""

    def __init__(self, fact: FactPart, statement: str, said_ms: int, no: int = 0) -> None:
        self.fact = fact
        self.statement = statement
        self.said_ms = said_ms
        self.no = no

    @property
    def until_ms(self) -> int | None:
        return self.fact.valid_until_ms

    def end(self, at_ms: int) -> None:
        """Let it hold no longer; when it was last said it did."""
        until = max(at_ms, self.said_ms, _first(self.fact.valid_from_ms, at_ms))
        self.fact = replace(self.fact, valid_until_ms=until)

    def says(self, new: NewFact) -> bool:
        """Tell whether a new fact says no more than this one. Whether this one still holds is not looked at."""
        if _subject(new.subject) != _subject(self.fact.subject):
            return False
        if _ends_itself(new):
            return self.until_ms is not None and _plain(new.statement) == _plain(self.statement)
        if new.attribute and self.fact.attribute:
            return _attribute(new) == _attribute(self.fact) and _same_value(new.value, self.fact.value)
        return _plain(new.statement) == _plain(self.statement)


class _Merging:
    def __init__(self, known: Sequence[StoredMemory], when: Mapping[int, int]) -> None:
        self._known = [_Row(it.fact, it.text, it.at_ms, it.no) for it in known if it.fact is not None]
        self._when = when
        self._added: list[_Row] = []
        self._ended: dict[int, int] = {}  # the number of a known fact, the place of the one that ended it
        self._seen: list[Seen] = []

    def take(self, fact: NewFact, said_ms: int) -> None:
        """Take the next fact."""
        rows = [*self._known, *self._added]
        for row in rows:
            if row.says(fact) and (row.until_ms is None or said_ms < row.until_ms or _ends_itself(fact)):
                self._repeat(row, fact, said_ms)
                return
        later = [row for row in rows if row.said_ms > said_ms and _contradicts(fact, row.fact)]
        if later and fact.valid_until_ms is None:  # read late: it held until the other one was said
            until = min(_first(row.fact.valid_from_ms, row.said_ms) for row in later)
            until = max(until, said_ms, _first(fact.valid_from_ms, until))
            fact = replace(fact, valid_until_ms=until)
        for row in rows:
            if row.said_ms <= said_ms and supersedes(fact, row.fact):
                row.end(_first(fact.valid_from_ms, fact.valid_until_ms, said_ms))
                if row.no:
                    self._ended[row.no] = len(self._added)
        self._added.append(_Row(fact, fact.statement, said_ms))

    def _repeat(self, row: _Row, fact: NewFact, said_ms: int) -> None:
        row.said_ms = max(row.said_ms, said_ms)
        if row.no or not isinstance(row.fact, NewFact):
            at_ms = max((self._when.get(no, 0) for no in fact.sources), default=0)
            self._seen.append(Seen(no=row.no, sources=fact.sources, at_ms=at_ms))
            return
        sources = tuple(sorted({*row.fact.sources, *fact.sources}))
        sure = max(row.fact.confidence, fact.confidence)
        row.fact = replace(row.fact, sources=sources, confidence=sure)

    def result(self) -> MergedFacts:
        """Return what to do."""
        superseded = [
            Superseded(row.no, self._ended[row.no], row.until_ms)
            for row in self._known
            if row.no in self._ended and row.until_ms is not None
        ]
        add = [row.fact for row in self._added if isinstance(row.fact, NewFact)]
        return MergedFacts(tuple(add), tuple(superseded), tuple(self._seen))


def supersedes(new: NewFact, old: FactPart) -> bool:
    """Tell whether a new fact means that an older one, which holds until now, holds no more.

    Which one was said later is not looked at.
    """
    return old.valid_until_ms is None and _contradicts(new, old)


def _contradicts(new: NewFact, old: FactPart) -> bool:
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


def merge_entities(
    new: Sequence[NewEntity], known: Sequence[StoredMemory], said_ms: Mapping[int, int]
) -> MergedEntities:
    """Compare new entities with the known ones: by name, alias, title, case, accent and part of a person's name."""
    before = {it.no: it.entity for it in known if it.entity is not None}
    numbers = list(before)  # of the first of the rows; the others are new
    rows: list[EntityPart] = list(before.values())
    named = [_names(row) for row in rows]
    widened: dict[int, tuple[int, ...]] = {}
    for entity in new:
        place = _found(entity, rows, named)
        if place is None:
            rows.append(entity)
            named.append(_names(entity))
            continue
        row = rows[place]
        changed = replace(row, aliases=_aliases(row, entity), description=row.description or entity.description)
        if place < len(numbers):
            widened[place] = tuple(sorted({*widened.get(place, ()), *entity.sources}))
        elif isinstance(changed, NewEntity):
            changed = replace(changed, sources=tuple(sorted({*changed.sources, *entity.sources})))
        rows[place] = changed
        named[place] = _names(changed)
    add = tuple(row for row in rows if isinstance(row, NewEntity))
    return MergedEntities(add, tuple(_met(numbers[at], rows[at], no, said_ms) for at, no in widened.items()))


def _met(no: int, part: EntityPart, sources: tuple[int, ...], said_ms: Mapping[int, int]) -> Seen:
    """Return that a known entity was met again."""
    at_ms = max(said_ms.get(each, 0) for each in sources)
    part = replace(part, last_ms=max(part.last_ms, at_ms), mentions=part.mentions + len(sources))
    return Seen(no=no, sources=sources, at_ms=at_ms, text=described(part), index=indexed(_named(part)), entity=part)


def _found(entity: NewEntity, rows: Sequence[EntityPart], named: Sequence[Sequence[str]]) -> int | None:
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


def _names(entity: EntityPart) -> list[str]:
    return [_folded(plain(name)) for name in (entity.name, *entity.aliases)]


def _is_part(one: str, other: str) -> bool:
    """Tell whether one name is some of the words of another: Anna, Anna Smith."""
    mine, theirs = set(one.split()), set(other.split())
    return bool(mine) and bool(theirs) and (mine < theirs or theirs < mine)


def _same_kind(one: str, other: str) -> bool:
    return one == other or {one, other} == {"thing", "concept"}


def _aliases(row: EntityPart, entity: NewEntity) -> tuple[str, ...]:
    names = dict.fromkeys((*row.aliases, entity.name, *entity.aliases))
    return tuple(name for name in names if name and name != row.name)[:ALIASES_MAX]


def _folded(text: str) -> str:
    return "".join(letter for letter in unicodedata.normalize("NFKD", text) if not unicodedata.combining(letter))


@lru_cache(_FORMS_KEPT)
def _plain(text: str) -> str:
    return " ".join(_BETWEEN.sub(" ", _folded(text).casefold()).split())


def _same_value(one: str, other: str) -> bool:
    return _plain(_ARTICLE.sub("", one)) == _plain(_ARTICLE.sub("", other))


def _attribute(fact: FactPart) -> str:
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


# -- what the store keeps ----------------------------------------------------------------------------------------------


def described(part: EntityPart) -> str:
    """Return an entity as a text to search and to show."""
    return part.description or f"{part.name} ({part.kind})"


def _named(part: EntityPart) -> str:
    """Return an entity as a text to search by: with all of its names."""
    return f"{part.name} {' '.join(part.aliases)}: {described(part)}"


def _memory(
    agent: Agent,
    tier: Tier,
    text: str,
    sources: Sequence[StoredMemory],
    fact: FactPart | None = None,
    entity: EntityPart | None = None,
) -> NewMemory:
    """Return a memory that comes from these entries: as trustworthy as the least of them."""
    first = sources[0]
    origins = {source.origin for source in sources}
    return NewMemory(
        tier=tier,
        scope=scope_of(agent.path),
        user=agent.user,
        agent_id=agent.id,
        path=agent.path,
        origin=next((origin for origin in _OUTSIDE if origin in origins), first.origin),
        text=text,
        index=indexed(_named(entity) if entity is not None else text),
        at_ms=first.at_ms,
        session=first.session,
        turn=first.turn,
        speaker=first.speaker,
        role=first.role,
        sources=tuple(source.no for source in sources),
        fact=fact,
        entity=entity,
    )


def _part(new: NewFact | NewEntity, form: type[P], **more: object) -> P:
    """Return the part of a memory that is made of something new."""
    return form(**{name: getattr(new, name) for name in form.__struct_fields__} | more)
