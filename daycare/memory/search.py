"""Searching what is remembered: words from the store's index, vectors from a block in memory, ranked by structure.

What is kept in memory of a scope follows from its rows: it is made at the first question, brought up to date before
each answer, and dropped at will. One question of a scope is looked at at a time; large scopes in a thread.

Who stops waiting for an answer is not held up by it: the search goes on by itself, and what it has read into memory is
there for the next question. Else nobody with a deadline would ever get an answer from a scope that takes long to read.
"""

import re
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import outcome
import trio
from trio import to_thread

from daycare.base.limits import SEARCH_INLINE_ROWS, SEARCH_SCOPES_MAX
from daycare.base.recollection import RetrievalSection
from daycare.memory.embedding import Embedding
from daycare.memory.queries import Hit, Query
from daycare.store.contract import Store
from daycare.store.records_memories import ECHO, EVERYBODY, Tier

if TYPE_CHECKING:
    from daycare.memory.scene import Scene

ALIKE: Final = 0.9  # of the words of two memories: then one of them is enough
_SPARE: Final = 20  # echoes of one thing that may rank before it
_FEW_WORDS: Final = 2  # "Yes, thanks" is not the same each time
_words = re.compile(r"[^\W_]+").findall


class Search:
    """Searches the memories of scopes. Without an `embedding` by words and structure alone."""

    def __init__(self, store: Store, section: RetrievalSection, embedding: Embedding | None) -> None:
        self._store = store
        self._section = section
        self._embedding = embedding
        self._scenes: OrderedDict[str, Scene] = OrderedDict()
        self._turns: dict[str, trio.Semaphore] = {}

    async def find(self, query: Query) -> list[Hit]:
        """Return what fits a question, the best first; passages of documents that everybody reads among them."""
        hits = await self._find(query, query.scope)
        if Tier.CHUNK in query.tiers and query.scope != EVERYBODY:
            hits += await self._find(query, EVERYBODY)
            hits.sort(key=lambda hit: -hit.score)
        hits.sort(key=lambda hit: hit.memory.role == ECHO)  # behind all others: what they repeat is preferred
        return _distinct(hits, query.limit)

    def drop(self, scope: str) -> None:
        """Keep nothing of a scope in memory."""
        self._scenes.pop(scope, None)

    def embedded(self, numbers: Sequence[int]) -> None:
        """Note that these memories have vectors now."""
        for scene in self._scenes.values():
            scene.embedded(numbers)

    async def _find(self, query: Query, scope: str) -> list[Hit]:
        turn = self._turns.setdefault(scope, trio.Semaphore(1))
        await turn.acquire()
        answer = _Answer()
        trio.lowlevel.spawn_system_task(self._answer, query, scope, turn, answer)
        await answer.there.wait()
        assert answer.hits is not None
        return answer.hits.unwrap()

    async def _answer(self, query: Query, scope: str, turn: trio.Semaphore, answer: "_Answer") -> None:
        answer.hits = await outcome.acapture(self._found, query, scope)
        turn.release()
        answer.there.set()

    async def _found(self, query: Query, scope: str) -> list[Hit]:
        scene = await self._scene(scope)
        if not scene.size:
            return []
        count = 2 * query.limit + _SPARE  # some will say the same, or only repeat others
        if scene.size <= SEARCH_INLINE_ROWS:
            found = scene.find(query, count)
        else:
            found = await to_thread.run_sync(scene.find, query, count)
        scored = {each.no: each for each in found}
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


class _Answer:
    """What was found, once it is `there`."""

    def __init__(self) -> None:
        self.there = trio.Event()
        self.hits: outcome.Outcome[list[Hit]] | None = None


def _distinct(hits: Sequence[Hit], count: int) -> list[Hit]:
    """Return the first hits, without what a better one says in nearly the same words.

    Of a fact and what it came from one is enough. Two texts that are alike share one of the first words of each, in any
    order that is the same for both: the longest first, which are rare, so that each is compared with few others.
    """
    kept: list[Hit] = []
    having: dict[str, list[frozenset[str]]] = {}  # by word: texts that are kept
    for hit in hits:
        if len(kept) == count:
            break
        words = frozenset(_words(hit.memory.text.casefold()))
        first: list[str] = []
        if len(words) > _FEW_WORDS:
            longest = sorted(sorted(words), key=len, reverse=True)
            first = longest[: len(words) + 1 - int(ALIKE * ALIKE * len(words))]
        if not any(_alike(words, other) for word in first for other in having.get(word, ())):
            kept.append(hit)
            for word in first:
                having.setdefault(word, []).append(words)
    return kept


def _alike(some: frozenset[str], others: frozenset[str]) -> bool:
    fewer, more = sorted((len(some), len(others)))
    return fewer >= ALIKE * more and len(some & others) >= ALIKE * fewer
