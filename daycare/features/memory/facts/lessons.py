"""From what an extractor returned to what the store keeps: new memories, repeats of known ones, and contradictions."""

from collections.abc import Sequence
from typing import Final, cast

from msgspec.structs import replace

from daycare.base.messages import Origin
from daycare.base.scope import scope_of
from daycare.features.memory.facts.learned import EntityKind, Learned
from daycare.features.memory.facts.merging import KnownEntity, KnownFact, merge_entities, merge_facts
from daycare.features.memory.language.analysis import indexed
from daycare.store.records import Agent
from daycare.store.records_memories import EntityPart, FactPart, Lesson, Memory, NewMemory, Seen, Superseded, Tier

_OUTSIDE: Final = (Origin.FORWARD, Origin.FILE, Origin.GROUP, Origin.AGENT)  # the least trustworthy first


def lesson_of(
    agent: Agent,
    learned: Learned,
    entries: Sequence[Memory],
    known: Sequence[Memory],
    *,
    after: int,
    through: int,
) -> Lesson:
    """Return what an agent's worker learned from these log entries, beside what is `known` of the same."""
    by_number = {entry.no: entry for entry in entries}
    before = {memory.no: memory for memory in known}
    said_ms = {entry.no: entry.at_ms for entry in entries}
    facts = merge_facts(learned.facts, [known_fact(it) for it in known if it.fact is not None], said_ms)
    entities = merge_entities(learned.entities, [_known_entity(it) for it in known if it.entity is not None])
    add = [
        _memory(
            agent,
            Tier.FACT,
            fact.statement,
            [by_number[no] for no in fact.sources if no in by_number],
            fact=FactPart(
                kind=fact.kind,
                subject=fact.subject,
                attribute=fact.attribute,
                value=fact.value,
                confidence=fact.confidence,
                valid_from_ms=fact.valid_from_ms,
                valid_until_ms=fact.valid_until_ms,
                by=learned.by,
            ),
        )
        for fact in facts.add
    ]
    for entity in entities.add:
        lines = [by_number[no] for no in entity.sources if no in by_number]
        part = EntityPart(
            name=entity.name,
            kind=entity.kind,
            aliases=entity.aliases,
            description=entity.description,
            first_ms=lines[0].at_ms,
            last_ms=lines[-1].at_ms,
            mentions=len(lines),
            by=learned.by,
        )
        add.append(_memory(agent, Tier.ENTITY, described(part), lines, entity=part))
    seen = [
        Seen(no=no, sources=sources, at_ms=max(said_ms[each] for each in sources)) for no, sources in facts.repeated
    ]
    for no, aliases, description, sources in entities.widened:
        old = before[no].entity
        assert old is not None
        at_ms = max(said_ms[each] for each in sources)
        part = replace(
            old,
            aliases=aliases,
            description=description,
            last_ms=max(old.last_ms, at_ms),
            mentions=old.mentions + len(sources),
        )
        words = indexed(_named(part))
        seen.append(Seen(no=no, sources=sources, at_ms=at_ms, text=described(part), index=words, entity=part))
    return Lesson(
        agent_id=agent.id,
        after=after,
        through=through,
        add=tuple(add),
        superseded=tuple(Superseded(ended.id, ended.by, ended.valid_until_ms) for ended in facts.ended),
        seen=tuple(seen),
    )


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
    sources: Sequence[Memory],
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


def known_fact(memory: Memory) -> KnownFact:
    """Return a stored fact as extractors compare new ones with it."""
    assert memory.fact is not None
    return KnownFact(
        id=memory.no,
        statement=memory.text,
        subject=memory.fact.subject,
        said_ms=memory.at_ms,
        attribute=memory.fact.attribute,
        value=memory.fact.value,
        valid_from_ms=memory.fact.valid_from_ms,
        valid_until_ms=memory.fact.valid_until_ms,
    )


def _known_entity(memory: Memory) -> KnownEntity:
    assert memory.entity is not None
    return KnownEntity(
        id=memory.no,
        name=memory.entity.name,
        kind=cast(EntityKind, memory.entity.kind),  # it was kept by us
        aliases=memory.entity.aliases,
        description=memory.entity.description,
    )
