"""Who answers in a conversation: itself, the permanent agent its person chose, or a sub-user's only one."""

from pathlib import Path

import pytest
import trio

from daycare.base.errors import ConflictError, ForbiddenError
from daycare.config import AgentsSection, Config
from daycare.plugin import Inbound
from daycare.store.records import AgentConfig, User
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.fake_connector import FakeConnector, texts
from daycare.testing.scripted import Scripted, call, say
from tests.flow.platform import answered, inbound, people, receive

SCRIBE = "/ann/agent/scribe"


async def talk(house: TestDaemon, key: str, text: str, **more: str) -> str:
    [outcome] = await receive(house, inbound(key, text, **more))
    return await answered(house, outcome)


async def heard(house: TestDaemon, path: str) -> list[str]:
    agent = await house.store.agents.at(path)
    assert agent is not None
    said = await house.store.turns.history(agent.id, agent.session, 100)
    return [message.text for message in said if message.role == "user"]


async def test_use_lets_a_lasting_agent_answer_here_and_default_goes_back(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with open_daemon(tmp_path, plugins=[FakeConnector().plugin()]) as house:
        await people(house)
        await house.agent(SCRIBE)
        await talk(house, "a", "first")
        assert "/use NAME chooses one of: scribe" in await talk(house, "b", "/use")
        assert await talk(house, "c", "/use scribe") == f"{SCRIBE} answers here from your next message on."
        await talk(house, "d", "second")
        assert "Did you mean /use scribe?" in await talk(house, "e", "/use scrib")
        assert await talk(house, "f", "/use default") == "/ann/pigeon answers here from your next message on."
        await talk(house, "g", "third")
        assert await heard(house, "/ann/pigeon") == ["first", "third"]
        assert await heard(house, SCRIBE) == ["second"]


async def test_answer_of_the_chosen_agent_reaches_the_person_where_they_wrote(
    tmp_path: Path, autojump_clock: object
) -> None:
    pigeon = FakeConnector()
    async with open_daemon(tmp_path, plugins=[pigeon.plugin()]) as house:
        await people(house)
        await house.agent(SCRIBE)
        await talk(house, "a", "/use scribe")
        assert await talk(house, "b", "hello") == "echo: hello"
        await trio.sleep(1)
        assert texts(pigeon.arrived)[-1] == "echo: hello"


async def test_reminder_of_the_chosen_agent_reaches_the_person(tmp_path: Path, autojump_clock: object) -> None:
    pigeon = FakeConnector()
    model = Scripted()
    model.enqueue(call(("remind", {"after_s": 60, "text": "stretch"})), say("noted"), say("stretch!"))
    async with open_daemon(tmp_path, model, plugins=[pigeon.plugin()]) as house:
        await people(house)
        await house.agent(SCRIBE)
        await talk(house, "a", "/use scribe")
        await talk(house, "b", "remind me")
        await trio.sleep(120)
        assert texts(pigeon.arrived)[-1] == "stretch!"


async def test_what_agents_tell_a_lasting_agent_is_not_sent_to_the_person(
    tmp_path: Path, autojump_clock: object
) -> None:
    pigeon = FakeConnector()
    model = Scripted()
    model.enqueue(call(("send_message", {"to": SCRIBE, "text": "for you"})), say("sent"), say("between us"))
    async with open_daemon(tmp_path, model, plugins=[pigeon.plugin()]) as house:
        await people(house)
        await house.agent(SCRIBE)
        await talk(house, "a", "tell it")
        await trio.sleep(120)
        assert texts(pigeon.arrived) == ["sent"]


async def test_default_agent_answers_whoever_has_one(tmp_path: Path, autojump_clock: object) -> None:
    config = Config(agents=AgentsSection(default="scribe"))
    async with open_daemon(tmp_path, plugins=[FakeConnector().plugin()], config=config) as house:
        await people(house)
        await talk(house, "a", "nobody of that name yet")
        await house.agent(SCRIBE)
        await talk(house, "b", "now there is")
        assert await heard(house, "/ann/pigeon") == ["nobody of that name yet"]
        assert await heard(house, SCRIBE) == ["now there is"]


# -- sub-users --------------------------------------------------------------------------------------------------------


async def let_mia_in(house: TestDaemon) -> None:
    await house.store.people.add(User(id="mia", name="Mia", parent="ann", keys=("pigeon:mia", "direct:mia")))


async def test_sub_user_has_one_conversation_over_all_accounts_and_is_answered_where_they_wrote(
    tmp_path: Path, autojump_clock: object
) -> None:
    pigeon = FakeConnector()
    async with open_daemon(tmp_path, plugins=[pigeon.plugin()]) as house:
        await people(house)
        await let_mia_in(house)
        assert await talk(house, "a", "over the pigeon", sender="pigeon:mia") == "echo: over the pigeon"
        receipt = await house.daemon.intake.accept(
            Inbound(connector="direct", sender="direct:mia", key="b", text="in a terminal")
        )
        assert receipt.path == "/ann/subuser/mia"
        await house.hear(receipt)
        assert await heard(house, "/ann/subuser/mia") == ["over the pigeon", "in a terminal"]
        await trio.sleep(1)
        assert [(flight.user, flight.target) for flight in pigeon.arrived] == [("mia", "mia")]


async def test_reminder_of_a_sub_user_reaches_them_and_not_their_owner(tmp_path: Path, autojump_clock: object) -> None:
    pigeon = FakeConnector()
    model = Scripted()
    model.enqueue(call(("remind", {"after_s": 60, "text": "stretch"})), say("noted"), say("stretch!"))
    async with open_daemon(tmp_path, model, plugins=[pigeon.plugin()]) as house:
        await people(house)
        await let_mia_in(house)
        await talk(house, "a", "remind me", sender="pigeon:mia")
        await trio.sleep(120)
        assert [(flight.target, flight.text) for flight in pigeon.arrived] == [("mia", "noted"), ("mia", "stretch!")]


@pytest.mark.parametrize(
    ("sender", "path"),
    [
        ("pigeon:mia", "/ann/pigeon"),
        ("pigeon:mia", SCRIBE),
        ("pigeon:ann", "/ann/subuser/mia"),
        ("pigeon:ann", "/ann/subuser/mia/sub/0"),
    ],
)
async def test_neither_writes_to_agents_of_the_other(
    tmp_path: Path, autojump_clock: object, sender: str, path: str
) -> None:
    async with open_daemon(tmp_path, plugins=[FakeConnector().plugin()]) as house:
        await people(house)
        await let_mia_in(house)
        await house.agent(SCRIBE)
        with pytest.raises(ForbiddenError, match="belongs to another user"):
            await house.daemon.intake.accept(
                Inbound(connector="pigeon", sender=sender, key="a", text="psst", path=path)
            )


# -- ended, and back --------------------------------------------------------------------------------------------------


async def test_agent_that_ended_lives_again_with_its_history_and_settings(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with open_daemon(tmp_path) as house:
        agent = await house.agent(SCRIBE, AgentConfig(description="writes"))
        await house.talk("remember me", path=SCRIBE)
        await trio.sleep(1_000)
        await house.store.agents.set_state(agent.id, "dead", "ended by the operator")
        again = await house.store.agents.revive(SCRIBE, 0)
        assert (again.id, again.state, again.config.description) == (agent.id, "living", "writes")
        await house.talk("and now?", path=SCRIBE)
        assert await heard(house, SCRIBE) == ["remember me", "and now?"]


async def test_agent_is_not_restored_over_a_living_one_or_too_late(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        agent = await house.agent(SCRIBE)
        with pytest.raises(ConflictError, match="there is one"):
            await house.store.agents.revive(SCRIBE, 0)
        await house.store.agents.set_state(agent.id, "dead", "ended by the operator")
        with pytest.raises(ConflictError, match="too long ago"):
            await house.store.agents.revive(SCRIBE, house.daemon.clock.now_ms() + 1)
