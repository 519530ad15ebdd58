"""A user is removed: everything of theirs and below them ends with it, and nothing of it goes on or comes back."""

from pathlib import Path
from typing import Any

import msgspec
import trio

from daycare.base.messages import Origin
from daycare.base.pairing import code_hash
from daycare.base.tool import STAYS
from daycare.config import Config, ModelsSection, ProviderSection
from daycare.plugin import Inbound, Plugin, StructTool, ToolContext
from daycare.settings import BudgetsSection
from daycare.store.records import AgentConfig, User
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.fake_connector import FakeConnector, texts
from daycare.testing.scripted import Scripted, call, say
from tests.flow.platform import CLUB, answered, in_club, people, receive, states

FIVE_A_DAY = Config(
    models=ModelsSection(default="scripted/model"),
    providers={"scripted": ProviderSection(kind="scripted")},
    budgets=BudgetsSection(group=("5 calls a day",)),
)


class Wait(msgspec.Struct, frozen=True):
    """Wait."""

    seconds: float


async def _wait(_: ToolContext, it: Wait) -> str:
    await trio.sleep(it.seconds)
    return "waited"


WAITING = Plugin(name="waiting", tools=(StructTool("wait", Wait, _wait, idempotent=True, **STAYS),))


def in_topic(key: str, topic: int = 7, text: str | None = None, **more: Any) -> Inbound:
    """Return what somebody wrote in a topic of the club."""
    return in_club(key, text, chat=f"{CLUB}:{topic}", within=CLUB, **more)


async def knows(house: TestDaemon, key: str) -> str:
    """Return the id of the user a key leads to, empty for a stranger's."""
    user = await house.store.people.by_key(key)
    return user.id if user is not None else ""


async def test_topics_of_a_removed_group_are_strangers_and_cost_nothing(tmp_path: Path, autojump_clock: object) -> None:
    pigeon = FakeConnector()
    async with open_daemon(tmp_path, plugins=[pigeon.plugin()], config=FIVE_A_DAY) as house:
        await people(house)
        for n in range(2):
            await answered(house, (await receive(house, in_topic(f"before {n}", n)))[0])
        await house.store.people.remove("club")
        calls = len(house.model.history)
        after = []
        for n in range(30):
            after += await receive(house, in_topic(f"after {n}", n % 2))
            await trio.sleep(5)
        assert len(house.model.history) - calls == 0, "nobody pays for whom nobody lets in"
        assert set(states(after)) == {"stranger"}
        assert "let this group in" in after[0].say and not any(outcome.say for outcome in after[1:])
        assert [user.id for user in await house.store.people.find()] == ["ann"]


async def test_a_running_turn_of_a_removed_user_ends_without_another_call(
    tmp_path: Path, autojump_clock: object
) -> None:
    """Not the one in the group, not the one in a topic, not a helper's; whether the model or a tool is at work."""
    pigeon = FakeConnector()
    async with open_daemon(tmp_path, plugins=[pigeon.plugin(), WAITING]) as house:
        await people(house)
        house.model.enqueue(call(("wait", {"seconds": 30})), 30.0, call(("note", {"word": "tea"})))
        [group] = await receive(house, in_club("g", "go"))
        await trio.sleep(1)
        [topic] = await receive(house, in_topic("t", 7, "go"))
        await trio.sleep(1)
        assert len(house.model.history) == 2
        await house.store.people.remove("club")
        await trio.sleep(3_600)
        assert (len(house.model.history), pigeon.flights) == (2, [])
        assert house.daemon.supervisor.awake == {} and house.events("lane.broke") == []
        for outcome in (group, topic):
            receipt = await house.store.inbox.receipt(outcome.seq)
            assert receipt is not None and receipt.state == "dead"
        letters = await house.store.dead.find()
        assert [(letter.code, letter.reason) for letter in letters] == [("AGENT_DEAD", "its user was removed")] * 2
        ended = [event for event in house.events("turn.finished") if event["user"] != "system"]
        assert [event["stopped"] for event in ended] == [True, True], "nobody is shown as typing any more"
        assert await house.store.agents.count() == {"dead": 2}


async def test_what_a_removed_user_was_to_hear_or_do_later_never_happens(
    tmp_path: Path, autojump_clock: object
) -> None:
    pigeon = FakeConnector()
    async with open_daemon(tmp_path, plugins=[pigeon.plugin()]) as house:
        await people(house)
        house.model.enqueue(call(("remind", {"after_s": 600, "text": "tea"})), say("I will"))
        await answered(house, (await receive(house, in_topic("t", 7, "remind us")))[0])
        await trio.sleep(1)
        heard = texts(pigeon.arrived)
        calls = len(house.model.history)
        pigeon.slow["-42:7"] = 5.0
        house.model.enqueue(say("one"))
        await answered(house, (await receive(house, in_topic("u", 7, "count")))[0])
        pigeon.enqueue(*[0.0] * 9)
        await house.store.people.remove("club")
        await trio.sleep(10_800)
        assert len(house.model.history) == calls + 1
        assert len(texts(pigeon.arrived)) <= len(heard) + 1, "at most what was in the air already"
        assert await house.store.timers.find() == []


async def test_a_message_that_comes_in_the_same_moment_is_a_strangers(tmp_path: Path, autojump_clock: object) -> None:
    """It was judged when its group was known, and is committed when it no longer is."""
    async with open_daemon(tmp_path, plugins=[FakeConnector().plugin()]) as house:
        await people(house)
        [first] = await receive(house, in_club("a", "hello"))
        await answered(house, first)
        await trio.sleep(1)
        take = house.store.intake.take

        async def remove_first(*args: Any) -> Any:
            await house.store.people.remove("club")
            return await take(*args)

        house.store.intake.take = remove_first  # type: ignore[method-assign, assignment]
        late = await receive(house, in_club("b", "again"), in_topic("c", 7), in_topic("d", 8))
        assert [(outcome.state, outcome.say) for outcome in late] == [("stranger", "")] * 3
        await trio.sleep(60)
        assert len(house.model.history) == 1
        assert await house.store.dead.find() == []
        assert await house.store.agents.count() == {"dead": 1}
        assert [user.id for user in await house.store.people.find()] == ["ann"]


async def test_who_is_let_in_again_starts_afresh(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, plugins=[FakeConnector().plugin()]) as house:
        await people(house)
        for item in (in_club("a", "our secret is tea"), in_topic("b", 7, "mine is coffee")):
            await answered(house, (await receive(house, item))[0])
        await house.store.people.remove("club")
        [knock] = await receive(house, in_topic("c", 7))
        code = code_hash(knock.say.rpartition("approve ")[2])
        await house.store.strangers.approve(code, User(id="club", name="The club"), Origin.GROUP)
        house.model.history.clear()
        for item in (in_club("d", "hello"), in_topic("e", 7, "hi")):
            await answered(house, (await receive(house, item))[0])
        assert [await knows(house, key) for key in (CLUB, f"{CLUB}:7")] == ["club", "club-t7"]
        words = " ".join(message.text for request in house.model.history for message in request.messages)
        assert "tea" not in words and "coffee" not in words


async def test_an_agent_of_a_removed_user_is_not_brought_back(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, plugins=[FakeConnector().plugin()]) as house:
        await people(house)
        await house.agent("/club/agent/scribe", AgentConfig(heartbeat_s=3_600))
        await house.store.people.remove("club")
        refused = []
        for attempt in (
            lambda: house.store.agents.revive("/club/agent/scribe", 0),
            lambda: house.agent("/club/agent/other"),
            lambda: house.say("hello", path="/club/agent/scribe", user="club"),
        ):
            try:
                await attempt()
            except Exception as error:  # noqa: BLE001 - which one is what the test is about
                refused.append(getattr(error, "code", repr(error)))
        assert refused == ["USER_REMOVED", "USER_REMOVED", "STRANGER"]
        await trio.sleep(3 * 3_600)  # its heart would beat each hour
        assert house.model.history == []


async def test_an_agent_that_asked_one_of_a_removed_sub_user_gets_an_answer(
    tmp_path: Path, autojump_clock: object
) -> None:
    """Its turn waits for one."""
    model = Scripted()
    async with open_daemon(tmp_path, model) as house:
        await house.store.people.add(User(id="mia", name="Mia", parent="ann", keys=("direct:mia",)))
        await house.agent("/ann/subuser/mia")
        model.enqueue(call(("ask", {"to": "/ann/subuser/mia", "text": "well?"})), 600.0, say("I see"))
        question = await house.say("ask mia")
        await trio.sleep(5)
        await house.store.people.remove("mia")
        assert await house.hear(question, 60.0) == "I see"
        assert "no answer: its user was removed" in str(model.history[-1].messages[-1])
        assert len(model.history) == 3
