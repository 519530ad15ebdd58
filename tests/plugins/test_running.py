"""Plugins live, crash, hang and leak apart from each other. All time is virtual."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

from daycare.base.errors import BusyError, ConflictError, ForbiddenError
from daycare.observe.bus import Bus
from daycare.plugin import Inbound, Plugin, PluginContext
from daycare.plugins.context import PLUGIN_TASKS_MAX, HostContext
from daycare.plugins.running import PLUGIN_STOP_S, Running
from daycare.testing.clock import VirtualClock
from tests.plugins.helpers import admitted, events, stubborn, surroundings


@asynccontextmanager
async def running(folder: Path, *plugins: Plugin) -> AsyncIterator[tuple[Running, Bus]]:
    bus = Bus()
    made = Running([admitted(plugin, folder) for plugin in plugins], [], bus, VirtualClock())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(made.run)
        await trio.testing.wait_all_tasks_blocked()
        yield made, bus
        nursery.cancel_scope.cancel()


async def _hangs(context: PluginContext) -> None:
    await trio.sleep_forever()


async def _crashes(context: PluginContext) -> None:
    raise RuntimeError("the platform said no")


async def _fine(context: PluginContext) -> str:
    return "fine"


async def test_crashing_plugin_starts_anew_with_growing_pauses_and_says_so(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    starts: list[float] = []

    async def start(context: PluginContext) -> None:
        starts.append(trio.current_time())
        await trio.sleep(0)
        raise RuntimeError("the platform said no")

    async with running(tmp_path, Plugin(name="shaky", start=start)) as (_, bus):
        await trio.sleep(2_000)
    gaps = [round(after - before) for before, after in zip(starts, starts[1:], strict=False)]  # noqa: RUF007
    assert gaps[:7] == [1, 4, 16, 64, 256, 300, 300]
    names = [event["event"] for event in events(bus)]
    assert names[:4] == ["plugin.failed", "plugin.started"] * 2
    first = events(bus)[0]
    assert (first["plugin"], first["part"], first["retry_in_s"]) == ("shaky", "start", 1.0)
    assert "the platform said no" in first["reason"]


async def test_plugin_that_ran_for_long_begins_its_pauses_anew(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    starts: list[float] = []

    async def start(context: PluginContext) -> None:
        starts.append(trio.current_time())
        if len(starts) == 4:
            await trio.sleep(400)
        raise RuntimeError

    async with running(tmp_path, Plugin(name="shaky", start=start)):
        await trio.sleep(450)
    assert round(starts[4] - starts[3]) == 401


async def test_one_that_hangs_crashes_or_exits_keeps_no_other_from_running(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async def exits(context: PluginContext) -> None:
        raise SystemExit(9)

    bad = [
        Plugin(name="hangs", start=_hangs),
        Plugin(name="crashes", start=_crashes),
        Plugin(name="exits", start=exits),
    ]
    async with running(tmp_path, *bad, Plugin(name="good", start=_hangs, health=_fine)) as (made, _):
        told = {each["name"]: each for each in await made.report({})}
        assert told["good"]["state"] == "running" and told["good"]["health"] == "fine"
        assert told["crashes"]["state"] == "failed" and "the platform said no" in told["crashes"]["problem"]
        assert told["exits"]["state"] == "failed" and "SystemExit" in told["exits"]["problem"]
        assert told["hangs"]["state"] == "running"


@pytest.mark.parametrize("how", ["raises", "hangs", "deaf"])
async def test_bad_health_is_told_in_time(how: str, tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    async def health(context: PluginContext) -> str:
        if how == "raises":
            raise ValueError("no network")
        await (trio.sleep_forever() if how == "hangs" else stubborn())
        return ""

    async with running(tmp_path, Plugin(name="sick", health=health)) as (made, _):
        began = trio.current_time()
        (told,) = await made.report({})
        assert trio.current_time() - began <= 5.0
    assert told["health"].startswith("unhealthy: ")
    assert told["state"] == "running"


async def test_tasks_of_a_plugin_end_with_it_and_restart_with_it(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    alive = 0
    most = 0

    async def task() -> None:
        nonlocal alive, most
        alive += 1
        most = max(most, alive)
        try:
            await trio.sleep_forever()
        finally:
            alive -= 1

    async def start(context: PluginContext) -> None:
        for _ in range(10):
            context.start_soon(task)
        await trio.sleep(1)
        raise RuntimeError

    async with running(tmp_path, Plugin(name="leaky", start=start)) as (made, _):
        await trio.sleep(10)
        assert most == 10
        await made.stop()
        assert alive == 0


async def test_leak_of_tasks_is_refused_at_its_bound(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    refused: list[BusyError] = []

    async def start(context: PluginContext) -> None:
        try:
            while True:
                context.start_soon(trio.sleep_forever)
        except BusyError as error:
            refused.append(error)

    async with running(tmp_path, Plugin(name="leaky", start=start)):
        assert len(refused) == 1 and str(PLUGIN_TASKS_MAX) in refused[0].message


async def test_task_that_raises_restarts_its_plugin_alone(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async def breaks() -> None:
        raise KeyError("gone")

    async def start(context: PluginContext) -> None:
        context.start_soon(breaks)

    async with running(tmp_path, Plugin(name="one", start=start), Plugin(name="two", start=_hangs)) as (made, _):
        await trio.sleep(0.5)
        assert [each["state"] for each in await made.report({})] == ["failed", "running"]


async def test_stop_lets_a_plugin_say_goodbye(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    said = []

    async def start(context: PluginContext) -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.move_on_after(2, shield=True):
                await trio.sleep(1)
                said.append("goodbye")

    async with running(tmp_path, Plugin(name="polite", start=start)) as (made, _):
        assert await made.stop() == []
        assert said == ["goodbye"]


async def test_stop_names_who_does_not_go_and_waits_no_longer(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async def start(context: PluginContext) -> None:
        await stubborn()

    async with running(tmp_path, Plugin(name="deaf", start=start), Plugin(name="good", start=_hangs)) as (made, bus):
        began = trio.current_time()
        assert await made.stop() == ["deaf"]
        assert trio.current_time() - began <= PLUGIN_STOP_S
        assert [(event["plugin"], event["part"]) for event in events(bus)] == [("deaf", "stop")]


async def test_plugin_that_crashes_while_it_is_cancelled_disturbs_nobody(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async def start(context: PluginContext) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            try:
                await trio.sleep_forever()
            finally:
                raise RuntimeError("cleaning up failed")

    async with running(tmp_path, Plugin(name="messy", start=start)) as (made, _):
        assert await made.stop() == []


# -- contexts ----------------------------------------------------------------------------------------------------------


def test_secrets_of_others_are_refused(tmp_path: Path) -> None:
    context = HostContext("open", None, surroundings(tmp_path, {"open": "a", "open.more": "b", "openai": "c"}))
    assert (context.secret("open"), context.secret("open.more"), context.secret("open.none")) == ("a", "b", None)
    for foreign in ("openai", "telegram", "", "open-ai"):
        with pytest.raises(ForbiddenError):
            context.secret(foreign)


async def test_secret_is_read_in_the_daemons_own_thread_only(tmp_path: Path) -> None:
    context = HostContext("mine", None, surroundings(tmp_path, {"mine": "a"}))
    with pytest.raises(ConflictError, match="thread"):
        await trio.to_thread.run_sync(context.secret, "mine")
    assert await trio.to_thread.run_sync(trio.from_thread.run_sync, context.secret, "mine") == "a"


def test_folder_is_made_when_asked_for_and_private(tmp_path: Path) -> None:
    context = HostContext("mine", None, surroundings(tmp_path / "plugins"))
    assert not (tmp_path / "plugins").exists()
    assert context.data == tmp_path / "plugins" / "mine"
    assert context.data.stat().st_mode & 0o777 == 0o700


async def test_messages_are_accepted_over_own_connectors_only(tmp_path: Path) -> None:
    context = HostContext("pigeon", None, surroundings(tmp_path))
    context.connectors = frozenset({"pigeon"})
    assert await context.accept(Inbound(connector="pigeon", sender="pigeon:7", key="1", text="coo")) == 7
    for connector, sender in (("direct", "direct:ann"), ("pigeon", "direct:ann")):
        with pytest.raises(ForbiddenError):
            await context.accept(Inbound(connector=connector, sender=sender, key="1", text="coo"))


def test_tasks_need_a_running_plugin(tmp_path: Path) -> None:
    with pytest.raises(ConflictError, match="does not run"):
        HostContext("mine", None, surroundings(tmp_path)).start_soon(trio.sleep_forever)
