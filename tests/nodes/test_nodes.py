"""Several daemons on one database: what a node knows and may do, and that what people send is answered once."""

import threading
import time
from collections import Counter
from pathlib import Path

import pytest
import trio
import trio.testing

from daycare.base.errors import BrokenError, StoreAwayError
from daycare.features import rows
from daycare.store.postgres import schema
from daycare.store.postgres.commit_words import HeardCommits, blank, encoded
from daycare.store.postgres.connection import PostgresConnection
from daycare.store.postgres.location import ServerLocation
from daycare.store.postgres.members import ACTS_SHARE, NodeIdentity, NodeMembership
from daycare.store.postgres.writer import Ownership
from daycare.store.share import SHARDS, DividedShare, chosen, shard_of
from daycare.testing.daemon import open_daemon
from tests import postgres


def connection(address: str) -> PostgresConnection:
    return PostgresConnection(ServerLocation(address), schema.dialect())


def joined(address: str, name: str, *, key: str = "key", lease_ms: int = 10_000) -> NodeMembership:
    member = NodeMembership(connection(address), NodeIdentity(name, "host", lease_ms, key, "settings"))
    member.claim()
    return member


def begun(member: NodeMembership) -> bool:
    """Begin a commit in an open transaction; return whether the member's epoch is there still."""
    since = time.monotonic()
    [(number, waited_ms)] = member._db.execute(*member.fence(heard_all=False)).fetchall()
    return member.begun(number, waited_ms, since)


def divided(member: NodeMembership) -> tuple[frozenset[int], frozenset[int]]:
    """Divide in a commit of the member's own."""
    member._db.simple("BEGIN")
    assert begun(member)
    division = member.divide(member._db)
    member._db.simple("COMMIT")
    member.batch += 1
    return division.take, division.give


def test_every_shard_has_one_node_and_few_move_with_another() -> None:
    before = {shard: chosen(shard, ("a", "b")) for shard in range(SHARDS)}
    after = {shard: chosen(shard, ("a", "b", "c")) for shard in range(SHARDS)}
    assert all(after[shard] in (before[shard], "c") for shard in range(SHARDS)), "only to the new one do shards move"
    assert min(Counter(after.values()).values()) > SHARDS / 5


def test_the_server_computes_a_users_shard_likewise() -> None:
    db = connection(postgres.database())
    for user in ("me", "u1", "Ünïcode", "", "role:connectors"):
        [(shard,)] = db.execute("SELECT shard_of(?)", (user,)).fetchall()
        assert shard == shard_of(user)


def test_a_node_that_joins_gets_its_share_once_the_other_gives_it() -> None:
    address = postgres.database()
    a, b = joined(address, "a"), joined(address, "b")
    assert divided(a)[0] == frozenset(range(SHARDS))
    take, _ = divided(b)
    assert not take, "all have a living owner"
    _, give = divided(a)
    assert give == {shard for shard in range(SHARDS) if chosen(shard, ("a", "b")) == "b"}
    a._db.simple("BEGIN")
    assert begun(a)
    a.give(a._db, give)
    a._db.simple("COMMIT")
    assert divided(b)[0] == give


def test_a_node_whose_lease_is_over_is_declared_dead_and_commits_nothing_more() -> None:
    address = postgres.database()
    a, b = joined(address, "a"), joined(address, "b")
    divided(a)
    a._db.simple("UPDATE nodes SET until = clock_timestamp() - interval '1 ms' WHERE node = 'a'")
    assert divided(b)[0] == frozenset(range(SHARDS))
    a._db.simple("BEGIN")
    assert not begun(a), "its epoch has gone"
    a._db.simple("ROLLBACK")
    assert not a.renew()
    with pytest.raises(StoreAwayError) as refused:
        a.reopen()
    assert refused.value.code == "STORE_FENCED"


def test_a_node_that_waited_for_the_commits_of_others_is_sure_of_its_lease_from_its_own_turn_on() -> None:
    address = postgres.database()
    a, other = joined(address, "a"), connection(address)
    other.simple("BEGIN; UPDATE writing SET number = number")
    a._db.simple("BEGIN")
    waiting = threading.Thread(target=begun, args=(a,))
    waiting.start()
    looking = connection(address)
    while not looking.simple("SELECT 1 FROM pg_locks WHERE NOT granted"):
        assert waiting.is_alive()
        time.sleep(0.01)
    other.simple("SELECT pg_sleep(0.5)")
    before = time.monotonic()
    other.simple("COMMIT")
    waiting.join()
    # All of the wait but for the way to the server, which may take a while on a busy machine.
    assert a.sure_until >= before + ACTS_SHARE * a.identity.lease_ms / 1000 - 0.3
    a._db.simple("ROLLBACK")


def test_a_lost_answer_to_a_commit_is_found_out_and_fences_the_old_connection() -> None:
    address = postgres.database()
    a = joined(address, "a")
    before = a.epoch
    a._db.simple("BEGIN")
    begun(a)
    a._db.simple("COMMIT")  # whose answer is lost
    assert a.reopen(), "it has happened"
    assert a.epoch == before + 1
    a._db.simple("BEGIN")
    begun(a)
    a._db._drop()  # before the commit
    assert not a.reopen(), "it has not"


def test_a_node_with_another_key_is_refused() -> None:
    address = postgres.database()
    joined(address, "a", key="one")
    with pytest.raises(BrokenError) as refused:
        joined(address, "b", key="another")
    assert refused.value.code == "NODE_KEY"


def test_nodes_and_a_daemon_that_works_alone_keep_each_other_out() -> None:
    address = postgres.database()
    alone = Ownership(connection(address))
    alone.claim()
    member = NodeMembership(connection(address), NodeIdentity("a", "host", 10, "key", "settings"))
    with pytest.raises(StoreAwayError) as refused:
        member.claim()
    assert refused.value.code == "STORE_IN_USE"
    alone.leave()
    member.claim()
    assert Ownership(connection(address))._try_to_claim(), "a node works on it"


def test_a_name_that_another_node_has_is_refused() -> None:
    address = postgres.database()
    first = joined(address, "a")
    with pytest.raises(StoreAwayError) as refused:
        joined(address, "a", lease_ms=10)
    assert first.renew()
    assert refused.value.code == "NODE_NAME_TAKEN"


def test_what_another_node_committed_is_heard_as_a_commit() -> None:
    news = {type(each).__name__: each for kind in rows() for each in kind.news}
    commit = blank()
    commit.completed.append((7, "done"))
    commit.agents.add("x")
    commit.connectors.add("direct")
    commit.timers = commit.people = True
    for each in news.values():
        commit.news[type(each)] = each
    heard = HeardCommits(news)
    heard.add(None, [encoded(commit, ["users"])])
    assert heard.commit.completed == [(7, None)]
    assert (heard.commit.agents, heard.commit.connectors) == ({"x"}, {"direct"})
    assert heard.commit.timers and heard.commit.people and heard.tables == {"users"}
    assert set(heard.commit.news) == set(commit.news)
    assert not encoded(blank(), []), "of nothing nothing is told"


async def test_a_part_of_one_node_is_cancelled_when_it_goes_to_another_and_runs_again_when_it_is_back() -> None:
    share = DividedShare("a")
    begun: list[trio.Event] = []

    async def part() -> None:
        begun.append(ended := trio.Event())
        try:
            await trio.sleep_forever()
        finally:
            ended.set()

    every = frozenset(range(SHARDS))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(share.while_held, "timers", part)
        await trio.testing.wait_all_tasks_blocked()
        assert not begun
        share.take(every, ())
        await trio.testing.wait_all_tasks_blocked()
        assert len(begun) == 1 and share.roles() == {"timers"}
        await share.drop(every)
        assert begun[0].is_set() and not share.holds("timers")
        share.take(every, ())
        await trio.testing.wait_all_tasks_blocked()
        assert len(begun) == 2
        await share.pause()
        assert not share.owns("me"), "while it is not sure of its lease it does nothing for anybody"
        share.resume()
        await trio.testing.wait_all_tasks_blocked()
        assert len(begun) == 3
        nursery.cancel_scope.cancel()


async def test_each_role_is_of_a_part_that_there_is(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, work=False) as house:
        of_several = {
            "files for other nodes",
            "events of nodes",
            "calls of nodes",
            "bucket",
        }  # "bucket": where one is set
        assert house.daemon.roles().keys() - house.daemon.background().keys() == of_several
