"""Memories: their store in parts, one for what each is about."""

from daycare.store.sqlite.memory_chunks import MemoryChunks
from daycare.store.sqlite.memory_curation import MemoryCuration
from daycare.store.sqlite.memory_filters import MemoryFilters
from daycare.store.sqlite.memory_forgetting import MemoryForgetting
from daycare.store.sqlite.memory_log import MemoryLog
from daycare.store.sqlite.memory_search import MemorySearch
from daycare.store.sqlite.memory_vectors import MemoryVectors


class Memories(MemoryLog, MemoryCuration, MemoryChunks, MemorySearch, MemoryFilters, MemoryVectors, MemoryForgetting):
    """See `contract_memories.MemoryStore`."""
