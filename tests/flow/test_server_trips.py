"""What a turn costs on a server in round trips of the connection that writes: no machine changes it."""

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio.testing

from daycare.base.clock import SystemClock
from daycare.features import open_store
from daycare.settings import NodeSection
from daycare.store.share import chosen, shard_of
from daycare.store.vault import open_vault
from daycare.testing.daemon import OWNER, TestDaemon, open_daemon
from tests import postgres
from tests.nodes.test_stores import DEADLINE_S, agent_of, heard, message, nothing_to_let_go

TURNS = 5
COMMITS = 4  # the message, the beginning, what the model cost, and the end: a round trip each


@pytest.fixture
def location() -> Iterator[str]:
    yield postgres.database()
    postgres.take_back()


class Listening:
    """Counts the round trips in which a node hears of others' commits, for which no turn waits."""

    def __init__(self, house: TestDaemon) -> None:
        writer: Any = house.store._writer
        self.trips = 0

        def counted(db: Any, listen: Callable[[Any], None] = writer._listen) -> None:
            before = db.trips
            listen(db)
            self.trips += db.trips - before

        writer._listen = counted


async def trips(
    house: TestDaemon,
    before_each: Callable[[], Awaitable[object]] = trio.lowlevel.checkpoint,
    listening: Listening | None = None,
) -> int:
    """Return how many a turn takes, as a rule: the log of the conversation may be written meanwhile."""
    writer: Any = house.store._writer

    async def so_far() -> int:  # in no midst of a round trip: the thread that writes says it
        return int(await writer.alone(lambda db: db.trips - (listening.trips if listening is not None else 0)))

    for number in range(3):
        await house.talk(f"warm up {number}")
    found = []
    for number in range(TURNS):
        await before_each()
        before = await so_far()
        await house.talk(f"hello there {number}")
        found.append(await so_far() - before)
        await trio.testing.wait_all_tasks_blocked()
    print(found)
    return sorted(found)[TURNS // 2]


async def test_a_turn_writes_in_one_round_trip_for_each_commit(tmp_path: Path, location: str) -> None:
    async with open_daemon(tmp_path, location=location, clock=SystemClock(), inline=False) as house:
        assert await trips(house) == COMMITS


async def test_a_turn_on_one_of_several_nodes_takes_no_more_though_others_commit_between(
    tmp_path: Path, location: str
) -> None:
    mine, another = NodeSection(name="b", lease_s=30.0), NodeSection(name="a", lease_s=30.0)
    assert [chosen(shard_of(user), ("a", "b")) for user in (OWNER, "eve")] == ["b", "a"]
    async with (
        open_daemon(tmp_path, location=location, clock=SystemClock(), inline=False, node=mine) as house,
        open_store(location, node=(another, open_vault(tmp_path / "daycare.key"), "")) as other,
    ):
        other.share.work(lambda suspects: None, nothing_to_let_go)
        await agent_of(other, "eve")
        with trio.fail_after(DEADLINE_S):
            while not other.share.owns("eve") or house.store.share.owns("eve"):
                await trio.sleep(0.02)
        said = iter(range(TURNS))

        async def commit_there() -> None:
            await other.inbox.post(message("eve", f"{next(said)}"))
            await heard(house.store, other)

        listening = Listening(house)
        assert await trips(house, listening=listening) == COMMITS
        assert await trips(house, commit_there, listening) == COMMITS
