"""A quick embedder's vectors of what was said are kept with it, in one commit; nothing is lost where it fails."""

from collections.abc import Sequence

import trio

from daycare.actors.directory import Directory
from daycare.agent.scribe import Scribe
from daycare.base.errors import UnavailableError
from daycare.base.recollection import IngestionSection
from daycare.memory.embedding import Embedding, Model
from daycare.plugin import vectors
from daycare.store.contract import Store
from daycare.store.records_memories import Tier
from daycare.store.sqlite.store import open_store
from tests.store.remembering import SCOPE, said

NAME = "fake@1"


class Fake:
    """An embedder that answers, or fails."""

    def __init__(self, *, quick: bool = True) -> None:
        self.quick = quick
        self.well = True
        self.asked: list[str] = []

    async def load(self) -> Model:
        return Model(NAME, self.embed, self.quick)

    async def embed(self, texts: Sequence[str]) -> memoryview:
        await trio.lowlevel.checkpoint()
        self.asked += texts
        if not self.well:
            raise UnavailableError("FAKE", "Embedding with fake: it is told to fail")
        return vectors([[1.0, float(len(text))] for text in texts])


async def hear(store: Store, embedding: Embedding, *texts: str) -> list[str]:
    """Have things said and logged; return what of the log has no vector."""
    for text in texts:
        await said(store, text, answer="")
    await Scribe(store, Directory(store, ["telegram"]), IngestionSection(), embedding.at_once).catch_up()
    assert {it.text for it in await store.memories.find(SCOPE, Tier.LOG)} >= set(texts)
    return [text for _, _, text in await store.memories.unembedded(NAME, 10)]


async def test_what_was_said_has_its_vector_as_soon_as_it_is_in_the_log() -> None:
    fake = Fake()
    async with open_store("memory:") as store:
        embedding = Embedding(store.memories, "fake", fake.load)
        assert await hear(store, embedding, "early") == ["early"], "the embedder is not loaded yet"
        assert await embedding.catch_up() == 1
        assert await hear(store, embedding, "one", "two") == []
        assert fake.asked == ["early", "one", "two"]
        assert await embedding.catch_up() == 0


async def test_an_embedder_that_is_not_quick_does_not_hold_up_the_log() -> None:
    fake = Fake(quick=False)
    async with open_store("memory:") as store:
        embedding = Embedding(store.memories, "fake", fake.load)
        await embedding.catch_up()
        assert await hear(store, embedding, "one") == ["one"]
        assert fake.asked == []


async def test_what_was_said_is_kept_where_its_embedder_fails_and_gets_its_vector_later() -> None:
    fake = Fake()
    async with open_store("memory:") as store:
        embedding = Embedding(store.memories, "fake", fake.load)
        await embedding.catch_up()
        fake.well = False
        assert await hear(store, embedding, "one") == ["one"]
        fake.well = True
        assert await embedding.catch_up() == 1
        assert await store.memories.unembedded(NAME, 10) == []
