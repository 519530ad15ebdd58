"""The index of words in memory finds what the store's finds, whatever was added, changed and forgotten since."""

import random
from collections.abc import AsyncIterator, Mapping, Sequence

import numpy as np
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from daycare.base.memories import Tier
from daycare.base.memory_settings import RetrievalSection
from daycare.features import open_store
from daycare.features.memory.embed.packing import packed
from daycare.features.memory.search import search_scope as scenes
from daycare.features.memory.search.postings import InvertedIndex
from daycare.features.memory.search.queries import MemoryQuery
from daycare.features.memory.search.search_scope import SearchScope
from daycare.features.memory.store.records import MergeResult, NewVector, Postings, Seen
from daycare.features.memory.store.rows import MemoryRows
from daycare.store.sqlite.store import Store
from tests.store.remembering import SCOPE, entity, hash_of, learned, logged
from tests.store.samples import EPOCH_MS, HandClock

WORDS = ("piano", "pianos", "running", "runs", "caf\u00e9", "Zug", "x1", "42", "maxRetryCount", "\u732b", "a", "b")


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with open_store("memory:", HandClock(), inline=True) as opened:
        yield opened


def listed(found: Sequence[Postings]) -> dict[str, tuple[tuple[str, ...], int, bytes]]:
    return {each.stem: (each.words, each.memories, each.numbers) for each in found}


def model(held: Mapping[int, set[str]], stem: str) -> bytes:
    return b"".join(no.to_bytes(8, "little") for no in sorted(held) if stem in held[no])


@settings(deadline=None)
@given(seed=st.integers(0, 1_000_000))
def test_after_any_changes_it_has_each_word_where_it_is(seed: int) -> None:
    draw = random.Random(seed)
    index, held = InvertedIndex(), dict[int, set[str]]()
    last = 0
    for _ in range(draw.randrange(1, 60)):
        kind = draw.random()
        stems = set(draw.choices("abcde", k=draw.randrange(4)))
        if kind < 0.6:
            last += draw.randrange(1, 3)
            index.put(last, [*stems, *stems])
            held[last] = stems
        elif kind < 0.8 and held:
            no = draw.choice([*held])
            index.put(no, stems)
            held[no] = stems
        else:
            gone = draw.sample(range(last + 3), min(2, last))
            index.remove(gone)
            held = {no: had for no, had in held.items() if no not in gone}
    found = listed(index.postings({stem: [stem] for stem in "abcdef"}, 10**6))
    wanted = {stem: model(held, stem) for stem in "abcdef"}
    assert found == {stem: ((stem,), len(no) // 8, no) for stem, no in wanted.items() if no}


def test_the_rarest_words_come_first_as_far_as_their_entries_go() -> None:
    index = InvertedIndex()
    for no in range(1, 11):
        index.put(no, ["every", *(["some"] if no > 6 else []), *(["one"] if no == 3 else [])])
    words = {stem: [stem] for stem in ("every", "some", "one", "none")}
    assert [each.stem for each in index.postings(words, 15)] == ["one", "some", "every"]
    assert [each.stem for each in index.postings(words, 14)] == ["one", "some"]
    assert index.postings(words, 0) == index.postings({}, 9) == []


def test_so_much_beside_its_lists_that_it_counts_is_a_reason_to_begin_anew() -> None:
    index = InvertedIndex()
    for no in range(1, 1_001):
        index.put(no, ["word"])
    assert index.nbytes >= 8_000
    index.remove(range(1, 201))
    few = index.worn
    index.remove([201])
    assert (few, index.worn) == (False, True)


async def changed(store: Store, draw: random.Random, numbers: list[int]) -> None:
    """Say, learn, describe anew, or forget something."""
    kind = draw.random()
    text = " ".join(draw.choices(WORDS, k=draw.randrange(1, 8)))
    if kind < 0.5 or not numbers:
        numbers += await logged(store, text)
    elif kind < 0.75:
        source = (await logged(store, text))[0]
        numbers += [source, *await learned(store, entity(draw.choice(WORDS), source, description=text))]
    elif kind < 0.9 and (known := await store.of(MemoryRows).find(SCOPE, Tier.ENTITY)):
        [source] = await logged(store, text)
        it = draw.choice(known)
        after = await store.of(MemoryRows).mark("id-u1-telegram")
        seen = Seen(no=it.no, sources=(source,), at_ms=EPOCH_MS, text=f"{it.text} {text}", entity=it.entity)
        lesson = MergeResult(agent_id="id-u1-telegram", after=after, through=source, seen=(seen,))
        assert await store.of(MemoryRows).learn(lesson) is not None
        numbers.append(source)
    else:
        await store.of(MemoryRows).forget(SCOPE, [numbers.pop(draw.randrange(len(numbers)))])


@pytest.mark.parametrize("seed", range(6))
async def test_a_small_scope_has_the_postings_that_the_store_has(
    seed: int, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daycare.features.memory.search.postings._ASIDE_MAX", 5)
    draw = random.Random(seed)
    scene = SearchScope(store.of(MemoryRows), SCOPE, lambda: "")
    numbers: list[int] = []
    for _ in range(40):
        for _ in range(draw.randrange(1, 4)):
            await changed(store, draw, numbers)
        assert not scene.catch_up()
        while scene.behind:
            scene.look_ahead()
        words = draw.sample(WORDS, 5)
        known = store.of(MemoryRows).postings(SCOPE, words, postings_max=10_000)
        with monkeypatch.context() as patched:
            patched.setattr(store.of(MemoryRows), "postings", None)
            found = scene._postings(words, 10_000)
        assert listed(found) == listed(known), f"seed {seed}"
        alike = store.of(MemoryRows).alike(SCOPE, words, 1_000, 20)
        assert scene.alike(words, 1_000, 20) == alike, f"seed {seed}"
        nowhere = scene.alike(["zebra"], 1_000, 20)
        assert nowhere == [], f"seed {seed}: where no word is, the store need not be asked"


@pytest.mark.parametrize("seed", range(4))
async def test_a_lean_scope_takes_a_part_of_the_memory_and_finds_the_same(
    seed: int, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scenes, "LEAN_MAX_BYTES", 4 * 64 * 50)
    draw, dice = random.Random(seed), np.random.default_rng(seed)
    texts = [f"{' '.join(draw.choices(WORDS, k=6))} note{at}" for at in range(400)]
    numbers = await logged(store, *texts)
    rows = dice.standard_normal((400, 64)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    vectors = zip(numbers, texts, packed(rows), strict=True)
    new = [NewVector(no, hash_of(text), data) for no, text, data in vectors]
    await store.of(MemoryRows).embed("model", 64, new)
    shared: list[int] = []
    rich, lean = (SearchScope(store.of(MemoryRows), SCOPE, lambda: "model", lean=each) for each in (False, True))
    for at in range(0, 400, 40):
        query = MemoryQuery(scope=SCOPE, text=texts[at], now_ms=EPOCH_MS + 1, vector=rows[at])
        found = []
        for scope in (rich, lean):
            scope.catch_up_all()
            found.append([each.no for each in scope.find(query, RetrievalSection(), 10)])
            while scope.behind:
                scope.look_ahead()
        assert found[0][0] == found[1][0] == numbers[at]
        shared.append(len({*found[0]} & {*found[1]}))
    assert sum(shared) >= 0.8 * 100, f"seed {seed}: {shared}"  # of noise, where hardly anything is nearer than others
    assert lean.nbytes < rich.nbytes / 2


async def test_a_large_scope_asks_the_store_and_a_small_one_until_its_words_are_there(
    store: Store, monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    await logged(store, *(f"word{number}" for number in range(150)))
    asked: list[Sequence[str]] = []
    postings = store.of(MemoryRows).postings

    def noted(scope: str, terms: Sequence[str], *, postings_max: int) -> list[Postings]:
        asked.append(terms)
        return postings(scope, terms, postings_max=postings_max)

    monkeypatch.setattr(store.of(MemoryRows), "postings", noted)
    scene = SearchScope(store.of(MemoryRows), SCOPE, lambda: "")
    scene.catch_up()

    def look_up() -> bool:
        """Return whether the store was asked."""
        asked.clear()
        assert [each.stem for each in scene._postings(["word7"], 10)] == ["word7"]
        return bool(asked)

    assert look_up(), "150 are too many to be read before an answer"
    while scene.look_ahead():
        await trio.lowlevel.checkpoint()
    assert not look_up()
    monkeypatch.setattr(scenes, "SEARCH_INLINE_ROWS", 150)
    assert not look_up()
    await logged(store, "one more")
    scene.catch_up()
    assert look_up()
    assert scene._words.nbytes == 0, "the words of a large scope are not kept"
