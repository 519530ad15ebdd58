"""What was said is logged once, looked at once, and comes back: over restarts, resets, and crashes at every commit."""

from collections import Counter
from pathlib import Path

import pytest
import trio

from daycare.base.memories import Tier
from daycare.base.memory_settings import IngestionSection, MemorySection
from daycare.base.path import Kind
from daycare.config import Config
from daycare.features.memory.facts.extraction_schedule import EXTRACTION_PAGE, HANDOFF_LOOK_S
from daycare.features.memory.store.records import StoredMemory
from daycare.features.memory.store.rows import MemoryRows
from daycare.testing.clock import VirtualClock
from daycare.testing.crash import Doom, live
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.scripted import Scripted
from tests.chance import sliced

OFFLINE = Config()  # the rules answer and extract, so that nothing but the store decides what is learned
SAID = ("My sister Clara lives in Bern.", "I love green tea.", "My favourite colour is teal.")
LATER = ("My favourite colour is now purple.", "Remember that my locker code is 4711.")
HOUR_S = 3_600.0
SOON = Config(memory=MemorySection(ingestion=IngestionSection(idle_minutes=1)))
QUIET_S = 500.0  # until workers have looked at what was said, with these settings


async def memories(house: TestDaemon, tier: Tier) -> list[StoredMemory]:
    found = await house.store.of(MemoryRows).find("ann", tier, living=False, limit=1_000)
    return sorted(found, key=lambda memory: memory.no)


async def test_both_sides_of_a_turn_are_logged_with_time_speaker_and_source(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with open_daemon(tmp_path, config=OFFLINE) as house:
        await house.talk(SAID[1])
        await trio.sleep(5)
        asked, answered = await memories(house, Tier.LOG)
    assert (asked.speaker, asked.role, asked.text) == ("Ann", "user", SAID[1])
    assert (answered.role, answered.text) == ("assistant", "Noted: you love green tea.")
    assert asked.turn == answered.turn > 0
    assert asked.path == answered.path == "/ann/direct"
    assert asked.at_ms <= answered.at_ms


async def test_what_the_daemon_says_by_itself_is_not_logged_as_a_persons_words(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with open_daemon(tmp_path, config=OFFLINE) as house:
        await house.talk("remind me in 10 minutes to water the garden")
        await trio.sleep(HOUR_S)
        logged = await memories(house, Tier.LOG)
    assert [entry.text for entry in logged if entry.role == "user"] == ["remind me in 10 minutes to water the garden"]


async def test_a_quiet_conversation_is_looked_at_once_and_its_worker_is_no_source(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with open_daemon(tmp_path, config=OFFLINE, curates=True) as house:
        for text in SAID:
            await house.talk(text)
        assert await memories(house, Tier.FACT) == [], "the conversation goes on"
        await trio.sleep(3 * HOUR_S)
        facts = {memory.text for memory in await memories(house, Tier.FACT)}
        [learned] = house.events("memory.learned")
        worker = await house.daemon.directory.at("/ann/direct/memory")
        logged = {memory.agent_id for memory in await memories(house, Tier.LOG)}
    assert {"Ann's sister Clara lives in Bern", "Ann loves green tea"} <= facts
    assert learned["by"] == "rules"
    assert worker.kind == Kind.MEMORY
    assert worker.id not in logged


async def test_a_newer_fact_supersedes_and_the_older_one_is_kept(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, config=OFFLINE, curates=True) as house:
        await house.talk(SAID[2])
        await trio.sleep(HOUR_S)
        await house.talk(LATER[0])
        await trio.sleep(HOUR_S)
        old, new = [memory for memory in await memories(house, Tier.FACT) if "colour" in memory.text]
    assert old.fact is not None
    assert new.fact is not None
    assert (old.fact.value, new.fact.value) == ("teal", "purple")
    assert old.fact.superseded_by == new.no
    assert old.fact.valid_until_ms == new.at_ms
    assert new.fact.valid_until_ms is None


@pytest.mark.parametrize("why", ["many turns", "a new conversation"])
async def test_a_worker_is_woken_before_the_conversation_is_quiet(
    why: str, tmp_path: Path, autojump_clock: object
) -> None:
    ingestion = IngestionSection(every_turns=2, idle_minutes=600)
    config = Config(memory=MemorySection(ingestion=ingestion))
    async with open_daemon(tmp_path, config=config, curates=True) as house:
        await house.talk(SAID[1])
        await trio.sleep(60)
        assert house.events("memory.learned") == []
        await house.talk(SAID[0] if why == "many turns" else "/new")
        await trio.sleep(60)
        assert len(house.events("memory.learned")) == 1


async def test_without_background_only_process_wakes_workers(tmp_path: Path, autojump_clock: object) -> None:
    clock = VirtualClock()
    async with open_daemon(tmp_path, config=OFFLINE, clock=clock) as house:
        await house.talk(SAID[1])
        await trio.sleep(5)
        clock.shift(28 * HOUR_S)
        await trio.sleep(2 * HOUR_S)
        assert await memories(house, Tier.FACT) == []
        assert await house.daemon.memory.controls.process() == 1
        await trio.sleep(60)
        assert [memory.text for memory in await memories(house, Tier.FACT)] == ["Ann loves green tea"]
        assert await house.daemon.memory.controls.process() == 0


async def test_a_conversation_that_ended_is_curated_however_many_others_go_on(
    tmp_path: Path, autojump_clock: object
) -> None:
    config = Config(memory=MemorySection(ingestion=IngestionSection(idle_minutes=600)))
    async with open_daemon(tmp_path, config=config, curates=True) as house:
        agents = [await house.agent(f"/ann/agent/n{number}") for number in range(EXTRACTION_PAGE + 1)]
        for agent in agents:
            await house.talk(SAID[1], path=agent.path)
        await trio.sleep(5)  # until all is in the log
        last = max(agents, key=lambda agent: agent.id)
        await house.talk("/new", path=last.path)
        await trio.sleep(60)
        assert [fact.agent_id for fact in await memories(house, Tier.FACT)] == [last.id]
        assert await house.daemon.memory.controls.process() == EXTRACTION_PAGE
        await trio.sleep(60)
        assert len(house.events("memory.learned")) == EXTRACTION_PAGE + 1


async def test_looks_that_come_often_hand_off_once_in_a_while(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, config=OFFLINE, location="daycare.db") as house:
        await house.talk(SAID[1])
        await trio.sleep(5)
    clock = VirtualClock()
    async with open_daemon(tmp_path, config=OFFLINE, location="daycare.db", clock=clock, work=False) as house:
        clock.shift(28 * HOUR_S)
        look = house.daemon.memory.extraction_schedule.look
        assert [await look() for _ in range(9)] == [1, *[0] * 8]
        posted = house.events("message.accepted")
        assert [event["path"] for event in posted] == ["/ann/direct/memory"]
        clock.shift(HANDOFF_LOOK_S)
        await look()
        assert [event.get("duplicate") for event in house.events("message.accepted")] == [None, True], "it may be gone"


async def test_what_is_curated_expires_and_what_is_not_stays(tmp_path: Path, autojump_clock: object) -> None:
    config = Config(memory=MemorySection(keep_days=2))
    clock = VirtualClock()
    async with open_daemon(tmp_path, config=config, clock=clock) as house:
        await house.talk(SAID[1])
        await trio.sleep(5)
        clock.sleep(3 * 24 * HOUR_S)
        await trio.sleep(2 * HOUR_S)
        assert len(await memories(house, Tier.LOG)) == 2, "nobody has looked at it"
        await house.daemon.memory.controls.process()
        await trio.sleep(2 * HOUR_S)
        assert await memories(house, Tier.LOG) == []
        [fact] = await memories(house, Tier.FACT)
        assert await house.store.of(MemoryRows).turns_of("ann", [fact.no]) == [(fact.agent_id, fact.turn)]


async def story(house: TestDaemon) -> None:
    """Say all of it, as far as it was not said before, and let the workers look."""
    for number, text in enumerate((*SAID, "/new", *LATER)):
        await house.hear(await house.say(text, key=f"story:{number}"))
        if number == len(SAID) - 1:
            await trio.sleep(QUIET_S)
    await trio.sleep(QUIET_S)


async def test_crashes_at_every_commit_lose_nothing_and_learn_nothing_twice(
    tmp_path: Path, autojump_clock: object
) -> None:
    """The n-th life crashes at the n-th commit; then the story is told to its end, with the same keys."""
    whole = Doom()
    (tmp_path / "whole").mkdir()
    await live(tmp_path / "whole", Scripted(), whole, story, config=SOON, clock=VirtualClock(), curates=True)
    assert whole.commits > 20
    for n in sliced(range(1, whole.commits + 1), 10):
        home = tmp_path / str(n)
        home.mkdir()
        for doom in (Doom(n), Doom()):
            await live(home, Scripted(), doom, story, config=SOON, clock=VirtualClock(), curates=True)
        async with open_daemon(home, config=SOON, location="daycare.db", work=False) as house:
            logged = Counter(entry.text for entry in await memories(house, Tier.LOG) if entry.role == "user")
            facts = Counter(fact.text for fact in await memories(house, Tier.FACT))
            waits = await house.store.of(MemoryRows).unextracted(10)
            dead = await house.store.dead.find()
        assert logged == Counter((*SAID, *LATER)), f"crash at commit {n}"
        assert set(facts.values()) == {1}, f"crash at commit {n}: {facts}"
        assert len(facts) == len(SAID) + len(LATER), f"crash at commit {n}: {facts}"
        assert waits == [], f"crash at commit {n}"
        assert dead == [], f"crash at commit {n}"
