"""What is PostgreSQL's own: who writes, connections that are lost, refusals. All else runs over both by `--store`."""

import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
import trio

from daycare.base.documents import Attribution, Layer, NewVersion, Place
from daycare.base.errors import BrokenError, DaycareError, InvalidError, StoreAwayError
from daycare.base.messages import Lane, Origin
from daycare.base.store_location import give_password_back, shown
from daycare.features import open_store
from daycare.features.approvals.rows import ApprovalRows
from daycare.features.memory.documents.rows import DocumentRows
from daycare.store.postgres import schema, writer
from daycare.store.postgres.connection import BoundStatement, PostgresConnection
from daycare.store.postgres.location import ServerLocation
from daycare.store.postgres.lockstep import Lockstep
from daycare.store.records import User
from daycare.store.sqlite.database import migrations
from daycare.store.sqlite.store import Store
from tests import postgres
from tests.store.samples import PATH, HandClock, answer, letter, new_agent

SOON_S = 20.0


@pytest.fixture
def database() -> Iterator[str]:
    yield postgres.database()
    postgres.take_back()


def side(database: str) -> PostgresConnection:
    return PostgresConnection(ServerLocation(database), schema.dialect())


def kill_others(db: PostgresConnection) -> int:
    """End all other connections to a database, as a server does that is restarted; return how many."""
    return len(
        db.simple(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
            " AND pid <> pg_backend_pid()"
        )
    )


async def keys(store: Store) -> list[str]:
    agent = await store.agents.at(PATH)
    assert agent is not None
    return [row.envelope.key for row in await store.inbox.waiting(agent.id, Lane.MESSAGES)]


async def test_a_turn_is_there_after_the_store_was_opened_again(database: str) -> None:
    async with open_store(database, HandClock()) as store:
        await store.inbox.post(letter("a"), new_agent())
        turn = await answer(store, "b", result="done with it")
    async with open_store(database, HandClock()) as store:
        receipt = await store.inbox.receipt(turn.seqs[0])
        assert receipt is not None
        assert (receipt.state, receipt.result) == ("done", "done with it")
        again = await store.inbox.post(letter("b"))
        assert (again.duplicate, again.seq) == (True, turn.seqs[-1])


async def test_what_is_asked_of_none_is_answered_with_nothing(database: str) -> None:
    async with open_store(database, HandClock()) as store:
        assert await store.of(ApprovalRows).asked(()) == {}


async def test_a_connection_that_is_lost_between_two_writes_is_made_again_unseen(database: str) -> None:
    async with open_store(database, HandClock()) as store:
        await store.inbox.post(letter("a"), new_agent())
        assert kill_others(side(database)) >= 2
        await store.inbox.post(letter("b"))  # nobody is told
        with trio.fail_after(SOON_S):
            while True:
                try:
                    assert await keys(store) == ["a", "b"]
                    return
                except StoreAwayError:  # the reading one is made again by the watch
                    await trio.sleep(0.05)


@pytest.mark.parametrize("happened", [True, False])
async def test_a_commit_whose_answer_is_lost_is_settled_by_its_number(
    database: str, monkeypatch: pytest.MonkeyPatch, happened: bool
) -> None:
    other = side(database)
    lost: list[BoundStatement] = []

    def send(self: Lockstep, last: Sequence[BoundStatement] = ()) -> None:
        if last and not lost:
            lost.extend(last)
            if happened:
                plain(self, last)
            kill_others(other)
        plain(self, last)

    plain = Lockstep.send
    async with open_store(database, HandClock()) as store:
        await store.inbox.post(letter("a"), new_agent())
        monkeypatch.setattr(Lockstep, "send", send)
        receipt = await store.inbox.post(letter("b"))
        assert lost
        assert not receipt.duplicate
        assert other.simple("SELECT seq FROM inbox WHERE key = 'b'") == [(str(receipt.seq),)]
        await store.inbox.post(letter("c"))
    assert other.simple("SELECT key, count(*) FROM inbox GROUP BY key ORDER BY key") == [
        ("a", "1"), ("b", "1"), ("c", "1"),
    ]  # fmt: skip


async def test_a_commit_all_of_whose_answers_are_lost_is_known_for_what_it_was(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = PostgresConnection._until_sync

    def answers(self: PostgresConnection) -> list[Any]:
        found = plain(self)
        if found[-1].command_status == b"COMMIT" and losing:
            losing.clear()
            raise self._lost("cut")
        return found

    monkeypatch.setattr(PostgresConnection, "_until_sync", answers)
    losing: list[bool] = []
    async with open_store(database, HandClock()) as store:
        await store.inbox.post(letter("a"), new_agent())
        await store.people.add(User(id="ann", name="Ann"))
        for key in "bcd":
            losing.append(True)
            receipt = await store.inbox.post(letter(key))
            assert not losing and not receipt.duplicate
            assert side(database).simple(f"SELECT seq FROM inbox WHERE key = '{key}'") == [(str(receipt.seq),)]
        assert (await store.inbox.counts())["waiting"] == 4
        assert await store.people.get("ann") == User(id="ann", name="Ann")
        losing.append(True)
        await store._writer.write(lambda tx: tx.run("UPDATE users SET name = 'Anna'"))
        assert not losing
        assert await store.people.get("ann") == User(id="ann", name="Anna"), "what was remembered is read again"


async def test_a_server_that_has_lost_commits_is_read_again_from_the_start(database: str) -> None:
    other = side(database)
    async with open_store(database, HandClock()) as store:
        asked: list[str] = []
        store.share.ended = asked.append
        for key in ("a", "b", "c", "d"):
            await store.inbox.post(letter(key), new_agent())
        # as a standby has it that takes over and was three commits behind
        other.simple("DELETE FROM inbox WHERE key <> 'a'; UPDATE nodes SET batch = batch - 3")
        kill_others(other)
        for key in ("b", "e"):
            with pytest.raises(StoreAwayError, match="3 commits known here are not there any more") as refused:
                await store.inbox.post(letter(key))
            assert refused.value.code == "STORE_WENT_BACK"
        with trio.fail_after(SOON_S):
            while not asked:
                await trio.sleep(0.01)
        assert asked[0] == "the database has lost commits"
    async with open_store(database, HandClock()) as store:
        assert store.lost is not None
        assert store.lost.missing == {"commit": 3}
        again = await store.inbox.post(letter("b"))
        assert not again.duplicate
        assert sorted(await keys(store)) == ["a", "b"]
    other.simple("UPDATE nodes SET gone_at = now() - interval '25 hours'")
    async with open_store(database, HandClock()) as store:
        assert store.lost is None, "each start tells it for a day"


async def test_who_was_replaced_writes_nothing_more(database: str) -> None:
    other = side(database)
    async with open_store(database, HandClock()) as store:
        await store.inbox.post(letter("a"), new_agent())
        other.simple("UPDATE nodes SET epoch = epoch + 1")
        for key in ("b", "c"):
            with pytest.raises(StoreAwayError) as refused:
                await store.inbox.post(letter(key))
            assert refused.value.code == "STORE_FENCED"
        other.simple("UPDATE nodes SET epoch = epoch - 1")
        with pytest.raises(StoreAwayError):
            await store.inbox.post(letter("d"))  # nor if it were its turn again
    assert other.simple("SELECT key FROM inbox") == [("a",)]


async def test_two_do_not_work_on_one_database(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "LEASE_S", 1)
    async with open_store(database, HandClock()) as store:
        await store.inbox.post(letter("a"), new_agent())
        with pytest.raises(StoreAwayError) as refused:
            await trio.to_thread.run_sync(lambda: Store(database, HandClock(), inline=True, engine=_engine()))
        assert refused.value.code == "STORE_IN_USE"
        await store.inbox.post(letter("b"))  # and the first goes on


def _engine() -> Any:
    from daycare.store.postgres.engine import open_engine

    return open_engine


async def test_a_write_that_the_server_refuses_takes_no_other_with_it(database: str) -> None:
    async with open_store(database, HandClock()) as store:
        await store.inbox.post(letter("a"), new_agent())
        outcomes: dict[str, object] = {}

        async def post(key: str, text: str) -> None:
            try:
                outcomes[key] = await store.inbox.post(letter(key, text=text))
            except DaycareError as error:
                outcomes[key] = error

        async with trio.open_nursery() as nursery:
            for at in range(9):
                nursery.start_soon(post, f"k{at}", "half\0way" if at == 4 else "whole")
        refused = outcomes.pop("k4")
        assert isinstance(refused, InvalidError)
        assert refused.code == "TEXT_NUL"
        assert sorted(await keys(store)) == ["a", *sorted(outcomes)]


async def test_numbers_have_no_gap_where_a_write_was_undone(database: str) -> None:
    async with open_store(database, HandClock()) as store:
        first = await store.inbox.post(letter("a"), new_agent())
        with pytest.raises(InvalidError):
            await store.inbox.post_all([(letter("b"), None), (letter("c", text="\0"), None)])
        assert (await store.inbox.post(letter("d"))).seq == first.seq + 1


def test_a_schema_of_a_newer_daycare_is_refused(database: str) -> None:
    db = side(database)
    db.simple("UPDATE engine SET version = version + 1")
    with pytest.raises(BrokenError) as refused:
        schema.prepare(db)
    db.simple("UPDATE engine SET version = version - 1")
    assert refused.value.code == "STORE_FROM_FUTURE"
    assert schema.prepare(db) == []


_LATER: Final = """
ALTER TABLE inbox ADD COLUMN weight INTEGER NOT NULL DEFAULT 7;
CREATE TABLE weights (user TEXT NOT NULL, no INTEGER NOT NULL, body BLOB, PRIMARY KEY (user, no)) WITHOUT ROWID;
CREATE INDEX weights_heavy ON weights (no) WHERE no > 9;
INSERT INTO weights (user, no, body) SELECT user, seq, NULL FROM inbox WHERE state = 0;
CREATE TRIGGER weighed AFTER DELETE ON weights WHEN OLD.no > 0 BEGIN
    UPDATE inbox SET weight = weight + 1 WHERE seq = OLD.no;
END;
UPDATE inbox SET weight = 8 WHERE ifnull(text, '') = 'hello';
"""


async def test_a_schema_of_an_older_daycare_is_brought_up_to_date(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_store(database, HandClock()) as store:
        await store.inbox.post(letter("a", text="hello"), new_agent())
        await store.inbox.post(letter("b", text="bye"))
    known = migrations()
    later = (*known, (known[-1][0] + 1, "weights", _LATER))
    monkeypatch.setattr("daycare.store.sqlite.database.migrations", lambda: later)
    db = side(database)
    try:
        assert schema.prepare(db) == ["weights"]
        assert schema.prepare(db) == []
        db.simple("DELETE FROM weights WHERE no = 1")
        assert db.simple("SELECT key, weight FROM inbox ORDER BY seq") == [("a", "9"), ("b", "7")]
        assert db.simple('SELECT "user", no FROM weights') == [("u1", "2")]
        [(version,)] = db.simple("SELECT version FROM engine")
        assert int(str(version)) == later[-1][0]
    finally:
        db.simple("DROP TABLE weights; ALTER TABLE inbox DROP COLUMN weight; DROP FUNCTION weighed")
        db.simple(f"UPDATE engine SET version = {known[-1][0]}, oldest = {known[-1][0]}")


async def test_a_migration_that_fails_leaves_the_schema_as_it_was(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = migrations()
    later = (*known, (known[-1][0] + 1, "broken", "CREATE TABLE made (no INTEGER); SELECT nothing FROM nowhere;"))
    monkeypatch.setattr("daycare.store.sqlite.database.migrations", lambda: later)
    db = side(database)
    with pytest.raises(BrokenError):
        schema.prepare(db)
    assert db.simple("SELECT to_regclass('daycare.made'), version FROM engine") == [(None, str(known[-1][0]))]


async def test_documents_are_counted_along_and_again_by_a_daycare_that_begins_to(database: str) -> None:
    def counted(db: PostgresConnection) -> tuple[Any, Any]:
        [kept] = db.simple("SELECT many, size FROM documents_total")
        [there] = db.simple("SELECT count(*), coalesce(sum(size), 0) FROM documents_text")
        return kept, there

    async with open_store(database, HandClock()) as store:
        by = Attribution(origin=Origin.PERSON, author="ann")
        for n in range(9):
            place = Place(Layer.USER, "u1", f"{n % 4}.md")
            await store.of(DocumentRows).write(NewVersion(place=place, text=f"tea {n} " * n, by=by, user="u1"))
    db = side(database)
    kept, there = counted(db)
    assert kept == there != ("0", "0")
    db.simple("DROP TABLE documents_total; UPDATE engine SET functions = 'older'")
    schema.prepare(db)
    assert counted(db) == (there, there)


async def test_the_password_of_the_environment_is_for_no_other_program(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", "geheim77")
    async with open_store(database, HandClock()) as store:
        await store.inbox.post(letter("a"), new_agent())
        asked = [sys.executable, "-c", "import os; print(os.environ.get('PGPASSWORD'))"]
        told = await trio.run_process(asked, capture_stdout=True)
        assert told.stdout.strip() == b"None"
        assert b"geheim77" in ServerLocation(database).conninfo()  # connections that are made later still have it
        assert "geheim77" not in ServerLocation(database).shown
    give_password_back()
    assert os.environ["PGPASSWORD"] == "geheim77"
    monkeypatch.setattr("daycare.base.store_location._kept", {})


def test_what_an_operator_has_to_set_right_is_said_without_the_password() -> None:
    server = urlsplit(postgres.server())
    host = server.netloc.rpartition("@")[2]
    for location, code in (
        (f"postgresql://postgres:geheim99@{host}/there_is_none?{server.query}", "STORE_NO_DATABASE"),
        (f"postgresql://nobody_knows:geheim99@{host}/postgres?{server.query}", "STORE_PASSWORD"),
        ("postgresql://postgres:geheim99@127.0.0.1:1/x", "STORE_UNREACHABLE"),
        ("postgresql://postgres:geheim99@127.0.0.1", "STORE_LOCATION"),
    ):
        with pytest.raises(DaycareError) as refused:
            side(location)
        assert refused.value.code == code
        assert refused.value.hint
        assert "geheim99" not in str(refused.value)


@pytest.mark.parametrize(
    ("location", "told"),
    [
        ("daycare.db", "daycare.db"),
        (
            "postgresql://ann:pw@db.example:5433/day?sslmode=require",
            "postgresql://ann@db.example:5433/day?sslmode=require",
        ),
        ("postgres://a:b%40c@h1:1,h2:2/day?password=pw&x=1", "postgres://a@h1:1,h2:2/day?x=1"),
        ("postgresql:///day?host=/run/postgresql", "postgresql:///day?host=/run/postgresql"),
    ],
)
def test_a_location_is_shown_without_its_password(location: str, told: str) -> None:
    assert shown(location) == told


@pytest.mark.parametrize(
    ("sql", "translated", "order"),
    [
        ("SELECT user FROM t WHERE a = ?2 AND b = ?", 'SELECT "user" FROM t WHERE a = $1 AND b = $2', (1, 2)),
        ("SELECT 'user ?' LIMIT -1", "SELECT 'user ?' LIMIT ALL", ()),
        ("SELECT ? IS NULL OR a IS ?", "SELECT CAST($1 AS text) IS NULL OR a IS NOT DISTINCT FROM $2", (0, 1)),
        ("SELECT 1 WHERE operator AND a IS NULL", "SELECT 1 WHERE operator <> 0 AND a IS NULL", ()),
        ("SELECT count(*) FROM (SELECT 1) WHERE TRUE", "SELECT count(*) FROM (SELECT 1) AS these_7 WHERE TRUE", ()),
        ("DELETE FROM inbox WHERE seq BETWEEN ? AND seq", "DELETE FROM inbox WHERE seq BETWEEN $1 AND seq", (0,)),
        ("INSERT INTO spend (at) VALUES (:at)", "INSERT INTO spend (at) VALUES ($1) RETURNING spend.no", ("at",)),
    ],
)  # fmt: skip
def test_statements_are_put_in_other_words(sql: str, translated: str, order: tuple[object, ...]) -> None:
    found = schema.dialect().translate(sql)
    assert (found.text, found.order) == (translated, order)


def test_what_a_conflict_changes_is_said_with_the_table(database: str) -> None:
    db = side(database)
    add = "INSERT INTO dropped_letters (user, letters, first_at, last_at) VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET"
    for _ in range(2):
        db.execute(f"{add} letters = letters + excluded.letters, last_at = excluded.last_at", ("u", 2, 5, 7))
    assert db.execute("SELECT user, letters, last_at FROM dropped_letters").fetchall() == [("u", 4, 7)]
