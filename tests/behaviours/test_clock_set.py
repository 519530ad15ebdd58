"""What deletes by age believes no clock that was set: a key stays known though the clock is 40 days ahead."""

from pathlib import Path

import pytest
import trio
import trio.testing

from daycare.base.clock import CLOCK_SETTLED_S
from daycare.base.limits import HEALTH_BAD_S
from daycare.features.upkeep.service import EXPIRE_EVERY_S
from daycare.testing.clock import VirtualClock
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.scripted import Scripted, echo

DAY_S = 86_400.0


async def _is_known(house: TestDaemon) -> bool:
    receipt = await house.say("hello", key="once")
    return receipt.duplicate


async def test_a_key_stays_known_though_the_clock_is_forty_days_ahead(tmp_path: Path, autojump_clock: object) -> None:
    clock = VirtualClock()
    async with open_daemon(tmp_path, Scripted(default=echo), clock=clock) as house:
        await house.talk("hello", key="once")
        await house.talk("and then?")
        clock.shift(40 * DAY_S)
        said = await house.talk("now", path="/system/gc")
        assert "the machine's clock was set forward by 40 days" in said
        await trio.sleep(10 * EXPIRE_EVERY_S)
        assert await _is_known(house)
        clock.shift(-40 * DAY_S)
        await trio.sleep(EXPIRE_EVERY_S)
        said = await house.talk("now", path="/system/gc")
        assert "clock" not in said and await _is_known(house)


async def test_a_clock_that_stays_ahead_deletes_only_what_is_old_by_the_time_that_passed(
    tmp_path: Path, autojump_clock: object
) -> None:
    clock = VirtualClock()
    async with open_daemon(tmp_path, Scripted(default=echo), clock=clock) as house:
        await house.talk("hello", key="once")
        await house.talk("and then?")
        clock.shift(40 * DAY_S)
        await trio.sleep(CLOCK_SETTLED_S + 3 * EXPIRE_EVERY_S)
        said = await house.talk("now", path="/system/gc")
        assert "clock" not in said, "it counts as right by now"
        assert await _is_known(house), "and nothing is older for it"
        clock.sleep(31 * DAY_S)
        await house.talk("and now?")
        assert "messages, events and files" in await house.talk("now", path="/system/gc")
        assert not await _is_known(house)


async def test_a_start_with_a_clock_that_is_ahead_deletes_nothing_that_is_young(
    tmp_path: Path, autojump_clock: object
) -> None:
    clock = VirtualClock()
    async with open_daemon(tmp_path, Scripted(default=echo), location="file.db", clock=clock) as house:
        await house.talk("hello", key="once")
        await house.talk("and then?")
    clock.shift(40 * DAY_S)
    async with open_daemon(tmp_path, Scripted(default=echo), location="file.db", clock=clock) as house:
        await house.talk("now", path="/system/gc")
        await trio.sleep(3 * EXPIRE_EVERY_S)
        assert await _is_known(house)


async def test_a_key_from_a_time_in_which_the_clock_was_behind_stays_known(
    tmp_path: Path, autojump_clock: object
) -> None:
    clock = VirtualClock()
    async with open_daemon(tmp_path, Scripted(default=echo), location="file.db", clock=clock) as house:
        await house.talk("I was here before")
    clock.shift(-40 * DAY_S)
    async with open_daemon(tmp_path, Scripted(default=echo), location="file.db", clock=clock) as house:
        await house.talk("hello", key="once")
    clock.shift(40 * DAY_S)
    async with open_daemon(tmp_path, Scripted(default=echo), location="file.db", clock=clock) as house:
        await house.talk("and then?")
    async with open_daemon(tmp_path, Scripted(default=echo), location="file.db", clock=clock) as house:
        await house.talk("now", path="/system/gc")
        assert await _is_known(house)


async def test_restarts_with_a_clock_that_is_ahead_do_not_make_it_right(tmp_path: Path, autojump_clock: object) -> None:
    """What is said meanwhile bears the wrong time, and is the newest row at the next start."""
    clock = VirtualClock()
    async with open_daemon(tmp_path, Scripted(default=echo), location="file.db", clock=clock) as house:
        await house.talk("hello", key="once")
        await house.talk("now", path="/system/gc")
    clock.shift(400 * DAY_S)
    for _ in range(3):
        async with open_daemon(tmp_path, Scripted(default=echo), location="file.db", clock=clock) as house:
            await house.talk("and then?")
            await trio.sleep(2 * EXPIRE_EVERY_S)
            await house.talk("now", path="/system/gc")
            assert await _is_known(house)
    clock.shift(-400 * DAY_S)
    async with open_daemon(tmp_path, Scripted(default=echo), location="file.db", clock=clock) as house:
        await house.talk("and now?")
        await house.talk("now", path="/system/gc")
        assert await _is_known(house)


@pytest.mark.parametrize("ahead_s", [40 * DAY_S, 366 * DAY_S])
async def test_the_first_round_of_a_home_makes_nothing_old_though_the_clock_is_ahead(
    tmp_path: Path, autojump_clock: object, ahead_s: float
) -> None:
    """What was said while it was ahead is the newest row, and no round before has noted how late it was."""
    clock = VirtualClock()
    async with open_daemon(tmp_path, Scripted(default=echo), location="file.db", clock=clock) as house:
        await house.talk("hello", key="once")
        clock.shift(ahead_s)
        await house.talk("and then?")
    for wrong_s in (0.0, -ahead_s, ahead_s, -ahead_s):
        clock.shift(wrong_s)
        async with open_daemon(tmp_path, Scripted(default=echo), location="file.db", clock=clock) as house:
            await house.talk("now", path="/system/gc")
            assert await _is_known(house)
            await trio.sleep(3 * EXPIRE_EVERY_S)
            assert await _is_known(house)


async def test_a_clock_that_goes_further_ahead_is_believed_after_another_day(
    tmp_path: Path, autojump_clock: object
) -> None:
    """The hours for which it was ahead by less say nothing for what it says now."""
    clock = VirtualClock()
    async with open_daemon(tmp_path, Scripted(default=echo), location="file.db", clock=clock) as house:
        await house.talk("hello", key="once")
        await house.talk("now", path="/system/gc")
    for further_s, hours in ((20 * DAY_S, 20), (400 * DAY_S, 6)):
        clock.shift(further_s)
        async with open_daemon(tmp_path, Scripted(default=echo), location="file.db", clock=clock) as house:
            await house.talk("and then?")
        async with open_daemon(tmp_path, Scripted(default=echo), location="file.db", clock=clock) as house:
            await trio.sleep(hours * 3600)
            await house.talk("now", path="/system/gc")
            assert await _is_known(house)


async def test_a_machine_that_was_off_for_long_is_believed_after_a_day_of_work(
    tmp_path: Path, autojump_clock: object
) -> None:
    """In runs of some hours each, as of a machine that is switched off at night."""
    clock = VirtualClock()
    known = []
    async with open_daemon(tmp_path, Scripted(default=echo), location="file.db", clock=clock) as house:
        await house.talk("hello", key="once")
        await house.talk("now", path="/system/gc")
    clock.shift(40 * DAY_S)
    for _ in range(5):
        async with open_daemon(tmp_path, Scripted(default=echo), location="file.db", clock=clock) as house:
            await house.talk("and then?")
            await trio.sleep(CLOCK_SETTLED_S / 3)
            await house.talk("now", path="/system/gc")
            known.append((await house.store.inbox.receipt(1)) is not None)
        clock.shift(CLOCK_SETTLED_S / 2)
    assert known[:2] == [True, True] and not known[-1]


async def test_the_operator_is_told_once_and_rounds_go_on_when_the_clock_is_set_back(
    tmp_path: Path, autojump_clock: object
) -> None:
    clock = VirtualClock()
    async with open_daemon(tmp_path, Scripted(default=echo), clock=clock) as house:
        await house.talk("hello")
        await trio.sleep(2 * EXPIRE_EVERY_S)
        clock.shift(-DAY_S)
        await trio.sleep(2 * HEALTH_BAD_S)
        [finding] = [it for it in await house.daemon.health.report() if it.name == "clock"]
        assert not finding.ok and "was set back by 24 hours" in finding.text
        before = _rounds(house)
        await trio.sleep(3 * EXPIRE_EVERY_S)
        assert _rounds(house) >= before + 2, "once an hour, though these hours were before"
        told = [event for event in house.events("notice") if "clock" in str(event["text"])]
        assert len(told) == 1
        clock.shift(DAY_S)
        await trio.sleep(2 * HEALTH_BAD_S)
        [finding] = [it for it in await house.daemon.health.report() if it.name == "clock"]
        assert finding.ok


async def test_a_machine_that_slept_has_a_clock_that_is_right(tmp_path: Path, autojump_clock: object) -> None:
    clock = VirtualClock()
    async with open_daemon(tmp_path, Scripted(default=echo), clock=clock) as house:
        await house.talk("hello", key="once")
        await house.talk("and then?")
        clock.sleep(40 * DAY_S)
        assert "clock" not in await house.talk("now", path="/system/gc")
        assert not await _is_known(house)


def _rounds(house: TestDaemon) -> int:
    return sum(event["path"] == "/system/gc" for event in house.events("turn.finished"))
