"""A process that dies at any commit of an import leaves all of it or nothing, and the next import works."""

from pathlib import Path

import pytest

from daycare.features import open_store
from daycare.features.exports.rows import ExportRows
from daycare.store.records import User
from daycare.store.sqlite.database import count
from daycare.testing.crash import Doom, live
from daycare.testing.daemon import TestDaemon
from daycare.testing.scripted import Scripted
from tests.chance import commits
from tests.exports.houses import CONFIG, as_it_should_be, exported, house_at, imported, records

BOBS = "/bob/agent/second"
MOST = 20  # commits of an import, and a few more


async def story(house: TestDaemon, data: bytes) -> None:
    await imported(house, data, BOBS)


async def ready(folder: Path) -> None:
    folder.mkdir()
    async with open_store(str(folder / "daycare.db"), inline=True) as store:
        await store.people.add(User(id="ann", name="Ann", operator=True, keys=("direct:ann",)))
        await store.people.add(User(id="bob", name="Bob", keys=("direct:bob",)))


async def rows(folder: Path) -> dict[str, int]:
    """Count the rows of bob's, and those that nobody may see."""
    async with open_store(str(folder / "daycare.db"), inline=True) as store:
        counts = {}
        for table in ("agents", "sessions", "turns", "history", "summaries", "documents", "memories", "memory_sources",
                      "memory_marks", "timers", "cron_jobs"):  # fmt: skip
            counts[table] = count(store._reader, f"SELECT count(*) FROM {table} WHERE user = 'bob'")
        return counts


@pytest.mark.parametrize("late", [False, True])
async def test_a_crash_at_any_commit_leaves_all_or_nothing(
    tmp_path: Path, life: bytes, autojump_clock: object, late: bool
) -> None:
    whole: list[bool] = []
    for n in commits(7, begin=0 if late else 1):
        folder = tmp_path / f"house-{n}"
        await ready(folder)
        doom = Doom(n, late=late)
        struck = await live(folder, Scripted(), doom, lambda house: story(house, life), config=CONFIG)
        found = await rows(folder)
        whole.append(found["agents"] > 0)
        if not whole[-1]:
            assert set(found.values()) == {0}, f"commit {n}"
        async with house_at(folder) as house:
            await house.store.of(ExportRows).sweep()
            left = house.store._reader.execute(
                "SELECT count(*) FROM files WHERE instr(key, 'importing:') = 1"
            ).fetchall()
            assert left == [(0,)], f"commit {n}"
            if not whole[-1]:
                await imported(house, life, BOBS)
            again = records((await exported(house, BOBS, shared=True))[1])
            assert again == as_it_should_be(life, BOBS), f"commit {n}"
            assert await house.talk("are you there?", path=BOBS, user="bob"), "it goes on talking"
        if not struck or n >= MOST:
            break
    assert not struck, f"an import has over {MOST} commits"
    assert whole == sorted(whole), "nothing, nothing, ..., all"
    assert whole[-1]
