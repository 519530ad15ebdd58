"""A search among what is about somebody, or of a document, chooses from all of that, whatever else fits better."""

from pathlib import Path
from typing import Any

import pytest
import trio

from daycare.base.documents import Attribution
from daycare.base.memories import Tier
from daycare.base.messages import Origin
from daycare.config import Config
from daycare.features.memory.facts.learned import Learned, NewEntity
from daycare.features.memory.facts.merging import merge_result
from daycare.features.memory.search.lookup import Filters
from daycare.features.memory.store.rows import MemoryRows
from daycare.store.records import Agent
from daycare.testing.daemon import TestDaemon, open_daemon

BY = Attribution(origin=Origin.PERSON, author="direct:ann", approver="direct:ann")
OTHERS = 120  # more than a search ranks by their texts


async def me(house: TestDaemon) -> Agent:
    return await house.daemon.directory.at("/ann/direct")


async def found(house: TestDaemon, text: str, **filters: Any) -> list[str]:
    return [each.text for each in await house.daemon.memory.controls.search(await me(house), text, Filters(**filters))]


async def hear(house: TestDaemon, *texts: str) -> None:
    for text in texts:
        await house.talk(text)
    await trio.sleep(5)


def own(number: int) -> str:
    """Return words that no other text has: what says nearly the same is left out."""
    return " ".join(f"{letter}{number}" for letter in "abcdef")


async def know(house: TestDaemon, name: str, *aliases: str) -> None:
    """Let a worker learn of somebody from the first thing that was said."""
    agent = await me(house)
    [entry, *_] = await house.store.of(MemoryRows).entries(agent.id, after=0, through=2**62, max_chars=10**6)
    entity = NewEntity(name=name, kind="person", description="", aliases=aliases, sources=(entry.no,))
    learned = Learned(entities=(entity,), by="test")
    await house.store.of(MemoryRows).learn(merge_result(agent, learned, [entry], [], after=0, through=entry.no))


@pytest.mark.parametrize("path", ["knowledge/old.md", "skills", "skills/tools/"])
async def test_a_search_in_a_document_finds_its_passage_however_many_others_fit_better(
    path: str, tmp_path: Path, autojump_clock: object
) -> None:
    async with open_daemon(tmp_path, config=Config()) as house:
        await hear(house, "hello there")
        agent = await me(house)
        its = path if path.endswith(".md") else "skills/tools/old.md"
        await house.daemon.memory.documents.write(agent, its, "Some words on a boiler.\n", BY)
        for number in range(OTHERS):
            text = f"The boiler in the cellar needs water, {own(number)}.\n"
            await house.daemon.memory.documents.write(agent, f"knowledge/b{number}.md", text, BY)
        await trio.sleep(60)
        question = "boiler in the cellar needs water"
        assert len(await found(house, question)) == 10
        assert await found(house, question, path=path) == ["Some words on a boiler."]
        assert await found(house, question, path="knowledge/none.md") == []


async def test_a_search_about_somebody_finds_them_by_another_name_however_many_others_fit_better(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with open_daemon(tmp_path, config=Config()) as house:
        await hear(house, "hello there", "Clara has a boat at the coast")
        await know(house, "Zed", "Clara")
        await hear(house, *(f"The train to the coast leaves, {own(number)}" for number in range(OTHERS)))
        question = "When does the train to the coast leave?"
        assert "Clara has a boat at the coast" in await found(house, question, entity="zed")
        assert await found(house, question, entity="Zed", path="knowledge") == []


@pytest.mark.parametrize(
    ("name", "text", "other"),
    [
        ("小明", "昨天小明喜欢喝茶", "昨天大家喜欢喝茶"),
        ("Ann", "then ANN had tea", "then Annabel had tea"),
        ("Anne-Marie", "then Anne-Marie had tea", "then Marie had tea"),
    ],
)
async def test_a_name_is_found_as_its_script_writes_it(
    name: str, text: str, other: str, tmp_path: Path, autojump_clock: object
) -> None:
    async with open_daemon(tmp_path, config=Config()) as house:
        await hear(house, text, other)
        assert await found(house, text, entity=name, tier=Tier.LOG) == [text]
