"""What was found lately is not read again, and nothing that was changed or forgotten since is found as it was."""

from collections.abc import AsyncIterator, Sequence

import pytest

from daycare.features import open_store
from daycare.features.memory.search import recent as recently
from daycare.features.memory.search.recent import FoundMemory, RecentMemories
from daycare.features.memory.store.records import StoredMemory
from daycare.features.memory.store.rows import MemoryRows
from daycare.store.sqlite.store import Store
from tests.store.remembering import SCOPE, logged
from tests.store.samples import HandClock


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with open_store("memory:", HandClock(), inline=True) as opened:
        yield opened


@pytest.fixture
def read(store: Store, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of memories that were read from the store."""
    found: list[int] = []
    get = store.of(MemoryRows).get

    async def noted(scopes: Sequence[str], numbers: Sequence[int]) -> list[StoredMemory]:
        found.extend(numbers)
        return await get(scopes, numbers)

    monkeypatch.setattr(store.of(MemoryRows), "get", noted)
    return found


async def looked(recent: RecentMemories, numbers: Sequence[int], scope: str = SCOPE) -> dict[int, FoundMemory]:
    await recent.look([scope])
    return await recent.get([scope], numbers)


async def test_a_memory_is_read_once_as_long_as_it_stays_as_it_is(store: Store, read: list[int]) -> None:
    numbers = await logged(store, "the piano", "the harp")
    recent = RecentMemories(store)
    before = await looked(recent, numbers[:1])
    [new] = await logged(store, "the organ")
    assert await looked(recent, [*numbers, new]) | before == await looked(recent, [*numbers, new])
    assert read == [*numbers, new]


async def test_what_was_forgotten_or_is_in_another_scope_is_not_found(store: Store, read: list[int]) -> None:
    one, other = await logged(store, "the piano", "the harp")
    recent = RecentMemories(store)
    assert [*await looked(recent, [one, other])] == [one, other]
    await store.of(MemoryRows).forget(SCOPE, [one])
    assert [*await looked(recent, [one, other])] == [other]
    assert read == [one, other, one], "what stayed as it is is not read again"
    assert not await looked(recent, [one, other], "u2")


async def test_a_scope_that_began_again_has_nothing_of_the_one_before(store: Store, read: list[int]) -> None:
    [one] = await logged(store, "the piano")
    recent = RecentMemories(store)
    await looked(recent, [one])
    await store.of(MemoryRows)._write(lambda tx: tx.run("UPDATE memory_scopes SET incarnation = incarnation + 1"))
    await looked(recent, [one])
    assert read == [one, one], "after a purge another scope may have its number, and its memories theirs"
    await store.of(MemoryRows)._write(lambda tx: tx.run("DELETE FROM memory_scopes"))
    assert not await looked(recent, [one])


async def test_a_row_that_changes_while_it_is_read_is_read_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    [one] = await logged(store, "the piano")
    recent, rows = RecentMemories(store), store.of(MemoryRows)
    get = rows.get

    async def slow(scopes: Sequence[str], numbers: Sequence[int]) -> list[StoredMemory]:
        found = await get(scopes, numbers)
        with monkeypatch.context() as patched:
            patched.setattr(rows, "get", get)
            await rows.forget(SCOPE, [one])
            await recent.look([SCOPE])  # somebody else
        return found

    await recent.look([SCOPE])
    monkeypatch.setattr(rows, "get", slow)
    assert await recent.get([SCOPE], [one]), "it was there when it was asked for"
    monkeypatch.setattr(rows, "get", get)
    assert not await looked(recent, [one])


async def test_what_was_found_longest_ago_makes_room(
    store: Store, read: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = await logged(store, *(f"the piano {number}" for number in range(10)))
    recent = RecentMemories(store)
    each = next(iter((await looked(recent, numbers[:1])).values())).nbytes
    monkeypatch.setattr(recently, "RECENT_MAX_BYTES", 3 * each + each // 2)
    for number in (*numbers[1:4], numbers[1], numbers[4], numbers[1], numbers[2]):
        await looked(recent, [number])
    assert read == [*numbers[:4], numbers[4], numbers[2]]
    recent.drop(SCOPE)
    assert not recent._found and not recent._taken
