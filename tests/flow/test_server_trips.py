"""What a turn costs on a server in round trips of the connection that writes: no machine changes it."""

from pathlib import Path

import trio.testing

from daycare.base.clock import SystemClock
from daycare.testing.daemon import open_daemon
from tests import postgres

TURNS = 5
COMMITS = 4  # the message, the beginning, what the model cost, and the end: a round trip each


async def test_a_turn_writes_in_one_round_trip_for_each_commit(tmp_path: Path) -> None:
    location = postgres.database()
    try:
        async with open_daemon(tmp_path, location=location, clock=SystemClock(), inline=False) as house:
            for number in range(3):
                await house.talk(f"warm up {number}")
            found = []
            for number in range(TURNS):
                before = house.store._db.trips  # type: ignore[attr-defined]
                await house.talk(f"hello there {number}")
                found.append(house.store._db.trips - before)  # type: ignore[attr-defined]
                await trio.testing.wait_all_tasks_blocked()
    finally:
        postgres.take_back()
    assert sorted(found)[TURNS // 2] == COMMITS, found
