"""A long MEMORY.md stands in a prompt as what of it fits, and identity as the owner sets it."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio

from daycare.base.documents import Attribution
from daycare.base.errors import NotFoundError
from daycare.base.memories import Tier
from daycare.base.memory_settings import DocumentsSection, MemorySection, RetrievalSection
from daycare.base.messages import Origin
from daycare.config import Config, ModelsSection, ProviderSection
from daycare.features.memory.search.lookup import Filters
from daycare.features.memory.store.rows import MemoryRows
from daycare.plugin import Plugin, ProviderConfig, vectors
from daycare.settings import with_offline
from daycare.store.records import Agent
from daycare.testing.daemon import TestDaemon, open_daemon

BY = Attribution(origin=Origin.PERSON, author="direct:ann", approver="direct:ann")
TOPICS = ("garden", "boiler", "passport", "bicycle", "piano", "insurance", "dentist", "roof")
FILLER = "This paragraph goes on for a while, so that it is a passage of its own among the others here. " * 3
LONG = "# Memory\n\n" + "\n".join(
    f"## About the {topic}\n\nThe {topic} is number {at}. {FILLER}\n" for at, topic in enumerate(TOPICS)
)
SHORT = "# Memory\n\n## User Facts\n\n- has a cat\n"
BLOCK = re.compile(r'<memory( tier="\w+")? (\w+)>\n(.*?)\n</memory \2>', re.DOTALL)


def settings(embedder: str = "none", *, enabled: bool = True, **documents: object) -> Config:
    section = {"chat_max_tokens": 200, **documents}
    kinds = ["scripted"] if embedder == "none" else ["scripted", "fake"]
    return Config(
        models=ModelsSection(default="scripted/model"),
        providers=with_offline({kind: ProviderSection(kind=kind) for kind in kinds}),
        memory=MemorySection(
            embedder=embedder,
            documents=DocumentsSection(**section),  # type: ignore[arg-type]
            retrieval=RetrievalSection(enabled=enabled),
        ),
    )


class Topical:
    """An embedder that knows nothing but topics: what is about the same is the same, whatever the words."""

    name = "fake"
    needs_key = False

    async def embed(self, model: str, texts: Sequence[str]) -> memoryview:
        await trio.lowlevel.checkpoint()
        return vectors([self.of(text) for text in texts])

    def of(self, text: str) -> list[float]:
        text = text.replace("plants", "garden").replace("wheels", "bicycle")
        return [0.1, *(10.0 * (topic in text) for topic in TOPICS)]


def embedders() -> list[Plugin]:
    def create(config: ProviderConfig) -> Topical:
        return Topical()

    return [Plugin(name="fake", embedders={"fake": create})]


async def me(house: TestDaemon) -> Agent:
    return await house.daemon.directory.at("/ann/direct")


async def write(house: TestDaemon, path: str, text: str) -> None:
    await house.daemon.memory.documents.write(await me(house), path, text, BY)
    await trio.sleep(10)  # it is cut and embedded behind


async def told(house: TestDaemon, text: str) -> str:
    await house.talk(text)
    return house.model.history[-1].system


def passages(system: str) -> list[str]:
    """Return which topics the passages of MEMORY.md are about that stand in a prompt."""
    lines = [line for tier, _, text in BLOCK.findall(system) if tier for line in text.splitlines()]
    return [line.split("About the ")[1].split(":")[0] for line in lines if line.startswith("MEMORY.md: ")]


async def test_a_short_memory_stands_whole_and_a_long_one_as_what_fits(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, config=settings()) as house:
        await house.talk("hello")
        await write(house, "MEMORY.md", SHORT)
        assert "- has a cat" in await told(house, "What about the boiler?")
        await write(house, "MEMORY.md", LONG)
        now = await told(house, "When was the boiler repaired, and the roofs?")
        assert passages(now) == ["boiler", "roof"], "in the order of the document"
        assert "The boiler is number 1." in now and "The piano is number 4." not in now
        assert "- Memory / About the piano" in now, "what else it has is told"


async def test_at_most_chat_top_passages_stand(tmp_path: Path, autojump_clock: object) -> None:
    every = f"the {', the '.join(TOPICS)}"
    for top, many in ((5, 5), (2, 2), (0, 0)):
        folder = tmp_path / str(top)
        folder.mkdir()
        async with open_daemon(folder, config=settings(chat_top=top)) as house:
            await house.talk("hello")
            await write(house, "MEMORY.md", LONG)
            assert len(passages(await told(house, every))) == many


@pytest.mark.parametrize(("least", "found"), [(0.5, ["garden", "bicycle"]), (0.8, [])])
async def test_a_passage_without_the_words_stands_if_its_vector_is_near_enough(
    least: float, found: list[str], tmp_path: Path, autojump_clock: object
) -> None:
    config = settings("fake/topics", min_similarity=least)
    async with open_daemon(tmp_path, config=config, plugins=embedders()) as house:
        await house.talk("hello")
        await write(house, "MEMORY.md", LONG)
        assert passages(await told(house, "How are my plants, and my old wheels?")) == found


@pytest.mark.parametrize(("embedder", "least"), [("local", 0.25), ("dir", 0.35), ("openai/any", 0.5)])
def test_how_near_a_passage_has_to_be_depends_on_the_embedder(embedder: str, least: float) -> None:
    assert DocumentsSection().similar(embedder) == least
    assert DocumentsSection(min_similarity=0.1).similar(embedder) == 0.1


async def test_words_alone_choose_where_nothing_is_recalled(tmp_path: Path, autojump_clock: object) -> None:
    config = settings("fake/topics", enabled=False)
    async with open_daemon(tmp_path, config=config, plugins=embedders()) as house:
        await house.talk("hello")
        await write(house, "MEMORY.md", LONG)
        assert passages(await told(house, "How is the garden?")) == ["garden"]
        assert passages(await told(house, "How do my plants do?")) == []


async def test_what_stands_before_the_passages_is_the_same_from_turn_to_turn(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with open_daemon(tmp_path, config=settings()) as house:
        await house.talk("hello")
        await write(house, "SOUL.md", "You love tea.")
        await write(house, "MEMORY.md", LONG)
        prompts = [await told(house, f"What about the {topic}?") for topic in ("piano", "roof", "dentist")]
        before = {prompt.partition('<memory tier="')[0] for prompt in prompts}
        assert len(before) == 1
        [stands] = before
        assert "You love tea." in stands and "MEMORY.md is too long to stand here" in stands


@pytest.mark.parametrize("identity", ["whole", 1, 3])
async def test_identity_stands_whole_or_as_so_many_passages(
    identity: str | int, tmp_path: Path, autojump_clock: object
) -> None:
    async with open_daemon(tmp_path, config=settings(identity=identity)) as house:
        await house.talk("hello")
        await write(house, "SOUL.md", LONG)
        now = await told(house, "Do you know the dentist?")
        [soul] = re.findall(r"<soul>\n(.*?)\n</soul>", now, re.DOTALL)
        there = [topic for topic in TOPICS if f"The {topic} is number" in soul]
        few: dict[str | int, list[str]] = {1: ["dentist"], 3: ["garden", "boiler", "dentist"]}
        assert there == few.get(identity, list(TOPICS))
        now = await told(house, "Hi!")
        assert "<soul>" in now, "who somebody is stands there whatever is said"


async def test_only_identity_that_somebody_approved_stands(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, config=settings(identity=3)) as house:
        await house.talk("hello")
        await write(house, "SOUL.md", "You love tea.")
        held = Attribution(origin=Origin.PERSON, author="/ann/direct")
        await house.daemon.memory.documents.write(await me(house), "SOUL.md", "You love the dentist.", held)
        await trio.sleep(10)
        now = await told(house, "What about the dentist?")
        assert "You love tea." in now and "You love the dentist." not in now


async def test_a_passage_that_was_forgotten_is_in_no_prompt(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, config=settings()) as house:
        await house.talk("hello")
        await write(house, "MEMORY.md", LONG)
        assert "The boiler is number 1." in await told(house, "What about the boiler?")
        controls, agent = house.daemon.memory.controls, await me(house)
        chunks = await controls.find(agent, Tier.CHUNK, "boiler number")
        await controls.forget(agent, await controls.plan(agent, [each.label for each in chunks]), "direct:ann")
        assert "The boiler is number 1." not in await told(house, "What about the boiler?")


# -- one document ----------------------------------------------------------------------------------------------------


async def test_one_documents_passages_are_searched(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, config=settings()) as house:
        await house.talk("the dentist called")
        await write(house, "MEMORY.md", LONG)
        await write(house, "knowledge/teeth.md", "The dentist is on holiday.")
        found = await house.daemon.memory.controls.search(await me(house), "dentist", Filters(path="MEMORY.md"))
        assert found[0].text.startswith("The dentist is number 6.")
        assert {each.tier for each in found} == {"chunk"} and "holiday" not in str(found)
        found = await house.daemon.memory.controls.search(
            await me(house), "dentist", Filters(path="knowledge/teeth.md")
        )
        assert [each.text for each in found] == ["The dentist is on holiday."]


async def test_one_document_is_cut_and_embedded_anew(tmp_path: Path, autojump_clock: object) -> None:
    config = settings("fake/topics")
    async with open_daemon(tmp_path, config=config, plugins=embedders()) as house:
        await house.talk("hello")
        agent = await me(house)
        await house.daemon.memory.documents.write(agent, "MEMORY.md", LONG, BY)
        done = await house.daemon.memory.passages.process(agent, "MEMORY.md")
        assert (done.path, done.version, done.chunks, done.embedded) == ("MEMORY.md", 1, len(TOPICS), len(TOPICS))
        before = [each.no for each in await house.store.of(MemoryRows).find("ann", Tier.CHUNK)]
        assert await house.daemon.memory.passages.process(agent, "MEMORY.md") == done
        assert [each.no for each in await house.store.of(MemoryRows).find("ann", Tier.CHUNK)] == before, (
            "nothing is twice"
        )
        with pytest.raises(NotFoundError):
            await house.daemon.memory.passages.process(agent, "knowledge/none.md")
