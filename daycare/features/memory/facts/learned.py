"""What extractors return, whichever they are: facts and entities, with the entries of the log that they come from."""

import re
from typing import Final, Literal, NamedTuple

import msgspec

from daycare.base.memories import EntityPart, FactPart

STATEMENT_MAX_CHARS: Final = 300  # of a fact: two long sentences; what is longer is a document
NAME_MAX_CHARS: Final = 80  # of an entity, an attribute: the longest names of people have some 60
VALUE_MAX_CHARS: Final = 200  # an address on one line
DESCRIPTION_MAX_CHARS: Final = 200  # of an entity
ALIASES_MAX: Final = 8  # of an entity: a name, its short form, two titles, some spellings
FACTS_MAX: Final = 200  # of one range: a model that finds more repeats itself
ENTITIES_MAX: Final = 100  # of one range

Kind = Literal["fact", "preference", "date", "plan", "request"]
EntityKind = Literal["person", "place", "thing", "concept"]
_TITLE: Final = re.compile(
    r"^(?:(?:dr|mr|mrs|ms|prof)\.?|miss|professor|doctor|uncle|aunt(?:ie)?|herrn?|frau|tante|onkel|the|die|der|das)\s+",
    re.IGNORECASE,
)
RULES: Final = "rules"  # what `Learned.by` says of the extractor that needs no model


class NewFact(FactPart, frozen=True, kw_only=True):
    """A statement that can be read alone, and the numbers of the entries of the log where it was said.

    `attribute` and `value` say the same in a form that can be compared, where there is one: of two values of one
    attribute of one subject the newer holds, as a rule. `valid_from_ms` and `valid_until_ms` (not included) are what
    the words say about when it holds or happened, not when they were said; an end without a beginning: it is over.
    """

    statement: str
    subject: str
    kind: Kind
    confidence: float
    sources: tuple[int, ...]


class NewEntity(EntityPart, frozen=True, kw_only=True):
    """Somebody or something with a name, and where it was named. `description` is such as "Ann's sister"."""

    kind: EntityKind
    sources: tuple[int, ...]


class Learned(msgspec.Struct, frozen=True, kw_only=True):
    """What one range of a conversation told; `by` is `rules` or the model's name."""

    facts: tuple[NewFact, ...] = ()
    entities: tuple[NewEntity, ...] = ()
    by: str


def plain(name: str) -> str:
    """Return a name in the form in which names are compared: without title and case."""
    return " ".join(_TITLE.sub("", name.strip()).casefold().split())


class Claim(NamedTuple):
    """What a clause claims. `of` is whose attribute it is: "" for the speaker, else such as "my sister" or "Theo"."""

    attribute: str
    value: str
    kind: Kind = "fact"
    of: str = ""
    confidence: float = 0.9
    ended: bool = False  # it was so until now
