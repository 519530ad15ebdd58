"""Whose a memory is decides who finds it; and what a person has forgotten nobody finds, not even in the files' bytes.

In CI 1,000 questions; more with QUESTIONS=10000.
"""

import os
import random
from pathlib import Path

import trio

from daycare.base.documents import Attribution
from daycare.base.memories import Tier
from daycare.base.messages import Origin
from daycare.config import Config
from daycare.features.memory.search.queries import MemoryQuery
from daycare.store.records import User
from daycare.testing.daemon import TestDaemon, open_daemon
from tests.chance import SEED

OFFLINE = Config()
WORDS = (
    *("tea", "coffee", "garden", "sister", "Clara", "Bern", "birthday"),
    *("dentist", "Monday", "red", "bicycle", "piano", "Rome", "winter", "recipe"),
)
FORMS = (
    "My sister lives in {}.",
    "I love {}.",
    "Remember that the {} is broken.",
    "I saw {} with {}.",
    "{}, {} and {}",
)
QUESTIONS = int(os.environ.get("QUESTIONS", "1000"))


async def scope_of_each(house: TestDaemon, scope: str, text: str) -> set[str]:
    query = MemoryQuery(scope=scope, text=text, now_ms=house.daemon.clock.now_ms(), tiers=tuple(Tier), limit=50)
    return {hit.memory.scope for hit in await house.daemon.memory.search.find(query)}


async def test_two_people_who_say_the_same_never_find_each_others(tmp_path: Path, autojump_clock: object) -> None:
    print(f"SEED={SEED}")
    chance = random.Random(SEED)
    async with open_daemon(tmp_path, config=OFFLINE) as house:
        await house.store.people.add(User(id="ben", name="Ben", keys=("direct:ben",)), Origin.PERSON)
        for _ in range(12):
            text = chance.choice(FORMS).format(*chance.sample(WORDS, 3))
            for who in ("ann", "ben"):
                await house.talk(text, user=who)
        await trio.sleep(5)
        await house.daemon.memory.controls.process()
        await trio.sleep(60)
        found = 0
        for _ in range(QUESTIONS):
            text = " ".join(chance.sample(WORDS, chance.randint(1, 4)))
            for who in ("ann", "ben"):
                scopes = await scope_of_each(house, who, text)
                found += bool(scopes)
                assert scopes <= {who}
        assert found > QUESTIONS, "most questions find something"


async def test_what_is_forgotten_is_in_no_answer_listing_prompt_or_file(tmp_path: Path, autojump_clock: object) -> None:
    secret = "Zanzibarovna"
    async with open_daemon(tmp_path, config=OFFLINE, location="daycare.db") as house:
        await house.talk(f"Remember that my cat is called {secret}.")
        await house.talk("I love green tea.")
        await trio.sleep(5)
        await house.daemon.memory.controls.process()
        await trio.sleep(60)
        agent = await house.daemon.directory.at("/ann/direct")
        [fact] = await house.daemon.memory.controls.find(agent, Tier.FACT, secret)
        plan = await house.daemon.memory.controls.plan(agent, [str(fact.no)])
        kinds = {each.tier for each in plan.memories}
        assert plan.mentions == (), f"all that says so goes, the answer to it, too: {kinds}"
        shown = await house.talk(f"/memory forget {fact.no}")
        assert secret in shown and "for good" in shown
        assert (await house.talk(f"/memory forget {fact.no} yes")).startswith("Forgotten: ")
        assert await house.daemon.memory.controls.search(agent, secret) == []
        assert "tea" in str(await house.daemon.memory.controls.find(agent, Tier.FACT))
        assert secret not in str([each async for each in house.daemon.memory.controls.export(agent)])
        history = await house.store.turns.history(agent.id, agent.session, 100)
        assert secret not in str(history[:-4]), "what was asked when forgetting is said anew"
        assert secret not in str(house.events("turn.finished")[:2])
        await house.talk("/new")
        assert secret not in await house.talk("What is my cat called?")
        prompts = house.daemon.prompts
        assert secret not in str(await prompts.of(agent, User(id="ann", name="Ann"), 2))


async def test_a_number_names_ones_own_memory_and_nobody_elses(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, config=OFFLINE) as house:
        await house.store.people.add(User(id="ben", name="Ben", keys=("direct:ben",)), Origin.PERSON)
        await house.talk("I love green tea.")
        await trio.sleep(5)
        agent = await house.daemon.directory.at("/ann/direct")
        [said] = [each for each in await house.daemon.memory.controls.search(agent, "tea") if each.speaker == "Ann"]
        refused = await house.talk(f"/memory forget {said.no} yes", user="ben")
        assert "nothing is remembered" in refused, "Ben has a memory of his own, and numbers count within it"
        assert await house.daemon.memory.controls.search(agent, "tea") != []


async def test_what_everybody_reads_is_not_taken_for_ones_own_memory_of_that_number(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with open_daemon(tmp_path, config=OFFLINE) as house:
        await house.talk("I love green tea.")
        agent = await house.daemon.directory.at("/ann/direct")
        by = Attribution(origin=Origin.PERSON, author="direct:ann", approver="direct:ann")
        await house.daemon.memory.documents.write(agent, "global/knowledge/tea.md", "Oolong is half green.\n", by)
        await trio.sleep(5)
        assert "#g1 [" in await house.talk("/memory oolong")
        for text in ("/memory forget g1", "/memory forget #g1 yes"):
            assert "global/knowledge/tea.md, which everybody reads" in await house.talk(text)
        for label in ("999", "g999", "4294967296"):
            assert f"forgetting memory {label}: there is none" in await house.talk(f"/memory forget {label}")
        assert "Say which" in await house.talk("/memory forget tea")
        everything = [each.label async for each in house.daemon.memory.controls.export(agent)]
    assert {"1", "2"} <= {*everything}, "nothing is forgotten"


async def test_the_same_recall_is_the_same_prompt(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, config=OFFLINE) as house:
        for text in ("My sister Clara lives in Bern.", "I love green tea."):
            await house.talk(text)
        await trio.sleep(5)
        await house.talk("/new")
        for _ in range(2):
            await house.talk("Where does my sister Clara live?")
        first, second = (event["numbers"] for event in house.events("memory.recalled")[-2:])
    assert first == second


async def test_a_passage_of_a_document_comes_back_when_it_fits(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, config=OFFLINE) as house:
        agent = await house.agent("/ann/direct")
        by = Attribution(origin=Origin.PERSON, author="direct:ann", approver="direct:ann")
        text = "# Garden\n\nThe tomatoes need water every second evening.\n"
        await house.daemon.memory.documents.write(agent, "knowledge/garden.md", text, by, base_hash="")
        await trio.sleep(5)
        assert "second evening" in await house.talk("How often do the tomatoes need water?")
