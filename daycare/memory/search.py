"""Searching what is remembered: words from the store's index, vectors from a block in memory, ranked by structure.

What is kept in memory of a scope follows from its rows: it is made at the first question, brought up to date before
each answer, and dropped at will. One question of a scope is looked at at a time; large scopes in a thread.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import trio
from trio import to_thread

from daycare.base.limits import SEARCH_INLINE_ROWS, SEARCH_SCOPES_MAX
from daycare.base.recollection import RetrievalSection
from daycare.memory.embedding import Embedding
from daycare.memory.queries import Hit, Query
from daycare.store.contract import Store
from daycare.store.records_memories import EVERYBODY, Tier

if TYPE_CHECKING:
    from daycare.memory.scene import Scene

ALIKE: Final = 0.9  # of the words of two memories: then one of them is enough
_FEW_WORDS: Final = 2  # "Yes, thanks" is not the same each time


class Search:
    """Searches the memories of scopes. Without an `embedding` by words and structure alone."""

    def __init__(self, store: Store, section: RetrievalSection, embedding: Embedding | None) -> None:
        self._store = store
        self._section = section
        self._embedding = embedding
        self._scenes: OrderedDict[str, Scene] = OrderedDict()
        self._locks: dict[str, trio.Lock] = {}

    async def find(self, query: Query) -> list[Hit]:
        """Return what fits a question, the best first; passages of documents that everybody reads among them."""
        hits = await self._find(query, query.scope)
        if Tier.CHUNK in query.tiers and query.scope != EVERYBODY:
            hits += await self._find(query, EVERYBODY)
            hits.sort(key=lambda hit: -hit.score)
        return _distinct(hits)[: query.limit]

    def drop(self, scope: str) -> None:
        """Keep nothing of a scope in memory."""
        self._scenes.pop(scope, None)

    def embedded(self, numbers: Sequence[int]) -> None:
        """Note that these memories have vectors now."""
        for scene in self._scenes.values():
            scene.embedded(numbers)

    async def _find(self, query: Query, scope: str) -> list[Hit]:
        async with self._locks.setdefault(scope, trio.Lock()):
            scene = await self._scene(scope)
            if not scene.size:
                return []
            if scene.size <= SEARCH_INLINE_ROWS:
                found = scene.rank(query)
            else:
                found = await to_thread.run_sync(scene.rank, query)
            unread = await self._store.memories.get([scope], found.unread)
            scored = {each.no: each for each in scene.finish(found, unread, 2 * query.limit)}
            memories = await self._store.memories.get([scope], list(scored))
        return [Hit(memory, scored[memory.no].score, scored[memory.no].parts) for memory in memories if memory.text]

    async def _scene(self, scope: str) -> "Scene":
        """Return what is kept of a scope, as its rows are now."""
        from daycare.memory.scene import (
            Scene,
        )  # late: it brings numpy, which a daemon that recalls nothing does without

        scene = self._scenes.get(scope)
        if scene is None:
            scene = self._scenes[scope] = Scene(self._store.memories, scope, self._model, self._section)
        self._scenes.move_to_end(scope)
        while len(self._scenes) > SEARCH_SCOPES_MAX:
            self._scenes.popitem(last=False)
        changed, more = scene.catch_up()
        if more:
            await to_thread.run_sync(scene.catch_up_all)
        if changed:
            scene.revise(changed, await self._store.memories.get([scope], changed))
        return scene

    def _model(self) -> str:
        return self._embedding.model if self._embedding is not None else ""


def _distinct(hits: Sequence[Hit]) -> list[Hit]:
    """Leave out what a better one says in nearly the same words: of a fact and what it came from one is enough."""
    kept: list[tuple[Hit, frozenset[str]]] = []
    for hit in hits:
        words = frozenset(_words(hit.memory.text))
        if not any(_alike(words, other) for _, other in kept):
            kept.append((hit, words))
    return [hit for hit, _ in kept]


def _alike(some: frozenset[str], others: frozenset[str]) -> bool:
    fewer = min(len(some), len(others))
    return fewer > _FEW_WORDS and len(some & others) >= ALIKE * fewer and fewer >= ALIKE * max(len(some), len(others))


def _words(text: str) -> list[str]:
    return "".join(char if char.isalnum() else " " for char in text.casefold()).split()
