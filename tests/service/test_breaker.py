"""Crash upon crash: connectors stay down for a while, and nothing else does."""

import json
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio

from daycare.base.clock import SystemClock
from daycare.base.limits import HOLD_S, UNCLEAN_STARTS_MAX
from daycare.ops.crash_breaker import HOLD_TRY_S, CrashBreaker
from daycare.ops.crash_log import UNCLEAN_WITHIN_S, CrashLog, CrashRecord, CrashVerdict
from daycare.ops.daemon_lifecycle import CLOSE_MAX_S, DaemonLifecycle
from daycare.ops.shutdown import ShutdownGuard
from daycare.ops.stop import ending
from daycare.store.home import Home as StoredHome
from daycare.store.records import Reply
from daycare.testing.clock import VirtualClock
from daycare.testing.daemon import OWNER, TestDaemon, open_daemon
from daycare.testing.daemon_process import status
from daycare.testing.fake_connector import NAME, FakeConnector
from tests.crash.process import Home
from tests.service.faults import FAULT
from tests.telegram.campaign.warm import Kennel

NESTLING = "nestling"  # a second connector


class Nestling(FakeConnector):
    name = NESTLING


# -- what is remembered of starts --------------------------------------------------------------------------------------


def _starts(folder: Path) -> CrashLog:
    return CrashLog(folder / "starts.json", VirtualClock())


async def test_three_starts_after_crashes_within_five_minutes_open_it(tmp_path: Path, autojump_clock: object) -> None:
    clock = VirtualClock()

    def start() -> CrashVerdict:
        return CrashLog(tmp_path / "starts.json", clock).begin()

    assert start() == CrashVerdict(), "the first start of a home follows nothing"
    for number in range(1, UNCLEAN_STARTS_MAX):
        assert start() == CrashVerdict(unclean=number)
    found = start()
    assert (found.all, found.reason) == (True, "3 unclean starts within 5 minutes")
    await trio.sleep(UNCLEAN_WITHIN_S + 1)
    assert not start().all, "that was long ago"


async def test_slow_crashes_and_orderly_ends_do_not_open_it(tmp_path: Path, autojump_clock: object) -> None:
    clock = VirtualClock()
    for _ in range(10):
        assert not CrashLog(tmp_path / "starts.json", clock).begin().all
        await trio.sleep(UNCLEAN_WITHIN_S / 2 + 1)
    for _ in range(10):
        starts = CrashLog(tmp_path / "starts.json", clock)
        assert not starts.begin().all
        starts.end()


async def test_the_record_is_on_disk_before_the_run_and_survives_being_cut_off(
    tmp_path: Path, autojump_clock: object
) -> None:
    starts = _starts(tmp_path)
    starts.begin()
    file = tmp_path / "starts.json"
    assert json.loads(file.read_bytes())["running_since"] == VirtualClock().now_ms()
    assert file.stat().st_mode & 0o777 == 0o600
    file.write_bytes(b'{"running_si')
    assert _starts(tmp_path).begin().unclean == 1, "what nobody can read was not left by an orderly end"


async def test_a_clock_that_is_set_back_opens_nothing(tmp_path: Path, autojump_clock: object) -> None:
    ahead = VirtualClock(VirtualClock().now_ms() + 86_400_000)
    for _ in range(UNCLEAN_STARTS_MAX):
        CrashLog(tmp_path / "starts.json", ahead).begin()
    assert _starts(tmp_path).begin().unclean == 1


async def test_a_disk_that_refuses_costs_the_record_and_no_start(tmp_path: Path, autojump_clock: object) -> None:
    starts = CrashLog(tmp_path / "missing" / "starts.json", VirtualClock())
    assert starts.begin() == CrashVerdict()
    starts.end()


# -- what is kept down, on virtual time --------------------------------------------------------------------------------


@asynccontextmanager
async def _held(
    folder: Path, verdict: CrashVerdict
) -> AsyncIterator[tuple[TestDaemon, CrashBreaker, CrashLog, FakeConnector]]:
    """Open a house with two connectors that starts with a verdict."""
    pigeon, nestling = FakeConnector(), Nestling()
    other = FakeConnector.plugin(nestling)
    plugins = [pigeon.plugin(), type(other)(name=NESTLING, connectors={NESTLING: lambda: nestling})]
    async with open_daemon(folder, plugins=plugins, work=False) as house, trio.open_nursery() as nursery:
        daemon = house.daemon
        starts = CrashLog(folder / "starts.json", daemon.clock)
        starts.begin()
        await daemon.store.people.link(f"{NAME}:1", OWNER)
        holding = CrashBreaker(
            verdict,
            starts,
            daemon.extensions.pushing,
            daemon.connectors,
            daemon.host,
            daemon.clock,
            partial(daemon.notifier.notify, OWNER, topic="breaker"),
        )
        daemon.extensions.hold(holding.plugin)
        daemon.courier.gate = holding.connector
        nursery.start_soon(holding.run)
        nursery.start_soon(daemon.work)
        await trio.testing.wait_all_tasks_blocked()
        yield house, holding, starts, pigeon
        nursery.cancel_scope.cancel()


async def _states(house: TestDaemon) -> dict[str, str]:
    told = (await house.daemon.status())["connectors"]
    return {name: each["state"] for name, each in told.items() if name in (NAME, NESTLING)}


async def test_while_it_is_open_the_house_works_and_replies_wait(tmp_path: Path, autojump_clock: object) -> None:
    async with _held(tmp_path, CrashVerdict(all=True, unclean=3)) as (house, _, _, pigeon):
        assert await _states(house) == {NAME: "held", NESTLING: "held"}
        reason = (await house.daemon.status())["connectors"][NAME]["reason"]
        assert reason.startswith("kept down: 3 unclean starts within 5 minutes; tried again at")
        assert await house.talk("hello"), "who asks past the connectors is answered"
        agent = await house.agent(f"/{OWNER}/{NAME}")
        await house.store.outbox.add(agent, Reply(connector=NAME, text="a letter"), "trace")
        await trio.sleep(HOLD_S - 10)
        assert not pigeon.flights
        await trio.sleep(10 + 3 * HOLD_TRY_S)
        assert pigeon.arrived[0].text == "a letter", "nothing was lost meanwhile"


async def test_connectors_are_tried_one_by_one_and_the_owner_is_told_in_chat(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with _held(tmp_path, CrashVerdict(all=True, unclean=3)) as (house, _, _, pigeon):
        await house.agent(f"/{OWNER}/{NAME}")
        await trio.sleep(HOLD_S + 30)  # those that nobody has set up are tried in a second
        first = await _states(house)
        assert sorted(first.values()) == ["held", "up"]
        trying = json.loads((tmp_path / "starts.json").read_bytes())["trying"]
        assert first[trying] == "up", "should it be what kills the daemon, the next start knows"
        await trio.sleep(HOLD_TRY_S)
        assert await _states(house) == {NAME: "up", NESTLING: "up"}
        await trio.sleep(2 * HOLD_TRY_S)
        told = [flight.text for flight in pigeon.arrived if "I was restarted" in flight.text]
        assert len(told) == 1
        assert "3 unclean starts within 5 minutes" in told[0] and "is back" in told[0]
        record = json.loads((tmp_path / "starts.json").read_bytes())
        assert (record["unclean"], record["trying"]) == ([], "")


async def test_what_killed_the_daemon_when_it_was_tried_stays_down_alone(
    tmp_path: Path, autojump_clock: object
) -> None:
    starts = _starts(tmp_path)
    starts.begin()
    starts.trying(NESTLING)
    verdict = _starts(tmp_path).begin()
    assert (verdict.all, verdict.suspect) == (False, NESTLING)
    async with _held(tmp_path, verdict) as (house, _, _, _):
        assert await _states(house) == {NAME: "up", NESTLING: "held"}
        await trio.sleep(HOLD_S + 5)
        assert await _states(house) == {NAME: "up", NESTLING: "up"}


async def test_after_an_orderly_end_nothing_is_kept_down(tmp_path: Path, autojump_clock: object) -> None:
    async with _held(tmp_path, CrashVerdict()) as (house, holding, _, _):
        assert await _states(house) == {NAME: "up", NESTLING: "up"}
        assert not holding.held


# -- with real processes -----------------------------------------------------------------------------------------------


@pytest.fixture
def home() -> Iterator[Home]:
    made = Home()
    config = made.path / "config.toml"
    text = config.read_text().replace(
        "tests.crash.mind:plugin", 'tests.crash.mind:plugin", "tests.service.faults:plugin'
    )
    config.write_text(text)
    yield made
    made.remove()


async def test_a_plugin_that_kills_the_daemon_is_kept_down_while_the_api_stays_up(home: Home, kennel: Kennel) -> None:
    deadly = {FAULT: "die", "DAYCARE_BREAKER": "on"}
    for _ in range(UNCLEAN_STARTS_MAX):
        process = kennel.start(home, environment=deadly)
        assert await process.died(20.0)
        await process.kill()
    process = kennel.start(home, environment=deadly)
    try:
        assert await process.ready() is not None
        shown = (await status(home.socket))["connectors"]["pigeon"]
        assert (shown["state"], shown["hint"]) == ("held", "daycare logs")
        assert "3 unclean starts within 5 minutes" in shown["reason"]
        log = (home.path / "daycare.log").read_text()
        assert '"event": "breaker.open"' in log
        await process.stop()
        record = CrashRecord(**json.loads((home.path / "starts.json").read_bytes()))
        assert record == CrashRecord(), "the owner has ended it in order, and knows"
    finally:
        await process.kill()


@pytest.mark.parametrize("how", ["environment", "config"])
async def test_with_the_breaker_off_connectors_start_whatever_came_before(home: Home, kennel: Kennel, how: str) -> None:
    if how == "config":
        config = home.path / "config.toml"
        config.write_text("[daemon]\nbreaker = false\n" + config.read_text())
    environment = {"DAYCARE_BREAKER": "off" if how == "environment" else "on"}
    for _ in range(2):
        process = kennel.start(home, environment=environment)
        await process.ready()
        await process.kill()
    process = kennel.start(home, environment=environment)
    try:
        await process.ready()
        assert (await status(home.socket))["connectors"]["pigeon"]["state"] == "up"
        assert not (home.path / "starts.json").exists()
    finally:
        await process.kill()


@pytest.fixture
def handlers() -> Iterator[None]:
    """Those that the test sets go with it."""
    before = {number: signal.getsignal(number) for number in ending()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_wish_to_end_that_comes_before_the_daemon_listens_is_kept_for_it(
    home: Home, handlers: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    early: list[int] = []
    life = DaemonLifecycle(StoredHome(home.path), SystemClock(), again=list, early=early)
    armed: list[float] = []
    monkeypatch.setattr(ShutdownGuard, "arm", lambda _, seconds: armed.append(seconds))
    monkeypatch.setattr(ShutdownGuard, "sweep", lambda _: 0)  # it would end what other tests have started
    with life.span():
        life.note_signals()
        signal.raise_signal(signal.SIGTERM)
        trio.run(trio.lowlevel.checkpoint)
    assert (early, armed) == ([signal.SIGTERM], [CLOSE_MAX_S])


async def test_being_told_to_end_while_it_starts_is_no_crash(home: Home, kennel: Kennel) -> None:
    process = kennel.start(home, environment={"DAYCARE_BREAKER": "on"})
    try:
        with trio.fail_after(20.0):
            while not (home.path / "starts.json").exists():
                await trio.sleep(0.002)
        os.kill(process._process.pid, signal.SIGTERM)
        with trio.fail_after(20.0):
            while process._process.poll() is None:
                await trio.sleep(0.01)
        record = json.loads((home.path / "starts.json").read_bytes())
        assert record["running_since"] is None, process._last_words()
    finally:
        await process.kill()
