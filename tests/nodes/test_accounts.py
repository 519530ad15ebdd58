"""Each account of a messenger is one node's: plugins, previews and roles follow it when it goes to another."""

from pathlib import Path

import trio
import trio.testing

from daycare.actors.linking import Linking
from daycare.base.roles import of_connector
from daycare.connectors.typing_status import TypingStatus
from daycare.observe.bus import Bus
from daycare.plugin import Plugin, PluginContext
from daycare.plugins.running import Running
from daycare.store.share import SHARDS, DividedShare
from daycare.testing.clock import VirtualClock
from daycare.testing.fake_connector import FakeConnector
from tests.connectors.stage import PRIVATE, Stage
from tests.plugins.helpers import admitted

ALL = frozenset(range(SHARDS))


async def test_a_plugin_runs_where_its_accounts_are_and_is_held_elsewhere(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    begun: list[trio.Event] = []

    async def start(context: PluginContext) -> None:
        begun.append(ended := trio.Event())
        try:
            await trio.sleep_forever()
        finally:
            ended.set()

    share = DividedShare("a")
    running = Running([admitted(Plugin(name="pigeon", start=start), tmp_path)], [], Bus(), VirtualClock())
    running.place = lambda plugin, run: share.while_held(of_connector(plugin), run)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(running.run)
        await trio.testing.wait_all_tasks_blocked()
        assert not begun
        for times in (1, 2):
            share.take(ALL, ())
            await trio.testing.wait_all_tasks_blocked()
            [told] = await running.report({})
            assert len(begun) == times and told["state"] == "running"
            await share.drop(ALL)
            [told] = await running.report({})
            assert begun[-1].is_set() and told["state"] == "held", "it has ended before another node begins"
        nursery.cancel_scope.cancel()


async def test_a_plugin_that_crashes_where_its_account_is_starts_again_after_a_pause(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    starts: list[float] = []

    async def start(context: PluginContext) -> None:
        starts.append(trio.current_time())
        raise RuntimeError

    share = DividedShare("a")
    share.take(ALL, ())
    running = Running([admitted(Plugin(name="pigeon", start=start), tmp_path)], [], Bus(), VirtualClock())
    running.place = lambda plugin, run: share.while_held(of_connector(plugin), run)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(running.run)
        await trio.sleep(6)
        nursery.cancel_scope.cancel()
    assert [round(at - starts[0]) for at in starts] == [0, 1, 5]


async def test_a_turn_is_shown_in_a_chat_by_the_node_that_is_connected_and_no_other(
    autojump_clock: trio.testing.MockClock,
) -> None:
    share = DividedShare("a")
    stage = Stage(FakeConnector(PRIVATE), {})
    typing_status = TypingStatus(
        *(stage.bus, {"pigeon": stage.pigeon}, stage.target, stage.remember, stage.recall_all), linking=Linking(share)
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(typing_status.run)
        await trio.testing.wait_all_tasks_blocked()
        stage.start()
        await trio.sleep(5)
        assert not stage.pigeon.shown and not stage.asked
        share.take(ALL, ())
        await trio.testing.wait_all_tasks_blocked()
        stage.start()
        await trio.sleep(5)
        assert stage.pigeon.shown
        await share.drop(ALL)
        shown = len(stage.of("act"))
        await trio.sleep(30)
        assert len(stage.of("act")) == shown, "another node shows it by now"
        nursery.cancel_scope.cancel()


def test_an_account_is_held_by_its_own_role_or_that_of_its_plugin() -> None:
    share = DividedShare("a")
    linking = Linking(share)
    share.take(ALL, ())
    assert linking.has("pigeon")
    linking.role_of = lambda name: "connector:birds"
    share.shards = frozenset({next(iter(ALL))})
    assert linking.has("pigeon") is share.holds("connector:birds") is linking.has("crow")
