"""Memories: their store in parts, one for what each is about."""

from daycare.store.sqlite.memory_chunks import MemoryChunks
from daycare.store.sqlite.memory_extraction import MemoryExtraction
from daycare.store.sqlite.memory_filters import MemoryFilters
from daycare.store.sqlite.memory_forgetting import MemoryForgetting
from daycare.store.sqlite.memory_log import MemoryLog
from daycare.store.sqlite.memory_search import MemoryReads
from daycare.store.sqlite.memory_vectors import MemoryVectors


class Memories(MemoryLog, MemoryExtraction, MemoryChunks, MemoryReads, MemoryFilters, MemoryVectors, MemoryForgetting):
    """Memories by scope. A scope is whose they are, such as `ann` or `ann/subuser/bob`.

    Every read but those of workers names its scopes, and returns nothing of others: the condition is part of the
    query. What is not async blocks for long over many rows: call it in a thread. When an agent dies or a person is
    removed, what is remembered of them stays until it expires or somebody forgets it.
    """
