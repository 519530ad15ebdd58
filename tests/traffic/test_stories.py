"""What happened to a message, as stretches of time: who caused what, what it cost, why it failed."""

from pathlib import Path

import pytest
import trio

from daycare.base.errors import BusyError, NotFoundError
from daycare.features.traffic.records import EVERYWHERE, PathScope, TraceStory
from daycare.features.traffic.service import Traffic
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.scripted import Scripted, call, say


def traffic_of(house: TestDaemon) -> Traffic:
    return Traffic(house.store, house.daemon.clock, house.daemon.supervisor.failures.trouble_of)


def outline(story: TraceStory) -> list[str]:
    return [f"{'  ' * span.depth}{span.name}" for span in story.spans]


async def test_a_message_leads_to_its_turn_its_calls_its_helper_and_its_reply(
    tmp_path: Path, autojump_clock: object
) -> None:
    model = Scripted()
    asked = ("spawn", {"task": "count", "prompt": "You count."})
    model.enqueue(1.0, call(("now", {}), asked), 2.0, say("42"), 0.5, say("it is 42"))
    async with open_daemon(tmp_path, model) as house:
        receipt = await house.say("how many?")
        assert await house.hear(receipt) == "it is 42"
        traffic = traffic_of(house)
        story = await traffic.story(str(receipt.seq), EVERYWHERE)
        assert story == await traffic.story(receipt.trace, EVERYWHERE)
        assert outline(story) == [
            "message from direct",
            "  turn 1",
            "    scripted/model",
            "    now",
            "    spawn",
            "    message from /ann/direct",
            "      turn 2",
            "        scripted/model",
            "        message from /ann/direct/sub/0",
            "          turn 3",
            "            scripted/model",
            "            reply over direct",
        ]
        took = [(each.end_ms or 0) - each.start_ms for each in story.spans if each.kind == "model"]
        assert took == [1000, 2000, 500], "each call from the end of what was before it"
        assert (story.input_tokens, story.output_tokens) == (30, 15)
        assert next(each for each in story.spans if each.name == "spawn").end_ms == story.started_at + 3000
        # Of what somebody may not see nothing is told; what it caused stands by itself.
        helper = await traffic.story(receipt.trace, PathScope.of("/ann/direct/sub/0"))
        assert await traffic.search("/ann/direct", EVERYWHERE, 20) != []
        assert await traffic.search("/ann/direct", PathScope.of("/ann/direct/sub/0"), 20) == []
        assert outline(helper)[0] == "message from another agent" and {each.path for each in helper.spans} == {
            "/ann/direct/sub/0"
        }
        with pytest.raises(NotFoundError, match="no message has this number"):
            await traffic.story(receipt.trace, PathScope.of("/bob/**"))


async def test_tries_that_failed_are_told_with_what_the_turn_waits_for(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    broken = BusyError("MODEL_ODD", "asking the model: it makes no sense", hint="ask another")
    model.enqueue(1.0, broken, 2.0, say("hello"), *[broken] * 5)
    async with open_daemon(tmp_path, model) as house:
        first = await house.say("hello")
        await house.hear(first)
        story = await traffic_of(house).story(first.trace, EVERYWHERE)
        took = {each.kind: (each.end_ms or 0) - each.start_ms for each in story.spans}
        assert (took["turn"], took["model"]) == (4000, 2000), "a second, a second until the next try, and its two"
        assert [each.error for each in story.spans if each.kind == "turn"] == [""], "it was answered"
        receipt = await house.say("hello")
        await trio.sleep(10)
        waits = await traffic_of(house).story(receipt.trace, EVERYWHERE)
        turn = next(each for each in waits.spans if each.kind == "turn")
        assert (turn.end_ms, turn.state, turn.error, turn.hint) == (None, "waiting", broken.message, "ask another")
        assert waits.ended_at is None
        await trio.sleep(300)
        ended = await traffic_of(house).story(receipt.trace, EVERYWHERE)
        tries = [(each.name, each.state) for each in ended.spans if each.kind == "failure"]
        assert tries[0] == ("try 1 failed", "next try in 1 s") and tries[-1] == ("try 5 failed", "given up")
        dead = next(each for each in ended.spans if each.kind == "dead")
        assert "MODEL_ODD" in dead.error and dead.hint.startswith("daycare dead show ")
        found = await traffic_of(house).search("makes NO sense", EVERYWHERE, 10)
        assert [each.trace for each in found] == [receipt.trace, first.trace], "the newest first"
