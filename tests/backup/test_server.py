"""Backups of a store on a server: files like any other, put back into a database that is empty."""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest
import trio

from daycare.base.errors import BrokenError, ConflictError
from daycare.features import open_store
from daycare.features.backups import restoring
from daycare.features.backups.archive import DATABASE, opened
from daycare.features.backups.backup_store import publish
from daycare.features.backups.half import refuse_half
from daycare.features.backups.making import Making
from daycare.features.exports.stored import anonymous
from daycare.ops import moving
from daycare.store.home import Home
from daycare.store.moving.copier import Copier
from daycare.store.sqlite import copies
from tests import chance, postgres
from tests.moves import stores
from tests.store.samples import HandClock, post

NOW_MS = 1_800_000_000_000


@pytest.fixture
def server() -> Iterator[str]:
    yield postgres.empty_database()


@pytest.fixture
def home(tmp_path: Path, server: str) -> Home:
    """A home whose store is on the server."""
    found = Home(tmp_path / "home")
    found.prepare()
    stores.build(found.path / "daycare.db", 100, chance.SEED)
    moving.move(found, moving.MoveRequest(to=server, switch=True), stop=lambda: False)
    return found


def backed_up(home: Home, server: str, target: Path) -> Path:
    with anonymous(home.path) as file:
        Making(home, server, NOW_MS, False, pause=False).write(file)
        file.seek(0)
        publish(iter(lambda: file.read(65_536), b""), target, "")
    return target


def restored(file: Path, home: Home) -> None:
    restoring.restore(file, home, lambda: "", force=True, now_ms=round(time.time() * 1000))


def another(home: Home, tmp_path: Path, location: str) -> Home:
    found = Home(tmp_path / "another")
    found.prepare()
    found.config.write_text(f'[store]\nlocation = "{location}"\n')
    return found


def of_backup(rows: stores.Everything) -> stores.Everything:
    """Return rows without what a restore changes: replies that may arrive twice, and that it was one."""
    return {name: each for name, each in rows.items() if name not in ("outbox", "connector_memory", "counts")}


def test_the_database_in_a_backup_is_the_store_as_a_file(home: Home, server: str, tmp_path: Path) -> None:
    file = backed_up(home, server, tmp_path / "b.daycare-backup")
    with opened(file, lambda: "") as archive:
        assert archive.manifest.counts["messages"] > 100
        for entry, pieces in archive.files():
            data = b"".join(pieces)
            if entry.path == DATABASE:
                (tmp_path / "taken.db").write_bytes(data)
    assert stores.everything(str(tmp_path / "taken.db")) == stores.everything(server)
    asked = stores.answers(str(tmp_path / "taken.db"))
    assert stores.answers(server) == asked


def test_a_backup_of_a_server_is_made_while_a_daemon_writes(home: Home, server: str, tmp_path: Path) -> None:
    async def works() -> None:
        async with open_store(server, HandClock(), inline=True) as store:
            await post(store, "before")
            await trio.to_thread.run_sync(backed_up, home, server, tmp_path / "b.daycare-backup")
            await post(store, "behind")

    trio.run(works)
    report = restoring.look(tmp_path / "b.daycare-backup", home, lambda: "")
    assert report.manifest.counts["messages"] == len(stores.everything(server)["inbox"]) - 1


def test_a_restore_puts_all_into_an_empty_database_and_into_no_other(home: Home, server: str, tmp_path: Path) -> None:
    before = stores.everything(server)
    file = backed_up(home, server, tmp_path / "b.daycare-backup")
    with pytest.raises(ConflictError, match="there is something") as refused:
        restored(file, home)
    assert refused.value.code == "MOVE_TARGET_TAKEN"
    with pytest.raises(ConflictError) as refused:
        restored(file, another(home, tmp_path, "daycare.db"))
    assert refused.value.code == "RESTORE_ELSEWHERE", "settings of a backup open no server by themselves"
    postgres.emptied(server)
    fresh = another(home, tmp_path, server)
    restored(file, fresh)
    after = stores.everything(server)
    assert of_backup(after) == of_backup(before)
    assert stores.answers(server)


def test_a_restore_that_is_cut_off_goes_on(
    home: Home, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = stores.everything(server)
    file = backed_up(home, server, tmp_path / "b.daycare-backup")
    postgres.emptied(server)

    def cut(self: Copier) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Copier, "settle", cut)
    with pytest.raises(KeyboardInterrupt):
        restored(file, home)
    monkeypatch.undo()
    with pytest.raises(BrokenError, match="interrupted"):
        refuse_half(home)
    restored(file, home)
    refuse_half(home)
    assert of_backup(stores.everything(server)) == of_backup(before)


def test_a_half_store_is_restored_from_no_backup(home: Home, tmp_path: Path, server: str) -> None:
    half = tmp_path / "half.db"
    shutil.copy(home.path / "daycare.db", half)
    with apsw.Connection(str(half)) as db:
        db.execute("UPDATE store_move SET state = 'arriving'")
    with pytest.raises(BrokenError, match="was interrupted"):
        copies.mark_restored(half, copies.Restored(source="x", made_at=1, restored_at=2))
