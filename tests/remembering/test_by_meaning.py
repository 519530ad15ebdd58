"""What was said is found by its meaning once it is embedded, and a change of the embedder costs no search."""

import importlib.util
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
from rich.console import Console

from daycare.base.errors import NotFoundError
from daycare.base.memory_settings import MemorySection
from daycare.cli.memories import _stats, memories_table
from daycare.config import Config, ProviderSection
from daycare.features.memory.embed.service import EMBED_BATCH
from daycare.features.memory.store.rows import MemoryRows
from daycare.plugin import Plugin, ProviderConfig, vectors
from daycare.settings import with_offline
from daycare.testing.daemon import TestDaemon, open_daemon

needs_wordllama = pytest.mark.skipif(
    importlib.util.find_spec("wordllama") is None, reason="wordllama is not installed: pip install -e '.[local]'"
)
SAID = ("He plays the cello in an orchestra.", "I renewed my passport.", "We painted the fence green.")
QUESTION = "classical musician"  # no word of it was said
MANY = 3 * EMBED_BATCH


class Fake:
    """An embedder whose vectors depend on its model: so many numbers each, made after `delay_s`."""

    name = "fake"
    needs_key = False

    def __init__(self) -> None:
        self.numbers = {"a": 3, "b": 5}
        self.delay_s = 0.0
        self.asked: list[str] = []

    async def embed(self, model: str, texts: Sequence[str]) -> memoryview:
        self.asked += [model] * len(texts)
        await trio.sleep(self.delay_s)
        size = self.numbers[model]
        return vectors([[1.0 + (sum(map(ord, text)) * (at + 7)) % 11 for at in range(size)] for text in texts])


@asynccontextmanager
async def house_with(tmp: Path, embedder: str, fake: Fake) -> AsyncIterator[TestDaemon]:
    def create(config: ProviderConfig) -> Fake:
        return fake

    config = Config(
        memory=MemorySection(embedder=embedder), providers=with_offline({"fake": ProviderSection(kind="fake")})
    )
    plugin = Plugin(name="fake", embedders={"fake": create})
    async with open_daemon(tmp, config=config, location="daycare.db", plugins=[plugin]) as house:
        yield house


async def state(house: TestDaemon) -> dict[str, Any]:
    found: dict[str, Any] = (await house.daemon.status())["memory"]
    return found


async def until_embedded(house: TestDaemon, pause_s: float) -> dict[str, Any]:
    with trio.fail_after(300):
        while (now := await state(house))["embedded"] < now["memories"] or not now["memories"] or now["before"]:
            await trio.sleep(pause_s)
    return now


async def stored(house: TestDaemon) -> dict[str, int]:
    return {each.model: each.vectors for each in await house.store.of(MemoryRows).vector_models()}


def rendered(shown: Any) -> str:
    console = Console(width=200)
    with console.capture() as captured:
        console.print(shown)
    return captured.get()


@needs_wordllama
async def test_the_local_embedder_finds_what_has_no_word_of_the_question(tmp_path: Path) -> None:
    config = Config(memory=MemorySection(embedder="local"))
    async with open_daemon(tmp_path, config=config, location="daycare.db") as house:
        for text in SAID:
            await house.talk(text)
        shown = await until_embedded(house, 0.05)
        me = await house.daemon.directory.at("/ann/direct")
        found = await house.daemon.memory.controls.search(me, QUESTION)
        counts = await house.daemon.memory.controls.counts(me)
    assert found[0].text == SAID[0]
    assert found[0].parts["cosine"] > 0
    assert shown["model"].startswith("wordllama@")
    assert (shown["dimensions"], shown["embedded"], shown["memories"]) == (256, counts.logs, counts.logs)
    table = rendered(memories_table([msgspec.to_builtins(each) for each in found], scored=True))
    assert "meaning" in table and "+" in table
    none = Config()
    async with open_daemon(tmp_path, config=none, location="daycare.db") as house:
        by_words = await house.daemon.memory.controls.search(me, QUESTION)
    assert SAID[0] not in [each.text for each in by_words], "words alone do not find it"


async def test_a_change_of_the_model_embeds_anew_while_search_goes_on(tmp_path: Path, autojump_clock: object) -> None:
    fake = Fake()
    async with house_with(tmp_path, "fake/a", fake) as house:
        for number in range(MANY // 2):
            await house.talk(f"I saw bird number {number}.")
        before = await until_embedded(house, 1)
        assert (before["model"], before["dimensions"]) == ("fake/a", 3)
    async with house_with(tmp_path, "none", fake) as house:
        await trio.sleep(60)
        me = await house.daemon.directory.at("/ann/direct")
        assert "number 7." in (await house.daemon.memory.controls.search(me, "bird number 7"))[0].text
        assert await stored(house) == {"fake/a": MANY}, "somebody may go back to it"
    fake.delay_s = 20.0
    async with house_with(tmp_path, "fake/b", fake) as house:
        progress = []
        for _ in range(2):
            await trio.sleep(15)
            now = await state(house)
            progress.append(now["embedded"])
            assert now["before"] == {"fake/a": MANY} == {"fake/a": (await stored(house))["fake/a"]}
            text = rendered(_stats({"own": {}, "all": {}, "agent": "/ann/direct", "embedder": now}))
            assert f"{now['embedded']} of {MANY} ({100 * now['embedded'] // MANY} %)" in text
            found = await house.daemon.memory.controls.search(me, "bird number 9")
            assert "number 9." in found[0].text
        assert progress == sorted(progress) and 0 < progress[-1] < MANY
        after = await until_embedded(house, 5)
        assert (after["model"], after["dimensions"], after["before"]) == ("fake/b", 5, {})
        assert await stored(house) == {"fake/b": MANY}
        fake.delay_s = 0.0
        found = await house.daemon.memory.controls.search(me, "bird number 9")
        assert "number 9." in found[0].text and "cosine" in found[0].parts


async def test_old_vectors_stay_while_the_new_model_fails(tmp_path: Path, autojump_clock: object) -> None:
    fake = Fake()
    async with house_with(tmp_path, "fake/a", fake) as house:
        await house.talk(SAID[0])
        await until_embedded(house, 1)
    del fake.numbers["b"]
    fake.numbers["b"] = 0  # no vectors at all
    async with house_with(tmp_path, "fake/b", fake) as house:
        await trio.sleep(3_600)
        assert (await state(house))["trouble"]
        assert await stored(house) == {"fake/a": 2}
    asked = len(fake.asked)
    async with house_with(tmp_path, "fake/a", fake) as house:
        await until_embedded(house, 1)
    assert len(fake.asked) == asked, "the old one has all of its vectors"


async def test_a_model_that_is_another_one_under_its_old_name_is_noticed_and_renewed(
    tmp_path: Path, autojump_clock: object
) -> None:
    fake = Fake()
    async with house_with(tmp_path, "fake/a", fake) as house:
        await house.talk(SAID[0])
        await until_embedded(house, 1)
    fake.numbers["a"] = 4
    async with house_with(tmp_path, "fake/a", fake) as house:
        await house.talk(SAID[1], key="later")
        await trio.sleep(60)
        trouble = (await state(house))["trouble"]
        assert "4 numbers, before they had 3" in trouble and "daycare memory reembed" in trouble
        await house.daemon.memory.reembed()
        after = await until_embedded(house, 1)
        assert (after["dimensions"], after["embedded"], after["trouble"]) == (4, 4, "")
        me = await house.daemon.directory.at("/ann/direct")
        assert "cosine" in (await house.daemon.memory.controls.search(me, "passport"))[0].parts


async def test_without_an_embedder_there_is_nothing_to_embed_anew(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, config=Config()) as house:
        with pytest.raises(NotFoundError, match="words alone"):
            await house.daemon.memory.reembed()
