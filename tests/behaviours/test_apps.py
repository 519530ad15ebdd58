"""Apps: agents whose turns are a plugin's code."""

from pathlib import Path

import pytest
import trio
import trio.testing

from daycare.base.errors import InvalidError, NotFoundError
from daycare.base.messages import Origin, ToolResult
from daycare.features.memory.store.rows import MemoryRows
from daycare.plugin import Plugin
from daycare.store.records import AgentConfig
from daycare.testing.clock import VirtualClock
from daycare.testing.crash import Doom, live
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.scripted import Scripted, call, echo, say
from daycare_plugins.lists.plugin import plugin as lists
from tests.behaviours.helpers import APP, Breaking, Counting, app, kept, plugin
from tests.chance import commits

Clock = trio.testing.MockClock


async def test_an_app_answers_without_a_model_and_keeps_its_state(tmp_path: Path, autojump_clock: Clock) -> None:
    async with open_daemon(tmp_path, plugins=[plugin(Counting())], location="daycare.db") as house:
        path = await app(house, "counting")
        assert [await house.talk("one", path=path), await house.talk("two", path=path)] == ["1", "2"]
    async with open_daemon(tmp_path, plugins=[plugin(Counting())], location="daycare.db") as house:
        assert await house.talk("three", key="three", path=path) == "3"
        assert house.model.history == [] and await kept(house) == 3


async def test_an_agent_asks_an_app_and_hears_its_answer(tmp_path: Path, autojump_clock: Clock) -> None:
    async with open_daemon(tmp_path, plugins=[plugin(Counting())]) as house:
        path = await app(house, "counting")
        house.model.enqueue(call(("ask", {"to": path, "text": "hello"})), say("it has counted"))
        assert await house.talk("ask it") == "it has counted"
        result = house.model.history[-1].messages[-1].parts[0]
        assert isinstance(result, ToolResult) and result.text == f"{path}: 1"


async def test_an_app_tells_others_and_its_reminders_reach_its_person(tmp_path: Path, autojump_clock: Clock) -> None:
    async with open_daemon(tmp_path, Scripted(default=echo), plugins=[plugin(Counting())]) as house:
        await house.talk("hello")
        path = await app(house, "counting")
        await house.talk("tell /ann/direct", path=path)
        await house.talk("remind", path=path)
        await trio.sleep(120)
        heard = [row.text for row in await house.store.outbox.unread("/ann/direct")]
        assert any("counted 1" in text for text in heard)
        assert any("reminded: it is time" in text for text in heard)


async def test_an_app_writes_to_nobody_who_is_not_its_users(tmp_path: Path, autojump_clock: Clock) -> None:
    async with open_daemon(tmp_path, plugins=[plugin(Counting())]) as house:
        path = await app(house, "counting")
        receipt = await house.say("tell /ben/direct", path=path)
        await trio.sleep(600)
        after = await house.store.inbox.receipt(receipt.seq)
        assert after is not None and after.state == "dead" and await kept(house) is None
        [letter] = await house.store.dead.find()
        assert letter.code == "PERMISSION_DENIED"


async def test_what_is_said_to_an_app_is_no_memory(tmp_path: Path, autojump_clock: Clock) -> None:
    async with open_daemon(tmp_path, plugins=[plugin(Counting())]) as house:
        path = await app(house, "counting")
        await house.talk("my sister is called Clara", path=path)
        await trio.sleep(10)
        agent = await house.store.agents.at(path)
        assert agent is not None
        assert await house.store.of(MemoryRows).entries(agent.id, after=0, through=2**62, max_chars=100) == []


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("raise", "ValueError: out of ideas"),
        ("hang", "no answer within 120 s"),
        ("nonsense", "it gave a int"),
        ("odd state", "leaves in its state: TypeError"),
        ("large state", "bytes of JSON, at most"),
        ("leave", "SystemExit: 3"),
    ],
)
async def test_a_behaviour_that_breaks_is_tried_again_where_that_may_help_and_then_given_up(
    tmp_path: Path, autojump_clock: Clock, how: str, said: str
) -> None:
    async with open_daemon(tmp_path, plugins=[plugin(Breaking(), Counting())]) as house:
        path = await app(house, "breaking")
        other = await app(house, "counting", "/ann/app/other")
        await house.say(how, path=path)
        await trio.sleep(5)
        assert await house.talk("hello", path=other) == "1"  # nobody else notices
        await trio.sleep(1_800)
        failed = house.events("turn.failed")
        tries = 1 if how == "large state" else 5  # the same again would be as large
        assert len(failed) == tries and all(said in str(event["reason"]) for event in failed)
        assert all("breaking of the plugin trial" in str(event["reason"]) for event in failed)
        [letter] = await house.store.dead.find()
        assert said in letter.reason and await kept(house) is None
        [row] = await house.store.outbox.unread(path)
        assert said in row.text


async def test_messages_to_an_app_wait_for_its_plugin(tmp_path: Path, autojump_clock: Clock) -> None:
    clock = VirtualClock()
    async with open_daemon(tmp_path, plugins=[plugin(Counting())], location="daycare.db", clock=clock) as house:
        await house.talk("hello")
        await app(house, "counting")
    async with open_daemon(tmp_path, location="daycare.db", clock=clock) as house:
        await house.say("are you there?", key="there", path=APP)
        await trio.sleep(3_600)
        reasons = {str(event["reason"]) for event in house.events("turn.failed")}
        what = "it is made by the behaviour counting of the plugin trial, which is not installed or was left out"
        assert reasons == {f"{APP} cannot work: {what}"} and await house.store.dead.find() == []
        told = [row.text for row in await house.store.outbox.unread("/ann/direct")]
        assert sum("the plugin trial" in text for text in told) == 1
        agent = await house.store.agents.at(APP)
        assert agent is not None
        standing = house.daemon.behaviours.standing(agent)
        assert standing is not None and standing.problem == what
    async with open_daemon(tmp_path, plugins=[plugin(Counting())], location="daycare.db", clock=clock) as house:
        assert await house.talk("are you there?", key="there", path=APP) == "1"


async def test_what_waits_for_a_plugin_that_stays_away_is_given_up_after_a_day(
    tmp_path: Path, autojump_clock: Clock
) -> None:
    clock = VirtualClock()
    async with open_daemon(tmp_path, clock=clock) as house:
        await house.agent(APP, AgentConfig(behaviour="gone/away"))
        await house.say("are you there?", path=APP)
        await trio.sleep(3_600)
        assert await house.store.dead.find() == []
        clock.sleep(86_400)
        await trio.sleep(3_600)
        [letter] = await house.store.dead.find()
        assert letter.code == "BEHAVIOUR_AWAY" and "the behaviour away of the plugin gone" in letter.reason


async def _tells(house: TestDaemon) -> None:
    await house.talk("hello", key="hello")
    if await house.store.agents.at(APP) is None:
        await app(house, "counting")
    await house.talk("tell /ann/direct", key="tell", path=APP)
    await house.talk("remind", key="remind", path=APP)
    await trio.sleep(300)


async def test_a_crash_at_any_commit_neither_loses_nor_doubles_what_an_app_does(
    tmp_path_factory: pytest.TempPathFactory, autojump_clock: Clock
) -> None:
    for n in commits(4):
        folder = tmp_path_factory.mktemp("home")
        model, counting = Scripted(default=echo), Counting()
        struck = await live(folder, model, Doom(n), _tells, plugins=[plugin(counting)])
        if struck:
            await live(folder, model, Doom(), _tells, plugins=[plugin(counting)])
        async with open_daemon(folder, model, location="daycare.db", work=False) as house:
            assert await kept(house) == 2, n
            said = [row.text for row in await house.store.outbox.unread(APP)]
            assert (said.count("1"), said.count("2")) == (1, 1), (n, said)
            heard = [row.text for row in await house.store.outbox.unread("/ann/direct")]
            assert sum("counted 1" in text for text in heard) == 1, (n, heard)
            assert sum("reminded: it is time" in text for text in heard) == 1, (n, heard)
            assert await house.store.dead.find() == []
        if not struck:
            break
    assert n > 8


async def test_a_list_is_kept_and_shown(tmp_path: Path, autojump_clock: Clock) -> None:
    async with open_daemon(tmp_path, plugins=[] if _ships("lists") else [lists]) as house:
        path = "/ann/app/shopping"
        await house.agent(path, AgentConfig(behaviour="lists/list"))
        assert await house.talk("milk, Eggs;milk", path=path) == "On the list: milk, Eggs."
        assert await house.talk("done eggs, tea", path=path) == "Taken off: Eggs. Not on the list: tea."
        assert await house.talk("add bread\n- jam", path=path) == "On the list: bread, jam."
        assert await house.talk("list", path=path) == "- milk\n- bread\n- jam"
        assert await house.talk("clear", path=path) == "Taken off: all 3."
        assert await house.talk("?", path=path) == "The list is empty."


async def test_an_app_is_made_of_a_behaviour_that_there_is(tmp_path: Path, autojump_clock: Clock) -> None:
    async with open_daemon(tmp_path, plugins=[plugin(Counting())]) as house:
        behaviours, parse = house.daemon.behaviours, house.daemon.directory.parse
        made = behaviours.settings(parse(APP), AgentConfig(behaviour="counting"))
        assert (made.behaviour, made.description) == ("trial/counting", "Counts what it is told")
        with pytest.raises(NotFoundError, match=r"there is no behaviour dancing; there are: .*trial/counting"):
            behaviours.settings(parse(APP), AgentConfig(behaviour="dancing"))
        with pytest.raises(InvalidError, match="an app is made of a behaviour"):
            behaviours.settings(parse(APP), AgentConfig())
        with pytest.raises(InvalidError, match="only apps have a behaviour"):
            behaviours.settings(parse("/ann/agent/it"), AgentConfig(behaviour="counting"))


async def test_a_message_of_the_app_itself_has_its_origin(tmp_path: Path, autojump_clock: Clock) -> None:
    seen: list[tuple[str, Origin, str]] = []

    class Noting(Counting):
        async def act(self, context, messages):  # type: ignore[no-untyped-def]
            seen.extend((message.sort, message.origin, message.sender) for message in messages)
            return await super().act(context, messages)

    async with open_daemon(tmp_path, plugins=[plugin(Noting())]) as house:
        path = await app(house, "counting")
        await house.talk("remind", path=path)
        await trio.sleep(100)
    assert seen == [("message", Origin.PERSON, "direct:ann"), ("reminder", Origin.TIMER, path)]


def _ships(name: str) -> bool:
    from daycare.plugins.discovery import discover

    return any(isinstance(each.plugin, Plugin) and each.name == name for each in discover())
