"""Entries of the log, as extractors read them, and what is known already."""

from daycare.base.memories import EntityPart, FactPart, Tier
from daycare.base.messages import Origin
from daycare.features.memory.store.records import StoredMemory


def entry(no: int, text: str, speaker: str = "Ann", *, at_ms: int, origin: Origin = Origin.PERSON) -> StoredMemory:
    """Return something that was said; Max is the assistant."""
    role = "assistant" if speaker == "Max" else "user"
    return _memory(no, Tier.LOG, text, speaker=speaker, role=role, origin=origin, at_ms=at_ms)


def known_fact(no: int, text: str, at_ms: int, part: FactPart) -> StoredMemory:
    """Return a stored fact."""
    return _memory(no, Tier.FACT, text, at_ms=at_ms, fact=part)


def known_entity(no: int, part: EntityPart) -> StoredMemory:
    """Return a stored entity."""
    return _memory(no, Tier.ENTITY, part.name, entity=part)


def _memory(
    no: int,
    tier: Tier,
    text: str,
    *,
    speaker: str = "Ann",
    role: str = "user",
    origin: Origin = Origin.PERSON,
    at_ms: int = 0,
    fact: FactPart | None = None,
    entity: EntityPart | None = None,
) -> StoredMemory:
    return StoredMemory(
        no=no,
        tier=tier,
        scope="ann",
        user="ann",
        agent_id="a",
        path="/ann/direct",
        origin=origin,
        text=text,
        at_ms=at_ms,
        turn=no,
        speaker=speaker,
        role=role,
        fact=fact,
        entity=entity,
        hash="",
        created_at=at_ms,
    )
