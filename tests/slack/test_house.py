"""The whole way through a daemon: from an event in a workspace to the agent and back, also over faults and kills."""

import json
import random
import re
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import trio

from daycare.plugin import Completion, InferRequest
from daycare.testing.daemon import TestDaemon
from daycare.testing.scripted import Scripted, call, say
from daycare_plugins.slack.testing.server import BOT, lost, refused
from tests.slack.houses import ANN, BEN, Stage, health, open_stage, until

DM = "D1ANN"
TEAM = "C1TEAM"


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncGenerator[Stage, None]:
    async with open_stage(tmp_path) as found:
        yield found
        assert not found.slack.links.wrong


async def idle(house: TestDaemon) -> None:
    """Wait until no reply is on its way."""
    with trio.fail_after(10):
        while await house.store.outbox.count():
            await trio.sleep(0.02)


def echo(request: InferRequest) -> Completion:
    """Answer with the numbers of what was said since the last answer."""
    last = max((at for at, each in enumerate(request.messages) if each.role == "assistant"), default=-1)
    said = " ".join(each.text for each in request.messages[last + 1 :])
    return say(f"re {' '.join(re.findall(r'm[0-9]+', said))}")


async def test_a_person_is_answered_and_a_stranger_shown_a_code(stage: Stage) -> None:
    slack, model = stage.slack, stage.model
    async with stage.daemon() as house:
        model.enqueue(say("Hello **Ann** <3 [there](https://a.example/?b=1&c=2)"))
        slack.say(ANN, "hi &amp; bye")
        assert (await stage.sent(1))["text"] == "Hello *Ann* &lt;3 <https://a.example/?b=1&amp;c=2|there>"
        assert model.history[-1].messages[-1].text.endswith("hi & bye")
        await until(lambda: not slack.links.unacknowledged)
        slack.say(BEN, "let me in")
        assert "-" in (await stage.sent(1, BEN))["text"]
        assert len(model.history) == 1
        assert health(house)["state"] == "up"
        assert health(house)["identity"] == "@daycare in Acme"


async def test_nothing_is_acknowledged_before_it_is_committed(stage: Stage) -> None:
    slack = stage.slack
    seen: list[int] = []
    async with stage.daemon() as house:
        await until(lambda: slack.links.count)
        receive = house.daemon.host._receive

        async def slow(*arguments: object) -> object:
            seen.append(len(slack.links.acks))
            found = await receive(*arguments)  # type: ignore[arg-type]
            seen.append(len(slack.links.acks))
            return found

        house.daemon.host._receive = slow  # type: ignore[assignment]
        stage.model.enqueue(say("yes"))
        slack.say(ANN, "are you there?")
        await stage.sent(1)
        await until(lambda: not slack.links.unacknowledged)
    assert seen == [0, 0] and len(slack.links.acks) == 1


async def test_a_mention_is_answered_in_its_thread_which_is_a_conversation_of_its_own(
    stage: Stage,
) -> None:
    slack, model = stage.slack, stage.model
    slack.channel(TEAM, "team")
    async with stage.daemon() as house:
        await house.store.people.link(f"slack:{TEAM}", "ann")
        slack.say(ANN, "not for you", TEAM)
        model.enqueue(say("here"))
        asked = slack.say(ANN, f"<@{BOT}> what is up?", TEAM)
        answer = await stage.sent(1, TEAM)
        assert answer["thread_ts"] == asked["event"]["ts"]
        assert model.history[-1].messages[-1].text.endswith("what is up?")
        model.enqueue(say("and here"))
        slack.say(BEN, f"and <@{BOT}>?", TEAM, thread=asked["event"]["ts"])
        assert (await stage.sent(2, TEAM))["thread_ts"] == asked["event"]["ts"]
        assert "what is up?" in str(model.history[-1].messages), "the thread is one conversation"
    assert len(model.history) == 2


async def test_an_edit_and_a_deletion_of_what_waits_are_heeded(stage: Stage) -> None:
    slack, model = stage.slack, stage.model
    async with stage.daemon():
        model.enqueue(1.0, say("first"))
        slack.say(ANN, "go on")
        await until(lambda: len(model.history) == 1)
        wrong = slack.say(ANN, "the wong word")["event"]["ts"]
        gone = slack.say(ANN, "never mind")["event"]["ts"]
        slack.edit(DM, wrong, "the right word")
        slack.delete(DM, gone)
        await until(lambda: not slack.links.unacknowledged)
        model.enqueue(say("second"))
        await stage.sent(2)
    prompt = str(model.history[-1].messages)
    assert "the right word" in prompt and "wong" not in prompt
    assert "never mind" not in prompt


async def test_an_edit_that_comes_late_does_not_take_back_a_later_one(stage: Stage) -> None:
    slack, model = stage.slack, stage.model
    async with stage.daemon():
        model.enqueue(1.0, say("first"), say("second"))
        slack.say(ANN, "go on")
        await until(lambda: len(model.history) == 1)
        ts = slack.say(ANN, "ochre")["event"]["ts"]
        await until(lambda: not slack.links.unacknowledged)
        slack.links.paused = True
        slack.edit(DM, ts, "cobalt")
        slack.edit(DM, ts, "vermilion")
        slack.links._waiting.reverse()
        slack.links.paused = False
        slack.links.tell()
        await stage.sent(2)
    assert re.findall("ochre|cobalt|vermilion", str(model.history[1].messages)) == ["vermilion"]


async def test_a_lost_answer_is_found_by_its_key_and_nothing_is_said_twice(stage: Stage) -> None:
    async with stage.daemon() as house:
        stage.slack.fault("chat.postMessage", lost())
        stage.model.enqueue(say("only once"))
        stage.slack.say(ANN, "hi")
        await stage.sent(1)
        await idle(house)
    assert stage.texts() == ["only once"]


async def test_files_come_in_and_go_out(stage: Stage) -> None:
    slack, model = stage.slack, stage.model
    async with stage.daemon() as house:
        model.enqueue(call(("send_file", {"name": "plan.md", "text": "# the plan"})), say("here it is"))
        slack.say(ANN, "", files=(slack.file("a.txt", "text/plain", b"four words of text"),))
        await stage.sent(2)
        await idle(house)
    assert "four words of text" in str(model.history[0].messages)
    words, file = slack.sent(ANN)
    assert words["text"] == "here it is"
    assert slack.files[file["files"][0]["id"]].content == b"# the plan"


async def test_a_button_says_what_stands_on_it_once_and_the_buttons_go(stage: Stage) -> None:
    slack, model = stage.slack, stage.model
    async with stage.daemon():
        model.enqueue(call(("offer_choices", {"choices": ["Tea", "Coffee"]})), say("Which?"))
        slack.say(ANN, "I am thirsty")
        message = await stage.sent(1)
        model.enqueue(say("Tea it is"))
        slack.press(ANN, DM, message["ts"], "Tea")
        slack.press(ANN, DM, message["ts"], "Coffee")
        await stage.sent(2)
        await until(lambda: not message["blocks"])
        assert model.history[-1].messages[-1].text.endswith("Tea")
    assert len(model.history) == 3


async def test_a_slash_command_is_one_of_ours(stage: Stage) -> None:
    async with stage.daemon():
        stage.slack.command(ANN, "help")
        assert "/help" in (await stage.sent(1))["text"]
    assert not stage.model.history


async def test_a_thread_shows_a_status_and_a_stream_that_goes_once_the_answer_is_there(stage: Stage) -> None:
    slack, model = stage.slack, stage.model
    async with stage.daemon():
        root = slack.dm(ANN)
        root.messages["1.000001"] = {"user": ANN, "ts": "1.000001", "text": "root"}
        model.enqueue(call(("now", {}), text="Let me see."), 3.0, say("It is so."))
        slack.say(ANN, "why?", thread="1.000001")
        await until(lambda: slack.asked_for("chat.startStream"), 15)
        await until(lambda: "It is so." in stage.texts(), 15)
        await until(lambda: len(slack.sent(ANN)) == 1, 15)
    assert slack.statuses[0] == (DM, "1.000001", "is working on it…")
    assert slack.sent(ANN)[0]["thread_ts"] == "1.000001"


async def test_a_workspace_that_replaces_and_breaks_connections_loses_and_doubles_nothing(stage: Stage) -> None:
    slack = stage.slack
    stage.model = Scripted(echo)
    slack.links.redeliver_s = 0.2
    chance = random.Random(5)
    async with stage.daemon() as house:
        await until(lambda: slack.links.count)
        for number in range(12):
            slack.say(ANN, f"m{number}")
            if number % 4 == 1:
                await slack.links.disconnect()
            if number % 4 == 3:
                await slack.links.drop()
            await trio.sleep(chance.uniform(0.0, 0.2))
        await until(lambda: not slack.links.unacknowledged, 30)
        await until(lambda: "m11" in " ".join(stage.texts()), 30)
        await idle(house)
    said = re.findall(r"m\d+", " ".join(stage.texts()))
    assert sorted(said) == sorted(f"m{number}" for number in range(12)), "seed 5"
    assert slack.links.opened >= 4


async def test_a_refused_token_is_told_and_received_with_once_it_is_good(stage: Stage) -> None:
    async with stage.daemon() as house:
        await until(lambda: health(house)["state"] == "up")
        stage.slack.fault("apps.connections.open", refused("invalid_auth"))
        await stage.slack.links.drop()
        await until(lambda: health(house)["state"] in ("refused", "away"))
        await until(lambda: health(house)["state"] == "refused")
        assert "does not take this token (invalid_auth)" in health(house)["reason"]


async def test_tools_are_there_with_a_token_and_a_person_is_asked_before_one_writes(stage: Stage) -> None:
    slack, model = stage.slack, stage.model
    for number in range(3):
        slack.channel(f"C{number}X", f"room-{number}", private=number == 1)
    slack.list_page = 2
    async with stage.daemon() as house:
        model.enqueue(call(("send_slack_message", {"channel": "#room-0", "text": "**hi** all"})), say("sent"))
        slack.say(ANN, "greet them")
        await until(lambda: any(map(labels, slack.sent(ANN))))  # on a slow machine a line about progress comes before
        ask = next(each for each in slack.sent(ANN) if labels(each))
        assert "#room-0" in ask["text"] and not slack.sent("C0X")
        slack.press(ANN, DM, ask["ts"], next(each for each in labels(ask) if "pprove" in each))
        assert (await stage.sent(1, "C0X"))["text"] == "*hi* all"
        await until(lambda: "sent" in stage.texts())
        model.enqueue(call(("list_slack_channels", {"limit": 3})), say("three"))
        slack.say(ANN, "which channels?")
        await until(lambda: "three" in stage.texts())
        results = (str(each.parts) for request in model.history for each in request.messages if each.role == "tool")
        told = re.findall(r"\[\{.*?\}\]", "".join(results).replace("\\", ""))[-1]
        assert json.loads(told)[1] == {"id": "C1X", "name": "room-1", "is_private": True}
        await idle(house)
        await house.store.secrets.remove("slack")
        model.enqueue(say("gone"))
        assert await house.talk("may you still?") == "gone"
        before, after = ({each.name for each in model.history[at].tools} for at in (0, -1))
        assert before - after >= {"send_slack_message", "list_slack_channels"}


def labels(message: dict[str, Any]) -> list[str]:
    """Return what stands on the buttons of a message."""
    return [each["text"]["text"] for block in message.get("blocks", ()) for each in block.get("elements", ())]
