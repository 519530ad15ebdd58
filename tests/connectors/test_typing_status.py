"""Typing: shown from a turn's first moment to its very end, however it ends."""

import itertools

import pytest
import trio
import trio.testing

from daycare.base.events import (
    AgentDied,
)
from daycare.base.limits import (
    TURN_DEADLINE_S,
)
from daycare.connectors.typing_status import TypingStatus
from daycare.testing.fake_connector import FakeConnector
from tests.connectors.stage import PRIVATE, Stage, on_stage


async def test_typing_is_shown_at_once_and_until_the_very_end(autojump_clock: object) -> None:
    async with on_stage() as stage:
        stage.start()
        await trio.sleep(1)
        stage.tool()
        await trio.sleep(300)
        stage.tool_done()
        stage.finish()
        await trio.sleep(60)
        times = stage.times("act")
        assert times[0] == 0.0
        assert times[-1] == pytest.approx(301, abs=4)
        assert {round(later - earlier, 3) for earlier, later in itertools.pairwise(times)} == {4.0}
        assert set(stage.texts("act")) == {"typing"}
        assert stage.asked == [("/ann/pigeon", "ann", "pigeon")]


@pytest.mark.parametrize("ending", ["finished", "stopped", "waiting", "retry", "parked", "died", "forgotten"])
async def test_typing_ends_however_the_turn_ends(ending: str, autojump_clock: object) -> None:
    async with on_stage() as stage:
        stage.start()
        await trio.sleep(6)
        match ending:
            case "finished":
                stage.finish()
            case "stopped":
                stage.finish("", stopped=True)
            case "waiting":
                stage.wait()
            case "retry":
                stage.fail(retry_in_s=4.0)
            case "parked":
                stage.fail()
            case "died":
                stage.publish(AgentDied(at_ms=1, path="/ann/pigeon", user="ann", reason="dismissed"))
        await trio.sleep(2 * TURN_DEADLINE_S)
        assert stage.times("act")[:2] == [0.0, 4.0]
        last = stage.times("act")[-1]
        assert last <= TURN_DEADLINE_S if ending == "forgotten" else last == 4.0


async def test_a_retried_turn_is_shown_again(autojump_clock: object) -> None:
    async with on_stage() as stage:
        stage.start()
        stage.fail(retry_in_s=100)
        await trio.sleep(100)
        stage.start()
        await trio.sleep(1)
        assert stage.times("act")[-1] == 100.0


async def test_the_end_of_another_turn_ends_nothing(autojump_clock: object) -> None:
    async with on_stage() as stage:
        stage.start(turn=8)
        stage.finish("late answer of a turn that was set aside", turn=7)
        stage.write("something else altogether", turn=7)
        await trio.sleep(10)
        assert stage.times("act") == [0.0, 4.0, 8.0]
        assert not stage.of("draft")


async def test_only_agents_of_pushing_connectors_are_shown(autojump_clock: object) -> None:
    async with on_stage() as stage:
        for path in ("/ann/agent/pigeon", "/ann/pigeon/sub/0", "/ann/direct", "/system/pigeon", "/ann/cron/pigeon", ""):
            stage.start(path=path or "/")
        stage.nowhere.add("bob")
        stage.start(user="bob")
        await trio.sleep(10)
        assert not stage.pigeon.shown
        assert stage.asked == [("/bob/pigeon", "bob", "pigeon")]


async def test_nobody_watches_where_no_connector_pushes(autojump_clock: object) -> None:
    puller = FakeConnector(PRIVATE)
    puller.pull = True
    stage = Stage(puller, {})
    typing_status = TypingStatus(stage.bus, {"pigeon": puller}, stage.target, stage.remember, stage.recall_all)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(typing_status.run)
        await trio.sleep(1)
        stage.start()
        await trio.sleep(10)
        assert not stage.asked and not puller.shown
        nursery.cancel_scope.cancel()
