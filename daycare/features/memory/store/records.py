"""What a store takes and hands out of memories: what was said, and what was learned from it."""

import struct
from collections.abc import Sequence
from heapq import nsmallest
from math import log1p
from typing import Final, NamedTuple

import msgspec

from daycare.base.memories import EntityPart, FactPart, NewMemory, Tier
from daycare.base.messages import Message

_NUMBER_BYTES: Final = 8
OWN_BITS: Final = 2**32 - 1  # of a memory's number: the part that counts within its scope
ECHO: Final = "echo"  # the role of an agent's answer that only repeats what is remembered; nothing is learned from it
EVERYBODY: Final = ""  # the scope of global documents: read by all, together with the reader's own


class StoredMemory(NewMemory, frozen=True, kw_only=True):
    """A stored memory. Within a scope the number rises with each new one. `hash` is the SHA-256 of its text."""

    no: int
    hash: str
    created_at: int


class MemoryShape(msgspec.Struct, frozen=True):
    """Of a memory what ranking needs of all of them: who said it when, in which conversation."""

    no: int
    tier: Tier
    agent_id: str
    path: str
    session: int
    turn: int
    speaker: str
    at_ms: int
    until_ms: int | None  # a fact's `valid_until_ms`


class Postings(msgspec.Struct, frozen=True):
    """Which memories have a word: `numbers` are little-endian int64, rising. `memories` is how many of the scope do.

    `stem` is the word as the index has it, `words` are those asked for that are forms of it.
    """

    stem: str
    words: tuple[str, ...]
    memories: int
    numbers: bytes

    @property
    def listed(self) -> int:
        """How many numbers there are."""
        return len(self.numbers) // _NUMBER_BYTES


def most_alike(listed: Sequence[Postings], living: int, limit: int) -> list[int]:
    """Return the memories, of so many living ones, that have most of these words, the rarer the more, best first."""
    rarity: dict[int, float] = {}  # of all words that a memory has, together
    for each in listed:
        rare = log1p((max(0, living - each.memories) + 0.5) / (each.memories + 0.5))
        for no in struct.unpack(f"<{each.listed}q", each.numbers):
            rarity[no] = rarity.get(no, 0.0) + rare
    return nsmallest(limit, rarity, key=lambda no: (-rarity[no], -no))


class EndedTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that ended and whose messages are not in the log yet."""

    turn: int
    agent_id: str
    session: int
    ended_at: int
    trace: str
    messages: tuple[Message, ...]


class Unextracted(msgspec.Struct, frozen=True, kw_only=True):
    """What a memory worker of an agent has not looked at: entries after `after` up to `through`.

    `session` is that of the newest entry, `current` the one that the agent is in; `compacted`: a summary has been made
    that covers some of them. Times are of the oldest and the newest entry. Of `entries` 2,000 are counted at most.
    """

    agent_id: str
    after: int
    through: int
    entries: int
    session: int
    current: int
    compacted: bool
    oldest_ms: int
    newest_ms: int


class Comparable(msgspec.Struct, frozen=True, kw_only=True):
    """What stored facts are looked up by that new ones may end or repeat: theirs, and attributes with `several` values.

    Of those attributes only one of `values` matters, and of facts without any the statement.
    """

    subjects: tuple[str, ...]
    values: tuple[str, ...]
    statements: tuple[str, ...]
    several: tuple[str, ...]


class Superseded(msgspec.Struct, frozen=True):
    """A fact, by its number, that ended at `until_ms`; `by` is the place in `MergeResult.add` of the newer."""

    no: int
    by: int
    until_ms: int


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """A fact or an entity that was met again: its number, in which entries, and how it is described from now on."""

    no: int
    sources: tuple[int, ...]
    at_ms: int
    text: str = ""  # empty: as before, and so is `index`
    index: str = ""
    fact: FactPart | None = None
    entity: EntityPart | None = None


class MergeResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a memory worker learned from the log entries of one agent after `after` up to `through`."""

    agent_id: str
    after: int
    through: int
    add: tuple[NewMemory, ...] = ()
    superseded: tuple[Superseded, ...] = ()
    seen: tuple[Seen, ...] = ()


class NewVector(msgspec.Struct, frozen=True):
    """The vector of one memory: `data` is what `packed` makes of it; `hash` is of the text it was made of.

    Without data: this text has no vector, and needs to be asked for no more.
    """

    no: int
    hash: str
    data: bytes


class NewVectors(msgspec.Struct, frozen=True):
    """The vectors of some texts by one model, in the order of the texts: `data` as of `NewVector`."""

    model: str
    dimensions: int
    data: Sequence[bytes]


class VectorModel(msgspec.Struct, frozen=True):
    """A model of which there are vectors: so many, with so many numbers each."""

    model: str
    dimensions: int
    vectors: int


class VectorPage(msgspec.Struct, frozen=True):
    """Vectors in order of their memories' numbers: `data` are what `unpacked` reads."""

    numbers: tuple[int, ...]
    data: Sequence[bytes]


class Forgotten(msgspec.Struct, frozen=True, kw_only=True):
    """What a `forget` removed, with what came of it. `traces` are those of turns that have lost their words."""

    memories: int
    turns: int
    versions: int
    summaries: int
    traces: tuple[str, ...] = ()


class MemoryCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How much a scope remembers. `facts` hold, `superseded` no longer do; `uncurated` entries wait for a worker."""

    logs: int = 0
    facts: int = 0
    superseded: int = 0
    entities: int = 0
    chunks: int = 0
    uncurated: int = 0
    text_bytes: int = 0


class ScopeProgress(NamedTuple):
    """How a scope is: what tells it apart from one that began again, its last memory, and its last change."""

    incarnation: int
    last: int
    changed: int

    @property
    def latest(self) -> tuple[int, int]:
        """The numbers that rise with each memory that is added, and with each that is changed or deleted."""
        return self.last, self.changed

    @property
    def life(self) -> tuple[int, int]:
        """What is another one once a memory was changed, or is not there any more."""
        return self.incarnation, self.changed


NEVER: Final = ScopeProgress(0, 0, 0)  # nothing was ever remembered there
