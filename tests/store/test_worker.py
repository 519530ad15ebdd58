"""Workers: no wake is lost, no refusal ends one, and none waits for ever."""

from collections.abc import Iterator

import pytest
import trio
from trio.testing import MockClock

from daycare.base.errors import BusyError, UnavailableError
from daycare.store.worker import IDLE_S, Worker

LONG_S = 60.0


class Looks:
    """Notes when a worker looks; each look does the next of `steps`, the last one ends the test."""

    def __init__(self, *steps: object, gather_s: float = 0.0) -> None:
        self.at: list[float] = []
        self.worker = Worker(self._look, gather_s)
        self._steps: Iterator[object] = iter(steps)
        self._scope = trio.CancelScope()

    async def run(self) -> list[float]:
        """Return when it looked, in seconds since its start."""
        self._began = trio.current_time()
        with trio.fail_after(2 * IDLE_S), self._scope:
            await self.worker.run()
        return self.at

    async def _look(self) -> float:
        self.at.append(trio.current_time() - self._began)
        step = next(self._steps, None)
        if step is None:
            self._scope.cancel()
        if isinstance(step, Exception):
            raise step
        if step == "woken":
            await trio.sleep(1)
            self.worker.wake()
            await trio.sleep(1)
        return step if isinstance(step, float) else LONG_S


async def test_wake_that_comes_while_a_worker_looks_is_not_lost(autojump_clock: MockClock) -> None:
    assert await Looks("woken").run() == [0.0, 2.0]


async def test_wake_before_the_look_that_saw_it_costs_no_second_one(autojump_clock: MockClock) -> None:
    looks = Looks("quiet")
    looks.worker.wake()
    assert await looks.run() == [0.0, LONG_S]


async def test_wakes_that_come_together_are_one_look(autojump_clock: MockClock) -> None:
    looks = Looks("quiet", gather_s=5.0)

    async def wake() -> None:
        for _ in range(4):
            await trio.sleep(1)
            looks.worker.wake()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wake)
        assert await looks.run() == [0.0, 6.0]


@pytest.mark.parametrize("refusal", [UnavailableError("DISK_FULL", "full"), BusyError("STORE_BUSY", "busy")])
async def test_worker_that_the_store_refuses_looks_again_soon(refusal: Exception, autojump_clock: MockClock) -> None:
    _, again, later = await Looks(refusal, "quiet").run()
    assert 0 < again < LONG_S
    assert later == again + LONG_S


async def test_worker_that_has_a_defect_tells_it_to_its_keeper(autojump_clock: MockClock) -> None:
    with pytest.raises(KeyError):
        await Looks(KeyError("defect")).run()


async def test_worker_with_more_to_do_lets_others_have_a_turn(autojump_clock: MockClock) -> None:
    looks = Looks(*[0.0] * 10)
    with trio.CancelScope() as scope:
        scope.cancel()
        await looks.run()
    assert len(looks.at) == 1


async def test_worker_that_nobody_wakes_looks_within_the_hour(autojump_clock: MockClock) -> None:
    assert await Looks(float("inf")).run() == [0.0, IDLE_S]
