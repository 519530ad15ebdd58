"""An upgrade from any schema there ever was: whole after a kill at any statement, and it can be gone back from."""

import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import apsw
import pytest
import trio

from daycare.base.errors import BrokenError, NotFoundError
from daycare.features import open_store
from daycare.features.backups.restoring import find_rollback, roll_back
from daycare.store.sqlite import copies, database
from daycare.store.sqlite.database import SNAPSHOTS_KEPT
from tests.backup.homes import Death, dies, numbers, rows
from tests.backup.samples import counts, everything, sample
from tests.chance import sliced
from tests.store.samples import post

NEWEST = database.migrations()[-1][0]
EARLIER = range(1, NEWEST)
LONG_AGO = 13  # from these on an upgrade has more than a hundred statements
GROWN = {"spending", "counts"}  # sums are made of what was spent, and more is counted
MOVED = {"charged", *GROWN}  # a migration writes the first anew


@contextmanager
def each_statement(death: Death) -> Iterator[None]:
    """Have every connection that is opened ask `death` before each statement."""

    def trace(db: apsw.Connection) -> None:
        def before(*_: object) -> bool:
            death()
            return True

        db.exec_trace = before

    apsw.connection_hooks.append(trace)
    try:
        yield
    finally:
        apsw.connection_hooks.remove(trace)


def upgrade(file: Path) -> None:
    database.open_writer(str(file)).close()


def is_whole(file: Path, before: dict[str, int]) -> None:
    """Check that an upgraded database has all that was there."""
    assert copies.examine(file).number == NEWEST
    after = counts(file)
    assert {name: after[name] for name in before if name not in MOVED} == {
        name: many for name, many in before.items() if name not in MOVED
    }
    assert all(after[name] >= before.get(name, 0) for name in GROWN)
    assert rows(file, "PRAGMA foreign_key_check") == []


@pytest.mark.parametrize("number", EARLIER)
def test_a_database_of_every_earlier_schema_is_upgraded_with_all_its_rows(tmp_path: Path, number: int) -> None:
    file = tmp_path / "daycare.db"
    before = sample(file, number)
    assert min(before.values()) >= 1, "there are rows in every table"
    upgrade(file)
    is_whole(file, before)
    [snapshot] = database.snapshots(str(file))
    assert snapshot.name == f"daycare.db.before-{number + 1:04d}" and copies.examine(snapshot).number == number

    async def lives() -> None:
        async with open_store(str(file)) as store:
            assert not (await post(store, "new")).duplicate

    trio.run(lives)


@pytest.mark.parametrize("number", EARLIER)
def test_killed_at_any_statement_it_opens_afterwards_with_nothing_lost(tmp_path: Path, number: int) -> None:
    kills = 0
    earlier = tmp_path / "earlier"
    before = sample(earlier, number)
    every = 3 if number >= NEWEST - 6 else 17 if number > LONG_AGO else 29
    for n in sliced(range(1 + number % every, 200), every):  # the same migrations are cut elsewhere from each schema
        file = Path(shutil.copy(earlier, tmp_path / f"{n}.db"))

        def attempt(file: Path = file, n: int = n) -> None:
            with each_statement(Death(n)):
                upgrade(file)

        died = dies(attempt)
        for snapshot in database.snapshots(str(file)):
            assert copies.examine(snapshot).number == number, "one that has its name is whole"
        upgrade(file)
        is_whole(file, before)
        assert copies.examine(database.snapshots(str(file))[0]).number == number, "the first one is not lost"
        for left in tmp_path.glob(f"{n}.db*"):
            left.unlink()
        if not died:
            break
        kills += 1
    assert kills >= 3


def test_snapshots_of_the_last_upgrades_stay(tmp_path: Path) -> None:
    file = tmp_path / "daycare.db"
    sample(file, NEWEST - 1)
    for old in range(2, 2 + SNAPSHOTS_KEPT):
        (tmp_path / f"daycare.db.before-{old:04d}").write_bytes(b"")
    (tmp_path / "daycare.db.before-the-move").write_bytes(b"")
    upgrade(file)
    kept = [each.name for each in database.snapshots(str(file))]
    assert len(kept) == SNAPSHOTS_KEPT and kept[-1] == f"daycare.db.before-{NEWEST:04d}"
    assert (tmp_path / "daycare.db.before-the-move").exists()


@pytest.mark.parametrize("number", EARLIER)
def test_going_back_gives_the_database_of_before_and_keeps_the_newer_one(tmp_path: Path, number: int) -> None:
    file = tmp_path / "daycare.db"
    sample(file, number)
    before = everything(file)
    upgrade(file)

    async def go_on() -> None:
        async with open_store(str(file)) as store:
            await post(store, "new")

    trio.run(go_on)
    found = find_rollback(str(file))
    assert (found.number, found.snapshot_number) == (NEWEST, number)
    assert found.lost == {"messages": 1, "replies": 0, "turns": 0, "documents": 0}
    done = roll_back(found, 1_800_000_000_000)
    assert copies.examine(file).number == number
    after = everything(file)
    memory = after.pop("connector_memory")
    assert [row for row in memory if '"restored"' not in row] == before.pop("connector_memory")
    waiting = after.pop("outbox"), before.pop("outbox")
    assert [len(each) for each in waiting] == [3, 3]
    assert after == before
    assert copies.restored_in(str(file)) is not None
    newer = Path(str(done.aside))
    assert ("new",) in rows(newer, "SELECT key FROM inbox") and copies.examine(newer).number == NEWEST
    upgrade(file)
    assert copies.examine(file).number == NEWEST, "and it can be upgraded again"


def test_going_back_killed_at_any_statement_leaves_one_or_the_other(tmp_path: Path) -> None:
    kills = 0
    upgraded = tmp_path / "upgraded"
    upgraded.mkdir()
    sample(upgraded / "daycare.db", NEWEST - 1)
    upgrade(upgraded / "daycare.db")
    for n in numbers():
        file = Path(shutil.copytree(upgraded, tmp_path / str(n))) / "daycare.db"

        def attempt(file: Path = file, n: int = n) -> None:
            found = find_rollback(str(file))
            with each_statement(Death(n)):
                roll_back(found, 1)

        died = dies(attempt)
        assert copies.examine(file).number == (NEWEST if died else NEWEST - 1)
        if not died:
            break
        kills += 1
        assert copies.examine(Path(str(roll_back(find_rollback(str(file)), 2).aside))).number == NEWEST
        assert copies.examine(file).number == NEWEST - 1
    assert kills >= 3


def test_a_damaged_database_can_be_gone_back_from(tmp_path: Path) -> None:
    file = tmp_path / "daycare.db"
    sample(file, NEWEST - 1)
    upgrade(file)
    file.write_bytes(b"damaged" * 1_000)
    found = find_rollback(str(file))
    assert (found.number, found.lost) == (None, None)
    roll_back(found, 1)
    assert copies.examine(file).number == NEWEST - 1


def test_without_an_upgrade_there_is_nothing_to_go_back_to(tmp_path: Path) -> None:
    file = tmp_path / "daycare.db"
    sample(file, NEWEST)
    with pytest.raises(NotFoundError, match="no snapshot"):
        find_rollback(str(file))


def test_an_old_program_names_both_numbers_and_the_way_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "daycare.db"
    sample(file, NEWEST - 1)
    upgrade(file)
    older = database.migrations()[:-1]
    monkeypatch.setattr(database, "migrations", lambda: older)
    monkeypatch.setattr("daycare.features.backups.restoring.migrations", lambda: older)
    with pytest.raises(BrokenError) as refused:
        upgrade(file)
    assert refused.value.code == "STORE_FROM_FUTURE"
    assert f"number {NEWEST}, this daycare knows up to {NEWEST - 1}" in str(refused.value)
    assert "\n" not in str(refused.value) and "daycare rollback" in refused.value.hint
    roll_back(find_rollback(str(file)), 1)
    upgrade(file)
    with closing(apsw.Connection(str(file))) as db:
        assert db.pragma("user_version") == NEWEST - 1
