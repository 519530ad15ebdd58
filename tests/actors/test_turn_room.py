"""Room for turns: never more at once than fit, and who waits comes in by turns."""

import random

import pytest
import trio
import trio.testing

from daycare.actors.turn_room import TurnRoom


async def _stay(room: TurnRoom, name: int, came: list[int], until: trio.Event) -> None:
    if not room.enter():
        await room.wait()
    came.append(name)
    try:
        await until.wait()
    finally:
        room.leave()


async def test_who_waits_comes_in_in_order_and_passes_nobody() -> None:
    room, came, ends = TurnRoom(1), list[int](), [trio.Event() for _ in range(4)]
    async with trio.open_nursery() as nursery:
        for name in range(4):
            nursery.start_soon(_stay, room, name, came, ends[name])
            await trio.testing.wait_all_tasks_blocked()
        assert came == [0]
        ends[0].set()
        assert not room.enter()  # others were here before
        await trio.testing.wait_all_tasks_blocked()
        assert came == [0, 1]
        for end in ends:
            end.set()
    assert came == [0, 1, 2, 3]
    assert room.enter()


async def test_who_stops_waiting_leaves_the_line() -> None:
    room = TurnRoom(1)
    assert room.enter()
    with trio.move_on_after(0) as scope:
        await room.wait()
    assert scope.cancelled_caught
    room.leave()
    assert room.enter()


async def test_more_room_lets_in_at_once_and_less_lets_nobody_out() -> None:
    room, came, end = TurnRoom(1), list[int](), trio.Event()
    async with trio.open_nursery() as nursery:
        for name in range(3):
            nursery.start_soon(_stay, room, name, came, end)
            await trio.testing.wait_all_tasks_blocked()
        room.size = 3
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(came) == [0, 1, 2]  # both at once, so in any order
        room.size = 1
        assert not room.enter()
        end.set()
    assert room.enter()
    assert not room.enter()


@pytest.mark.parametrize("seed", range(3))
async def test_never_more_are_inside_than_fit(seed: int) -> None:
    print("seed", seed)
    chance, room, inside, most, done = random.Random(seed), TurnRoom(3), 0, 0, 0

    async def one() -> None:
        nonlocal inside, most, done
        for _ in range(chance.randrange(4)):
            await trio.lowlevel.checkpoint()
        with trio.CancelScope() as scope:
            if chance.random() < 0.3:
                nursery.start_soon(_cancel, scope, chance.randrange(6))
            if not room.enter():
                await room.wait()
            inside, most = inside + 1, max(most, inside + 1)
            try:
                for _ in range(chance.randrange(4)):
                    await trio.lowlevel.checkpoint()
            finally:
                inside -= 1
                room.leave()
        done += 1

    async with trio.open_nursery() as nursery:
        for _ in range(200):
            nursery.start_soon(one)
    assert (inside, most, done) == (0, 3, 200)
    assert [room.enter() for _ in range(4)] == [True, True, True, False]


async def _cancel(scope: trio.CancelScope, after: int) -> None:
    for _ in range(after):
        await trio.lowlevel.checkpoint()
    scope.cancel()
