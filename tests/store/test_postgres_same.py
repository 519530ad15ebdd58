"""The same calls give the same answers, and leave the same rows, in SQLite and in PostgreSQL."""

import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from random import Random
from typing import Any

import pytest

from daycare.base.documents import Attribution, Layer, NewVersion, Place
from daycare.base.errors import BrokenError, DaycareError
from daycare.base.messages import EnvelopeKind, Origin
from daycare.features import open_store
from daycare.features.memory.documents.rows import DocumentRows
from daycare.store.postgres import schema
from daycare.store.records import User
from daycare.store.sqlite.packing import PACKED
from daycare.store.sqlite.store import Store
from tests import chance, postgres
from tests.store.samples import HandClock, end, letter, new_agent, timer, tool_step

CALLS = 250
PATHS = ("/u1/telegram", "/u1/direct", "/u2/telegram")
_PAGE = re.compile(r"[0-9a-z]{24}")


class Player:
    """Makes the calls of one seed over one store; what they draw is drawn alike for each store."""

    def __init__(self, store: Store, clock: HandClock, seed: int) -> None:
        self.store, self.clock, self.random = store, clock, Random(seed)
        self.turns: dict[str, Any] = {}

    async def step(self) -> object:
        """Make one call, and return what it answered or how it refused."""
        self.clock.ms += self.random.randrange(5_000)
        call = self.random.choice(self._calls())
        try:
            return call.__name__, await call()
        except BrokenError:
            raise  # a statement that one engine does not take
        except DaycareError as error:
            return call.__name__, type(error).__name__, error.code

    def _calls(self) -> list[Callable[[], Awaitable[object]]]:
        return [
            *(self.post, self.post, self.post, self.begin, self.finish, self.finish, self.journal, self.state),
            *(self.look, self.deliver, self.timer, self.document, self.search, self.person, self.expire, self.secret),
            *(self.dead, self.replay, self.remember, self.child),
        ]

    def _path(self) -> str:
        return self.random.choice(PATHS)

    async def _agent(self) -> Any:
        return await self.store.agents.at(self._path())

    async def post(self) -> object:
        path, key = self._path(), f"k{self.random.randrange(10**9)}"  # a repeat costs a number there, and none here
        kind = self.random.choice([EnvelopeKind.TEXT, EnvelopeKind.NOTE])
        new = new_agent(path, agent_id=f"id{path}-{key}", user=path.split("/")[1])
        text = self.random.choice(["plain", "grün \U0001f600 'quoted' \"twice\"", "x" * 3_000, ""])
        return await self.store.inbox.post(letter(key, path, text=text, kind=kind, user=new.user), new)

    async def begin(self) -> object:
        agent = await self._agent()
        if agent is None or agent.id in self.turns:
            return None
        rows = await self.store.inbox.waiting(agent.id, limit=5)
        if not rows:
            return None
        self.turns[agent.id] = agent, await self.store.turns.begin(agent, rows)
        return rows, self.turns[agent.id]

    async def finish(self) -> object:
        if not self.turns:
            return None
        agent, turn = self.turns.pop(self.random.choice(sorted(self.turns)))
        await self.store.turns.finish(agent, turn, end(turn, *(["one", "two"][: self.random.randrange(3)])))
        return turn

    async def journal(self) -> object:
        if not self.turns:
            return None
        _, turn = self.turns[self.random.choice(sorted(self.turns))]
        await self.store.turns.journal([tool_step(turn, self.random.randrange(3))])
        return await self.store.turns.load(turn.turn)

    async def state(self) -> object:
        agent = await self._agent()
        if agent is None:
            return None
        self.turns.pop(agent.id, None)
        return await self.store.agents.set_state(agent.id, self.random.choice(["parked", "living", "dead"]), "why")

    async def child(self) -> object:
        agent = await self._agent()
        if agent is None:
            return None
        new = new_agent(agent.path, agent_id=f"c{self.random.randrange(10**9)}", user=agent.user, kind="sub")
        return await self.store.agents.create_child(agent.id, "sub", new)

    async def look(self) -> object:
        store = self.store
        agent = await self._agent()
        mine = [] if agent is None else await store.inbox.waiting(agent.id)
        return (
            *(mine, await store.agents.find(limit=50, include_dead=True), await store.agents.count()),
            *(await store.inbox.agents_with_work(), await store.inbox.counts(), await store.upkeep.oldest_unread()),
            *(await store.upkeep.vitals(0), await store.inbox.receipt(self.random.randrange(1, 40))),
            sorted(await store.agents.recency("u1", "connector"), key=repr),  # in no order
        )

    async def deliver(self) -> object:
        store, waiting = self.store, await self.store.outbox.unread(self._path(), limit=5)
        for row in waiting[:2]:
            await store.outbox.start(row.seq)
            if self.random.randrange(3):
                await store.outbox.sent([row.seq], "receipt")
            else:
                await store.outbox.give_up(row.seq, "REFUSED", "they do not want it")
        return waiting, await store.outbox.count()

    async def timer(self) -> object:
        agent = await self._agent()
        if agent is None:
            return None
        due = self.clock.ms + self.random.randrange(-9_000, 9_000)
        await self.store.timers.add(timer(agent, f"t{self.random.randrange(4)}", due))
        return await self.store.timers.next_due()

    async def document(self) -> object:
        place = Place(Layer.USER, self.random.choice(["u1", "u2"]), f"{self.random.choice('abc')}.md")
        some = ("running", "runs", "House", "grün", "tea", "kettle")
        words = self.random.choices(some, k=self.random.randrange(1, 9))
        by = Attribution(origin=Origin.PERSON, author="ann", approver="ann", reason="said")
        new = NewVersion(place=place, text=" ".join(words), by=by, user=place.owner, key="")
        return await self.store.of(DocumentRows).write(new)

    async def search(self) -> object:
        rows = self.store.of(DocumentRows)
        words = [self.random.choice(["run", "houses", "grun", "tea", "none"]) for _ in range(2)]
        found = rows.search([(Layer.USER, "u1"), (Layer.USER, "u2")], words)
        return [(it.version.place.owner, it.version.place.name, it.text) for it in found]

    async def person(self) -> object:
        name = f"p{self.random.randrange(4)}"
        await self.store.people.add(
            User(id=name, name=name, zone="Etc/UTC", kind="person", parent=self.random.choice([None, "p0"]))
        )
        return await self.store.people.find()

    async def expire(self) -> object:
        before = self.clock.ms - self.random.randrange(200_000)
        return await self.store.ledger.expire(before), await self.store.upkeep.expire_agents(before)

    async def secret(self) -> object:
        await self.store.secrets.put("name", "u1", bytes([self.random.randrange(256)] * 9))
        return self.store.secrets.get("name")

    async def dead(self) -> object:
        return await self.store.dead.find(limit=20)

    async def replay(self) -> object:
        return await self.store.dead.replay(self.random.randrange(1, 9))

    async def remember(self) -> object:
        await self.store.intake.remember("tg", f"n{self.random.randrange(5)}", self.random.choice(["", "x", "y"]))
        return await self.store.intake.recall_all("tg", "n")


def everything(store: Store) -> dict[str, list[tuple[Any, ...]]]:
    """Return all rows of all tables; a timer that is set again has another number in each engine."""
    found = {}
    for name, table in schema.tables().items():
        if name != "sqlite_sequence":
            kept = [each for each in table.columns if (name, each) != ("timers", "no")]
            read = ", ".join(f"unpacked({each})" if (name, each) in PACKED else each for each in kept)
            rows = store._db.execute(f"SELECT {read} FROM {name}").fetchall()
            found[name] = sorted(map(tuple, rows), key=repr)
    return found


def differences(one: Any, two: Any) -> Iterator[tuple[Any, Any]]:
    """Yield where two answers are not the same."""
    if isinstance(one, tuple | list) and isinstance(two, tuple | list) and len(one) == len(two):
        for first, second in zip(one, two, strict=True):
            yield from differences(first, second)
    elif one != two:
        yield one, two


@pytest.mark.parametrize("seed", [chance.SEED + each for each in range(20 if chance.WHOLE else 2)])
async def test_the_same_calls_have_the_same_answers(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daycare.store.sqlite.agents.new_agent_id", lambda: "never")
    print(f"seed {seed}")
    try:
        async with AsyncExitStack() as opened:
            players = []
            for location in ("memory:", postgres.database()):
                clock = HandClock()
                store = await opened.enter_async_context(open_store(location, clock, inline=True))
                players.append(Player(store, clock, seed))
            one, two = players
            for at in range(CALLS):
                first, second = await one.step(), await two.step()
                assert first == second, f"call {at}: {list(differences(first, second))}"
            rows, others = everything(one.store), everything(two.store)
            for table in rows:
                assert rows[table] == others[table], table
    finally:
        postgres.take_back()
