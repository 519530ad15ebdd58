"""Forgetting: what a person does not want remembered goes, with the words it came from and what came of it.

First it is told what would go: `plan`. What merely speaks of the same stays, and is told as well.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import msgspec

from daycare.base.documents import Attribution, NewVersion, Place
from daycare.base.errors import NotFoundError
from daycare.base.memories import Tier
from daycare.base.messages import Origin
from daycare.features.memory.documents.rows import DocumentRows
from daycare.features.memory.store.records import OWN_BITS, Forgotten, StoredMemory
from daycare.features.memory.store.rows import MemoryRows
from daycare.store.sqlite.store import Store

MENTIONS_MAX: Final = 10  # of what speaks of the same: a person looks through as many
VERSIONS_PAGE: Final = 100  # versions of a document looked at in one go
_WORD_MIN_CHARS: Final = 4  # shorter ones say little about what a text is about


class ForgettingPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What would be forgotten: memories, the turns (agent id, turn) they came from, and versions of documents.

    `mentions` are other memories that have words in common with them: they stay unless they are named as well.
    """

    scope: str
    memories: tuple[StoredMemory, ...]
    turns: tuple[tuple[str, int], ...] = ()
    places: tuple[Place, ...] = ()
    mentions: tuple[StoredMemory, ...] = ()


class Forgetting:
    """Forgets. `on_forgotten` is called with the traces of what is gone, so that caches drop it."""

    def __init__(self, store: Store, on_forgotten: Callable[[str, Sequence[str]], None]) -> None:
        self._store = store
        self._on_forgotten = on_forgotten

    async def plan(self, scope: str, numbers: Sequence[int]) -> ForgettingPlan:
        """Return what would go with these memories. Raises `NotFoundError` for one that is not in the scope."""
        memories = await self._store.of(MemoryRows).get([scope], numbers)
        if missing := set(numbers) - {memory.no for memory in memories}:
            which = ", ".join(str(no & OWN_BITS) for no in sorted(missing))
            raise NotFoundError(
                "MEMORY_UNKNOWN", f"forgetting memory {which}: there is none", hint="use a number of a search"
            )
        derived = await self._store.of(MemoryRows).derived(scope, [memory.no for memory in memories])
        memories += await self._store.of(MemoryRows).get([scope], [no for no in derived if no not in set(numbers)])
        said = [memory.no for memory in memories if memory.tier is not Tier.CHUNK]
        turns = await self._store.of(MemoryRows).turns_of(scope, said)
        return ForgettingPlan(
            scope=scope,
            memories=tuple(memories),
            turns=tuple(turns),
            places=tuple({memory.place for memory in memories if memory.place is not None}),
            mentions=tuple(await self._mentions(scope, memories, turns)),
        )

    async def forget(self, plan: ForgettingPlan, by: str) -> Forgotten:
        """Carry a plan out for a person, whose connector key is `by`. It can be repeated after a crash.

        A document goes on without what was forgotten of it, as a new version, and its older ones that had it are gone.
        """
        versions: list[tuple[Place, int]] = []
        for place in plan.places:
            versions += await self._rewrite(place, [memory for memory in plan.memories if memory.place == place], by)
        numbers = [memory.no for memory in plan.memories]
        forgotten = await self._store.of(MemoryRows).forget(plan.scope, numbers, turns=plan.turns, versions=versions)
        self._on_forgotten(plan.scope, forgotten.traces)
        return forgotten

    async def _rewrite(self, place: Place, chunks: Sequence[StoredMemory], by: str) -> list[tuple[Place, int]]:
        """Write a document without some of its chunks; return the versions that had them."""
        document = await self._store.of(DocumentRows).get(place)
        if document is not None and document.text is not None:
            text = document.text
            for chunk in chunks:
                text = text.replace(chunk.text, "")
            if text != document.text:
                change = NewVersion(
                    place=place,
                    user=document.version.user,
                    by=Attribution(origin=Origin.PERSON, author=by, reason="forgotten"),
                    text=text,
                    base_hash=document.version.hash,
                )
                await self._store.of(DocumentRows).write(change)
        had: list[tuple[Place, int]] = []
        before: int | None = None
        while page := await self._store.of(DocumentRows).history(place, before=before, limit=VERSIONS_PAGE):
            for version in page:
                old = await self._store.of(DocumentRows).at(place, version.version)
                if old is not None and old.text and any(chunk.text in old.text for chunk in chunks):
                    had.append((place, version.version))
            before = page[-1].version
        return had

    async def _mentions(
        self, scope: str, memories: Sequence[StoredMemory], turns: Sequence[tuple[str, int]]
    ) -> list[StoredMemory]:
        """Return memories that stay and have at least half of the longer words of one of these.

        What else was said in their `turns` goes with them.
        """
        gone = {memory.no for memory in memories}
        found: dict[int, StoredMemory] = {}
        for memory in memories:
            words = {word for word in _words(memory.text) if len(word) >= _WORD_MIN_CHARS}
            if not words:
                continue
            memories_of = self._store.of(MemoryRows)
            near = await memories_of.reading(
                partial(memories_of.alike, scope, sorted(words), postings_max=2_000, limit=3 * MENTIONS_MAX)
            )
            for other in await memories_of.get([scope], [no for no in near if no not in gone]):
                goes = other.tier is not Tier.CHUNK and (other.agent_id, other.turn) in turns
                if not goes and 2 * len(words & set(_words(other.text))) >= len(words):
                    found[other.no] = other
        return sorted(found.values(), key=lambda memory: -memory.no)[:MENTIONS_MAX]


def _words(text: str) -> list[str]:
    return "".join(char.lower() if char.isalnum() else " " for char in text).split()
