"""Each setting of `[memory.ingestion]` and `[memory.retrieval]` changes what is kept, or what comes back."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from msgspec.structs import replace

from daycare.agent import tokens
from daycare.base.memories import Tier
from daycare.base.memory_settings import (
    TEXT_WEIGHT,
    VECTOR_WEIGHT,
    IngestionSection,
    MemorySection,
    RetrievalSection,
    Weights,
)
from daycare.config import Config, ModelsSection, ProviderSection
from daycare.features.memory.search.lookup import Filters
from daycare.features.memory.store.rows import MemoryRows
from daycare.plugin import Plugin, ProviderConfig
from daycare.settings import with_offline
from daycare.store.records import Agent
from daycare.testing.clock import VirtualClock
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.scripted import call, say
from tests.actors.helpers import tools
from tests.bench.unrelated import COURTESIES
from tests.cron import helpers as cron
from tests.remembering.test_embedders_that_fail import Fake
from tests.tasks import helpers as tasks

SAID = (
    "My sister Clara lives in Bern.",
    "I love green tea.",
    "Clara plays chess in Bern every Monday.",
    "My favourite colour is teal.",
    "Clara and I love long walks.",
)
ASKED = "What do you know of Clara, Bern and tea?"
BLOCKS = re.compile(r'<memory tier="(\w+)" (\w+)>\n(.*?)\n</memory \2>', re.DOTALL)


@asynccontextmanager
async def house_with(
    tmp: Path,
    *,
    ingestion: dict[str, Any] | None = None,
    fake: Fake | None = None,
    clock: VirtualClock | None = None,
    **retrieval: Any,
) -> AsyncIterator[TestDaemon]:
    """Open a house where something was said, and looked at by a worker that needs no model."""

    def create(config: ProviderConfig) -> Fake:
        assert fake is not None
        return fake

    kinds = ["scripted"] if fake is None else ["scripted", "fake"]
    config = Config(
        models=ModelsSection(default="scripted/model", memory="offline/rules"),
        providers=with_offline({kind: ProviderSection(kind=kind) for kind in kinds}),
        memory=MemorySection(
            embedder="none" if fake is None else "fake/small",
            ingestion=IngestionSection(**(ingestion or {})),
            retrieval=RetrievalSection(**retrieval),
        ),
    )
    plugins = [Plugin(name="fake", embedders={"fake": create}), tools]
    async with open_daemon(tmp, config=config, plugins=plugins, clock=clock) as house:
        for text in SAID:
            await house.talk(text)
            await trio.sleep(10)
        await house.daemon.memory.controls.process()
        await trio.sleep(60)
        await house.talk("/new")
        yield house


async def me(house: TestDaemon) -> Agent:
    return await house.daemon.directory.at("/ann/direct")


async def recalled(house: TestDaemon) -> dict[str, list[str]]:
    """Return the lines that stand in a prompt, by tier."""
    await house.talk(ASKED)
    return {tier: text.splitlines() for tier, _, text in BLOCKS.findall(house.model.history[-1].system)}


def lines_of(system: str) -> str:
    """Return all that was recalled for a prompt."""
    return "\n".join(lines for _, _, lines in BLOCKS.findall(system))


async def kept(house: TestDaemon) -> dict[str, int]:
    return {tier: len(await house.store.of(MemoryRows).find("ann", tier, limit=1_000)) for tier in Tier}


async def test_by_default_all_tiers_are_kept_and_recalled(tmp_path: Path, autojump_clock: object) -> None:
    async with house_with(tmp_path) as house:
        counts = await kept(house)
        assert counts["log"] == 2 * len(SAID) and counts["fact"] >= 3 and counts["entity"] >= 1
        assert set(await recalled(house)) == {"log", "fact", "entity"}


# -- [memory.ingestion] ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("off", "tier"), [("facts", "fact"), ("entities", "entity")])
async def test_what_is_not_to_be_kept_is_not(off: str, tier: str, tmp_path: Path, autojump_clock: object) -> None:
    async with house_with(tmp_path, ingestion={off: False}) as house:
        counts = await kept(house)
        assert counts[tier] == 0
        assert all(counts[other] for other in ("log", "fact", "entity") if other != tier)


async def test_without_daily_logs_words_are_learned_from_and_not_found(tmp_path: Path, autojump_clock: object) -> None:
    async with house_with(tmp_path, ingestion={"daily_logs": False}) as house:
        await house.talk("My locker code is 4711.")
        await trio.sleep(10)
        found = await house.daemon.memory.controls.search(await me(house), "locker code Clara Bern")
        assert "log" not in {each.tier for each in found} and found
        assert set(await recalled(house)) == {"fact", "entity"}
        await house.daemon.memory.controls.process()
        await trio.sleep(2 * 3_600)
        counts = await kept(house)
        assert counts["log"] == 0 and counts["fact"] >= 3


async def test_where_nothing_is_to_be_kept_nothing_is(tmp_path: Path, autojump_clock: object) -> None:
    off = {"daily_logs": False, "facts": False, "entities": False}
    async with house_with(tmp_path, ingestion=off) as house:
        assert not any((await kept(house)).values())


@pytest.mark.parametrize(("key", "value"), [("background", False), ("idle_minutes", 120.0), ("every_turns", 3)])
async def test_when_workers_wake(key: str, value: Any, tmp_path: Path, autojump_clock: object) -> None:
    ingestion = replace(IngestionSection(idle_minutes=10.0, every_turns=1_000), **{key: value})
    config = Config(memory=MemorySection(ingestion=ingestion))
    async with open_daemon(tmp_path, config=config, curates=ingestion.background) as house:
        for text in SAID[:3]:
            await house.talk(text)
        await trio.sleep(400)
        assert bool(house.events("memory.learned")) == (key == "every_turns")
        await trio.sleep(1_200)
        assert bool(house.events("memory.learned")) == (key == "every_turns")
        await trio.sleep(3 * 3_600)
        assert bool(house.events("memory.learned")) == (key != "background")


# -- [memory.retrieval] ----------------------------------------------------------------------------------------------


async def test_nothing_is_recalled_where_that_is_off(tmp_path: Path, autojump_clock: object) -> None:
    async with house_with(tmp_path, enabled=False) as house:
        assert await recalled(house) == {}
        assert await house.daemon.memory.controls.search(await me(house), ASKED), "people still search"


@pytest.mark.parametrize("most", [1, 2, 4])
async def test_at_most_so_many_are_recalled(most: int, tmp_path: Path, autojump_clock: object) -> None:
    async with house_with(tmp_path, max_results=most) as house:
        assert sum(map(len, (await recalled(house)).values())) == most


@pytest.mark.parametrize("most", [50, 70])
async def test_they_have_at_most_so_many_tokens(most: int, tmp_path: Path, autojump_clock: object) -> None:
    async with house_with(tmp_path, max_tokens=most) as house:
        lines = [line for lines in (await recalled(house)).values() for line in lines]
        assert most / 2 < sum(tokens.of_text(line) + 1 for line in lines) <= most


@pytest.mark.parametrize("tier", ["log", "fact", "entity"])
async def test_a_tier_that_is_not_wanted_is_not_recalled(tier: str, tmp_path: Path, autojump_clock: object) -> None:
    key = {"log": "include_logs", "fact": "include_facts", "entity": "include_entities"}[tier]
    wanted: dict[str, Any] = {key: False}
    async with house_with(tmp_path, **wanted) as house:
        assert set(await recalled(house)) == {"log", "fact", "entity"} - {tier}
        found = await house.daemon.memory.controls.search(await me(house), ASKED, Filters(limit=50))
        assert tier in {each.tier for each in found}, "people still find it"


@pytest.mark.parametrize(("deadline_ms", "late"), [(150, True), (10_000, False)])
async def test_an_answer_waits_so_long_for_a_vector(
    deadline_ms: int, late: bool, tmp_path: Path, autojump_clock: object
) -> None:
    fake = Fake()
    async with house_with(tmp_path, fake=fake, deadline_ms=deadline_ms) as house:
        fake.delay_s = 1.0
        began = trio.current_time()
        await recalled(house)
        took_s = trio.current_time() - began
        why = await house.daemon.memory.controls.why(await me(house))
        assert why.without == ("its vector came too late" if late else "")
        assert (took_s < 0.5) == late


async def test_merging_is_by_structure_or_plain(tmp_path: Path, autojump_clock: object) -> None:
    signals = {}
    for merge in ("structure", "plain"):
        folder = tmp_path / merge
        folder.mkdir()
        async with house_with(folder, fake=Fake(), merge=merge) as house:
            found = await house.daemon.memory.controls.search(await me(house), "Clara Bern")
            signals[merge] = {name for each in found for name in each.parts}
    assert signals["plain"] == {"words", "cosine"}
    assert signals["structure"] > {"words", "cosine", "around"}


@pytest.mark.parametrize("tier", ["log", "fact", "entity"])
async def test_a_tier_that_counts_more_stands_first(tier: str, tmp_path: Path, autojump_clock: object) -> None:
    key = {"log": "logs", "fact": "facts", "entity": "entities"}[tier]
    weights = replace(Weights(logs=0.1, facts=0.1, entities=0.1), **{key: 10.0})
    async with house_with(tmp_path, weights=weights) as house:
        found = await house.daemon.memory.controls.search(await me(house), "Clara")
        assert found[0].tier == tier


async def test_what_was_said_lately_counts_more_if_wanted(tmp_path: Path, autojump_clock: object) -> None:
    later, ahead = "My sister Clara lives in Basel.", {}
    for recency in (0.0, 10.0):
        folder = tmp_path / str(recency)
        folder.mkdir()
        clock = VirtualClock()
        async with house_with(folder, clock=clock, weights=Weights(recency=recency)) as house:
            clock.shift(29 * 86_400)
            await house.talk(later)
            await trio.sleep(10)
            found = await house.daemon.memory.controls.search(
                await me(house), "Where does Clara live?", Filters(limit=50)
            )
            scores = {each.text: each.score or 0.0 for each in found}
            ahead[recency] = scores[later] - scores[SAID[0]]
    assert ahead[10.0] > ahead[0.0] + 4, "halved each month, it is some five after one"


async def test_words_and_vectors_count_as_much_as_is_set(tmp_path: Path, autojump_clock: object) -> None:
    most = []
    for text, vector in ((TEXT_WEIGHT, VECTOR_WEIGHT), (2 * TEXT_WEIGHT, 0.0), (0.0, 2 * VECTOR_WEIGHT)):
        folder = tmp_path / f"{text}-{vector}"
        folder.mkdir()
        async with house_with(folder, fake=Fake(), weights=Weights(text=text, vector=vector)) as house:
            parts = [
                each.parts
                for each in await house.daemon.memory.controls.search(await me(house), "Clara Bern", Filters(limit=50))
            ]
            most.append({name: max(each.get(name, 0.0) for each in parts) for name in ("words", "cosine")})
    usual, by_words, by_vectors = most
    assert by_words == {"words": pytest.approx(2 * usual["words"]), "cosine": 0.0}
    assert by_vectors == {"words": 0.0, "cosine": pytest.approx(2 * usual["cosine"])}


async def test_a_courtesy_brings_nothing_back(tmp_path: Path, autojump_clock: object) -> None:
    async with house_with(tmp_path, fake=Fake()) as house:
        for text in COURTESIES:
            await house.talk(text)
            assert not BLOCKS.findall(house.model.history[-1].system), text
        assert await recalled(house), "and what asks for something does"


async def test_only_what_has_the_least_score_comes_back(tmp_path: Path, autojump_clock: object) -> None:
    counts = []
    for least in (0.0, RetrievalSection().min_score, 50.0):
        folder = tmp_path / str(least)
        folder.mkdir()
        async with house_with(folder, min_score=least, include_entities=False) as house:
            counts.append(sum(map(len, (await recalled(house)).values())))
    every, usual, none = counts
    assert every > usual > none == 0


@pytest.mark.parametrize("wanted", [True, False])
async def test_what_is_added_to_a_running_turn_is_looked_up(
    wanted: bool, tmp_path: Path, autojump_clock: object
) -> None:
    kinds = ("people", "steered") if wanted else ("people",)
    async with house_with(tmp_path, recall_for=kinds) as house:
        house.model.enqueue(call(("wait", {"seconds": 5})), say("done"))
        first = await house.say("Let us talk of xylophones.")
        await trio.sleep(1)
        await house.say(ASKED)
        assert await house.hear(first) == "done"
        before, after = (lines_of(request.system) for request in house.model.history[-2:])
    assert "Clara" not in before
    assert ("Clara" in after) == wanted


@pytest.mark.parametrize("wanted", [True, False])
async def test_jobs_and_tasks_are_looked_up(wanted: bool, tmp_path: Path, autojump_clock: object) -> None:
    kinds = ("people", "cron", "tasks") if wanted else ("people",)
    async with house_with(tmp_path, recall_for=kinds) as house:
        await tasks.start(house, ASKED)
        await tasks.ended(house)
        assert ("Clara" in lines_of(house.model.history[-1].system)) == wanted
        asked = len(house.model.history)
        await cron.schedule(house, "look", ASKED)
        await trio.sleep(cron.TEN_S)
        assert len(house.model.history) == asked + 1
        assert ("Clara" in lines_of(house.model.history[-1].system)) == wanted


@pytest.mark.parametrize("wanted", [True, False])
async def test_helpers_are_told_what_fits_only_if_that_is_wanted(
    wanted: bool, tmp_path: Path, autojump_clock: object
) -> None:
    kinds = ("people", "helpers") if wanted else ("people",)
    async with house_with(tmp_path, recall_for=kinds) as house:
        house.model.enqueue(call(("spawn", {"task": ASKED})), say("on it"), say("done"))
        await house.talk("Please have xylophones counted.")
        await trio.sleep(60)
        helper = next(it for it in house.model.history if ASKED in it.messages[-1].text)
    assert ("Clara" in lines_of(helper.system)) == wanted


@pytest.mark.parametrize(("text", "vector"), [(1.0, 0.0), (0.0, 1.0)])
async def test_plain_merging_weighs_words_and_vectors(
    text: float, vector: float, tmp_path: Path, autojump_clock: object
) -> None:
    weights = Weights(text=text, vector=vector)
    async with house_with(tmp_path, fake=Fake(), merge="plain", weights=weights) as house:
        found = await house.daemon.memory.controls.search(await me(house), "Clara Bern")
        assert {name for each in found for name in each.parts} == {"words" if text else "cosine"}
