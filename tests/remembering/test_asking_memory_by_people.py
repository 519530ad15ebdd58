"""A person asks memory; what was forgotten, many questions at once, and no model at all."""

from pathlib import Path

import pytest
import trio
import trio.testing

from daycare.base.causes import AgentQuestion
from daycare.base.clues import SEARCHER
from daycare.base.limits import HELPERS_MAX, SEARCHES_MAX
from daycare.base.memories import Tier
from daycare.base.messages import Envelope, Origin
from daycare.base.path import Kind
from daycare.base.scope import scope_of
from daycare.features.memory.search.lookup import label
from daycare.features.memory.store.rows import MemoryRows
from daycare.store.records import AgentConfig, User
from daycare.testing.clock import VirtualClock
from daycare.testing.daemon import open_daemon
from daycare.testing.scripted import say
from daycare.tools.context import searching
from tests.actors.helpers import history, said_to
from tests.remembering.asking import CLARA, OFFLINE, SEARCH, ask, looking, model, number_of, remembered, results

# -- a person asks -----------------------------------------------------------------------------------------------------


async def test_a_person_is_answered_where_they_asked_and_the_conversation_goes_on(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with open_daemon(tmp_path, model()) as house:
        await house.talk(CLARA)
        await remembered(house)
        no, asked = await number_of(house, CLARA), len(house.model.history)
        answer = await ask(house, "where does Clara live?")
        assert answer.startswith(f"She lives in Bern [{no}].\n\nSources:\n[{no}] log ")
        assert "Looked at" not in answer, "that is for the daemon"
        mine = [each for each in house.model.history[asked:] if not each.system.startswith(SEARCHER)]
        assert mine == [], "no model of the agent's own was asked"
        assert (await history(house))[-4::3] == [("user", "where does Clara live?"), ("assistant", answer)]
        await house.talk("and since when?")
        told = [message.text for message in house.model.history[-1].messages]
        assert answer in told, "the next turn knows of it"


async def test_a_question_to_memory_is_not_remembered_as_something_said(tmp_path: Path, autojump_clock: object) -> None:
    question = "where does my sister Clara live?"
    async with open_daemon(tmp_path, config=OFFLINE) as house:
        await house.talk(CLARA)
        await remembered(house)
        first = await ask(house, question)
        await remembered(house)
        entries = await house.store.of(MemoryRows).find(scope_of("/ann/direct"), Tier.LOG)
        assert question not in [entry.text for entry in entries] and CLARA in [entry.text for entry in entries]
        again = await ask(house, question)
        assert again == first, "the question did not come back as its own answer"


async def test_an_empty_question_is_answered_at_once(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, model()) as house:
        assert (await house.talk("/memory ask")).startswith("Ask something")
        assert (await house.talk("/memory ask " + "x" * 2_001)).endswith("2001 characters, from 1 to 2000")


async def test_two_people_who_ask_the_same_get_each_their_own(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, config=OFFLINE) as house:
        await house.store.people.add(User(id="ben", name="Ben", keys=("direct:ben",)), Origin.PERSON)
        await house.talk(CLARA)
        await house.talk("My sister Clara lives in Rome.", user="ben")
        await remembered(house)
        for user, mine, other in (("ann", "Bern", "Rome"), ("ben", "Rome", "Bern")):
            answer = await ask(house, "where does Clara live?", user=user)
            assert mine in answer and other not in answer, user
        assert {agent.path for agent in await house.store.agents.find(kinds=["search"], include_dead=True)} == {
            SEARCH,
            "/ben/direct/search/0",
        }


async def test_whom_somebody_has_let_in_asks_their_own_memory(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, config=OFFLINE) as house:
        await house.talk(CLARA)
        await remembered(house)
        await house.agent("/ann/app/radio")
        answer = await ask(house, "where does Clara live?", path="/ann/app/radio")
        assert "Bern" not in answer and answer.endswith("Sources: none")


async def test_stop_ends_a_search(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, model()) as house:
        house.model.enqueue(600.0)
        await house.talk("/memory ask where is Clara?")
        await trio.sleep(5)
        assert await house.daemon.directory.find(SEARCH) is not None
        assert await house.talk("/stop") == "Stopped."
        await trio.sleep(60)
        assert await house.daemon.directory.find(SEARCH) is None
        assert (await house.store.inbox.counts())["waiting"] == 0 and await house.store.timers.find() == []
        assert "stopped" in (await history(house))[-1][1]


async def test_a_search_that_fails_or_takes_too_long_is_told_of(
    tmp_path: Path, autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daycare.features.memory.search.searcher.SEARCH_DEADLINE_S", 10.0)
    async with open_daemon(tmp_path, model()) as house:
        house.model.enqueue(60.0)
        await house.talk("/memory ask where is Clara?")
        await trio.sleep(15)
        assert (await said_to(house))[-1] == "no answer came to memory_ask in time; it may still come as a message"
        await trio.sleep(600)
        child = await house.daemon.directory.spawn(
            await house.daemon.directory.at("/ann/direct"), Kind.SEARCH, origin=Origin.AGENT
        )
        house.model.enqueue(60.0)
        await house.talk("/memory ask and now?")
        await trio.sleep(5)
        running = await house.daemon.directory.at("/ann/direct/search/2")
        assert child.path == "/ann/direct/search/1"
        await house.store.agents.set_state(running.id, "dead", "struck by lightning")
        await trio.sleep(5)
        assert (await said_to(house))[-1] == "no answer: struck by lightning"


# -- forgetting --------------------------------------------------------------------------------------------------------


async def test_what_was_looked_up_and_is_forgotten_is_in_no_exchange_and_no_byte_of_the_file(
    tmp_path: Path, autojump_clock: object
) -> None:
    secret = "My cat is called Zanzibarovna."
    search = looking({"query": "cat"}, then=lambda request: say(results(request)[0]))
    async with open_daemon(tmp_path, model(search), location="daycare.db") as house:
        for text in ("I love green tea.", "My bicycle is red.", secret):
            await house.talk(text)
        await remembered(house)
        no = await number_of(house, secret)
        assert "Zanzibarovna" in await ask(house, "what is my cat called?")
        assert "Zanzibarovna" in await house.talk("recall the cat")
        agent = await house.daemon.directory.at("/ann/direct")
        plan = await house.daemon.memory.controls.plan(agent, [str(no)])
        told = [label(each) for each in plan.mentions]
        plan = await house.daemon.memory.controls.plan(agent, [str(no), *told])
        await house.daemon.memory.controls.forget(agent, plan, "direct:ann")
        assert "Zanzibarovna" not in str(await house.store.turns.history(agent.id, agent.session, 200))
        assert "green tea" in str(await house.store.turns.history(agent.id, agent.session, 200))
        assert "Zanzibarovna" not in str(house.events("turn.finished")) + str(house.events("turn.delta"))
        assert "Zanzibarovna" not in str(await said_to(house))
        for file in tmp_path.glob("daycare.db*"):
            assert b"Zanzibarovna" not in file.read_bytes(), file.name


# -- many --------------------------------------------------------------------------------------------------------------


async def test_fifty_searches_at_once_have_fifty_indexes_in_a_row(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, work=False) as house:
        agent = await house.agent("/ann/direct")
        born: list[str] = []

        async def one(number: int) -> None:
            question = Envelope(
                to="",
                user="ann",
                origin=Origin.AGENT,
                sender=agent.path,
                key=f"q{number}",
                text="?",
                trace="t",
                cause=AgentQuestion(f"w{number}", agent.id, 1),
            )
            child = await house.daemon.directory.help(agent, searching("?"), f"w{number}", question, Kind.SEARCH)
            born.append(child.path)

        async with trio.open_nursery() as nursery:
            for number in range(50):
                nursery.start_soon(one, number)
                nursery.start_soon(one, number)  # and each once more, as after a crash
        assert len(born) == 100
        assert sorted(set(born), key=lambda path: int(path.rpartition("/")[2])) == [
            f"/ann/direct/search/{n}" for n in range(50)
        ]


async def test_fifty_questions_at_once_are_all_answered(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, config=OFFLINE) as house:
        await house.talk(CLARA)
        await remembered(house)
        before = len(await said_to(house))
        for number in range(50):
            await house.say(f"/memory ask where does Clara live, {number}?")
        await trio.sleep(120)
        answers = (await said_to(house))[before:]
        assert len(answers) == 50 and all("Bern" in answer for answer in answers)
        searches = await house.store.agents.find(kinds=["search"], include_dead=True, limit=100)
        assert {agent.path for agent in searches} == {f"/ann/direct/search/{n}" for n in range(50)}
        assert {agent.state for agent in searches} == {"dead"}


async def test_searches_at_work_are_bounded_and_take_no_room_from_helpers(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with open_daemon(tmp_path, work=False) as house:
        agent, help_ = await house.agent("/ann/direct"), house.daemon.directory.help

        def task(number: int, kind: Kind) -> Envelope:
            return Envelope(
                to="", user="ann", origin=Origin.AGENT, sender=agent.path, key=f"{kind}{number}", text="?", trace="t"
            )

        for number in range(SEARCHES_MAX):
            await help_(agent, searching("?"), f"s{number}", task(number, Kind.SEARCH), Kind.SEARCH)
        with pytest.raises(Exception, match=f"{SEARCHES_MAX} are at work"):
            await help_(agent, searching("?"), "more", task(99, Kind.SEARCH), Kind.SEARCH)
        for number in range(HELPERS_MAX):
            await help_(agent, AgentConfig(), f"h{number}", task(number, Kind.SUB))


# -- without a model ---------------------------------------------------------------------------------------------------


async def test_without_a_model_the_answer_is_what_was_said_in_the_time_that_the_question_names(
    tmp_path: Path, autojump_clock: object
) -> None:
    calendar = VirtualClock(1_804_075_200_000)  # 2027-03-03
    async with open_daemon(tmp_path, config=OFFLINE, clock=calendar) as house:
        await house.talk("The garden needs a new fence.")
        await remembered(house)
        calendar.shift(40 * 86_400)
        await house.talk("The garden needs water.")
        await remembered(house)
        calendar.shift(50 * 86_400)
        answer = await ask(house, "what did I say about the garden in March?")
        assert "2027-03-03: Ann: The garden needs a new fence. [1]" in answer and "water" not in answer
        assert "\n\nSources:\n[1] log 2027-03-03" in answer
        assert "needs water" in await ask(house, "what did I say about the garden in April?")
        again = await ask(house, "what did I say about the garden in March?")
        assert again == answer, "what was asked is no answer"
        nothing = await ask(house, "what did I say about the garden in February?")
        assert nothing == "Memory has nothing on this that I can find by its words.\n\nSources: none"


async def test_without_a_model_nothing_is_made_up(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, config=OFFLINE) as house:
        await house.talk(CLARA)
        await remembered(house)
        for question in ("what is the boiling point of helium?", "xyzzy", "?", "[1] [2]", "in March"):
            assert (await ask(house, question)).endswith("Sources: none"), question
        facts = await house.daemon.memory.controls.find(await house.daemon.directory.at("/ann/direct"), Tier.FACT)
        assert facts != []
