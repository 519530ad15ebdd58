"""What a store keeps of memories, in parts, one for what each is about."""

from typing import ClassVar, Final

from daycare.features.memory.store.chunks import MemoryChunks
from daycare.features.memory.store.extraction import MemoryExtraction
from daycare.features.memory.store.filters import MemoryFilters
from daycare.features.memory.store.followers import MemoryFollower
from daycare.features.memory.store.forgetting import MemoryForgetting
from daycare.features.memory.store.log import MemoryLog
from daycare.features.memory.store.search import MemoryReads
from daycare.features.memory.store.vectors import MemoryVectors
from daycare.store.sqlite.rows import Table

_VECTORS: Final = "vectors are computed again, or found by their text"


class MemoryRows(
    MemoryLog, MemoryExtraction, MemoryChunks, MemoryReads, MemoryFilters, MemoryVectors, MemoryForgetting
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
        Table("memory_scopes", again="from the memories"),
        Table("memory_names", again="from the memories"),
        Table("memory_logged", again="for the turns that came"),
        Table("memory_documents", again="chunks are cut from the documents"),
        Table("memory_changes", again="with the first change"),
        Table("memory_models", again=_VECTORS),
        Table("memory_embedded", again=_VECTORS),
        Table("memory_vectors", again=_VECTORS),
    )
    followers: ClassVar = (MemoryFollower,)
    is_done: ClassVar = "EXISTS (SELECT 1 FROM memory_logged l WHERE t.turn BETWEEN l.first AND l.last)"
