"""Finding memories: by words, by number, by what they are about, and never one of another scope."""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import apsw
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from daycare.base import limits
from daycare.base.errors import ConflictError, InvalidError
from daycare.base.memories import FactPart, Tier
from daycare.features import open_store
from daycare.features.memory.store.records import EVERYBODY, NEVER, MemoryCounts, Postings, Seen, Superseded
from daycare.features.memory.store.rows import MemoryRows
from daycare.features.memory.store.stored import changes
from daycare.store.postgres.cursor import Cursor
from daycare.store.sqlite.store import Store
from tests.store.remembering import (
    MODEL,
    SCOPE,
    embedded,
    entity,
    entry,
    fact,
    learned,
    logged,
    numbers,
    only,
    texts,
    written,
)
from tests.store.samples import EPOCH_MS, PATH, HandClock


def of(found: Postings) -> list[int]:
    return [no for (no,) in struct.iter_unpack("<q", found.numbers)]


async def test_words_are_found_in_any_form_and_case(store: Store) -> None:
    running, cafe, mail = await logged(store, "She RUNS daily", "Meet me at the Café", "my e-mail is ann@example.org")
    assert texts(store, "running") == [running]
    assert texts(store, "cafe") == [cafe]
    assert texts(store, "ANN@EXAMPLE.ORG e-mail") == [mail]
    assert texts(store, "nothing") == texts(store, "") == texts(store, "- ' \" *") == []


async def test_what_is_indexed_may_be_other_words_than_the_text(store: Store) -> None:
    [no] = await logged(store, "東京タワー", index="東京 京タ タワ ワー")
    assert texts(store, "タワ") == [no]
    assert (await only(store, no)).text == "東京タワー"


async def test_alike_is_what_has_the_rarest_words_each_counted_once(store: Store) -> None:
    said = ["cat cat cat bird", "cat dog", "dog", "horse", "cat", "bird cat dog snake snake"]
    one, two, three, _, five, six = await logged(store, *said)
    await logged(store, *(f"dog {each}" for each in "abcdefgh"), to="/u2/telegram", scope="u2", user="u2")
    words = ["cat", "dog", "cats", "bird"]  # the cat is in four of six, the dog in three, the bird in two
    assert store.of(MemoryRows).alike(SCOPE, words, postings_max=100, limit=10) == [six, one, two, three, five]
    assert store.of(MemoryRows).alike(SCOPE, words, postings_max=100, limit=2) == [six, one]
    assert store.of(MemoryRows).alike(SCOPE, ["none"], postings_max=100, limit=2) == []


async def test_postings_tell_which_memories_have_a_word(store: Store) -> None:
    one, two, three = await logged(store, "tea tea milk", "tea", "sugar milk teas")
    found = store.of(MemoryRows).postings(SCOPE, ["tea", "Milk", "teas", "tea-milk", "none"], postings_max=100)
    assert [(each.stem, each.words, each.memories, of(each)) for each in found] == [
        ("milk", ("Milk", "tea-milk"), 2, [one, three]),
        ("tea", ("tea", "teas", "tea-milk"), 3, [one, two, three]),
    ]


async def test_rare_words_come_first_and_frequent_ones_only_as_far_as_there_is_room(store: Store) -> None:
    said = [f"common {'usual' if no % 2 else ''} {'rare' if no % 10 == 0 else ''}" for no in range(40)]
    found = await logged(store, *said)
    ask = ["common", "usual", "rare"]

    def stems(most: int, *terms: str) -> list[str]:
        return [each.stem for each in store.of(MemoryRows).postings(SCOPE, terms or ask, postings_max=most)]

    assert stems(100) == ["rare", "usual", "common"]
    assert stems(63) == ["rare", "usual"]
    assert stems(23) == stems(4) == ["rare"]
    [lately] = store.of(MemoryRows).postings(SCOPE, ["common"], postings_max=10)
    assert (lately.stem, of(lately), lately.memories) == ("common", found[-10:], 40)
    [lately] = store.of(MemoryRows).postings(SCOPE, ["common", "usual"], postings_max=10)
    assert (lately.stem, of(lately)) == ("usual", found[-19::2]), "it reaches back further"
    assert 19 <= lately.memories <= 21
    assert stems(100) == ["rare", "usual", "common"], "what is too frequent for one search is not for a larger one"


async def test_a_word_that_became_rare_is_looked_for_again(store: Store, clock: HandClock) -> None:
    found = await logged(store, *(f"common {no}" for no in range(20)))
    assert len(store.of(MemoryRows).postings(SCOPE, ["common", "5"], postings_max=10)) == 1
    await learned(store)
    clock.ms += 1
    [kept] = await logged(store, "common 5")
    assert await store.of(MemoryRows).expire(clock.ms, 100) == len(found)
    assert [of(each) for each in store.of(MemoryRows).postings(SCOPE, ["common", "5"], postings_max=10)] == [
        [kept],
        [kept],
    ]


async def test_shapes_are_all_of_a_scope_in_order(store: Store) -> None:
    found = await logged(store, "one", "two words", "three")
    [known] = await learned(store, fact("a fact of Ann", found[0], turn=7))
    shapes = store.of(MemoryRows).shapes(SCOPE)
    assert numbers(shapes) == [*found, known]
    last = shapes[-1]
    assert (last.tier, last.agent_id, last.path, last.session, last.turn) == (Tier.FACT, "id-u1-telegram", PATH, 1, 7)
    assert (last.speaker, last.at_ms, last.until_ms) == ("Ann", EPOCH_MS, None)
    assert store.of(MemoryRows).shapes(SCOPE, after=found[1]) == shapes[2:]
    assert store.of(MemoryRows).shapes(SCOPE, limit=2) == shapes[:2]
    assert store.of(MemoryRows).shapes("nobody") == []


async def test_shapes_of_some_are_those_of_the_scope_that_are_there(store: Store) -> None:
    one, two, three = await logged(store, "one", "two", "three")
    [theirs] = await logged(store, "theirs", to="/u2/telegram", scope="u2", user="u2")
    await store.of(MemoryRows).forget(SCOPE, [two])
    every = store.of(MemoryRows).shapes(SCOPE)
    assert store.of(MemoryRows).shapes_of(SCOPE, [three, two, theirs, one]) == every
    assert store.of(MemoryRows).shapes_of(SCOPE, [three]) == every[1:]
    assert store.of(MemoryRows).shapes_of(SCOPE, []) == store.of(MemoryRows).shapes_of("nobody", [one]) == []


async def test_it_is_told_whether_anything_was_added_or_changed(store: Store) -> None:
    assert store.of(MemoryRows).latest(SCOPE) == (0, 0)
    [one] = await logged(store, "one")
    added = store.of(MemoryRows).latest(SCOPE)
    await logged(store, "theirs", to="/u2/telegram", scope="u2", user="u2")
    assert added > (0, 0) and store.of(MemoryRows).latest(SCOPE) == added, "what others remember is nothing to it"
    await logged(store, "two")
    more = store.of(MemoryRows).latest(SCOPE)
    assert more[0] > added[0] and more[1] == added[1]
    await store.of(MemoryRows).forget(SCOPE, [one])
    assert store.of(MemoryRows).latest(SCOPE)[0] == more[0] and store.of(MemoryRows).latest(SCOPE)[1] > more[1]


async def test_how_scopes_are_is_known_until_one_of_them_changes(store: Store) -> None:
    rows = store.of(MemoryRows)
    scopes = [SCOPE, "u2", "nobody"]

    async def agree() -> None:
        states = await rows.states(scopes)
        assert [states[scope].latest for scope in scopes] == [rows.latest(scope) for scope in scopes]
        assert await rows.states(scopes) == states

    await agree()
    [one] = await logged(store, "one")
    await agree()
    before = (await rows.states([SCOPE]))[SCOPE]
    await logged(store, "theirs", to="/u2/telegram", scope="u2", user="u2")
    await agree()
    assert (await rows.states([SCOPE]))[SCOPE] == before != NEVER
    await rows.forget(SCOPE, [one])
    await agree()
    assert (await rows.states(scopes))["nobody"] == NEVER


async def test_gone_tells_what_was_changed_or_deleted_and_not_what_was_added(store: Store, clock: HandClock) -> None:
    assert store.of(MemoryRows).latest(SCOPE)[1] == 0 and store.of(MemoryRows).gone_since(SCOPE, 0) == []
    one, two = await logged(store, "one", "two")
    assert store.of(MemoryRows).latest(SCOPE)[1] == 0
    [known] = await learned(store, fact("a", one))
    before = store.of(MemoryRows).latest(SCOPE)[1]
    await logged(store, "more")
    await learned(store, seen=(Seen(no=known, sources=(two,), at_ms=1, text="b"),))
    middle = store.of(MemoryRows).latest(SCOPE)[1]
    assert before < middle and store.of(MemoryRows).gone_since(SCOPE, before) == [known]
    await store.of(MemoryRows).forget(SCOPE, [one])
    assert store.of(MemoryRows).gone_since(SCOPE, middle) == [one]
    assert store.of(MemoryRows).gone_since(SCOPE, before) == [one, known]
    assert store.of(MemoryRows).latest("u2")[1] == 0


async def test_of_too_many_changes_it_is_only_told_that_there_were(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daycare.features.memory.store.stored.MEMORY_CHANGES_MAX", 3)
    found = await logged(store, *"abcdef")
    start = store.of(MemoryRows).latest(SCOPE)[1]
    await store.of(MemoryRows).forget(SCOPE, found[:2])
    middle = store.of(MemoryRows).latest(SCOPE)[1]
    await store.of(MemoryRows).forget(SCOPE, found[2:5])
    assert store.of(MemoryRows).gone_since(SCOPE, start) is None
    assert store.of(MemoryRows).gone_since(SCOPE, middle) == found[2:5]


class Between:
    """A connection, for which something happens between its first statement and the next."""

    def __init__(self, db: Any, happens: Callable[[], object]) -> None:
        self._db = db
        self._happens = happens
        self._asked = 0

    def execute(self, sql: str, bindings: tuple[Any, ...] = ()) -> Any:
        self._asked += 1
        if self._asked == 2:
            self._happens()
        rows = self._db.execute(sql, bindings).fetchall()
        return Cursor(rows)


async def test_changes_that_are_dropped_while_they_are_read_are_missed_by_nobody(store: Store) -> None:
    found = await logged(store, *"abcd")
    start = store.of(MemoryRows).latest(SCOPE)[1]
    await store.of(MemoryRows).forget(SCOPE, found)
    rows = store._db.execute("SELECT no, changed FROM memory_scopes WHERE scope = ?", (SCOPE,)).fetchall()
    [(scope, last)] = [(int(str(no)), int(str(changed))) for no, changed in rows]
    quiet = Between(store._db, lambda: None)
    assert changes(cast(apsw.Connection, quiet), scope, start) == found
    busy = Between(store._db, lambda: store._db.execute("DELETE FROM memory_changes WHERE seq < ?", (last,)))
    assert changes(cast(apsw.Connection, busy), scope, start) in (found, None), "never some of them"


async def test_memories_are_read_by_number_from_named_scopes_only(store: Store) -> None:
    mine = await logged(store, "mine", "also mine")
    [theirs] = await logged(store, "theirs", to="/u2/telegram", scope="u2", user="u2")
    [everybodys] = await logged(store, "everybody's", to="/u3/telegram", scope=EVERYBODY)
    everything = [everybodys, *reversed(mine), theirs, 10**9]
    assert [it.no for it in await store.of(MemoryRows).get([SCOPE, EVERYBODY], everything)] == [
        everybodys,
        *reversed(mine),
    ]
    assert (
        await store.of(MemoryRows).get([], everything) == await store.of(MemoryRows).get(["nobody"], everything) == []
    )
    assert store.of(MemoryRows).texts(SCOPE, everything) == dict(zip(mine, ("mine", "also mine"), strict=True))
    assert store.of(MemoryRows).texts("nobody", everything) == store.of(MemoryRows).texts(SCOPE, []) == {}
    assert await store.of(MemoryRows).get([SCOPE], []) == []


async def test_a_memory_comes_back_as_it_was_kept(store: Store, clock: HandClock) -> None:
    [said] = await logged(store, "x")
    part = FactPart(
        kind="preference",
        subject="Ann",
        attribute="drink",
        value="tea",
        confidence=0.5,
        valid_from_ms=1,
        valid_until_ms=clock.ms + 5,
        by="rules",
    )
    new = entry("Ann likes tea", 3, tier=Tier.FACT, fact=part, sources=(said,), index="ann like tea", session=4)
    [no] = await learned(store, new)
    stored = await only(store, no)
    for name in new.__struct_fields__:
        assert getattr(stored, name) == getattr(new, name), name
    assert (stored.created_at, len(stored.hash)) == (clock.ms, 64)


@pytest.mark.parametrize("text", ["", "x" * (limits.MEMORY_TEXT_MAX_CHARS + 1)])
async def test_what_is_no_memory_is_refused(store: Store, text: str) -> None:
    with pytest.raises(InvalidError):
        await logged(store, text)
    assert store.of(MemoryRows).shapes(SCOPE) == []
    assert len(await store.of(MemoryRows).unlogged(9)) == 1, "its turn is not logged by that"


async def test_there_are_so_many_scopes_and_no_more(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daycare.features.memory.store.stored.MEMORY_SCOPES_MAX", 1)
    await logged(store, "a")
    with pytest.raises(ConflictError):
        await logged(store, "b", scope="u2")
    await written(store)


async def test_memories_of_a_tier_are_listed_the_newest_first(store: Store, clock: HandClock) -> None:
    said = await logged(store, "one", "two", "three")
    part = FactPart(subject="Ann", valid_until_ms=clock.ms + 10)
    known = await learned(store, fact("Ann likes red Tea", said[0]), entry("Soon", tier=Tier.FACT, fact=part))

    async def find(tier: Tier, **more: Any) -> list[int]:
        return [it.no for it in await store.of(MemoryRows).find(SCOPE, tier, **more)]

    assert await find(Tier.LOG) == said[::-1]
    assert await find(Tier.LOG, limit=2) == said[:0:-1]
    assert await find(Tier.LOG, before=said[2]) == said[1::-1]
    assert await find(Tier.FACT) == known[::-1]
    assert await find(Tier.FACT, words="TEA ann") == known[:1]
    assert await find(Tier.FACT, words="teapot") == await find(Tier.CHUNK) == []
    clock.ms += 10
    assert await find(Tier.FACT) == known[:1]
    assert await find(Tier.FACT, living=False) == known[::-1]
    assert await store.of(MemoryRows).find("nobody", Tier.LOG) == []


async def test_a_path_lists_what_is_of_it_and_below_it(store: Store) -> None:
    own, below, beside = await logged(store, "a", path="/u1/agent/a"), [], []
    below = await logged(store, "b", path="/u1/agent/a/sub/0")
    beside = await logged(store, "c", path="/u1/agent/ab")
    find = store.of(MemoryRows).find
    assert [it.no for it in await find(SCOPE, Tier.LOG, path="/u1/agent/a")] == [*below, *own]
    assert [it.no for it in await find(SCOPE, Tier.LOG, path="/u1/agent")] == [*beside, *below, *own]


async def test_a_long_list_is_looked_through_to_its_end(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daycare.features.memory.store.search._PAGE", 50)
    wanted, *_ = await logged(store, "needle", *(f"hay {no}" for no in range(110)))
    assert [it.no for it in await store.of(MemoryRows).find(SCOPE, Tier.LOG, words="NEEDLE")] == [wanted]
    await written(store)
    assert len(await store.of(MemoryRows).find(SCOPE, Tier.LOG, limit=70)) == 70
    assert (await store.of(MemoryRows).counts(SCOPE)).logs == 111


async def test_facts_are_found_by_their_subject_and_entities_by_their_names(store: Store, clock: HandClock) -> None:
    [said] = await logged(store, "x")
    home, name, bob = await learned(
        store,
        fact("Ann lives in Rome", said, subject="Ann"),
        fact("Ben is called Benjamin", said, subject="Ben"),
        entity("Robert", said, aliases=("Bob", "Straße")),
    )

    async def about(subjects: list[str], names: list[str], limit: int = 9) -> list[int]:
        return [it.no for it in await store.of(MemoryRows).about(SCOPE, subjects, names, limit)]

    assert await about(["ANN", "nobody"], []) == [home]
    assert await about(["ann", "Ben"], ["bob", "robert"]) == [bob, name, home]
    assert await about(["ann", "Ben"], ["bob"], limit=1) == [bob]
    assert await about(["bob"], ["ann"]) == await about([], []) == []
    assert await about([], ["STRASSE"]) == [bob], "with all that a language knows of case"
    await logged(store, "y")
    await learned(store, fact("Ann lives in Oslo", subject="?"), superseded=(Superseded(home, 0, 1),))
    assert home not in await about(["ann"], [])


async def test_what_was_learned_from_entries_alone_is_told_apart(store: Store) -> None:
    one, two, three = await logged(store, "a", "b", "c")
    first, both, other = await learned(store, fact("1", one), fact("12", one, two), fact("3", three))
    assert await store.of(MemoryRows).derived(SCOPE, [one]) == [first]
    assert await store.of(MemoryRows).derived(SCOPE, [one, two]) == [first, both]
    assert await store.of(MemoryRows).derived(SCOPE, [other]) == await store.of(MemoryRows).derived("u2", [one]) == []
    turns = [(await only(store, no)).turn for no in (one, two)]
    agent = "id-u1-telegram"
    assert await store.of(MemoryRows).turns_of(SCOPE, [both]) == [(agent, turn) for turn in turns]
    assert await store.of(MemoryRows).turns_of(SCOPE, [three]) == [(agent, turns[1] + 1)]
    assert await store.of(MemoryRows).turns_of("u2", [both]) == []


async def test_what_is_remembered_is_counted(store: Store) -> None:
    said = await logged(store, "one", "zwölf")
    await learned(store, fact("f", said[0]), entity("E", said[0]))
    await logged(store, "three")
    await logged(store, "theirs", to="/u2/telegram", scope="u2", user="u2")
    assert await store.of(MemoryRows).counts(SCOPE) == MemoryCounts(
        logs=3, facts=1, entities=1, uncurated=1, text_bytes=3 + 6 + 1 + 4 + 5
    )
    counts = await store.of(MemoryRows).counts()
    assert (counts.logs, counts.uncurated) == (4, 2)
    assert await store.of(MemoryRows).counts("nobody") == MemoryCounts()
    assert await store.of(MemoryRows).scopes() == ["u1", "u2"]
    assert await store.of(MemoryRows).scopes(after="u1", limit=1) == ["u2"]


async def test_searches_run_beside_each_other_in_threads(store: Store) -> None:
    found = await logged(store, *(f"word{no} common" for no in range(50)))
    results: list[list[int]] = []

    def search() -> None:
        for no in range(50):
            results.append(texts(store, f"word{no}"))
            assert len(store.of(MemoryRows).shapes(SCOPE)) >= 50

    async with trio.open_nursery() as nursery:
        for _ in range(6):
            nursery.start_soon(trio.to_thread.run_sync, search)
        await logged(store, "one more")
    assert sorted(results) == sorted([[no] for no in found] * 6)


# -- scopes ------------------------------------------------------------------------------------------------------------

SCOPES = ["u1", "u2", "u1/subuser/bob", EVERYBODY]
WORDS = ["tea", "cats", "cat", "rome", "11", "1", "u1", "2", "Ärger", "running"]


@settings(max_examples=30, deadline=None)
@given(
    said=st.lists(
        st.tuples(st.sampled_from(SCOPES), st.lists(st.sampled_from(WORDS), min_size=1, max_size=6)),
        min_size=1,
        max_size=40,
    ),
    queries=st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=4), min_size=1, max_size=8),
    most=st.sampled_from([1, 5, 1_000]),
)
async def test_no_read_returns_a_memory_of_another_scope(
    said: list[tuple[str, list[str]]], queries: list[list[str]], most: int
) -> None:
    async with open_store("memory:", HandClock()) as store:
        mine: dict[str, list[int]] = {scope: [] for scope in SCOPES}
        for scope, words in said:
            mine[scope] += await logged(store, " ".join(words), scope=scope)
        await embedded(store)
        everything = [no for each in mine.values() for no in each]
        for scope in SCOPES:
            own = set(mine[scope])
            assert numbers(store.of(MemoryRows).shapes(scope)) == mine[scope]
            assert [it.no for it in await store.of(MemoryRows).get([scope], everything)] == mine[scope]
            assert set(store.of(MemoryRows).texts(scope, everything)) == own
            assert {it.no for it in await store.of(MemoryRows).find(scope, Tier.LOG, limit=1_000)} == own
            assert {no for page in store.of(MemoryRows).vectors(scope, MODEL) for no in page.numbers} == own
            assert (await store.of(MemoryRows).counts(scope)).logs == len(own)
            for query in queries:
                assert own.issuperset(texts(store, " ".join(query), scope, postings_max=most))
                found = store.of(MemoryRows).postings(scope, query, postings_max=most)
                assert own.issuperset(no for each in found for no in of(each))
                assert all(each.memories <= len(own) for each in found), "what others say does not even show in counts"


@settings(max_examples=40, deadline=None)
@given(
    said=st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=6), min_size=1, max_size=30),
    query=st.lists(st.sampled_from(WORDS), min_size=1, max_size=4),
)
async def test_with_room_for_all_postings_a_search_finds_exactly_what_has_the_words(
    said: list[list[str]], query: list[str]
) -> None:
    stem = {"cats": "cat", "running": "run", "Ärger": "arger"}
    async with open_store("memory:", HandClock()) as store:
        found = await logged(store, *(" ".join(words) for words in said))
        wanted = {stem.get(word, word) for word in query}
        having = [
            no for no, words in zip(found, said, strict=True) if wanted & {stem.get(word, word) for word in words}
        ]
        assert texts(store, " ".join(query)) == having


async def test_a_search_uses_the_indexes(tmp_path: Path) -> None:
    """What is read of a scope is a range of numbers; what is read of a tier, an agent or a name is looked up."""
    async with open_store(str(tmp_path / "daycare.db")) as store:
        db = store._reader

        def plan(sql: str) -> str:
            return "; ".join(str(row[3]) for row in db.execute(f"EXPLAIN QUERY PLAN {sql}"))

        assert "INDEX memories_by_tier (tier=? AND rowid>? AND rowid<?)" in plan(
            "SELECT no FROM memories WHERE tier = 'fact' AND tier <> 'log' AND no BETWEEN 1 AND 9 ORDER BY no DESC"
        )
        assert "USING INDEX memories_by_agent (agent_id=? AND rowid>? AND rowid<?)" in plan(
            "SELECT text FROM memories WHERE agent_id = 'a' AND tier = 'log' AND no > 1 AND no <= 9 ORDER BY no"
        )
        assert "USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)" in plan(
            "SELECT no FROM memories WHERE no BETWEEN 1 AND 9 AND text IS NOT NULL ORDER BY no"
        )
