"""From what an extractor returned to what the store keeps: new memories, repeats of known ones, and contradictions.

A fact with an attribute is about one thing: of two values the newer holds, and the older is kept with the day until
which it did. Anything else is known when it was said in the same words.
"""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from daycare.base.messages import Origin
from daycare.memory.learned import Learned, NewEntity, NewFact
from daycare.memory.scope import scope_of
from daycare.store.records import Agent, Spend
from daycare.store.records_memories import EntityPart, FactPart, Lesson, Memory, NewMemory, Seen, Superseded, Tier

_ORIGINS = (Origin.FORWARD, Origin.FILE, Origin.GROUP, Origin.AGENT)  # the least trustworthy first


def lesson_of(
    agent: Agent,
    learned: Learned,
    entries: Sequence[Memory],
    known: Sequence[Memory],
    *,
    after: int,
    through: int,
    spend: tuple[Spend, ...] = (),
) -> Lesson:
    """Return what an agent's worker learned from these log entries, beside what is `known` of the same."""
    made = _Making(agent, {entry.no: entry for entry in entries}, known, learned.by)
    for fact in learned.facts:
        made.fact(fact)
    for entity in learned.entities:
        made.entity(entity)
    return Lesson(
        agent_id=agent.id,
        after=after,
        through=through,
        add=tuple(made.add),
        superseded=tuple(made.superseded),
        seen=tuple(made.seen.values()),
        spend=spend,
    )


class _Making:
    def __init__(self, agent: Agent, entries: dict[int, Memory], known: Sequence[Memory], by: str) -> None:
        self.add: list[NewMemory] = []
        self.superseded: list[Superseded] = []
        self.seen: dict[int, Seen] = {}
        self._agent = agent
        self._entries = entries
        self._by = by
        self._facts: dict[tuple[str, ...], Memory | int] = {}  # a number: its place in `add`
        self._names: dict[str, Memory | int] = {}
        for memory in known:
            if memory.fact is not None:
                self._facts[_key(memory.fact.subject, memory.fact.attribute, memory.text)] = memory
            elif memory.entity is not None:
                self._names |= {_plain(name): memory for name in (memory.entity.name, *memory.entity.aliases)}

    def fact(self, fact: NewFact) -> None:
        """Add a fact, count it as a repeat, or let it supersede what it contradicts."""
        sources = self._sources(fact.sources)
        if not sources:
            return
        first = sources[0]
        part = FactPart(
            kind=fact.kind,
            subject=fact.subject,
            attribute=fact.attribute,
            value=fact.value,
            confidence=fact.confidence,
            valid_from_ms=fact.valid_from_ms,
            valid_until_ms=fact.valid_until_ms,
            by=self._by,
        )
        key = _key(fact.subject, fact.attribute, fact.statement)
        old = self._facts.get(key)
        if old is not None and self._says(old, fact):
            if isinstance(old, Memory):
                self._meet(old, sources)
            return
        if isinstance(old, Memory):
            until = fact.valid_from_ms if fact.valid_from_ms is not None else first.at_ms
            self.superseded.append(Superseded(old.no, len(self.add), until))
        elif old is not None:  # both were said in this range: the later one holds
            earlier = self.add[old]
            assert earlier.fact is not None
            self.add[old] = replace(earlier, fact=replace(earlier.fact, valid_until_ms=first.at_ms))
        self._facts[key] = len(self.add)
        self.add.append(self._memory(Tier.FACT, fact.statement, sources, fact=part))

    def entity(self, entity: NewEntity) -> None:
        """Add an entity, or tell more of a known one."""
        sources = self._sources(entity.sources)
        if not sources:
            return
        names = tuple(dict.fromkeys((entity.name, *entity.aliases)))
        old = next((self._names[_plain(name)] for name in names if _plain(name) in self._names), None)
        if isinstance(old, Memory):
            self._meet(old, sources, names, entity.description)
            return
        part = EntityPart(
            name=entity.name,
            kind=entity.kind,
            aliases=entity.aliases,
            description=entity.description,
            first_ms=sources[0].at_ms,
            last_ms=sources[-1].at_ms,
            mentions=len(sources),
            by=self._by,
        )
        self._names |= {_plain(name): len(self.add) for name in names}
        self.add.append(self._memory(Tier.ENTITY, _described(part), sources, entity=part))

    def _meet(self, old: Memory, sources: Sequence[Memory], names: Iterable[str] = (), description: str = "") -> None:
        numbers, at_ms = tuple(source.no for source in sources), sources[-1].at_ms
        before = self.seen.get(old.no)
        known = before.entity if before is not None and before.entity is not None else old.entity
        if known is None:
            numbers = numbers if before is None else (*before.sources, *numbers)
            self.seen[old.no] = Seen(no=old.no, sources=tuple(dict.fromkeys(numbers)), at_ms=at_ms)
            return
        aliases = tuple(name for name in dict.fromkeys((*known.aliases, *names)) if _plain(name) != _plain(known.name))
        part = replace(
            known,
            aliases=aliases[:_ALIASES_MAX],
            description=known.description or description,
            last_ms=max(known.last_ms, at_ms),
            mentions=known.mentions + len(sources),
        )
        every = (*(before.sources if before is not None else ()), *numbers)
        self.seen[old.no] = Seen(
            no=old.no, sources=tuple(dict.fromkeys(every)), at_ms=at_ms, text=_described(part), entity=part
        )

    def _says(self, old: Memory | int, fact: NewFact) -> bool:
        """Return whether a fact says what is known already."""
        if not fact.attribute:
            return True  # found by its words
        part = old.fact if isinstance(old, Memory) else self.add[old].fact
        return part is not None and _plain(part.value) == _plain(fact.value)

    def _sources(self, numbers: Sequence[int]) -> list[Memory]:
        return [self._entries[no] for no in dict.fromkeys(numbers) if no in self._entries]

    def _memory(
        self,
        tier: Tier,
        text: str,
        sources: Sequence[Memory],
        fact: FactPart | None = None,
        entity: EntityPart | None = None,
    ) -> NewMemory:
        first = sources[0]
        origins = {source.origin for source in sources}
        return NewMemory(
            tier=tier,
            scope=scope_of(self._agent.path),
            user=self._agent.user,
            agent_id=self._agent.id,
            path=self._agent.path,
            origin=next((origin for origin in _ORIGINS if origin in origins), first.origin),
            text=text,
            at_ms=first.at_ms,
            session=first.session,
            turn=first.turn,
            speaker=first.speaker,
            role=first.role,
            sources=tuple(source.no for source in sources),
            fact=fact,
            entity=entity,
        )


_ALIASES_MAX = 8  # of an entity: a name, its short form, two titles, some spellings


def _key(subject: str, attribute: str, statement: str) -> tuple[str, ...]:
    return (_plain(subject), _plain(attribute)) if attribute else (_plain(subject), "", _plain(statement))


def _described(part: EntityPart) -> str:
    return part.description or f"{part.name} ({part.kind})"


def _plain(text: str) -> str:
    return " ".join("".join(char if char.isalnum() else " " for char in text.casefold()).split())
