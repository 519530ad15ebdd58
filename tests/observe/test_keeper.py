"""Background parts that crash: the daemon stays up, the operator is told once, and the part is started again."""

from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path

import pytest
import trio

from daycare.base.clock import Clock
from daycare.base.errors import BusyError, DaycareError
from daycare.base.limits import OUTAGE_MAX_S, RETRY_MAX_S
from daycare.daemon import Daemon
from daycare.observe.bus import Bus
from daycare.observe.keeper import STEADY_S, Keeper
from daycare.testing.clock import VirtualClock
from daycare.testing.daemon import open_daemon

Run = Callable[[], Awaitable[object]]


def kept() -> tuple[Keeper, Bus]:
    clock: Clock = VirtualClock()
    bus = Bus()
    return Keeper(bus, clock), bus


async def test_a_part_that_crashes_is_started_again_after_growing_pauses(autojump_clock: object) -> None:
    keeper, bus = kept()
    starts: list[float] = []

    async def part() -> None:
        starts.append(trio.current_time())
        if len(starts) < 8:
            raise ValueError("no")

    await keeper.keep("a part", part)
    pauses = [round(after - before) for before, after in pairwise(starts)]
    assert pauses == [1, 4, 16, 64, 256, RETRY_MAX_S, RETRY_MAX_S]
    assert [bus.at(at).alert for at in range(bus.cursor)] == [True, *[False] * 6]  # type: ignore[union-attr]


async def test_a_part_that_crashes_for_a_week_is_still_started_again(autojump_clock: object) -> None:
    keeper, bus = kept()

    async def part() -> None:
        if bus.cursor < 7 * 86_400 / RETRY_MAX_S:
            raise ValueError("no")

    await keeper.keep("a part", part)


async def test_a_part_that_ran_steadily_since_begins_its_pauses_again_and_is_told_of_again(
    autojump_clock: object,
) -> None:
    keeper, bus = kept()
    runs = 0

    async def part() -> None:
        nonlocal runs
        runs += 1
        if runs == 3:
            return
        await trio.sleep(STEADY_S)
        raise ValueError("no")

    await keeper.keep("a part", part)
    assert [(event.retry_in_s, event.alert) for event in map(bus.at, range(bus.cursor))] == [(1.0, True)] * 2  # type: ignore[union-attr]


async def test_a_crash_in_a_nursery_of_a_part_is_kept_too_and_a_cancelled_part_ends(autojump_clock: object) -> None:
    keeper, bus = kept()

    async def child() -> None:
        raise ValueError("deep")

    async def part() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(child)
            await trio.sleep_forever()

    async def clumsy() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("on the way out")

    with trio.move_on_after(2):
        await keeper.keep("a part", part)
    with trio.move_on_after(2):
        await keeper.keep("another", clumsy)
    assert keeper.problems()["a part"] == "ValueError: deep"
    assert bus.cursor >= 2


async def test_each_part_of_a_daemon_may_crash_and_the_daemon_answers(
    tmp_path: Path, autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_daemon(tmp_path, work=False) as house:
        names = list(house.daemon.background())
    assert len(names) > 12
    parts = Daemon.background
    for number, name in enumerate(names):
        home = tmp_path / str(number)
        home.mkdir()
        crashes: list[str] = []

        def broken(daemon: Daemon, name: str = name, crashes: list[str] = crashes) -> dict[str, Run]:
            async def crash() -> None:
                crashes.append(name)
                raise RuntimeError(f"{name} is broken")

            return {**parts(daemon), name: crash}

        with monkeypatch.context() as patch:
            patch.setattr(Daemon, "background", broken)
            async with open_daemon(home) as broken_house:
                assert await broken_house.talk("hello") == "echo: hello", name
                await trio.sleep(100)
                assert len(crashes) >= 4, "it is started again and again"
                told = [event for event in broken_house.events("notice") if name in str(event["text"])]
                # Who reads the events that people are told of cannot tell of its own crash: that is in log and health.
                assert len(told) == (name != "record of events"), name
                [finding] = [
                    each for each in await broken_house.daemon.health.look(whole=False) if each.name == "parts"
                ]
                assert not finding.ok
                assert name in finding.text


async def test_a_defect_in_what_hears_of_commits_does_not_end_the_store(
    tmp_path: Path, autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_daemon(tmp_path) as house:

        def broken(commit: object) -> None:
            raise KeyError("nobody expected this")

        monkeypatch.setattr(house.daemon.tasks, "committed", broken)
        assert await house.talk("hello") == "echo: hello"
        assert "announcing commits" in house.daemon.keeper.problems()


@pytest.mark.parametrize("nonsense", [-1.0, float("nan"), float("inf"), "soon", None])
def test_an_errors_time_to_wait_that_is_no_time_is_unsaid(nonsense: float) -> None:
    error = BusyError("SLOW", "wait", retry_after_s=nonsense)
    assert error.retry_after_s is None
    error.retry_after_s = nonsense
    assert error.retry_after_s is None


def test_an_errors_time_to_wait_is_a_day_at_most() -> None:
    assert BusyError("SLOW", "wait", retry_after_s=1e300).retry_after_s == OUTAGE_MAX_S


def test_an_errors_words_can_be_written_whatever_they_were() -> None:
    error = DaycareError("X", "half \ud83d of \ud83d\ude00", hint="\udc00")
    assert (error.message, error.hint) == ("half \ufffd of \U0001f600", "\ufffd")
    assert DaycareError("X", 5).message == "5"  # type: ignore[arg-type]
