"""A person who is removed is gone from a server's tables as from a file's, and nobody else has lost anything."""

import shutil
from contextlib import closing
from pathlib import Path

import apsw
import pytest
import trio

from daycare.base.errors import ForbiddenError, NotFoundError, StoreAwayError
from daycare.features import open_store
from daycare.ops import moving
from daycare.ops.purging import look, purge
from daycare.store.home import Home
from tests import postgres
from tests.backup.samples import leave, tables
from tests.backup.test_purge import SUMS, home, life
from tests.moves import stores
from tests.store.samples import HandClock, post

__all__ = ["home", "life"]  # the fixtures
NOW_MS = 1_900_000_000_000


@pytest.fixture
def both(home: Home, tmp_path: Path) -> tuple[Home, Home, str]:
    """A home in which ann, ben and mia have left rows in every table, and the same with its store on a server."""
    file, server = home.path / "daycare.db", postgres.empty_database()
    with closing(apsw.Connection(str(file))) as db:
        [(agent,)] = db.execute("SELECT id FROM agents WHERE path = '/ben/direct'").fetchall()
        of = {"user": "ben", "agent_id": agent, "path": "/ben/direct", "payer": "/ben"}
        for name in tables(db):
            if name not in SUMS:
                leave(db, name, of, "xylophage4712")
        db.execute("DELETE FROM forgetting")  # of an interrupted one, which the next start would end
    other = Home(tmp_path / "server")
    shutil.copytree(home.path, other.path)
    moving.move(other, moving.MoveRequest(to=server, switch=True), stop=lambda: False)
    return home, other, server


def test_a_purge_takes_the_same_rows_from_a_server_as_from_a_file(both: tuple[Home, Home, str]) -> None:
    home, other, server = both
    before = stores.everything(server)
    assert look(other, "ben") == look(home, "ben")
    of_file, of_server = purge(home, "ben", NOW_MS), purge(other, "ben", NOW_MS)
    assert of_server.removed == of_file.removed and of_server.users == ("ben", "mia")
    assert stores.everything(server) == stores.everything(str(home.path / "daycare.db"))
    assert stores.everything(server) != before
    assert [each for each in of_server.copies if not Path(each).is_relative_to(other.path)] == []


def test_a_daemon_goes_on_after_a_purge_of_its_server(both: tuple[Home, Home, str]) -> None:
    _, other, server = both
    newest = max(row[0] for row in stores.everything(server)["inbox"])
    purge(other, "ben", NOW_MS)

    async def goes_on() -> None:
        async with open_store(server, HandClock(), inline=True) as store:
            assert await store.people.get("ben") is None and await store.people.get("ann") is not None
            row = await post(store, "behind")
            assert row.seq > newest, "a number was given twice"

    trio.run(goes_on)


def test_a_server_that_a_daemon_works_on_is_left_alone(
    both: tuple[Home, Home, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, other, server = both
    before = stores.everything(server)

    async def works() -> None:
        async with open_store(server, HandClock(), inline=True):
            monkeypatch.setattr("daycare.store.postgres.writer.LEASE_S", 0.1)  # that a purge waits for it to end
            with pytest.raises(StoreAwayError) as refused:
                await trio.to_thread.run_sync(purge, other, "ben", NOW_MS)
            assert refused.value.code == "STORE_IN_USE"

    trio.run(works)
    assert stores.everything(server) == before


def test_a_purge_that_fails_half_way_has_removed_nothing(
    both: tuple[Home, Home, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, other, server = both
    before = stores.everything(server)

    def fails(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("daycare.store.sqlite.purging._accounts", fails)
    with pytest.raises(KeyboardInterrupt):
        purge(other, "ben", NOW_MS)
    monkeypatch.undo()
    assert stores.everything(server) == before
    purge(other, "ben", NOW_MS)
    assert stores.everything(server) != before


def test_operators_and_unknown_people_are_refused_on_a_server(both: tuple[Home, Home, str]) -> None:
    _, other, _ = both
    with pytest.raises(ForbiddenError) as refused:
        purge(other, "ann", 1)
    assert refused.value.code == "PURGE_OPERATOR"
    with pytest.raises(NotFoundError):
        purge(other, "nobody", 1)
