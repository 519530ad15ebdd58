"""An embedder that is down, slow, or talks nonsense costs no answer, and what is missing is made when it is back."""

import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from daycare.base.errors import InvalidError, UnavailableError
from daycare.base.memory_settings import MemorySection
from daycare.config import Config, ProviderSection
from daycare.plugin import Plugin, ProviderConfig, vectors
from daycare.settings import with_offline
from daycare.testing.daemon import TestDaemon, open_daemon

Answer = Callable[[Sequence[str]], memoryview]
SAID = ("My sister Clara lives in Bern.", "I love green tea.")


def good(texts: Sequence[str]) -> memoryview:
    return vectors([[1.0 + len(text), float(sum(map(ord, text)) % 97), 1.0] for text in texts])


def down(texts: Sequence[str]) -> memoryview:
    raise UnavailableError("PROVIDER_UNREACHABLE", "Embedding with fake: the connection failed")


def short(texts: Sequence[str]) -> memoryview:
    return good(texts[:-1]) if len(texts) > 1 else vectors([[math.nan, 1.0, 1.0]])


def nan(texts: Sequence[str]) -> memoryview:
    return vectors([[math.nan, 1.0, 1.0]] * len(texts))


def zero(texts: Sequence[str]) -> memoryview:
    return vectors([[0.0, 0.0, 0.0]] * len(texts))


def wider(texts: Sequence[str]) -> memoryview:
    return vectors([[1.0] * 5] * len(texts))


class Fake:
    """An embedder that answers as it is told at the moment, after `delay_s`."""

    name = "fake"
    needs_key = False

    def __init__(self) -> None:
        self.answer: Answer = good
        self.delay_s = 0.0
        self.texts: list[str] = []

    async def embed(self, model: str, texts: Sequence[str]) -> memoryview:
        await trio.sleep(self.delay_s)
        found = self.answer(texts)
        self.texts += texts
        return found


@asynccontextmanager
async def house_with(tmp: Path, fake: Fake) -> AsyncIterator[TestDaemon]:
    def create(config: ProviderConfig) -> Fake:
        return fake

    config = Config(
        memory=MemorySection(embedder="fake/small"), providers=with_offline({"fake": ProviderSection(kind="fake")})
    )
    async with open_daemon(tmp, config=config, plugins=[Plugin(name="fake", embedders={"fake": create})]) as house:
        yield house


async def state(house: TestDaemon) -> tuple[int, int, str]:
    shown = (await house.daemon.status())["memory"]
    return shown["embedded"], shown["memories"], shown["trouble"]


async def test_what_is_said_is_embedded_behind_the_answer(tmp_path: Path, autojump_clock: object) -> None:
    fake = Fake()
    async with house_with(tmp_path, fake) as house:
        for text in SAID:
            await house.talk(text)
        await trio.sleep(10)
        assert await state(house) == (4, 4, "")


@pytest.mark.parametrize("fault", [down, short, nan, zero, wider], ids=lambda fault: fault.__name__)
async def test_a_fault_is_shown_answers_go_on_and_it_catches_up_alone(
    tmp_path: Path, autojump_clock: object, fault: Answer
) -> None:
    fake = Fake()
    async with house_with(tmp_path, fake) as house:
        await house.talk(SAID[0])
        await trio.sleep(10)
        fake.answer = fault
        await house.talk(SAID[1])
        await trio.sleep(10)
        embedded, memories, trouble = await state(house)
        assert (embedded, memories) == (2, 4)
        assert trouble
        await house.talk("/new")
        assert "Bern" in await house.talk("Where does Clara live?")
        fake.answer = good
        await trio.sleep(600)
        embedded, memories, trouble = await state(house)
        assert embedded == memories
        assert trouble == ""
        told = house.events("memory.embedder")
        assert [bool(event.get("cleared")) for event in told] == [False, True]


async def test_a_slow_embedder_holds_up_no_answer(tmp_path: Path, autojump_clock: object) -> None:
    fake = Fake()
    async with house_with(tmp_path, fake) as house:
        await house.talk(SAID[0])
        await trio.sleep(10)
        await house.talk("/new")
        fake.delay_s = 30.0
        began = trio.current_time()
        assert "Bern" in await house.talk("Where does Clara live?")
        assert trio.current_time() - began < 0.2
        why = await house.daemon.memory.controls.why(await house.daemon.directory.at("/ann/direct"))
        assert why.without == "its vector came too late"


async def test_a_text_that_is_refused_for_itself_keeps_no_other_out(tmp_path: Path, autojump_clock: object) -> None:
    fake = Fake()

    def picky(texts: Sequence[str]) -> memoryview:
        if any("tea" in text for text in texts):
            raise InvalidError("REFUSED", "Embedding with fake: no tea")
        return good(texts)

    fake.answer = picky
    async with house_with(tmp_path, fake) as house:
        for text in SAID:
            await house.talk(text)
        await trio.sleep(60)
        assert await state(house) == (4, 4, "")
        assert SAID[0] in fake.texts


async def test_the_same_words_are_embedded_once(tmp_path: Path, autojump_clock: object) -> None:
    fake = Fake()
    async with house_with(tmp_path, fake) as house:
        for _ in range(3):
            await house.talk(SAID[1])
            await trio.sleep(5)
    assert fake.texts.count(SAID[1]) == 1
