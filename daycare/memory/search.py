"""Searching what is remembered: words from the store's index, vectors from a block in memory, ranked by structure."""

from collections.abc import Sequence

from daycare.base.limits import SEARCH_POSTINGS_MAX
from daycare.base.recollection import RetrievalSection
from daycare.memory.embedding import Embedding
from daycare.memory.queries import Hit, Query
from daycare.store.contract import Store
from daycare.store.records_memories import Tier


class Search:
    """Searches."""

    def __init__(self, store: Store, section: RetrievalSection, embedding: Embedding | None) -> None:
        self._store = store
        self._section = section
        self._embedding = embedding

    async def find(self, query: Query) -> Sequence[Hit]:
        """Return what fits a question, the best first."""
        words = [word for word in "".join(c if c.isalnum() else " " for c in query.text).split() if len(word) > 2]
        found = self._store.memories.found(
            query.scope, words, postings_max=SEARCH_POSTINGS_MAX, limit=4 * query.limit, tiers=query.tiers
        )
        scores = dict(found)
        memories = await self._store.memories.get([query.scope], list(scores))
        hits = [
            Hit(memory, scores[memory.no])
            for memory in memories
            if query.shown is None
            or memory.tier is not Tier.LOG
            or memory.agent_id != query.agent_id
            or memory.session != query.shown[0]
            or memory.turn <= query.shown[1]
        ]
        return sorted(hits, key=lambda hit: -hit.score)[: query.limit]

    def drop(self, scope: str) -> None:
        """Forget what is kept in memory of a scope."""
