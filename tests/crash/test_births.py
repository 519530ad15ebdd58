"""A first start that was interrupted is taken up by the next one."""

from pathlib import Path

import apsw
import pytest

from daycare.base.errors import BrokenError
from daycare.features.backups.backup_store import name_of
from daycare.ops.setup import initialise
from daycare.process import _prepare


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    return folder


def test_what_an_interrupted_start_left_is_made_anew(home: Path) -> None:
    for name in ("daycare.db.new", "daycare.db.new-wal", "daycare.db.new-shm", "daycare.db-wal"):
        (home / name).write_bytes(b"half of something")
    assert initialise(home, user_id="ann")["user"] == "ann"
    assert {file.name for file in home.glob("daycare.db*")} == {"daycare.db", "daycare.db.mark"}, "whole, and no more"
    db = apsw.Connection(str(home / "daycare.db"), flags=apsw.SQLITE_OPEN_READONLY)
    assert db.execute("SELECT id, operator FROM users").fetchall() == [("ann", 1)]
    assert db.execute("SELECT * FROM user_connector_keys").fetchall()[0][:2] == ("direct:ann", "ann")
    db.close()


@pytest.mark.parametrize(
    "trace", ["daycare.db.mark", "daycare.log", "starts.json", "daycare.db.rescued-20270101-000000"]
)
def test_a_home_whose_database_is_gone_gets_no_empty_one_by_itself(home: Path, trace: str) -> None:
    initialise(home, user_id="ann")
    for file in home.glob("daycare.db*"):
        file.unlink()
    (home / trace).touch(mode=0o600)
    with pytest.raises(BrokenError) as refused:
        _prepare(home)  # as every program does that brings a daemon
    assert (refused.value.code, refused.value.exit_code) == ("STORE_GONE", 78)
    assert trace in refused.value.message and "daycare init --new" in refused.value.hint
    assert ("mv " if "rescued" in trace else "daycare restore BACKUP --force") in refused.value.hint
    assert not (home / "daycare.db").exists()
    assert initialise(home, user_id="ann", new=True)["user"] == "ann"
    _prepare(home)


def test_the_newest_backup_is_named_where_a_database_is_gone(home: Path) -> None:
    initialise(home, user_id="ann")
    for file in home.glob("daycare.db*"):
        file.unlink()
    (home / "backups").mkdir()
    for day in (1, 2):
        (home / "backups" / name_of(1_800_000_000_000 + day * 86_400_000, scheduled=True)).touch()
    with pytest.raises(BrokenError) as refused:
        initialise(home)
    newest = max((home / "backups").iterdir())
    assert f"daycare restore {newest} --force" in refused.value.hint


def test_a_database_that_is_there_keeps_its_operator(home: Path) -> None:
    initialise(home, user_id="ann")
    assert initialise(home, user_id="bob")["user"] == "ann"


def test_a_start_that_is_told_to_end_while_it_makes_its_database_leaves_with_that_code(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def told_to_end(*_: object) -> None:
        raise SystemExit(143)  # as the handler of SIGTERM does

    with monkeypatch.context() as patched:
        patched.setattr("daycare.ops.setup.introduce", told_to_end)
        with pytest.raises(SystemExit) as left:
            initialise(home, user_id="ann")
    assert left.value.code == 143
    assert initialise(home, user_id="ann")["user"] == "ann"
