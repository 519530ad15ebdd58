"""The copy of memories in Redis says what the store says, whatever came between, and is nobody else's."""

import random
import struct
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from daycare.base.errors import UnavailableError
from daycare.base.memories import Tier
from daycare.features import open_store
from daycare.features import rows as all_rows
from daycare.features.memory.redis import copier as copying
from daycare.features.memory.redis import layout
from daycare.features.memory.redis.copier import MemoryCopier
from daycare.features.memory.redis.index import RedisIndex
from daycare.features.memory.redis.server import RedisServer
from daycare.features.memory.search.index import MemoryIndex
from daycare.features.memory.search.queries import MemoryQuery
from daycare.features.memory.search.service import Search
from daycare.features.memory.store.records import NewVector
from daycare.features.memory.store.rows import MemoryRows
from daycare.settings import Live
from daycare.store.records import User
from daycare.store.sqlite.purging import purge
from daycare.store.sqlite.store import Store
from tests import redis_server
from tests.store.remembering import MODEL, SCOPE, entity, fact, hash_of, learned, logged
from tests.store.samples import EPOCH_MS, HandClock
from tests.stored import located

WORDS = ("piano", "kettle", "garden", "Bern", "tea", "sister", "blue", "Monday")


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def store(clock: HandClock) -> AsyncIterator[Store]:
    async with open_store("memory:", clock, inline=True) as opened:
        yield opened


@pytest.fixture
def server() -> Iterator[RedisServer]:
    made = redis_server.server()
    yield made
    redis_server.drop(made)


def copier(server: RedisServer, store: Store, model: str = MODEL) -> MemoryCopier:
    return MemoryCopier(server, store.of(MemoryRows), lambda: model)


def carry(made: MemoryCopier) -> None:
    while made.round():
        pass


def compare(server: RedisServer, store: Store, scope: str, told: str = "") -> None:
    """Assert that each read of the copy is that of the store."""
    index, rows = RedisIndex(server, store.of(MemoryRows)), store.of(MemoryRows)
    shapes = rows.shapes(scope)
    assert index.shapes(scope) == shapes, told
    numbers = [shape.no for shape in shapes]
    assert index.shapes_of(scope, numbers[::-2]) == rows.shapes_of(scope, numbers[::-2]), told
    assert index.worded(scope, numbers) == rows.worded(scope, numbers), told
    assert index.texts(scope, numbers) == rows.texts(scope, numbers), told
    for most in (3, 10_000):
        for word in WORDS:
            mine, theirs = (each.postings(scope, [word], postings_max=most) for each in (index, rows))
            assert [(it.stem, it.words, it.numbers) for it in mine] == [
                (it.stem, it.words, it.numbers) for it in theirs
            ], told
    assert index.postings(scope, WORDS, postings_max=10_000) == rows.postings(scope, WORDS, postings_max=10_000), told
    assert vectors_in(index, scope) == vectors_in(rows, scope), told
    assert index.vectors_of(MODEL, numbers).numbers == rows.vectors_of(MODEL, numbers).numbers, told
    stems = {stem for _, _, stems in rows.worded(scope, numbers) for stem in stems}
    kept = {key.rpartition(":w:")[2] for key in redis_server.keys(server) if ":w:" in key}
    assert stems <= kept, told


async def embed(store: Store, limit: int = 100) -> None:
    rows = store.of(MemoryRows)
    waiting = await rows.unembedded(MODEL, limit)
    vectors = [NewVector(no, hash_of(text), struct.pack("2b", no % 100, 7)) for no, _, text in waiting]
    await rows.embed(MODEL, 2, vectors)


async def test_what_was_added_changed_and_forgotten_is_so_in_the_copy(store: Store, server: RedisServer) -> None:
    made = copier(server, store)
    one, two, three = await logged(store, "the piano is blue", "my sister has a kettle", "tea on Monday")
    carry(made)
    compare(server, store, SCOPE)
    await embed(store)
    await learned(store, fact("Ann has a piano", one), entity("Clara", two, description="a sister"))
    carry(made)
    compare(server, store, SCOPE)
    await store.of(MemoryRows).forget(SCOPE, [two])
    await logged(store, "the garden is in Bern")
    carry(made)
    compare(server, store, SCOPE)
    assert not any("kettl" in key for key in words_of(server, two & 0xFFFFFFFF)), "its words went with it"
    assert three in {shape.no for shape in RedisIndex(server, store.of(MemoryRows)).shapes(SCOPE)}


def vectors_in(index: MemoryIndex, scope: str) -> dict[int, bytes]:
    pages = index.vectors(scope, MODEL)
    return {no: bytes(data) for page in pages for no, data in zip(page.numbers, page.data, strict=True)}


def words_of(server: RedisServer, own: int) -> list[str]:
    words = [key for key in redis_server.keys(server) if ":w:" in key]
    ranks: list[object] = server.run(lambda redis: [redis.zscore(key, own) for key in words])
    return [key for key, rank in zip(words, ranks, strict=True) if rank is not None]


@pytest.mark.parametrize("seed", range(12))
async def test_after_whatever_happened_the_copy_says_what_the_store_says(
    seed: int, store: Store, server: RedisServer, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(seed)
    monkeypatch.setattr(copying, "STEP", draw.choice((1, 3, 500)))
    monkeypatch.setattr(copying, "GONE_MAX", draw.choice((2, 10_000)))
    made, other = copier(server, store), copier(server, store)
    places = {SCOPE: f"/{SCOPE}/telegram", "u2": "/u2/telegram"}
    told = f"seed {seed}"
    for step in range(60):
        clock.ms += 1_000
        scope = draw.choice(list(places))
        rows = store.of(MemoryRows)
        numbers = [shape.no for shape in rows.shapes(scope)]
        match draw.randrange(9):
            case 0 | 1 | 2:
                texts = [f"{' '.join(draw.choices(WORDS, k=4))} {step}" for _ in range(draw.randrange(1, 4))]
                agent = f"id-{scope}-telegram"
                await logged(store, *texts, to=places[scope], scope=scope, user=scope, agent_id=agent)
            case 3 if numbers:
                await rows.forget(scope, draw.sample(numbers, 1))
            case 4:
                await embed(store, draw.choice((1, 100)))
            case 5 if scope == SCOPE and await rows.unextracted(10):
                for waiting in await rows.unextracted(10):
                    if waiting.agent_id != "id-u1-telegram":
                        continue
                    await learned(store, fact(f"Ann likes {draw.choice(WORDS)} {step}", waiting.through))
            case 6:
                await rows.expire(clock.ms - 30_000, 2)
            case 7 if draw.random() < 0.3:
                while await rows.drop_vectors([], 1):
                    if draw.random() < 0.5:
                        made.round()
            case 8 if draw.random() < 0.3:
                redis_server.drop(server)
        if draw.random() < 0.5:
            draw.choice((made, other)).round()
    for each in (made, other):
        carry(each)
        for scope in places:
            compare(server, store, scope, told)


@pytest.mark.parametrize("seed", range(4))
async def test_a_search_over_the_copy_finds_what_one_over_the_store_does(
    seed: int, store: Store, server: RedisServer, clock: HandClock
) -> None:
    draw = random.Random(seed)
    index = redis_server.CurrentIndex(server, store.of(MemoryRows))
    near, far = Search(store, Live(), None), Search(store, Live(), None, index)
    for step in range(8):
        await logged(store, *(f"{' '.join(draw.choices(WORDS, k=5))} {step} {at}" for at in range(6)))
        numbers = [shape.no for shape in store.of(MemoryRows).shapes(SCOPE)]
        if draw.random() < 0.5:
            await store.of(MemoryRows).forget(SCOPE, draw.sample(numbers, 2))
        query = MemoryQuery(scope=SCOPE, text=f"Where is the {draw.choice(WORDS)}?", now_ms=EPOCH_MS + 1)
        assert await far.find(query) == await near.find(query), f"seed {seed}"


async def test_what_is_forgotten_in_the_store_is_found_no_more_though_the_copy_has_it(
    store: Store, server: RedisServer
) -> None:
    piano, _ = await logged(store, "the piano is blue", "the piano is old")
    carry(copier(server, store))
    await store.of(MemoryRows).forget(SCOPE, [piano])
    search = Search(store, Live(), None, RedisIndex(server, store.of(MemoryRows)))
    hits = await search.find(MemoryQuery(scope=SCOPE, text="Where is the piano?", now_ms=EPOCH_MS + 1))
    assert [hit.memory.text for hit in hits] == ["the piano is old"]


async def test_of_anothers_memories_no_search_reads_anything(store: Store, server: RedisServer) -> None:
    await logged(store, "the piano is blue")
    theirs = await logged(
        store, "the piano is mine", to="/u2/telegram", scope="u2", user="u2", agent_id="id-u2-telegram"
    )
    carry(copier(server, store))
    index = RedisIndex(server, store.of(MemoryRows))
    assert len(index.shapes(SCOPE)) == len(index.shapes("u2")) == 1
    assert (
        index.texts(SCOPE, theirs) == {} and index.shapes_of(SCOPE, theirs) == [] and index.worded(SCOPE, theirs) == []
    )
    assert index.postings(SCOPE, ["mine"], postings_max=10) == []
    assert index.shapes("nobody") == [] and index.latest("nobody") == (0, 0)


async def test_no_key_has_a_name_of_a_person(store: Store, server: RedisServer) -> None:
    await logged(store, "the piano is blue", to="/annabelle/telegram", scope="annabelle", user="annabelle")
    carry(copier(server, store))
    assert redis_server.keys(server) and not any("annabelle" in key for key in redis_server.keys(server))


@pytest.mark.parametrize("again", [False, True], ids=["removed", "removed and back under the name"])
async def test_of_a_person_who_is_removed_for_good_nothing_is_left_in_the_copy(
    again: bool, tmp_path: Path, server: RedisServer
) -> None:
    location = str(tmp_path / "d.db")
    async with open_store(location, HandClock(), inline=True) as opened:
        await opened.people.add(User(id="u2", name="Ben"))
        await logged(opened, "the secret garden", to="/u2/telegram", scope="u2", user="u2", agent_id="id-u2-telegram")
        await embed(opened)
        carry(copier(server, opened))
    before = redis_server.keys(server)
    assert any(":w:secret" in key for key in before)
    purge(located(Path(location)), "u2", 0, all_rows())
    async with open_store(location, HandClock(), inline=True) as opened:
        if again:
            await opened.people.add(User(id="u2", name="Ben"))
            await logged(opened, "the blue kettle", to="/u2/telegram", scope="u2", user="u2", agent_id="id-u2-telegram")
        index = RedisIndex(server, opened.of(MemoryRows))
        assert index.shapes("u2") == [], "nobody reads what was of the one before"
        carry(copier(server, opened))
        compare(server, opened, "u2")
    assert not set(before) - {f"{server.prefix}:scopes"} & set(redis_server.keys(server))


async def test_a_store_that_went_back_is_copied_anew(tmp_path: Path, server: RedisServer) -> None:
    location, clock = tmp_path / "d.db", HandClock()
    async with open_store(str(location), clock, inline=True) as opened:
        await logged(opened, "the piano", "the kettle")
    older = location.read_bytes()
    async with open_store(str(location), clock, inline=True) as opened:
        await logged(opened, "the garden", "the tea")
        carry(copier(server, opened))
    location.write_bytes(older)
    for beside in tmp_path.glob("d.db?*"):
        beside.unlink()
    clock.ms += 60_000
    async with open_store(str(location), clock, inline=True) as opened:
        await logged(opened, "a sister", "in Bern", "on Monday")
        carry(copier(server, opened))
        compare(server, opened, SCOPE)


async def test_what_lies_there_in_another_form_is_copied_anew(
    store: Store, server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await logged(store, "the piano", "the kettle")
    carry(copier(server, store))
    monkeypatch.setattr(layout, "LAYOUT", layout.LAYOUT + 1)
    index = RedisIndex(server, store.of(MemoryRows))
    assert index.shapes(SCOPE) == []
    carry(copier(server, store))
    compare(server, store, SCOPE)
    assert len({key.split(":")[2] for key in redis_server.keys(server) if key.count(":") > 1}) == 1, "and the old goes"


async def test_a_copy_that_is_up_to_date_costs_one_look_and_no_writing(store: Store, server: RedisServer) -> None:
    await logged(store, "the piano", "the kettle")
    made = copier(server, store)
    carry(made)
    before = calls(server)
    for _ in range(10):
        assert not made.round()
    assert calls(server) == before


def calls(server: RedisServer) -> int:
    found: int = server.run(lambda redis: redis.info("commandstats").get("cmdstat_hset", {}).get("calls", 0))
    return found


async def test_how_much_waits_is_counted(store: Store, server: RedisServer) -> None:
    made = copier(server, store)
    await logged(store, "the piano", "the kettle", "the tea")
    carry(made)
    assert made.waiting == 0
    stopped = redis_server.server("unix:///nowhere/at-all")
    away = copier(stopped, store)
    with pytest.raises(UnavailableError):
        away.round()
    assert away.waiting == 3


async def test_the_newest_come_first_where_a_word_is_everywhere(store: Store, server: RedisServer) -> None:
    numbers = await logged(store, *(f"piano {at}" for at in range(9)))
    carry(copier(server, store))
    [found] = RedisIndex(server, store.of(MemoryRows)).postings(SCOPE, ["piano"], postings_max=4)
    assert struct.unpack("<4q", found.numbers) == tuple(numbers[-4:]) and found.memories == 9
    assert Tier.LOG in {shape.tier for shape in RedisIndex(server, store.of(MemoryRows)).shapes(SCOPE, limit=3)}


async def test_what_is_no_memory_of_ours_is_told_of_and_replaced(store: Store, server: RedisServer) -> None:
    piano, _ = await logged(store, "the piano", "the kettle")
    made = copier(server, store)
    carry(made)
    for key in redis_server.keys(server):
        if key.endswith((":text", ":shape")):
            server.run(lambda redis, key=key: redis.hset(key, piano & 0xFFFFFFFF, b"\xff\xffgarbage"))  # type: ignore[misc]
    search = Search(store, Live(), None, RedisIndex(server, store.of(MemoryRows)))
    with pytest.raises(UnavailableError) as caught:
        await search.find(MemoryQuery(scope=SCOPE, text="Where is the piano?", now_ms=EPOCH_MS + 1))
    assert caught.value.code == "REDIS_GARBAGE"
    await store.of(MemoryRows).forget(SCOPE, [piano])
    carry(made)
    compare(server, store, SCOPE)


async def test_before_the_embedder_is_known_the_vectors_that_are_there_stay(store: Store, server: RedisServer) -> None:
    one, two = await logged(store, "the piano", "the kettle")
    await embed(store)
    carry(copier(server, store))
    starting = copier(server, store, model="")
    await store.of(MemoryRows).forget(SCOPE, [one])
    await logged(store, "tea on Monday")
    await embed(store)
    carry(starting)
    index = RedisIndex(server, store.of(MemoryRows))
    assert index.vectors_of(MODEL, [one, two]).numbers == (two,)
    carry(copier(server, store))
    compare(server, store, SCOPE)


async def test_vectors_of_another_embedder_take_the_place_of_those_before(store: Store, server: RedisServer) -> None:
    numbers = await logged(store, "the piano", "the kettle")
    await embed(store)
    carry(copier(server, store))
    index = RedisIndex(server, store.of(MemoryRows))
    assert index.vectors_of(MODEL, numbers).numbers == tuple(numbers)
    carry(copier(server, store, model="another"))
    assert index.vectors_of(MODEL, numbers).numbers == ()
    carry(copier(server, store))
    compare(server, store, SCOPE)
