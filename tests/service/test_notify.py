"""The notify protocol and the watchdog, against a socket standing in for systemd's."""

import threading
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest
import trio

from daycare.actors.supervisor import Supervisor
from daycare.base.connector import Health
from daycare.features import open_store
from daycare.ops.notify import ServiceNotify
from daycare.ops.watchdog import WATCHDOG_STALLED_S, Starting, Watchdog
from daycare.store.postgres import engine
from daycare.store.sqlite import watch
from daycare.testing.daemon import open_daemon
from daycare.testing.daemon_process import client_of, status
from daycare.testing.fake_connector import FakeConnector
from tests.crash.process import Home
from tests.service.faults import FAULT
from tests.service.manager import Manager, manager
from tests.telegram.campaign.warm import Kennel


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[Manager]:
    with manager(tmp_path) as found:
        yield found


@pytest.fixture
def home() -> Iterator[Home]:
    made = Home()
    config = made.path / "config.toml"
    text = config.read_text().replace(
        "tests.crash.mind:plugin", 'tests.crash.mind:plugin", "tests.service.faults:plugin'
    )
    config.write_text("[daemon]\nshutdown_grace_s = 0.3\n" + text)
    yield made
    made.remove()


# -- the protocol ----------------------------------------------------------------------------


@pytest.mark.parametrize("abstract", [False, True])
def test_what_is_said_arrives_by_path_and_by_abstract_name(tmp_path: Path, abstract: bool) -> None:
    with manager(tmp_path, abstract=abstract) as systemd:
        notify = ServiceNotify.found(systemd.environment(watchdog_s=6.0))
        assert notify and notify.every_s == 2.0
        notify.ready("two\nlines")
        notify.alive()
        notify.extend(1.5)
        assert systemd.lines() == ["READY=1", "STATUS=two lines", "WATCHDOG=1", "EXTEND_TIMEOUT_USEC=1500000"]
        notify.close()


@pytest.mark.parametrize("address", ["", "vsock:2:1", "relative/path"])
def test_without_a_manager_nothing_is_said_and_nothing_fails(address: str) -> None:
    notify = ServiceNotify.found({"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "1000000"})
    notify.ready("on")
    assert not notify and notify.watchdog_s is None and not notify.send("READY=1")


def test_a_manager_that_is_gone_or_overrun_costs_nothing(tmp_path: Path) -> None:
    with manager(tmp_path) as systemd:
        notify = ServiceNotify.found(systemd.environment())
        assert sum(notify.send("X" * 1000) for _ in range(10_000)) < 10_000, "its buffer is full at some time"
    assert not notify.send("READY=1")
    notify.close()


def test_the_watchdog_of_another_process_is_none_of_ours(systemd: Manager) -> None:
    notify = ServiceNotify.found(systemd.environment(watchdog_s=6.0) | {"WATCHDOG_PID": "1"})
    assert notify.watchdog_s is None
    notify.close()


def test_a_start_that_works_gets_more_time_and_one_that_waits_gets_none(
    systemd: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daycare.ops.watchdog.START_LOOK_S", 0.5)
    notify = ServiceNotify.found(systemd.environment())
    with Starting(notify):
        while "EXTEND_TIMEOUT_USEC=60000000" not in systemd.lines():
            assert sum(range(1_000_000))
    systemd.lines()
    with Starting(notify):
        threading.Event().wait(1.2)
    assert not any("EXTEND" in line for line in systemd.lines())
    notify.close()


# -- a real daemon ----------------------------------------------------------------------------


async def test_a_daemon_is_ready_when_its_api_answers_gives_signs_of_life_and_says_that_it_stops(
    home: Home, kennel: Kennel, systemd: Manager
) -> None:
    process = kennel.start(home, environment=systemd.environment(watchdog_s=1.5))
    try:
        await systemd.hears("READY=1")
        assert (await status(home.socket))["working"]
        await systemd.hears("WATCHDOG=1")
        await systemd.hears("WATCHDOG=1")
        async with client_of(home.socket) as client:
            await client.post("/v1/shutdown", json={"restart": True, "reason": "a test"})
        again = await systemd.hears("READY=1")
        assert again.index("RELOADING=1") < again.index("READY=1"), "a restart is the same process"
        await process.stop()
        assert "STOPPING=1" in systemd.lines()
    finally:
        await process.kill()


async def test_a_loop_that_hangs_gives_no_sign_of_life(home: Home, kennel: Kennel, systemd: Manager) -> None:
    process = kennel.start(home, environment=systemd.environment(watchdog_s=0.6) | {FAULT: "pause"})
    try:
        await systemd.hears("READY=1")
        longest, before = 0.0, trio.current_time()
        with trio.move_on_after(6.0):
            while True:
                await systemd.hears("WATCHDOG=1")
                longest, before = max(longest, trio.current_time() - before), trio.current_time()
        assert 2.0 < longest < 5.0, "it hung for three seconds, and went on"
    finally:
        await process.kill()


# -- what stands still, on virtual time ------------------------------------------------------------------------------


async def _signs(systemd: Manager, seconds: float) -> list[str]:
    systemd.lines()
    found: list[str] = []
    for _ in range(round(seconds)):  # a socket holds some ten datagrams
        await trio.sleep(1.0)
        found += systemd.lines()
    return found


@pytest.fixture
def hasty_clock() -> trio.testing.MockClock:
    """Virtual time that passes while a thread works: here one stands still for minutes of it."""
    return trio.testing.MockClock(autojump_threshold=0)


async def test_a_writer_that_stands_still_stops_the_signs_and_one_that_goes_on_brings_them_back(
    tmp_path: Path, systemd: Manager, hasty_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (watch, engine):
        monkeypatch.setattr(module, "LOOK_S", 1e9)  # it works in the thread, too, and virtual time would pass meanwhile
    notify = ServiceNotify.found(systemd.environment(watchdog_s=30.0))
    stuck = threading.Event()
    async with open_store(str(tmp_path / "d.db")) as store, trio.open_nursery() as nursery:
        nursery.start_soon(Watchdog(notify, {"store": store.pulse}, lambda: "working").run)
        assert (await _signs(systemd, 60.0)).count("WATCHDOG=1") >= 5, "with nothing to write all is well"
        nursery.start_soon(store._writer.write, lambda _: stuck.wait(30.0))
        await _signs(systemd, WATCHDOG_STALLED_S + 20.0)
        quiet = await _signs(systemd, 300.0)
        assert "WATCHDOG=1" not in quiet
        stuck.set()
        while store.pulse() is not None:
            await trio.lowlevel.checkpoint()
        assert "WATCHDOG=1" in await _signs(systemd, 30.0)
        nursery.cancel_scope.cancel()
    notify.close()


async def test_long_work_on_the_whole_file_is_seen_to_get_on(tmp_path: Path) -> None:
    async with open_store(str(tmp_path / "d.db")) as store:
        before = store._writer._beats

        def work(db: apsw.Connection) -> None:
            db.execute(
                "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 500000) SELECT sum(x) FROM n"
            )

        await store._writer.alone(lambda db: work(db))
        assert store._writer._beats - before > 5


async def test_a_sweep_that_stands_still_stops_the_signs(
    tmp_path: Path, systemd: Manager, autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    notify = ServiceNotify.found(systemd.environment(watchdog_s=30.0))

    async def measured(expected: bool) -> None:
        async with open_daemon(tmp_path, location="memory:") as house, trio.open_nursery() as nursery:
            daemon = house.daemon
            nursery.start_soon(Watchdog(notify, {"agents": daemon.standing.pulses["agents"]}, lambda: "").run)
            house.model.enqueue(500.0)  # somebody is awake for long
            await house.say("hello")
            await _signs(systemd, 60.0)
            assert ("WATCHDOG=1" in await _signs(systemd, 60.0)) is expected
            nursery.cancel_scope.cancel()

    await measured(True)
    monkeypatch.setattr(Supervisor, "_sweep", lambda self: trio.sleep_forever())
    await measured(False)
    notify.close()


async def test_a_platform_that_is_away_is_degraded_and_no_reason_to_be_killed(
    tmp_path: Path, systemd: Manager, autojump_clock: object
) -> None:
    notify = ServiceNotify.found(systemd.environment(watchdog_s=30.0))
    async with open_daemon(tmp_path, plugins=[FakeConnector().plugin()]) as house, trio.open_nursery() as nursery:
        daemon = house.daemon
        nursery.start_soon(Watchdog(notify, {"store": daemon.store.pulse}, daemon.standing.line).run)
        assert any(line.startswith("STATUS=working") for line in await _signs(systemd, 20.0))
        daemon.host.report("pigeon", Health(state="away", reason="no wind"))
        heard = await _signs(systemd, 600.0)
        assert "STATUS=degraded: pigeon is away" in heard
        assert heard.count("WATCHDOG=1") >= 59
        nursery.cancel_scope.cancel()
    notify.close()


# -- the end ----------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["block", "stay"])
async def test_a_daemon_that_hangs_leaves_in_time_all_the_same(
    home: Home, kennel: Kennel, systemd: Manager, fault: str
) -> None:
    process = kennel.start(home, environment=systemd.environment() | {FAULT: fault})
    try:
        await systemd.hears("READY=1")
        await trio.sleep(1.3)
        began = trio.current_time()
        await process.stop()
        assert trio.current_time() - began < 3.0, "0.3 s for turns and 1.5 s for all else"
    finally:
        await process.kill()


async def test_a_restart_is_one_also_when_a_plugin_ignores_its_end(
    home: Home, kennel: Kennel, systemd: Manager
) -> None:
    process = kennel.start(home, environment=systemd.environment() | {FAULT: "stay"})
    try:
        await systemd.hears("READY=1")
        first = await status(home.socket)
        async with client_of(home.socket) as client:
            await client.post("/v1/shutdown", json={"restart": True})
        await systemd.hears("READY=1")
        again = await status(home.socket)
        assert (again["pid"], again["started_at"] > first["started_at"]) == (first["pid"], True)
    finally:
        await process.kill()
