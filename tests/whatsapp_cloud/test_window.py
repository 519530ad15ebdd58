"""The 24-hour window: outside of it a template asks for an answer, and the reply waits for that."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import trio

from daycare.store.records import DeadLetter, Reply, User
from daycare.testing.daemon import TestDaemon
from daycare.testing.scripted import say
from daycare_plugins.whatsapp_cloud import connector
from daycare_plugins.whatsapp_cloud.outgoing import DUPLICATE
from daycare_plugins.whatsapp_cloud.testing.server import error, lost
from tests.whatsapp_cloud.houses import ANN, BEN, PATH, Stage, open_stage, until

DAY_S = 86_400.0
HELD_LOOK_S = 0.3
ASKED = "please_write"


@pytest.fixture
async def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Stage, None]:
    monkeypatch.setattr(connector, "HELD_LOOK_S", HELD_LOOK_S)
    async with open_stage(tmp_path) as found:
        yield found


async def greeted(stage: Stage) -> None:
    stage.model.enqueue(say("hello"))
    stage.graph.say(ANN, "hi")
    await stage.sent(1)
    await until(lambda: not stage.graph.queue)


async def remind(house: TestDaemon, text: str) -> None:
    """Let the agent have something to say by itself."""
    agent = await house.daemon.directory.at(PATH)
    await house.store.outbox.add(agent, Reply(connector="whatsapp-cloud", text=text), "trace")


def kinds(stage: Stage) -> list[str]:
    return [message.kind for message in stage.graph.sent(ANN)]


async def dead(house: TestDaemon) -> DeadLetter:
    with trio.fail_after(10):
        while not (found := await house.store.dead.find()):
            await trio.sleep(0.02)
    return found[0]


async def test_within_a_day_replies_go_freely_also_after_a_restart(stage: Stage) -> None:
    async with stage.daemon(template=ASKED):
        await greeted(stage)
    stage.clock.shift(DAY_S - 600)
    async with stage.daemon(template=ASKED) as house:
        await remind(house, "still free")
        await stage.sent(2)
    assert kinds(stage) == ["text", "text"]


@pytest.mark.parametrize("window", ["answer", "status"])
async def test_after_a_day_they_are_asked_once_and_get_the_reply_when_they_answer(stage: Stage, window: str) -> None:
    stage.graph.window = window  # type: ignore[assignment]
    async with stage.daemon(template=ASKED):
        await greeted(stage)
    stage.clock.shift(DAY_S + 1)
    async with stage.daemon(template=ASKED) as house:
        await remind(house, "the first")
        await remind(house, "the second")
        assert (await stage.sent(2)).kind == "template"
    async with stage.daemon(template=ASKED) as house:
        await trio.sleep(0.5)
        assert kinds(stage) == ["text", "template"], "they are not asked again after a restart"
        stage.model.enqueue(say("welcome back"))
        stage.graph.say(ANN, "yes?")
        await stage.sent(5)
    told = [message.text for message in stage.graph.sent(ANN)][2:4]
    # Marked if the first daemon ended before it had noted that Meta refused the reply.
    assert [text.removeprefix(f"{DUPLICATE}\n") for text in told] == ["the first", "the second"]


async def test_a_template_whose_answer_is_lost_is_not_sent_again(stage: Stage) -> None:
    async with stage.daemon(template=ASKED) as house:
        await greeted(stage)
        stage.clock.shift(DAY_S + 1)
        stage.graph.fault("messages", lost(silent=True))
        await remind(house, "the first")
        await stage.sent(2)
        await trio.sleep(4 * HELD_LOOK_S)  # it is looked at again within this time
    assert kinds(stage) == ["text", "template"]


async def test_without_a_template_the_reply_fails_with_a_hint(stage: Stage) -> None:
    async with stage.daemon() as house:
        await greeted(stage)
        stage.clock.shift(DAY_S + 1)
        await remind(house, "too late")
        letter = await dead(house)
    assert letter.code == "WINDOW_CLOSED"
    assert "they wrote more than 24 hours ago" in letter.reason
    assert kinds(stage) == ["text"]


async def test_a_template_that_meta_does_not_know_fails_visibly(stage: Stage) -> None:
    async with stage.daemon(template="no_such_one") as house:
        await greeted(stage)
        stage.clock.shift(DAY_S + 1)
        await remind(house, "too late")
        letter = await dead(house)
    assert letter.code == "TEMPLATE_REFUSED"


async def test_who_does_not_answer_is_not_asked_for_ever(stage: Stage) -> None:
    async with stage.daemon(template=ASKED) as house:
        await greeted(stage)
    for _ in range(3):
        stage.clock.shift(DAY_S + 1)
        async with stage.daemon(template=ASKED) as house:
            count = len(stage.graph.sent(ANN))
            await remind(house, "hello?")
            await stage.sent(count + 1)
    stage.clock.shift(DAY_S + 1)
    async with stage.daemon(template=ASKED) as house:
        await remind(house, "hello?")
        with trio.fail_after(10):
            while not any(letter.code == "UNANSWERED" for letter in await house.store.dead.find()):
                await trio.sleep(0.02)
    assert kinds(stage) == ["text", "template", "template", "template"]


async def test_meta_knows_the_window_better(stage: Stage) -> None:
    async with stage.daemon(template=ASKED) as house:
        await greeted(stage)
        stage.graph.fault("messages", error(131047, 400, "Re-engagement message"))
        await remind(house, "held")
        assert (await stage.sent(2)).kind == "template"
        stage.model.enqueue(say("welcome back"))
        stage.graph.say(ANN, "yes?")
        assert (await stage.sent(3)).text == "held"


async def test_a_refusal_that_comes_as_a_status_closes_the_window_and_is_told(stage: Stage) -> None:
    graph, model = stage.graph, stage.model
    graph.window = "status"
    async with stage.daemon() as house:
        await greeted(stage)
        graph.last_said.clear()  # Meta's clock is another
        await remind(house, "into the void")
        await until(lambda: any(post.body.count(b"131047") for post in graph.posts))
        await remind(house, "not even tried")
        assert (await dead(house)).code == "WINDOW_CLOSED"
        model.enqueue(say("good"))
        graph.say(ANN, "back")
        await stage.sent(2)
    assert "could not deliver it" in str(model.history[-1].messages)
    assert "into the void" in str(model.history[-1].messages)


async def test_a_reply_that_waited_a_day_in_vain_is_a_dead_letter_and_asks_no_more(stage: Stage) -> None:
    async with stage.daemon(template=ASKED) as house:
        await greeted(stage)
        stage.clock.shift(DAY_S + 1)
        await remind(house, "hello?")
        await stage.sent(2)
    stage.clock.shift(DAY_S + 1)
    async with stage.daemon(template=ASKED) as house:
        letter = await dead(house)
    assert (letter.code, kinds(stage)) == ("UNANSWERED", ["text", "template"])
    assert "did not within a day" in letter.reason


async def test_no_more_templates_go_in_a_day_than_are_allowed(stage: Stage) -> None:
    stage.graph.person(BEN, "Ben")
    async with stage.daemon(template=ASKED, templates_per_day=1) as house:
        await greeted(stage)
        await house.store.people.add(User(id="ben", name="Ben", keys=(f"whatsapp-cloud:{BEN}",)))
        stage.model.enqueue(say("hello"))
        stage.graph.say(BEN, "hi")
        await stage.sent(1, BEN)
        stage.clock.shift(DAY_S + 1)
        await remind(house, "hello?")
        await stage.sent(2)
        agent = await house.daemon.directory.at("/ben/whatsapp-cloud")
        seq = await house.store.outbox.add(agent, Reply(connector="whatsapp-cloud", text="and you?"), "trace")
        with trio.fail_after(10):
            while not (row := await house.store.outbox.get(seq)) or not row.error:
                await trio.sleep(0.02)
        assert "as many templates as allowed" in str(row.error)
    assert [message.kind for message in stage.graph.sent(BEN)] == ["text"]
