"""What a start reads of the memories of those who talk: their first search finds it there."""

from collections.abc import AsyncIterator

import numpy as np
import pytest
from trio.testing import MockClock

from daycare.base.memory_settings import RetrievalSection
from daycare.features import open_store
from daycare.features.memory.embed.packing import packed
from daycare.features.memory.search import service
from daycare.features.memory.search.queries import MemoryQuery
from daycare.features.memory.search.search_scope import SEARCH_READ_ROWS, SearchScope
from daycare.features.memory.search.service import Search
from daycare.features.memory.store.records import NewVector
from daycare.features.memory.store.rows import MemoryRows
from daycare.settings import Live
from daycare.store.sqlite.store import Store
from tests.store.remembering import SCOPE, hash_of, logged
from tests.store.samples import EPOCH_MS, HandClock


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with open_store("memory:", HandClock(), inline=True) as opened:
        yield opened


@pytest.mark.parametrize("count", [3, SEARCH_READ_ROWS + 5])
async def test_a_prepared_scope_has_all_in_memory_and_finds_the_same(store: Store, count: int) -> None:
    texts = [f"word{at} of note{at}" for at in range(count)]
    numbers = [no for at in range(0, count, 500) for no in await logged(store, *texts[at : at + 500])]
    rows = np.random.default_rng(1).standard_normal((count, 64)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    vectors = zip(numbers, texts, packed(rows), strict=True)
    await store.of(MemoryRows).embed("model", 64, [NewVector(no, hash_of(text), data) for no, text, data in vectors])
    query = MemoryQuery(scope=SCOPE, text=texts[1], now_ms=EPOCH_MS + 1, vector=rows[1])
    ready, cold = (SearchScope(store.of(MemoryRows), SCOPE, lambda: "model") for _ in range(2))
    ready.prepare()
    assert not ready.catch_up()
    assert ready.size == count
    block = ready._block
    assert block is not None
    assert block.size == count
    assert ready.at_hand(query)
    found = ready.find(query, RetrievalSection(), 5)
    assert ready._block is block, "its vectors were read again"
    cold.catch_up_all()
    assert found == cold.find(query, RetrievalSection(), 5)
    assert found[0].no == numbers[1]


async def test_scopes_of_the_last_turns_are_read_at_a_start(
    store: Store, monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    await logged(store, "one", "another")
    search = Search(store, Live(), None)
    await search.prepare()
    assert list(search._search_scopes) == [SCOPE]
    assert search._search_scopes[SCOPE].searched.size == 2
    assert search._search_scopes[SCOPE].is_free


async def test_nothing_is_read_where_room_is_short(
    store: Store, monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    await logged(store, "one", "another")
    monkeypatch.setattr(service, "SEARCH_MAX_BYTES", -1)
    search = Search(store, Live(), None)
    await search.prepare()
    assert not search._search_scopes
