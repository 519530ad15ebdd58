"""When a daemon looks for garbage: what is long is not done in the middle of somebody's turn."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
import trio
from trio.testing import MockClock

from daycare.config import Config, ModelsSection, ProviderSection
from daycare.ops.garbage import freeze, look_for_garbage
from daycare.testing.daemon import open_daemon
from daycare.testing.scripted import call, say

INLINE_ONLY: Final = True  # what another thread is about to do is no garbage, and none of a turn's
TURNS: Final = 3


@contextmanager
def looks() -> Iterator[list[int]]:
    """Note the generations that are looked through within this block."""
    found: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            found.append(info["generation"])

    gc.callbacks.append(note)
    try:
        yield found
    finally:
        gc.callbacks.remove(note)


def ours(garbage: list[object]) -> list[str]:
    """Return the classes of what is ours, sorted."""
    return sorted(type(each).__name__ for each in garbage if type(each).__module__.startswith("daycare."))


@pytest.mark.parametrize("calls", [0, 2])
async def test_a_turn_leaves_nothing_that_only_a_look_for_garbage_finds(
    tmp_path: Path, autojump_clock: MockClock, calls: int
) -> None:
    config = Config(
        models=ModelsSection(default="scripted/model"), providers={"scripted": ProviderSection(kind="scripted")}
    )
    async with open_daemon(tmp_path, config=config) as house:

        async def talk() -> None:
            if calls:
                house.model.enqueue(call(*[("now", {})] * calls), say("It is noon."))
            await house.talk("My dentist is Dr. Weber. What is my cat called?")

        await talk()  # what is read once is no garbage
        gc.collect()
        gc.disable()
        try:
            for _ in range(TURNS):
                await talk()
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
            assert ours(gc.garbage) == [], "break the cycle that it is part of"
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()


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


async def test_what_is_old_is_looked_through_while_nobody_talks(autojump_clock: MockClock) -> None:
    gc.collect()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(look_for_garbage)
        with looks() as found:
            for _ in range(150):  # a busy time
                gc.collect(0)
                await trio.sleep(0.1)
            assert found.count(1) > 100
            assert 2 not in found
            await trio.sleep(60)
            assert found.count(2) == 1
            await trio.sleep(600)
            assert found.count(2) == 1, "there is nothing new"
        nursery.cancel_scope.cancel()


async def test_what_has_grown_much_is_looked_through_in_a_busy_time_too(autojump_clock: MockClock) -> None:
    gc.collect()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(look_for_garbage)
        await trio.sleep(1)
        kept = [[each] for each in range(300_000)]
        with looks() as found:
            for _ in range(150):
                gc.collect(0)
                await trio.sleep(0.1)
            assert found.count(2) == 1
        assert len(kept) == 300_000
        nursery.cancel_scope.cancel()


async def test_what_is_frozen_later_leaves_it_to_the_task_to_look(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(look_for_garbage)
        await trio.sleep(1)
        before = gc.get_threshold()
        freeze()
        assert gc.get_threshold() == before
        nursery.cancel_scope.cancel()


async def test_where_nobody_looks_by_hand_the_interpreter_looks_through_what_is_old(autojump_clock: MockClock) -> None:
    before = gc.get_threshold()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(look_for_garbage)
        await trio.sleep(1)
        assert gc.get_threshold()[2] > 1_000_000
        nursery.cancel_scope.cancel()
    assert gc.get_threshold() == before
