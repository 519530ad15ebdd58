"""What is said of a fact or an entity, as its row has it: JSON, without what is not said."""

from typing import Final

import msgspec
from msgspec.structs import asdict

from daycare.base.memories import EntityPart, FactPart


class Extra(msgspec.Struct, omit_defaults=True):
    """What is kept of a fact or an entity."""

    fact: FactPart | None = None
    entity: EntityPart | None = None


class _Fact(FactPart, frozen=True, kw_only=True, omit_defaults=True):
    """A fact as it is stored: most of what it might say is not said."""


class _Entity(EntityPart, frozen=True, kw_only=True, omit_defaults=True):
    """An entity as it is stored."""


_NONE: Final = Extra()
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Extra).decode


def extra_of(fact: FactPart | None, entity: EntityPart | None) -> str | None:
    """Return what is said of a fact or an entity as rows have it."""
    if fact is None and entity is None:
        return None
    return _encode(Extra(fact and _Fact(**asdict(fact)), entity and _Entity(**asdict(entity)))).decode()


def extra_from(text: str | None) -> Extra:
    """Return what is said of a fact or an entity."""
    return _NONE if text is None else _decode(text)


def names_of(extra: Extra) -> set[str]:
    """Return what something is looked up by."""
    names = {extra.fact.subject} if extra.fact else set()
    if extra.entity:
        names |= {extra.entity.name, *extra.entity.aliases}
    return {name.casefold() for name in names if name}
