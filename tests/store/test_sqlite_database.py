"""Opening a SQLite file: what is set, upgraded, refused."""

from contextlib import closing
from pathlib import Path

import apsw
import pytest

from daycare.base.errors import BrokenError, DaycareError, StoreAwayError, UnavailableError
from daycare.features import open_store
from daycare.store.sqlite import database
from tests.store.samples import post

MIGRATES = True


async def with_one_message(path: Path) -> None:
    async with open_store(str(path)) as store:
        await post(store, "k")


async def refusal(path: Path) -> DaycareError:
    with pytest.raises(DaycareError) as caught:
        async with open_store(str(path)):
            pass
    return caught.value


def add_migration(monkeypatch: pytest.MonkeyPatch, sql: str) -> int:
    known = database.migrations()
    number = known[-1][0] + 1
    monkeypatch.setattr(database, "migrations", lambda: [*known, (number, "extra", sql)])
    return number


async def test_an_acknowledged_row_survives_a_power_cut_because_each_commit_is_synced(tmp_path: Path) -> None:
    async with open_store(str(tmp_path / "daycare.db")) as store:
        expected = {
            "journal_mode": "wal",
            "synchronous": 2,  # FULL
            "foreign_keys": 1,
            "journal_size_limit": 16 * 1024 * 1024,
            "cell_size_check": 1,
        }
        assert {name: store._db.pragma(name) for name in expected} == expected
        assert store._reader.pragma("cell_size_check") == 1
        with pytest.raises(UnavailableError):
            store._reader.execute("DELETE FROM inbox")


async def test_a_new_file_gets_every_migration_and_no_snapshot(tmp_path: Path) -> None:
    path = tmp_path / "daycare.db"
    await with_one_message(path)
    assert {it.name for it in tmp_path.iterdir()} == {"daycare.db", "daycare.db.mark"}
    db = apsw.Connection(str(path))
    assert db.pragma("user_version") == database.migrations()[-1][0]
    db.close()


async def test_an_upgrade_keeps_the_rows_and_leaves_a_snapshot_of_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "daycare.db"
    await with_one_message(path)
    number = add_migration(monkeypatch, "CREATE TABLE extra (x); INSERT INTO extra VALUES (1)")
    async with open_store(str(path)) as store:
        assert (await post(store, "k")).duplicate
        assert store._db.pragma("user_version") == number
        assert store._db.execute("SELECT x FROM extra").fetchall() == [(1,)]
    snapshot = tmp_path / f"daycare.db.before-{number:04d}"
    assert snapshot.stat().st_mode & 0o077 == 0, "it holds everybody's messages"
    assert database.check(str(snapshot)) is None
    db = apsw.Connection(str(snapshot))
    assert db.pragma("user_version") == number - 1
    assert db.execute("SELECT key FROM inbox").fetchall() == [("k",)]
    db.close()


async def test_an_upgrade_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "daycare.db"
    await with_one_message(path)
    with monkeypatch.context() as patch:
        add_migration(patch, "CREATE TABLE extra (x); DROP TABLE inbox; INSERT INTO nowhere VALUES (1)")
        assert isinstance(await refusal(path), BrokenError)
    async with open_store(str(path)) as store:
        assert (await post(store, "k")).duplicate
        assert store._db.execute("SELECT name FROM sqlite_master WHERE name = 'extra'").fetchall() == []


async def test_a_database_from_the_future_is_refused_and_the_snapshot_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "daycare.db"
    await with_one_message(path)
    with monkeypatch.context() as patch:
        add_migration(patch, "CREATE TABLE extra (x)")
        await with_one_message(path)
    error = await refusal(path)
    assert isinstance(error, BrokenError) and error.code == "STORE_FROM_FUTURE"
    [snapshot] = tmp_path.glob("*.before-*")
    assert str(snapshot) in error.hint


async def test_a_file_that_is_no_database_is_refused_with_the_command_that_repairs_it(tmp_path: Path) -> None:
    path = tmp_path / "daycare.db"
    path.write_bytes(b"not a database, but long enough to be read as one" * 100)
    error = await refusal(path)
    assert isinstance(error, BrokenError) and error.code == "STORE_CORRUPT"
    assert "daycare restore BACKUP --force" in error.hint


async def test_a_damaged_page_is_refused_when_it_is_met_and_found_by_the_check(tmp_path: Path) -> None:
    path = tmp_path / "daycare.db"
    await with_one_message(path)
    assert database.check(str(path)) is None
    db = apsw.Connection(str(path))
    [(page,)] = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'inbox_waiting'").fetchall()
    size = int(str(db.pragma("page_size")))
    db.close()
    with path.open("r+b") as file:
        file.seek((int(str(page)) - 1) * size)
        file.write(b"\xff" * size)
    error = await refusal(path)
    assert (type(error), error.code) == (BrokenError, "STORE_CORRUPT")
    assert database.check(str(path)) is not None


async def test_damage_that_is_met_while_reading_is_an_error_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "daycare.db"
    async with open_store(str(path)) as store:
        for number in range(100):
            await store.ledger.record([(number, "u", "", "", "x" * 1_000)])
    size = 4096
    content = bytearray(path.read_bytes())
    for start in range(0, len(content), size):
        if b"x" * 1_000 in content[start : start + size]:  # the events themselves, wherever the schema puts them
            content[start : start + size] = b"\xff" * size
    path.write_bytes(content)
    async with open_store(str(path)) as store:
        for limit in (1, 1_000):
            with pytest.raises(StoreAwayError) as caught:
                await store.ledger.events(limit=limit)
            assert caught.value.code == "STORE_CORRUPT" and str(path) in caught.value.hint


async def test_a_folder_that_does_not_exist_is_said_to_be_unreachable(tmp_path: Path) -> None:
    error = await refusal(tmp_path / "nowhere" / "daycare.db")
    assert isinstance(error, UnavailableError) and error.code == "STORE_UNREACHABLE"


async def test_migrations_are_numbered_without_gaps() -> None:
    assert [number for number, _, _ in database.migrations()] == list(range(1, len(database.migrations()) + 1))


async def test_a_damaged_page_is_refused_before_a_daemon_starts_on_it(tmp_path: Path) -> None:
    path = tmp_path / "daycare.db"
    await with_one_message(path)
    database.refuse_damage(str(path))
    pages = bytearray(path.read_bytes())
    pages[4096 * 3 : 4096 * 6] = b"\xff" * 4096 * 3
    path.write_bytes(pages)
    with pytest.raises(BrokenError, match=r"daycare\.db") as refused:
        database.refuse_damage(str(path))
    assert refused.value.code == "STORE_CORRUPT"
    assert "daycare restore BACKUP --force" in refused.value.hint


@pytest.mark.parametrize("analyzed", [False, True])
async def test_a_statement_is_parsed_again_for_other_values_only_where_there_are_statistics(
    tmp_path: Path, analyzed: bool
) -> None:
    path = str(tmp_path / "daycare.db")
    await with_one_message(Path(path))
    if analyzed:
        with closing(apsw.Connection(path)) as db:
            db.execute("ANALYZE").fetchall()
    parsed: list[int] = []

    def note(operation: int, *_: object) -> int:
        parsed.append(operation)
        return apsw.SQLITE_OK

    with closing(database.open_writer(path)) as db:
        db.authorizer = note
        sql = "SELECT seq FROM outbox WHERE path = ? AND state < 2 ORDER BY seq DESC LIMIT 1 OFFSET ?"
        db.execute(sql, ("/a", 0)).fetchall()
        once = len(parsed)
        db.execute(sql, ("/b", 1)).fetchall()
        assert once and (len(parsed) > once) is analyzed
