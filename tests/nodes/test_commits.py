"""Commits of several nodes one after another: each is made with what the others have committed, or is done again."""

from pathlib import Path
from random import Random
from typing import Any

import pytest
import trio

from daycare.base.errors import UnavailableError
from daycare.store.records import Agent, User
from daycare.store.share import SHARDS
from daycare.store.sqlite.sql import fetch
from daycare.store.sqlite.store import Store
from daycare.store.sqlite.writer import Tx
from tests import chance
from tests.nodes.test_stores import DEADLINE_S, agent_of, heard, message, someone, two
from tests.store.samples import end


def deaf(store: Store) -> None:
    """Let a node hear of others' commits by its own alone."""
    writer: Any = store._writer
    writer._listen = lambda db: None


def trips(store: Store) -> int:
    server: Any = store._db
    return int(server.trips)


async def agent_at(store: Store, user: str) -> Agent:
    found = await store.agents.at(f"/{user}/agent/x")
    assert found is not None
    return found


async def turn_of(store: Store, agent: Agent, answer: str = "an answer") -> int:
    """Do a turn about what waits; return its session."""
    turn = await store.turns.begin(agent, await store.inbox.waiting(agent.id))
    await store.turns.finish(agent, turn, end(turn, answer))
    return turn.session


async def test_a_commit_made_without_what_another_node_has_committed_is_done_again_with_it(tmp_path: Path) -> None:
    async with two(tmp_path) as (a, b):
        deaf(a)
        user = someone(a)
        await agent_of(a, user)
        agent = await agent_at(a, user)
        for key in ("1", "2"):
            await a.inbox.post(message(user, key))
            assert await turn_of(a, agent) == agent.session, "which is remembered"
        found = []
        for key in ("3", "4", "5"):
            before = trips(a)
            await a.inbox.post(message(user, key))
            found.append(trips(a) - before)
        assert min(found) == 1
        assert await b.agents.new_session(agent.id, "asked for") == agent.session + 1
        before = trips(a)
        assert await turn_of(a, agent) == agent.session + 1
        assert trips(a) - before > 2, "the first of the two was refused, and done again"


async def test_what_is_remembered_is_dropped_once_it_is_heard_that_another_node_has_changed_it(tmp_path: Path) -> None:
    async with two(tmp_path) as (a, b):
        user = someone(a)
        await agent_of(a, user)
        agent = await agent_at(a, user)
        await a.inbox.post(message(user, "1"))
        await turn_of(a, agent)
        memory = a._writer.memory
        assert agent.id in memory.sessions and agent.path in memory.living
        await b.inbox.post(message(user, "2"))
        await heard(a, b)
        await a.inbox.post(message(user, "3"))
        assert agent.id in memory.sessions and agent.path in memory.living, "a message is no reason"
        await b.agents.new_session(agent.id, "asked for")
        await heard(a, b)
        assert agent.id not in memory.sessions


async def test_others_read_again_what_the_last_statement_of_a_commit_has_changed(tmp_path: Path) -> None:
    async with two(tmp_path) as (a, b):
        await a.people.add(User(id="x", name="X"))
        await heard(b, a)
        found = await b.people.get("x")
        assert found is not None and found.name == "X", "which is remembered"
        await a._writer.write(lambda tx: tx.run("UPDATE users SET name = 'Y' WHERE id = 'x'", ()))
        with trio.fail_after(DEADLINE_S):
            while (found := await b.people.get("x")) is None or found.name != "Y":
                await trio.sleep(0.02)


async def test_a_node_whose_place_was_taken_does_nothing_with_what_it_knew(tmp_path: Path) -> None:
    async with two(tmp_path) as (a, b):
        user = someone(b)
        await agent_of(a, user)
        here: Any = a._writer
        there: Any = b._writer

        def bury(tx: Tx) -> None:
            tx.run("UPDATE nodes SET until = clock_timestamp() - 1000 * interval '1 ms' WHERE node = 'a'", ())
            assert there.membership.divide(tx.db).dead == ("a",)

        await b._writer.write(bury)
        with pytest.raises(UnavailableError) as refused:
            await here.write(lambda tx: here.membership.give(tx.db, range(SHARDS)))
        assert refused.value.code == "STORE_FENCED"
        with pytest.raises(UnavailableError):
            await a.inbox.post(message(user, "1"))
        rows = await b._writer.write(lambda tx: tx.db.execute("SELECT DISTINCT node FROM shards").fetchall())
        assert rows == [("b",)]
        assert await b.inbox.counts() == {"waiting": 0}


@pytest.mark.parametrize("seed", [chance.SEED + each for each in range(10 if chance.WHOLE else 2)])
async def test_what_a_node_remembers_is_what_is_there_whoever_commits_when(tmp_path: Path, seed: int) -> None:
    print(f"seed {seed}")
    random = Random(seed)
    async with two(tmp_path) as stores:
        if random.randrange(2):
            deaf(stores[0])
        users = [f"u{number}" for number in range(6)]
        for user in users:
            await agent_of(stores[0], user)

        lanes = {user: trio.Lock() for user in users}  # an agent has one turn at a time, as in a daemon

        async def work(store: Store, seed: str) -> None:
            chance_of_it = Random(seed)
            for number in range(30):
                user = chance_of_it.choice(users)
                agent = await agent_at(store, user)
                match chance_of_it.randrange(5):
                    case 0:
                        await store.agents.new_session(agent.id, "asked for")
                    case 1 if store.share.owns(user):
                        async with lanes[user]:
                            if await store.inbox.waiting(agent.id):
                                await turn_of(store, agent)
                    case _:
                        await store.inbox.post(message(user, f"{seed}/{number}"))
                if chance_of_it.randrange(3) == 0:
                    await trio.sleep(0.01)

        async with trio.open_nursery() as nursery:
            for number, store in enumerate(stores):
                for each in range(2):
                    nursery.start_soon(work, store, f"{seed}/{number}/{each}")

        def look(tx: Tx) -> None:
            rows = fetch(tx.db, "SELECT agent_id, count(*) FROM inbox WHERE state = 0 GROUP BY agent_id")
            waiting = {str(agent_id): int(many) for agent_id, many in rows}
            assert tx.memory.waiting == waiting
            assert tx.memory.unread == sum(waiting.values())
            agents = tx.db.execute("SELECT id, path, session FROM agents WHERE state <> 'dead'").fetchall()
            assert tx.memory.living.items() <= {path: agent_id for agent_id, path, _ in agents}.items()
            assert tx.memory.sessions.items() <= {agent_id: session for agent_id, _, session in agents}.items()

        for store in (*stores, *stores):
            await store._writer.write(look)
        seqs = await stores[0]._writer.write(lambda tx: tx.db.execute("SELECT seq FROM inbox ORDER BY seq").fetchall())
        assert seqs == [(number,) for number in range(1, len(seqs) + 1)], "nothing was undone but what gave no number"
