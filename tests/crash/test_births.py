"""A first start that was interrupted is taken up by the next one."""

from pathlib import Path

import apsw
import pytest

from daycare.ops.setup import initialise


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    return folder


def test_what_an_interrupted_start_left_is_made_anew(home: Path) -> None:
    for name in ("daycare.db.new", "daycare.db.new-wal", "daycare.db.new-shm", "daycare.db-wal"):
        (home / name).write_bytes(b"half of something")
    assert initialise(home, user_id="ann")["user"] == "ann"
    assert {file.name for file in home.glob("daycare.db*")} == {"daycare.db"}, "whole, and nothing beside it"
    db = apsw.Connection(str(home / "daycare.db"), flags=apsw.SQLITE_OPEN_READONLY)
    assert db.execute("SELECT id, operator FROM users").fetchall() == [("ann", 1)]
    assert db.execute("SELECT * FROM user_connector_keys").fetchall()[0][:2] == ("direct:ann", "ann")
    db.close()


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
