"""Chunks: those of a document are always of one version, and what says the same keeps its number."""

from msgspec.structs import replace

from daycare.base.documents import Attribution, Layer, NewVersion, Place
from daycare.base.memories import NewMemory, Tier
from daycare.base.messages import Origin
from daycare.features.memory.documents.rows import DocumentRows
from daycare.features.memory.store.rows import MemoryRows
from daycare.store.sqlite.store import Store
from tests.store.remembering import MODEL, SCOPE, embedded, entry, texts

SOUL = Place(Layer.AGENT, "a1", "SOUL.md")
NOTES = Place(Layer.USER, "u1", "knowledge/notes.md")
BY = Attribution(origin=Origin.PERSON, author="direct:u1")


async def put(store: Store, text: str | None, place: Place = SOUL) -> int:
    return (await store.of(DocumentRows).write(NewVersion(place=place, user="u1", by=BY, text=text))).version


def cut(*parts: str, scope: str = SCOPE) -> list[NewMemory]:
    return [entry(text, at, tier=Tier.CHUNK, scope=scope, role="", speaker="") for at, text in enumerate(parts)]


async def shown(store: Store) -> list[tuple[int, str]]:
    return [(it.no, it.text) for it in reversed(await store.of(MemoryRows).find(SCOPE, Tier.CHUNK))]


async def test_a_document_waits_until_its_newest_version_is_in_chunks(store: Store) -> None:
    await put(store, "one")
    await put(store, "notes", NOTES)
    assert await store.of(MemoryRows).unchunked(10) == [(SOUL, 1), (NOTES, 1)]
    assert await store.of(MemoryRows).unchunked(1) == [(SOUL, 1)]
    assert await store.of(MemoryRows).chunk(NOTES, 1, cut("notes"))
    assert await store.of(MemoryRows).unchunked(10) == [(SOUL, 1)]
    await put(store, "two")
    assert await store.of(MemoryRows).unchunked(10) == [(SOUL, 2)]
    assert not await store.of(MemoryRows).chunk(SOUL, 1, cut("one")), "there is a newer one"
    assert await store.of(MemoryRows).chunk(SOUL, 2, cut("two"))
    assert await store.of(MemoryRows).unchunked(10) == []
    [(_, first), (_, second)] = await shown(store)
    assert (first, second) == ("notes", "two")
    assert not await store.of(MemoryRows).chunk(Place(Layer.GLOBAL, "", "x.md"), 1, []), "it never was"


async def test_a_deleted_document_has_no_chunks(store: Store) -> None:
    await put(store, "one")
    await store.of(MemoryRows).chunk(SOUL, 1, cut("one"))
    await put(store, None)
    assert await store.of(MemoryRows).unchunked(10) == [(SOUL, 0)]
    assert not await store.of(MemoryRows).chunk(SOUL, 1, cut("one"))
    assert await store.of(MemoryRows).chunk(SOUL, 0, [])
    assert await shown(store) == []
    assert await store.of(MemoryRows).unchunked(10) == []
    await put(store, "again")
    assert await store.of(MemoryRows).unchunked(10) == [(SOUL, 3)]


async def test_what_says_the_same_keeps_its_number_and_its_vector(store: Store) -> None:
    await put(store, "1")
    await store.of(MemoryRows).chunk(SOUL, 1, cut("a b", "c", "c", "d"))
    [(a, _), (c1, _), (c2, _), (d, _)] = await shown(store)
    await embedded(store)
    gone = store.of(MemoryRows).latest(SCOPE)[1]
    await put(store, "2")
    await store.of(MemoryRows).chunk(SOUL, 2, cut("a b", "c", "new"))
    [(first, _), (second, _), (third, text)] = await shown(store)
    assert (first, second, text) == (a, c1, "new") and third > d
    assert store.of(MemoryRows).gone_since(SCOPE, gone) == [c2, d]
    assert store.of(MemoryRows).vectors_of(MODEL, [a, c1, c2, d, third]).numbers == (a, c1)
    assert texts(store, "d") == [] and texts(store, "b") == [a]
    for at, it in enumerate(reversed(await store.of(MemoryRows).find(SCOPE, Tier.CHUNK))):
        assert (it.place, it.version, it.turn) == (SOUL, 2, at)
    await put(store, "3")
    await store.of(MemoryRows).chunk(SOUL, 3, cut("new", "a b", "c"))
    assert {(it.no, it.turn) for it in await store.of(MemoryRows).find(SCOPE, Tier.CHUNK)} == {
        (third, 0),
        (a, 1),
        (c1, 2),
    }


async def test_what_is_indexed_by_other_words_now_is_another_chunk(store: Store) -> None:
    await put(store, "1")
    [chunk] = cut("text")
    await store.of(MemoryRows).chunk(SOUL, 1, [chunk])
    await put(store, "2")
    await store.of(MemoryRows).chunk(SOUL, 2, [replace(chunk, index="words")])
    [(no, _)] = await shown(store)
    assert texts(store, "words") == [no] and texts(store, "text") == []


async def test_chunks_are_where_their_scope_is(store: Store) -> None:
    await put(store, "1")
    await store.of(MemoryRows).chunk(SOUL, 1, [*cut("mine"), *cut("everybody's", scope="")])
    assert [text for _, text in await shown(store)] == ["mine"]
    [other] = await store.of(MemoryRows).find("", Tier.CHUNK)
    assert other.text == "everybody's"


async def test_many_documents_are_gone_through_to_the_last(store: Store) -> None:
    places = [Place(Layer.USER, "u1", f"knowledge/n{no}.md") for no in range(30)]
    for place in places:
        await put(store, "x", place)
        await put(store, "y", place)
    done = []
    while waiting := await store.of(MemoryRows).unchunked(4):
        for place, version in reversed(waiting):
            assert await store.of(MemoryRows).chunk(place, version, cut(f"{place.name} {version}"))
            done.append(place)
    assert sorted(done, key=str) == sorted(places, key=str)
    assert len(await shown(store)) == 30
