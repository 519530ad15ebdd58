"""Two stores of one database in one process: each hears what the other commits, and does what is its own."""

import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from msgspec.structs import replace

from daycare.base.errors import BrokenError, UnavailableError
from daycare.base.messages import Envelope, Origin
from daycare.base.path import Kind
from daycare.base.roles import of_connector
from daycare.features import open_store
from daycare.settings import NodeSection
from daycare.store.moving import note as notes
from daycare.store.moving.note import MoveNote, State
from daycare.store.postgres import schema
from daycare.store.postgres.connection import PostgresConnection
from daycare.store.postgres.location import ServerLocation
from daycare.store.records import Commit, NewAgent, NewTimer, User
from daycare.store.share import DividedShare
from daycare.store.sqlite.store import Store
from daycare.store.vault import open_vault
from tests import postgres

DEADLINE_S = 30.0


class Ear:
    """What one store has heard."""

    def __init__(self, store: Store) -> None:
        self.commits: list[Commit] = []
        self._something = trio.Event()
        store.subscribe(self._hear)

    def _hear(self, commit: Commit) -> None:
        self.commits.append(commit)
        something, self._something = self._something, trio.Event()
        something.set()

    async def posted(self, seq: int) -> None:
        """Wait until a message was heard of."""
        with trio.fail_after(DEADLINE_S):
            while all(row.seq != seq for commit in self.commits for row in commit.posted):
                await self._something.wait()

    async def completed(self, seq: int) -> None:
        """Wait until the end of a message was heard of."""
        with trio.fail_after(DEADLINE_S):
            while all(done != seq for commit in self.commits for done, _ in commit.completed):
                await self._something.wait()


async def nothing_to_let_go() -> None:
    pass


@asynccontextmanager
async def two(folder: Path) -> AsyncGenerator[tuple[Store, Store], None]:
    """Open two nodes' stores, once all shards have an owner and each some."""
    address, vault = postgres.database(), open_vault(folder / "key")
    async with AsyncExitStack() as opened:
        stores = []
        for name in ("a", "b"):
            node = NodeSection(name=name, lease_s=30.0), vault, ""
            store = await opened.enter_async_context(open_store(address, node=node))
            store.share.work(lambda suspects: None, nothing_to_let_go)
            stores.append(store)
        with trio.fail_after(DEADLINE_S):
            while sum(len(_share(store).shards) for store in stores) != 256 or not all(
                _share(store).shards for store in stores
            ):
                await trio.sleep(0.02)
        yield stores[0], stores[1]


def _share(store: Store) -> DividedShare:
    assert isinstance(store.share, DividedShare)
    return store.share


async def heard(store: Store, other: Store) -> None:
    """Wait until one has heard of what the other has committed so far."""
    here: Any = store._writer
    there: Any = other._writer
    with trio.fail_after(DEADLINE_S):
        while here.membership.applied < there.membership.applied:
            await trio.sleep(0.01)


async def agent_of(store: Store, user: str) -> None:
    """Add a user with an agent."""
    await store.people.add(User(id=user, name=user))
    new = NewAgent(
        id=f"{user:x>24}", path=f"/{user}/agent/x", kind=Kind.AGENT, role=None, user=user, origin=Origin.PERSON
    )
    await store.agents.create(new)


def message(user: str, key: str) -> Envelope:
    """Return a message to that agent."""
    return Envelope(
        to=f"/{user}/agent/x", user=user, origin=Origin.PERSON, sender=f"direct:{user}", key=key, text="hi", trace="t"
    )


def someone(store: Store) -> str:
    """Return a user whose work is done on the node of a store."""
    return next(user for user in (f"u{number}" for number in range(1_000)) if store.share.owns(user))


async def test_a_message_that_one_node_takes_is_heard_by_the_node_of_its_user_and_no_other(tmp_path: Path) -> None:
    async with two(tmp_path) as (a, b):
        ears = Ear(a), Ear(b)
        user = someone(b)
        await agent_of(a, user)
        receipt = await a.inbox.post(message(user, "1"))
        await ears[1].posted(receipt.seq)
        agent = await b.agents.at(f"/{user}/agent/x")
        assert agent is not None
        assert await b.inbox.agents_with_work() == [agent.id], "whoever starts there finds it, too"
        assert await a.inbox.agents_with_work() == []
        [row] = await b.inbox.waiting(agent.id)
        await b.inbox.conclude(agent, row, "done")
        await ears[0].completed(receipt.seq)
        found = await a.inbox.receipt(receipt.seq)
        assert found is not None and found.result == "done", "who waits for the answer asks on any node"


async def test_numbers_grow_in_the_order_of_commits_whoever_writes_and_a_key_counts_everywhere(tmp_path: Path) -> None:
    async with two(tmp_path) as (a, b):
        user = someone(a)
        await agent_of(a, user)
        seqs = [(await store.inbox.post(message(user, f"{number}"))).seq for number in range(5) for store in (a, b)]
        assert seqs[::2] == seqs[1::2], "the second of each key is a repeat"
        assert seqs[::2] == sorted(set(seqs))
        assert await a.inbox.counts() == {"waiting": 5}


async def test_what_was_read_of_users_is_read_again_once_another_node_has_changed_them(tmp_path: Path) -> None:
    async with two(tmp_path) as (a, b):
        assert await b.people.get("x") is None, "which is remembered"
        await a.people.add(User(id="x", name="X"))
        with trio.fail_after(DEADLINE_S):
            while await b.people.get("x") is None:
                await trio.sleep(0.02)


async def test_a_cursor_is_committed_by_the_node_alone_that_is_connected(tmp_path: Path) -> None:
    async with two(tmp_path) as (a, b):
        names = [f"telegram-{number}" for number in range(64)]
        assert {store.share.holds(of_connector(name)) for name in names for store in (a, b)} == {True, False}
        for name in (names[0], next(each for each in names if a.share.holds(of_connector(each)))):
            holder, other = (a, b) if a.share.holds(of_connector(name)) else (b, a)
            assert not other.share.holds(of_connector(name))
            await holder.intake.take(name, [], "7")
            with pytest.raises(UnavailableError) as refused:
                await other.intake.take(name, [], "8")
            assert refused.value.code == "CONNECTOR_MOVED"
            assert await other.intake.recall(name) == "7"


async def test_a_plugin_that_connects_all_its_accounts_together_has_one_role_for_them(tmp_path: Path) -> None:
    async with two(tmp_path) as (a, b):
        role = of_connector("bridge")
        holder, other = (a, b) if a.share.holds(role) else (b, a)
        for name in ("bridge-x", "bridge-y", "bridge-z"):
            await holder.intake.take(name, [], "7", role)
            with pytest.raises(UnavailableError):
                await other.intake.take(name, [], "8", role)


async def test_what_is_due_is_seen_to_by_the_node_of_its_user_and_no_other(tmp_path: Path) -> None:
    async with two(tmp_path) as (a, b):
        for number, store in enumerate((a, b)):
            user = someone(store)
            await agent_of(a, user)
            agent = await a.agents.at(f"/{user}/agent/x")
            assert agent is not None
            envelope = replace(message(user, f"timer {number}"), agent_id=agent.id)
            await b.timers.add(NewTimer(agent_id=agent.id, key="t", due_at=10 + number, envelope=envelope))
        with trio.fail_after(DEADLINE_S):
            while await a.timers.next_due() != 10:
                await trio.sleep(0.02)
        assert await b.timers.next_due() == 11
        assert await b.timers.fire(100, 10) == 1
        assert await a.timers.find(), "the other waits for its node"
        assert await a.timers.fire(100, 10) == 1
        assert not await a.timers.find()


async def test_leases_are_the_servers_matter_whatever_the_clock_of_a_node_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two(tmp_path) as (a, b):
        right = time.time
        monkeypatch.setattr(time, "time", lambda: right() + 3_600)
        user = someone(a)
        await agent_of(b, user)
        await b._writer.beat()  # type: ignore[attr-defined]
        division = await b._writer.write(lambda tx: b._writer.membership.divide(tx.db))  # type: ignore[attr-defined]
        assert not division.dead, "nobody's lease is over"
        assert (await a.inbox.post(message(user, "1"))).seq


@pytest.mark.parametrize(("state", "code"), [("left", "STORE_MOVED"), ("arriving", "STORE_HALF_MOVED")])
async def test_no_node_opens_a_store_that_was_moved_or_is_half_moved(tmp_path: Path, state: State, code: str) -> None:
    address, vault = postgres.database(), open_vault(tmp_path / "key")
    server = PostgresConnection(ServerLocation(address), schema.dialect())
    notes.write(server, MoveNote(state=state, other="elsewhere", at=0))
    server.close()
    with pytest.raises(BrokenError) as refused:
        async with open_store(address, node=(NodeSection(name="a", lease_s=30.0), vault, "")):
            pass
    assert refused.value.code == code
