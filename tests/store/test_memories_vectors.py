"""Vectors: each memory has at most one of a model, of the text that it has now, and what has none is found quickly."""

import struct
from contextlib import closing
from pathlib import Path

import apsw
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from daycare.base.errors import BusyError, ConflictError
from daycare.base.memories import Tier
from daycare.features import open_store
from daycare.features.memory.store.records import NewVector, NewVectors, Seen, VectorPage
from daycare.features.memory.store.rows import MemoryRows
from daycare.store.sqlite.database import migrations
from daycare.store.sqlite.store import Store
from tests.store.remembering import (
    MODEL,
    SCOPE,
    embedded,
    entries_of,
    entry,
    fact,
    hash_of,
    learned,
    logged,
    only,
    said,
    vector,
)
from tests.store.samples import HandClock


def halves(page: VectorPage) -> list[float]:
    return [value for (value,) in struct.iter_unpack("<e", b"".join(page.data))]


async def without(store: Store, model: str = MODEL, limit: int = 100) -> list[int]:
    return [no for no, _, _ in await store.of(MemoryRows).unembedded(model, limit)]


async def test_a_memory_waits_for_its_vector_until_it_has_one(store: Store, clock: HandClock) -> None:
    one, two = await logged(store, "one", "two")
    clock.ms += 1
    [three] = await logged(store, "three")
    assert await store.of(MemoryRows).unembedded(MODEL, 10) == [
        (no, hash_of(text), text) for no, text in ((three, "three"), (two, "two"), (one, "one"))
    ]
    assert await store.of(MemoryRows).pending(MODEL) == (3, 3)
    assert await store.of(MemoryRows).embed(MODEL, 2, [vector(two, "two", 1, 2)]) == 1
    assert await without(store) == [three, one]
    assert await store.of(MemoryRows).pending(MODEL) == (2, 3)
    assert await store.of(MemoryRows).pending("other") == (3, 3)
    assert await store.of(MemoryRows).embed(MODEL, 2, [vector(two, "two", 5, 6)]) == 0, "it has one"
    assert halves(store.of(MemoryRows).vectors_of(MODEL, [two])) == [1, 2]


async def test_a_vector_of_another_text_or_of_nothing_is_left_out(store: Store) -> None:
    [no] = await logged(store, "text")
    wrong = [vector(no, "other", 1), vector(no + 1, "text", 1), vector(10**12, "text", 1)]
    assert await store.of(MemoryRows).embed(MODEL, 1, wrong) == 0
    assert await store.of(MemoryRows).pending(MODEL) == (1, 1)


async def test_vectors_are_read_in_order_by_pages(store: Store) -> None:
    found = await logged(store, *(f"text {no}" for no in range(10)))
    await logged(store, "theirs", to="/u2/telegram", scope="u2", user="u2")
    await embedded(store, dimensions=2)
    await embedded(store, "other", dimensions=4)
    pages = list(store.of(MemoryRows).vectors(SCOPE, MODEL, page=4))
    assert [page.numbers for page in pages] == [tuple(found[:4]), tuple(found[4:8]), tuple(found[8:])]
    assert halves(pages[0])[:4] == [found[0] % 1_000, found[0] % 1_000, found[1] % 1_000, found[1] % 1_000]
    [page] = store.of(MemoryRows).vectors(SCOPE, MODEL, after=found[7])
    assert page.numbers == tuple(found[8:])
    [page] = store.of(MemoryRows).vectors(SCOPE, MODEL, page=10)
    assert page.numbers == tuple(found)
    assert (
        list(store.of(MemoryRows).vectors("nobody", MODEL))
        == list(store.of(MemoryRows).vectors(SCOPE, "unknown"))
        == []
    )


async def test_some_vectors_are_read_by_number(store: Store) -> None:
    one, two, three = await logged(store, "one", "two", "three")
    await store.of(MemoryRows).embed(MODEL, 1, [vector(three, "three", 3), vector(one, "one", 1)])
    page = store.of(MemoryRows).vectors_of(MODEL, [three, two, one])
    assert (page.numbers, halves(page)) == ((one, three), [1, 3])
    assert (
        store.of(MemoryRows).vectors_of("unknown", [one])
        == store.of(MemoryRows).vectors_of(MODEL, [])
        == VectorPage((), ())
    )


async def test_a_text_that_has_no_vector_is_asked_for_once(store: Store) -> None:
    one, two = await logged(store, "one", "two")
    assert await store.of(MemoryRows).embed(MODEL, 0, [NewVector(one, hash_of("one"), b"")]) == 1
    assert await without(store) == [two]
    assert await store.of(MemoryRows).embed(MODEL, 2, [vector(two, "two", 1, 2)]) == 1
    [page] = store.of(MemoryRows).vectors(SCOPE, MODEL)
    assert page.numbers == store.of(MemoryRows).vectors_of(MODEL, [one, two]).numbers == (two,)
    assert await store.of(MemoryRows).known_vectors(MODEL, [hash_of("one")]) == {hash_of("one"): b""}


@pytest.mark.parametrize("wrong", [(1.0, 2.0, 3.0), (1.0, 2.0, 3.0, 4.0, 5.0)])
async def test_all_vectors_of_a_model_have_the_same_dimensions(store: Store, wrong: tuple[float, ...]) -> None:
    one, two = await logged(store, "one", "two")
    await store.of(MemoryRows).embed(MODEL, 2, [vector(one, "one", 1, 2)])
    for dimensions in (2, len(wrong)):
        with pytest.raises(ConflictError) as caught:
            await store.of(MemoryRows).embed(MODEL, dimensions, [vector(two, "two", *wrong)])
        assert caught.value.code == "EMBEDDING_DIMENSIONS"
    assert await without(store) == [two]
    assert await store.of(MemoryRows).embed("other", len(wrong), [vector(two, "two", *wrong)]) == 1


async def test_a_text_that_was_embedded_before_needs_no_embedder_again(store: Store) -> None:
    [one] = await logged(store, "ok")
    await store.of(MemoryRows).embed(MODEL, 2, [vector(one, "ok", 1, 2)])
    [theirs, _] = await logged(store, "ok", "new", to="/u2/telegram", scope="u2", user="u2")
    known = await store.of(MemoryRows).known_vectors(MODEL, [hash_of("ok"), hash_of("new")])
    assert known == {hash_of("ok"): struct.pack("<2e", 1, 2)}
    assert await store.of(MemoryRows).known_vectors("other", [hash_of("ok")]) == {}
    assert await store.of(MemoryRows).embed(MODEL, 2, [NewVector(theirs, hash_of("ok"), known[hash_of("ok")])]) == 1
    await store.of(MemoryRows).forget(SCOPE, [one])
    await store.of(MemoryRows).forget("u2", [theirs])
    assert await store.of(MemoryRows).known_vectors(MODEL, [hash_of("ok")]) == {}, "the cache forgets as well"


async def test_what_says_something_else_now_needs_another_vector(store: Store) -> None:
    [said] = await logged(store, "x")
    [known] = await learned(store, fact("old", said))
    await embedded(store)
    [more] = await logged(store, "y")
    await learned(store, seen=(Seen(no=known, sources=(more,), at_ms=1, text="new"),))
    assert await without(store) == [more, known]
    assert await store.of(MemoryRows).embed(MODEL, 3, [vector(known, "old", 1, 2, 3)]) == 0, (
        "made of what it said before"
    )
    await embedded(store)
    assert await store.of(MemoryRows).pending(MODEL) == (0, 3)
    assert halves(store.of(MemoryRows).vectors_of(MODEL, [known])) == [known % 1_000] * 3


async def test_a_batch_takes_from_every_scope(store: Store) -> None:
    mine = await logged(store, *"abcd")
    theirs = await logged(store, *"efgh", to="/u2/telegram", scope="u2", user="u2")
    found = await without(store, limit=4)
    assert sorted(found) == [*mine[2:], *theirs[2:]]


async def test_vectors_of_other_models_are_dropped_bit_by_bit(store: Store) -> None:
    found = await logged(store, *"abcde")
    for model in ("old", "older", MODEL):
        await embedded(store, model)
    dropped = []
    while deleted := await store.of(MemoryRows).drop_vectors([MODEL], 3):
        dropped.append(deleted)
    assert sum(dropped) == 10 and max(dropped) == 3
    assert await store.of(MemoryRows).pending("old") == (5, 5) and await store.of(MemoryRows).pending(MODEL) == (0, 5)
    assert len(await without(store, "old")) == 5, "it can be used again"
    assert store.of(MemoryRows).vectors_of(MODEL, found).numbers == tuple(found)
    await embedded(store, "old", dimensions=7)


async def test_there_are_so_many_models_and_no_more(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daycare.features.memory.store.vectors.MEMORY_MODELS_MAX", 2)
    await logged(store, "a")
    await embedded(store, "one")
    await embedded(store, "two")
    with pytest.raises(BusyError):
        await embedded(store, "three")
    while await store.of(MemoryRows).drop_vectors(["two"], 9):
        pass
    assert await embedded(store, "three") == 1
    assert store.of(MemoryRows).vectors_of("two", [(await store.of(MemoryRows).find(SCOPE, Tier.LOG))[0].no]).numbers


async def test_more_than_a_page_of_what_has_its_vector_does_not_hide_what_has_none(store: Store) -> None:
    found = await logged(store, *(f"t{no}" for no in range(130)))
    wanted = found[3]
    rows = await store.of(MemoryRows).unembedded(MODEL, 1_000)
    await store.of(MemoryRows).embed(MODEL, 1, [vector(no, text, 1) for no, _, text in rows if no != wanted])
    assert await without(store, limit=1) == [wanted]
    assert await without(store, limit=1) == [wanted]
    [newest] = await logged(store, "newest")
    assert await without(store, limit=2) == [newest, wanted]


WHAT = st.tuples(st.sampled_from(["log", "change", "forget", "expire", "embed", "drop"]), st.integers(1, 5))


@settings(max_examples=60, deadline=None)
@given(steps=st.lists(WHAT, max_size=40))
async def test_whatever_happens_exactly_what_has_no_vector_waits_for_one(steps: list[tuple[str, int]]) -> None:
    clock = HandClock()
    async with open_store("memory:", clock) as store:
        facts: list[int] = []
        for at, (what, size) in enumerate(steps):
            clock.ms += 1
            if what == "log":
                said = await logged(store, *(f"text {at} {no}" for no in range(size)))
                facts += await learned(store, fact(f"fact {at}", said[0]), entry(f"plain {at}", tier=Tier.FACT))
            elif what == "change" and facts:
                [said_now] = await logged(store, "again")
                await learned(
                    store, seen=(Seen(no=facts[size % len(facts)], sources=(said_now,), at_ms=1, text=f"{at}"),)
                )
            elif what == "forget":
                await store.of(MemoryRows).forget(
                    SCOPE, [shape.no for shape in store.of(MemoryRows).shapes(SCOPE)][size::7]
                )
            elif what == "expire":
                await store.of(MemoryRows).expire(clock.ms, size)
            elif what == "drop":
                await store.of(MemoryRows).drop_vectors([MODEL] if size > 1 else [], size)
            elif what == "embed":
                rows = await store.of(MemoryRows).unembedded(MODEL, size)
                vectors = [vector(no, text, no % 1_000) for no, _, text in rows]
                assert await store.of(MemoryRows).embed(MODEL, 1, vectors) == len(rows)
            living = [shape.no for shape in store.of(MemoryRows).shapes(SCOPE)]
            having = store.of(MemoryRows).vectors_of(MODEL, living).numbers
            assert {no for page in store.of(MemoryRows).vectors(SCOPE, MODEL) for no in page.numbers} == set(having)
            assert await store.of(MemoryRows).pending(MODEL) == (len(living) - len(having), len(living))
            assert set(await without(store, limit=1_000)) == set(living) - set(having)
            for no in having:
                assert (await only(store, no)).text
            db = store._db
            counted = db.execute("SELECT sum(living), sum(words) FROM memory_scopes").fetchall()
            there = db.execute("SELECT count(*), sum(words) FROM memories WHERE text IS NOT NULL").fetchall()
            assert counted in (there, [(None, None)], [(0, 0)]), "what is counted along is what there is"
            of_a_file = isinstance(db, apsw.Connection)
            indexed = "DISTINCT doc FROM memory_postings" if of_a_file else "rowid FROM memory_words"
            assert [no for (no,) in db.execute(f"SELECT {indexed} ORDER BY 1")] == living
            names = db.execute("SELECT DISTINCT no FROM memory_names ORDER BY no").fetchall()
            assert {no for (no,) in names} <= set(living)


# -- with what was said ------------------------------------------------------------------------------------------------


def halves_of(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}e", *values)


async def test_what_was_said_and_its_vectors_are_kept_together(store: Store) -> None:
    for text in ("one", "two", "three"):
        await said(store, text)
    turns = await store.of(MemoryRows).unlogged(10)
    entries = [each for turn in turns for each in entries_of(turn)]
    new = NewVectors(MODEL, 2, [halves_of(1, 2), b"", halves_of(5, 6)])
    one, two, three = await store.of(MemoryRows).log(turns, entries, new)
    assert halves(store.of(MemoryRows).vectors_of(MODEL, [one, two, three])) == [1, 2, 5, 6]
    assert await without(store) == [], "the second has none, and needs to be asked for no more"
    assert await store.of(MemoryRows).pending(MODEL) == (0, 3)
    assert await store.of(MemoryRows).log(turns, entries, new) == [0, 0, 0]
    assert await store.of(MemoryRows).pending(MODEL) == (0, 3)


@pytest.mark.parametrize(
    "new", [NewVectors(MODEL, 3, [halves_of(1, 2, 3)]), NewVectors(MODEL, 2, [halves_of(1, 2, 3)])]
)
async def test_what_was_said_is_kept_though_its_vector_does_not_fit(store: Store, new: NewVectors) -> None:
    [known] = await logged(store, "known")
    await store.of(MemoryRows).embed(MODEL, 2, [vector(known, "known", 1, 2)])
    await said(store, "new")
    [turn] = await store.of(MemoryRows).unlogged(10)
    [no] = await store.of(MemoryRows).log([turn], entries_of(turn), new)
    assert (await only(store, no)).text == "new"
    assert await without(store) == [no], "it is made later"


async def test_vectors_of_what_is_left_out_are_left_out(store: Store) -> None:
    await said(store, "once")
    await said(store, "twice")
    turns = await store.of(MemoryRows).unlogged(10)
    [first] = await store.of(MemoryRows).log(turns[:1], entries_of(turns[0]))
    both = [each for turn in turns for each in entries_of(turn)]
    zero, second = await store.of(MemoryRows).log(turns, both, NewVectors(MODEL, 1, [halves_of(1), halves_of(2)]))
    assert (zero, await without(store)) == (0, [first])
    assert halves(store.of(MemoryRows).vectors_of(MODEL, [first, second])) == [2]


async def test_vectors_that_share_a_commit_with_new_words_are_counted_once(tmp_path: Path) -> None:
    """What the index of words writes for others in the same transaction is no vector."""
    async with open_store(str(tmp_path / "daycare.db"), HandClock()) as store:
        for round_ in range(1, 21):  # tasks start in any order: the words come first in half of the rounds
            [known] = await logged(store, f"known {round_}")
            await said(store, f"new {round_}")
            [turn] = await store.of(MemoryRows).unlogged(10)
            async with trio.open_nursery() as nursery:  # the writer takes all that waits into one commit
                nursery.start_soon(store.of(MemoryRows).log, [turn], entries_of(turn))
                nursery.start_soon(store.of(MemoryRows).embed, MODEL, 1, [vector(known, f"known {round_}", 1)])
            assert await store.of(MemoryRows).pending(MODEL) == (round_, 2 * round_)


async def test_vectors_that_were_counted_too_high_are_counted_again(tmp_path: Path) -> None:
    file = tmp_path / "daycare.db"
    async with open_store(str(file), HandClock()) as store:
        await logged(store, "one", "two")
        await logged(store, "theirs", to="/u2/telegram", scope="u2", user="u2")
        await embedded(store, "other")
        [no, *_] = await without(store)
        await store.of(MemoryRows).embed(MODEL, 1, [vector(no, text, 1) for text in ("one", "two", "theirs")])
    [recount] = [sql for number, _, sql in migrations() if number == 9]
    with closing(apsw.Connection(str(file))) as db:
        db.execute(f"UPDATE memory_embedded SET vectors = vectors + 3; {recount}").fetchall()
    async with open_store(str(file), HandClock()) as store:
        assert (await store.of(MemoryRows).pending(MODEL), await store.of(MemoryRows).pending("other")) == (
            (2, 3),
            (0, 3),
        )
        assert len(await without(store)) == 2
