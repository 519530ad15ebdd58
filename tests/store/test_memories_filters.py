"""Which memories a filter leaves: those about somebody, those of a document, and never one of another scope."""

import pytest

from daycare.base.documents import Attribution, Layer, NewVersion, Place
from daycare.base.memories import NewMemory, Tier
from daycare.base.messages import Origin
from daycare.features.memory.documents.rows import DocumentRows
from daycare.features.memory.store.rows import MemoryRows
from daycare.store.sqlite.store import Store
from tests.store.remembering import SCOPE, entity, entry, fact, learned, logged

BY = Attribution(origin=Origin.PERSON, author="direct:u1")


async def test_who_speaks_of_somebody_has_all_words_of_a_name_or_is_about_them(store: Store) -> None:
    said = ("Ann Smith is here", "the smith met ANN", "Ann is here", "annabel smith", "nobody")
    first, second, third, *_, nobody = await logged(store, *said)
    about, who = await learned(store, fact("She likes tea", nobody, subject="Ann"), entity("Annie", nobody))
    await logged(store, "Ann Smith", to="/u2/telegram", scope="u2", user="u2")
    assert await store.of(MemoryRows).speaking(SCOPE, {"ann smith": ("ann", "smith")}, 9) == [first, second]
    assert await store.of(MemoryRows).speaking(SCOPE, {"ann": ("ann",), "annie": ()}, 9) == [
        first,
        second,
        third,
        about,
        who,
    ]
    assert await store.of(MemoryRows).speaking(SCOPE, {"ann": ("ann",)}, 2) == [second, third, about], (
        "the newest of each"
    )
    assert await store.of(MemoryRows).speaking(SCOPE, {}, 9) == []
    assert await store.of(MemoryRows).speaking("nobody", {"ann": ("ann",)}, 9) == []


@pytest.mark.parametrize("name", ["", '"', "*", "ann* OR", "(", "7:ann"])
async def test_no_name_is_taken_for_a_query(name: str, store: Store) -> None:
    await logged(store, "Ann is here", "annual")
    assert await store.of(MemoryRows).speaking(SCOPE, {name: (name,)}, 9) == []


async def test_passages_are_those_of_the_documents_of_a_name_or_folder(store: Store) -> None:
    async def cut(layer: Layer, owner: str, name: str, scope: str = SCOPE) -> int:
        place = Place(layer, owner, name)
        await store.of(DocumentRows).write(NewVersion(place=place, user=scope, by=BY, text=name))
        chunk: NewMemory = entry(f"{layer} {owner} {name}", tier=Tier.CHUNK, scope=scope, role="", speaker="")
        assert await store.of(MemoryRows).chunk(place, 1, [chunk])
        [found] = await store.of(MemoryRows).find(scope, Tier.CHUNK, words=chunk.text)
        return found.no

    mine = await cut(Layer.AGENT, "a1", "knowledge/tea.md")
    ours = await cut(Layer.USER, "u1", "knowledge/tea.md")
    other = await cut(Layer.USER, "u1", "knowledge/teapots.md")
    soul = await cut(Layer.AGENT, "a1", "SOUL.md")
    theirs = await cut(Layer.USER, "u2", "knowledge/tea.md", scope="u2")
    both = (Layer.AGENT, Layer.USER)
    assert await store.of(MemoryRows).passages(SCOPE, both, "knowledge/tea.md") == [mine, ours]
    assert await store.of(MemoryRows).passages(SCOPE, (Layer.USER,), "knowledge/tea.md") == [ours]
    assert await store.of(MemoryRows).passages(SCOPE, both, "knowledge/") == [mine, ours, other]
    assert await store.of(MemoryRows).passages(SCOPE, both, "") == [mine, ours, other, soul]
    assert await store.of(MemoryRows).passages(SCOPE, both, "knowledge/tea") == []
    assert await store.of(MemoryRows).passages("u2", both, "knowledge/") == [theirs]
    assert await store.of(MemoryRows).passages(SCOPE, (), "knowledge/tea.md") == []
