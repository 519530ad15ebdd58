"""A quick embedder's vectors of what was said are kept with it, in one commit; questions wait until it is loaded."""

from collections.abc import Sequence
from functools import partial

import pytest
import trio
from trio.testing import MockClock

from daycare.actors.directory import Directory
from daycare.base.errors import BrokenError, UnavailableError
from daycare.base.limits import EMBED_QUESTION_S
from daycare.base.memories import Tier
from daycare.features import open_store
from daycare.features.memory.conversation_log import ConversationLog
from daycare.features.memory.embed.service import Embedding, Model
from daycare.features.memory.store.rows import MemoryRows
from daycare.observe.bus import Bus
from daycare.observe.keeper import SetAside
from daycare.plugin import vectors
from daycare.settings import Live
from daycare.store.sqlite.store import Store
from daycare.testing.clock import VirtualClock
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
    aside = partial(SetAside, Bus(), VirtualClock(), "log")
    directory = Directory(store, ["telegram"])
    await ConversationLog(store, directory, Live(), aside, embedding.at_once).catch_up()
    assert {it.text for it in await store.of(MemoryRows).find(SCOPE, Tier.LOG)} >= set(texts)
    return [text for _, _, text in await store.of(MemoryRows).unembedded(NAME, 10)]


async def test_what_was_said_has_its_vector_as_soon_as_it_is_in_the_log() -> None:
    fake = Fake()
    async with open_store("memory:") as store:
        embedding = Embedding(store.of(MemoryRows), "fake", fake.load)
        assert await hear(store, embedding, "early") == ["early"], "the embedder is not loaded yet"
        assert await embedding.catch_up() == 1
        assert await hear(store, embedding, "one", "two") == []
        assert fake.asked == ["early", "one", "two"]
        assert await embedding.catch_up() == 0


async def test_an_embedder_that_is_not_quick_does_not_hold_up_the_log() -> None:
    fake = Fake(quick=False)
    async with open_store("memory:") as store:
        embedding = Embedding(store.of(MemoryRows), "fake", fake.load)
        await embedding.catch_up()
        assert await hear(store, embedding, "one") == ["one"]
        assert fake.asked == []


async def test_what_was_said_is_kept_where_its_embedder_fails_and_gets_its_vector_later() -> None:
    fake = Fake()
    async with open_store("memory:") as store:
        embedding = Embedding(store.of(MemoryRows), "fake", fake.load)
        await embedding.catch_up()
        fake.well = False
        assert await hear(store, embedding, "one") == ["one"]
        fake.well = True
        assert await embedding.catch_up() == 1
        assert await store.of(MemoryRows).unembedded(NAME, 10) == []


async def test_a_question_waits_for_an_embedder_that_is_being_loaded_and_it_is_loaded_once(
    autojump_clock: MockClock,
) -> None:
    fake = Fake()
    loads: list[float] = []

    async def load() -> Model:
        loads.append(trio.current_time())
        await trio.sleep(1)
        return await fake.load()

    async with open_store("memory:", inline=True) as store, trio.open_nursery() as nursery:
        embedding = Embedding(store.of(MemoryRows), "fake", load)
        nursery.start_soon(embedding.worker.run)
        began = trio.current_time()
        assert len(await embedding.question("classical musician")) == 2
        assert trio.current_time() - began == pytest.approx(1)
        assert len(loads) == 1
        nursery.cancel_scope.cancel()


async def test_a_question_loads_an_embedder_where_nothing_is_embedded_meanwhile() -> None:
    fake = Fake()
    async with open_store("memory:", inline=True) as store:
        embedding = Embedding(store.of(MemoryRows), "fake", fake.load)
        assert len(await embedding.question("classical musician")) == 2
        assert embedding.model == NAME


async def test_a_question_does_not_wait_for_an_embedder_that_cannot_be_loaded(autojump_clock: MockClock) -> None:
    async def broken() -> Model:
        await trio.sleep(1)
        raise BrokenError("EMBEDDER_MISSING", "loading the local embedder: the package wordllama is not installed")

    async def stuck() -> Model:
        await trio.sleep_forever()
        raise AssertionError

    async with open_store("memory:", inline=True) as store:
        for load, waited_s, why in ((broken, 1.0, "EMBEDDER_MISSING"), (stuck, EMBED_QUESTION_S, "EMBEDDER_LOADING")):
            embedding = Embedding(store.of(MemoryRows), "fake", load)
            began = trio.current_time()
            with pytest.raises((BrokenError, UnavailableError)) as told:
                await embedding.question("classical musician")
            assert told.value.code == why
            assert trio.current_time() - began == pytest.approx(waited_s)
