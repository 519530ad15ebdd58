"""Memories as the parts that move them speak of them: what memory keeps, and an export carries."""

from enum import StrEnum

import msgspec

from daycare.base.documents import Place
from daycare.base.messages import Origin


class Tier(StrEnum):
    """How far a memory is from the words it came from."""

    LOG = "log"  # one message as it was said
    FACT = "fact"  # a statement distilled from messages
    ENTITY = "entity"  # a person, place, thing or concept that messages speak of
    CHUNK = "chunk"  # a passage of a document


class FactPart(msgspec.Struct, frozen=True, kw_only=True):
    """What a fact says beside its statement.

    It holds from `valid_from_ms` until `valid_until_ms` (None: it still does); `superseded_by` is the fact that
    contradicted it, 0 if none did. Facts with the same subject and attribute are about the same thing. `by` is what
    found it, `rules` or a model's name.
    """

    kind: str = "fact"
    subject: str = ""
    attribute: str = ""
    value: str = ""
    confidence: float = 1.0
    valid_from_ms: int | None = None
    valid_until_ms: int | None = None
    superseded_by: int = 0
    by: str = ""


class EntityPart(msgspec.Struct, frozen=True, kw_only=True):
    """A person, place, thing or concept. `mentions` counts the messages that speak of it."""

    name: str
    kind: str
    aliases: tuple[str, ...] = ()
    description: str = ""
    first_ms: int = 0
    last_ms: int = 0
    mentions: int = 1
    by: str = ""


class NewMemory(msgspec.Struct, frozen=True, kw_only=True):
    """A memory to keep. `scope` is whose it is: nobody reads it from another one.

    `path` and `agent_id` are of the agent whose conversation it came from; `session`, `turn`, `speaker` and `at_ms` of
    its (first) source. `sources` are the numbers of the log entries it was learned from. `text` is what is shown and
    embedded, `index` what is searched by words, empty where that is the text itself. A chunk has the document it is of
    in `place`, its version, and in `turn` which chunk of it this is.
    """

    tier: Tier
    scope: str
    user: str
    agent_id: str
    path: str
    origin: Origin
    text: str
    index: str = ""
    at_ms: int
    session: int = 0
    turn: int = 0
    speaker: str = ""
    role: str = ""
    sources: tuple[int, ...] = ()
    fact: FactPart | None = None
    entity: EntityPart | None = None
    place: Place | None = None
    version: int = 0
