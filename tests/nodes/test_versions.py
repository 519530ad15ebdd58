"""Two versions of daycare on one database: who may work beside whom, and that an upgrade has nobody stop."""

from typing import Final

import pytest

from daycare.base.errors import BrokenError, StoreAwayError
from daycare.store.postgres import schema, versions
from daycare.store.postgres.connection import PostgresConnection
from daycare.store.postgres.location import ServerLocation
from daycare.store.postgres.members import NodeIdentity, NodeMembership
from daycare.store.postgres.writer import Ownership
from daycare.store.sqlite.database import migrations
from tests import postgres

KNOWN: Final = migrations()
NUMBER: Final = KNOWN[-1][0]
BESIDE: Final = f"-- nodes-from: {NUMBER:04}\nALTER TABLE inbox ADD COLUMN weight INTEGER NOT NULL DEFAULT 7;"
APART: Final = "ALTER TABLE inbox ADD COLUMN weight INTEGER NOT NULL DEFAULT 7;"


@pytest.fixture
def address() -> str:
    found = postgres.empty_database()
    schema.prepare(connection(found))
    return found


def connection(address: str) -> PostgresConnection:
    return PostgresConnection(ServerLocation(address), schema.dialect())


def joined(address: str, name: str) -> NodeMembership:
    member = NodeMembership(connection(address), NodeIdentity(name, "host", 10_000, "key", "settings"))
    member.claim()
    return member


def newer(monkeypatch: pytest.MonkeyPatch, sql: str) -> None:
    """Be a daycare with one migration more."""
    later = (*KNOWN, (NUMBER + 1, "weights", sql))
    monkeypatch.setattr("daycare.store.sqlite.database.migrations", lambda: later)
    monkeypatch.setattr(versions, "__version__", "9.0.0")
    monkeypatch.setattr(schema, "__version__", "9.0.0")


def test_a_newer_node_migrates_beside_older_ones_that_its_migration_names(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = joined(address, "a")
    with monkeypatch.context() as patched:
        newer(patched, BESIDE)
        assert schema.prepare(connection(address), "b") == ["weights"]
        joined(address, "b")
    assert old.renew()
    old.leave()
    assert schema.prepare(connection(address), "a") == [], "the older one may be started again"
    joined(address, "a")


def test_a_newer_node_waits_for_older_ones_that_its_migration_does_not_name(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = joined(address, "a")
    newer(monkeypatch, APART)
    with pytest.raises(StoreAwayError) as refused:
        schema.prepare(connection(address), "b")
    assert refused.value.code == "NODE_VERSION" and "a is " in refused.value.message
    assert connection(address).simple("SELECT version FROM engine") == [(str(NUMBER),)], "nothing is touched"
    old.leave()
    assert schema.prepare(connection(address), "b") == ["weights"]


def test_a_node_comes_back_newer_although_its_last_life_was_older(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    joined(address, "a")  # and was killed: its lease goes on
    newer(monkeypatch, APART)
    assert schema.prepare(connection(address), "a") == ["weights"]


def test_an_older_node_joins_no_schema_that_it_cannot_work_with_not_even_in_the_last_moment(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = NodeMembership(connection(address), NodeIdentity("a", "host", 10_000, "key", "settings"))
    with monkeypatch.context() as patched:
        newer(patched, APART)
        schema.prepare(connection(address), "b")
    with pytest.raises(BrokenError) as refused:
        late.claim()
    assert refused.value.code == "STORE_FROM_FUTURE"
    with pytest.raises(BrokenError):
        schema.prepare(connection(address), "a")


def test_an_older_daemon_that_works_alone_takes_no_newer_schema(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = Ownership(connection(address))
    with monkeypatch.context() as patched:
        newer(patched, BESIDE)
        schema.prepare(connection(address))
    with pytest.raises(BrokenError) as refused:
        alone.claim()
    assert refused.value.code == "STORE_FROM_FUTURE"
    with pytest.raises(BrokenError):
        schema.prepare(connection(address))


def test_functions_are_those_of_the_newest_release_that_has_worked(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = connection(address)
    db.simple("UPDATE engine SET functions = 'another'")
    with monkeypatch.context() as patched:
        newer(patched, BESIDE)
        schema.prepare(db, "b")
    [(mark, release)] = db.simple("SELECT functions, release FROM engine")
    assert (mark != "another", release) == (True, "9.0.0")
    db.simple("UPDATE engine SET functions = 'of 9.0.0'")
    schema.prepare(db, "a")
    assert db.simple("SELECT functions FROM engine") == [("of 9.0.0",)]


def test_a_database_of_before_versions_could_differ_is_taken_over(address: str) -> None:
    db = connection(address)
    db.simple("ALTER TABLE engine DROP COLUMN oldest, DROP COLUMN release; ALTER TABLE nodes DROP COLUMN schema")
    db.simple("UPDATE engine SET functions = 'of before'")
    assert schema.prepare(db, "a") == []
    assert db.simple("SELECT version, oldest, release <> '' FROM engine") == [(str(NUMBER), str(NUMBER), "t")]
