"""What a store keeps of memories, in parts, one for what each is about."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import apsw

from daycare.features.memory.store.chunks import MemoryChunks
from daycare.features.memory.store.copied import MemoryCopied
from daycare.features.memory.store.extraction import MemoryExtraction
from daycare.features.memory.store.filters import MemoryFilters
from daycare.features.memory.store.followers import MemoryFollower
from daycare.features.memory.store.forgetting import MemoryForgetting
from daycare.features.memory.store.log import MemoryLog
from daycare.features.memory.store.search import MemoryReads
from daycare.features.memory.store.stored import WORDS
from daycare.features.memory.store.vectors import MemoryVectors
from daycare.store.records_metrics import Vectors
from daycare.store.sqlite.database import count
from daycare.store.sqlite.rows import Table
from daycare.store.sqlite.sql import fetch

_AGENTS_MAX: Final = 1_000  # with a log that nobody has looked at
_RECENT_TURNS: Final = 256  # among which those are who talk these days
_VECTORS: Final = "vectors are computed again, or found by their text"


class MemoryRows(
    MemoryLog,
    MemoryExtraction,
    MemoryChunks,
    MemoryReads,
    MemoryFilters,
    MemoryVectors,
    MemoryCopied,
    MemoryForgetting,
):
    """Memories by scope. A scope is whose they are, such as `ann` or `ann/subuser/bob`.

    Every read but those of workers names its scopes, and returns nothing of others: the condition is part of the
    query. What is not async blocks for long over many rows: call it in a thread. When an agent dies or a person is
    removed, what is remembered of them stays until it expires or somebody forgets it.
    """

    tables: ClassVar = (
        Table("memories", called="memories", exported="memory", own="agent_id = ?1 AND tier = 'log'", apart=True),
        Table("memory_sources", exported="memory"),
        Table("memory_marks", exported="mark", own="agent_id = ?1"),
        Table("memory_scopes", again="from the memories", watched=True),
        Table("memory_names", again="from the memories"),
        Table("memory_logged", again="for the turns that came"),
        Table("memory_documents", again="chunks are cut from the documents"),
        Table("memory_changes", again="with the first change"),
        Table("memory_models", again=_VECTORS),
        Table("memory_embedded", again=_VECTORS),
        Table("memory_vectors", again=_VECTORS),
    )
    followers: ClassVar = (MemoryFollower,)
    indexes: ClassVar = (WORDS,)
    is_done: ClassVar = "EXISTS (SELECT 1 FROM memory_logged l WHERE t.turn BETWEEN l.first AND l.last)"

    @classmethod
    def inspected(cls, db: apsw.Connection) -> Mapping[str, Any]:
        """Return how many memories there are, and which embedders have vectors of them."""
        vectors = fetch(
            db,
            "SELECT model, dimensions, (SELECT coalesce(sum(vectors), 0) FROM memory_embedded e WHERE e.model = m.no)"
            " FROM memory_models m ORDER BY no",
        )
        return {
            "memories": count(db, "SELECT coalesce(sum(living), 0) FROM memory_scopes"),
            "vectors": tuple(Vectors(*row) for row in vectors),
        }

    @classmethod
    def measured(cls, db: apsw.Connection) -> Mapping[str, Any]:
        """Return of how many agents workers have not looked at all, and when the oldest of that was said."""
        entry = "SELECT created_at FROM memories WHERE agent_id = m.agent_id AND tier = 'log' AND no > m.through"
        [(logs, oldest)] = fetch(
            db,
            f"SELECT count(*), coalesce(min(({entry} ORDER BY no LIMIT 1)), 0)"
            " FROM (SELECT agent_id, through FROM memory_marks WHERE newest > through LIMIT ?) m",
            (_AGENTS_MAX,),
        )
        return {"uncurated": logs, "uncurated_at": oldest}

    async def has_log(self) -> bool:
        """Return whether anything that was ever said is remembered."""
        return self._number("SELECT 1 FROM memory_marks LIMIT 1") is not None

    async def recent_scopes(self, most: int) -> list[str]:
        """Return scopes in which something is remembered, of those who were in the last turns, the latest first."""
        rows = fetch(
            self._reader,
            "SELECT s.scope FROM memory_scopes s JOIN (SELECT l.user AS user, max(l.turn) AS turn FROM (SELECT user,"
            " turn FROM turns ORDER BY turn DESC LIMIT ?) l GROUP BY l.user) t ON t.user = s.user WHERE s.living > 0"
            " ORDER BY t.turn DESC, s.no LIMIT ?",
            (_RECENT_TURNS, most),
        )
        return [str(scope) for (scope,) in rows]
