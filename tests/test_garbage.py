"""When a daemon looks for garbage: what is long is not done in the middle of somebody's turn."""

import gc

import trio
from trio.testing import MockClock

from daycare.ops.garbage import look_for_garbage


async def test_what_outlived_the_first_looks_is_looked_through_by_itself(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(look_for_garbage)
        await trio.sleep(60)  # nothing happens: it looks seldom
        for _ in range(3):
            gc.collect(0)
        assert gc.get_count()[1] > 1
        await trio.sleep(4)
        assert gc.get_count()[1] <= 1
        nursery.cancel_scope.cancel()


async def test_a_daemon_that_has_nothing_to_do_wakes_seldom_for_it(autojump_clock: MockClock) -> None:
    woken = 0

    class Watch(trio.abc.Instrument):
        def before_task_step(self, task: trio.lowlevel.Task) -> None:
            nonlocal woken
            woken += task.name.endswith("look_for_garbage")

    trio.lowlevel.add_instrument(Watch())
    gc.collect()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(look_for_garbage)
        await trio.sleep(320)
        nursery.cancel_scope.cancel()
    assert woken < 130
