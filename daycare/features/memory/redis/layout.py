"""Where memories lie in Redis. All keys of a scope have its id in braces, and no person's name is in any.

    PREFIX:scopes            set     ID START of all copies
    PREFIX:{ID}              hash    the mark: how far the copy has come, and its START
    PREFIX:{ID}:START:shape  hash    memory -> what ranking needs of it
    PREFIX:{ID}:START:text   hash    memory -> its text and its words
    PREFIX:{ID}:START:w:STEM zset    the memories with a word
    PREFIX:{ID}:START:stems  set     the words there are
    PREFIX:{ID}:START:v      hash    memory -> its vector
    PREFIX:{ID}:START:gone   zset    memory -> the revision with which it was changed last

A memory is named by the part of its number that counts within its scope.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from daycare.base.errors import UnavailableError
from daycare.base.memories import Tier
from daycare.features.memory.store.records import MemoryShape

LAYOUT: Final = 1  # what lies there in another one is copied again
GONE_MAX: Final = 10_000  # changes remembered of a scope; who is further behind reads all of it

_TIERS: Final = {tier.value: tier for tier in Tier}
_REVISION_BITS: Final = 48
_encode: Final = msgspec.msgpack.Encoder().encode
_decode_shape: Final = msgspec.msgpack.Decoder(tuple[str, str, str, int, int, str, int, int | None]).decode
_decode_text: Final = msgspec.msgpack.Decoder(tuple[str, list[str]]).decode


def scopes_key(prefix: str) -> str:
    """Return the key of what all copies are called."""
    return f"{prefix}:scopes"


def mark_key(prefix: str, scope_id: str) -> str:
    """Return the key of a scope's mark."""
    return f"{prefix}:{{{scope_id}}}"


class CopyKeys:
    """The keys of one copy of a scope: of one that was begun at another time, all are others."""

    def __init__(self, prefix: str, scope_id: str, start: int) -> None:
        self.name = f"{scope_id} {start}"
        base = self._base = f"{mark_key(prefix, scope_id)}:{start}"
        self.shape = f"{base}:shape"
        self.text = f"{base}:text"
        self.vectors = f"{base}:v"
        self.stems = f"{base}:stems"
        self.gone = f"{base}:gone"

    def word(self, stem: str) -> str:
        """Return the key of a word's memories."""
        return f"{self._base}:w:{stem}"


class CopyMark(NamedTuple):
    """How far the copy of a scope has come.

    Memories up to `last` are there, as they were when `changed` was the number of the last change. `created` is when
    the last one was kept, 0 if it was gone by then: another store has another there. `model` is that of the vectors.
    `start` is drawn when the copy is begun, `revision` grows with whatever changes what was there, and what changed at
    or before `floor` is not known any more.
    """

    last: int
    changed: int
    created: int
    model: str
    start: int
    revision: int
    floor: int

    @property
    def revised(self) -> int:
        """What is another number after each change, and after each new beginning."""
        return self.start << _REVISION_BITS | self.revision

    def since(self, revised: int) -> int | None:
        """Return the revision that `revised` was, None if what has changed since then is not known."""
        start, revision = revised >> _REVISION_BITS, revised & ((1 << _REVISION_BITS) - 1)
        return revision if start == self.start and self.floor <= revision <= self.revision else None

    def fields(self) -> dict[str, Any]:
        """Return the mark as Redis keeps it."""
        return {"layout": LAYOUT, **self._asdict()}


def mark_of(kept: Mapping[bytes, bytes]) -> CopyMark | None:
    """Return a mark from what Redis keeps; None if there is none, or of another layout."""
    if kept.get(b"layout") != str(LAYOUT).encode():
        return None
    try:
        model = kept[b"model"].decode()
        last, changed, created, start, revision, floor = (
            int(kept[name]) for name in (b"last", b"changed", b"created", b"start", b"revision", b"floor")
        )
    except (KeyError, ValueError):
        return None
    return CopyMark(last, changed, created, model, start, revision, floor)


def shape_bytes(shape: MemoryShape) -> bytes:
    """Return a shape as Redis keeps it: without its number."""
    it = shape
    return _encode((it.tier, it.agent_id, it.path, it.session, it.turn, it.speaker, it.at_ms, it.until_ms))


def read_shape(no: int, data: bytes) -> MemoryShape:
    """Return the shape of a memory from what `shape_bytes` made of it. Raises `UnavailableError` REDIS_GARBAGE."""
    try:
        tier, agent_id, path, session, turn, speaker, at_ms, until_ms = _decode_shape(data)
        return MemoryShape(no, _TIERS[tier], agent_id, path, session, turn, speaker, at_ms, until_ms)
    except (msgspec.DecodeError, KeyError):
        raise _garbage() from None


def text_bytes(text: str, stems: list[str]) -> bytes:
    """Return a text and its words as Redis keeps them."""
    return _encode((text, stems))


def read_text(data: bytes) -> tuple[str, list[str]]:
    """Return a text and its words from what `text_bytes` made of them. Raises `UnavailableError` REDIS_GARBAGE."""
    try:
        return _decode_text(data)
    except msgspec.DecodeError:
        raise _garbage() from None


def _garbage() -> UnavailableError:
    return UnavailableError(
        "REDIS_GARBAGE",
        "reading memories in Redis: what lies there is not what daycare put there",
        hint="delete the keys below [memory.redis] prefix: all of it is copied there again",
    )
