"""Writes of one batch on a server: side by side by user, in few round trips, and none spoils another."""

from collections.abc import Awaitable, Callable, Iterator
from random import Random
from typing import Any

import pytest
import trio
import trio.testing

from daycare.base.errors import ConflictError, DaycareError
from daycare.base.messages import Lane
from daycare.features import open_store
from daycare.store.sqlite.store import Store
from daycare.store.sqlite.writer import Tx, user_of
from tests import chance, postgres
from tests.store.samples import HandClock, end, letter, new_agent

USERS = 24


@pytest.fixture
def database() -> Iterator[str]:
    yield postgres.database()
    postgres.take_back()


async def together(*writes: Callable[[], Awaitable[object]], asked: Callable[[], None] = lambda: None) -> list[object]:
    """Ask for writes at once, in this order, and call `asked`; return what each came to."""
    found: list[object] = [None] * len(writes)

    async def one(at: int) -> None:
        try:
            found[at] = await writes[at]()
        except DaycareError as error:
            found[at] = error

    async with trio.open_nursery() as nursery:
        for at in range(len(writes)):
            nursery.start_soon(one, at)
            await trio.testing.wait_all_tasks_blocked()
        asked()
    return found


def note(store: Store, name: str, words: str, user: str = "") -> Callable[[], Awaitable[object]]:
    """Return a write that reads what a name is, and writes that with more words."""

    def run(tx: Tx) -> str:
        row = tx.one("SELECT value FROM connector_memory WHERE connector = 'x' AND name = ?", (name,))
        text = f"{row[0] if row else ''}{words}"
        tx.run(
            "INSERT INTO connector_memory (connector, name, value, at) VALUES ('x', ?, ?, 0)"
            " ON CONFLICT (connector, name) DO UPDATE SET value = excluded.value",
            (name, text),
        )
        if words == "!":
            raise ConflictError("NO", "after its change")
        return text

    return lambda: store._writer.write(run, user=user)


async def hold(store: Store) -> Callable[[], None]:
    """Keep the writer busy, so that what is asked for meanwhile is one batch; return what lets it go on."""
    go = trio.Event()

    def run(tx: Tx) -> None:
        trio.from_thread.run(go.wait)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(store._writer.write, run)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()  # it is carried out all the same
    return go.set


async def at_once(store: Store, *writes: Callable[[], Awaitable[object]]) -> list[object]:
    """Have all of these in one batch."""
    return await together(*writes, asked=await hold(store))


async def test_a_turn_of_everybody_takes_as_few_round_trips_as_one_of_somebody(database: str) -> None:
    trips: list[int] = []
    async with open_store(database, HandClock()) as store:
        server: Any = store._db

        async def turns(of: range, key: str) -> None:
            paths = [f"/u{n}/telegram" for n in of]
            before = server.trips
            await at_once(store, *(lambda path=path: store.inbox.post(letter(key, path)) for path in paths))
            agents = [await store.agents.at(path) for path in paths]
            rows = [await store.inbox.waiting(agent.id) for agent in agents if agent is not None]
            pairs = list(zip(agents, rows, strict=True))
            begun = await at_once(store, *(lambda pair=pair: store.turns.begin(*pair) for pair in pairs))
            done = [(agent, turn, end(turn, "an answer")) for agent, turn in zip(agents, begun, strict=True)]  # type: ignore[arg-type]
            await at_once(store, *(lambda each=each: store.turns.finish(*each) for each in done))
            trips.append(server.trips - before)

        for n in range(2 * USERS):
            await store.inbox.post(letter("first", f"/u{n}/telegram"), new_agent(f"/u{n}/telegram", user=f"u{n}"))
            agent = await store.agents.at(f"/u{n}/telegram")
            assert agent is not None
            turn = await store.turns.begin(agent, await store.inbox.waiting(agent.id))
            await store.turns.finish(agent, turn, end(turn, "an answer"))
        await turns(range(1), "k")
        await turns(range(1, USERS), "k")
    alone, many = trips
    assert (
        many <= alone <= 7
    )  # one for each commit, three of which keep the writer busy, and one look at who lives there


async def test_what_is_not_as_it_is_as_a_rule_is_done_again_and_others_of_the_batch_with_it(database: str) -> None:
    async with open_store(database, HandClock()) as store:
        server: Any = store._db
        for n in range(3):
            await store.inbox.post(letter("a", f"/u{n}/telegram"), new_agent(f"/u{n}/telegram", user=f"u{n}"))
        posts = [
            lambda n=n, key=key: store.inbox.post(letter(key, f"/u{n}/telegram")) for n in range(3) for key in "ab"
        ]
        found: list[Any] = await at_once(store, *posts)
        assert [each.duplicate for each in found] == [True, False] * 3
        seqs = [each.seq for each in found]
        assert seqs[::2] == [1, 2, 3]
        assert 3 < seqs[1] < seqs[3] < seqs[5]
        assert (await store.inbox.counts())["waiting"] == 6
        agent = await store.agents.at("/u0/telegram")
        assert agent is not None
        turn = await store.turns.begin(agent, await store.inbox.waiting(agent.id))
        await store.turns.finish(agent, turn, end(turn, "an answer"))
        with pytest.raises(ConflictError):
            await store.turns.finish(agent, turn, end(turn, "another"))
        assert (await store.inbox.counts())["waiting"] == 4
        before = server.trips
        for _ in range(40):
            await store.inbox.post(letter("a", "/u1/telegram"))
        assert server.trips - before <= 40 * 4, "after a wrong guess there is none for a while"


async def test_writes_of_one_user_see_each_other_in_order_and_those_of_nobody_see_all(database: str) -> None:
    async with open_store(database, HandClock()) as store:
        writes = [
            *(note(store, "ann", "1", "ann"), note(store, "eve", "a", "eve"), note(store, "ann", "2", "ann")),
            *(note(store, "ann", "-"), note(store, "eve", "-"), note(store, "ann", "3", "ann")),
        ]
        assert await at_once(store, *writes) == ["1", "a", "12", "12-", "a-", "12-3"]


async def test_a_write_that_fails_after_its_change_takes_no_other_with_it(database: str) -> None:
    async with open_store(database, HandClock()) as store:
        writes = [note(store, f"u{n % 7}", "!" if n in (4, 9) else str(n % 10), f"u{n % 7}") for n in range(21)]
        found = await at_once(store, *writes)
        for at, each in enumerate(found):
            assert isinstance(each, ConflictError) == (at in (4, 9))
        kept = await store.intake.recall_all("x", "u")
    assert kept["u4"] == "18"
    assert kept["u2"] == "26"
    assert kept["u0"] == "074"


@pytest.mark.parametrize("seed", [chance.SEED + each for each in range(20 if chance.WHOLE else 2)])
async def test_whatever_comes_together_is_what_it_is_one_after_another(database: str, seed: int) -> None:
    print(f"seed {seed}")
    random = Random(seed)
    expected: dict[str, str] = {}
    async with open_store(database, HandClock()) as store:
        for _ in range(6):
            plans = []
            for _ in range(random.randrange(1, 40)):
                name, words = f"u{random.randrange(5)}", random.choice("abcdef!")
                plans.append((name, words, name if random.randrange(4) else ""))
            found = await at_once(store, *(note(store, *plan) for plan in plans))
            for (name, words, _), came in zip(plans, found, strict=True):
                if words == "!":
                    assert isinstance(came, ConflictError)
                else:
                    expected[name] = expected.get(name, "") + words
                    assert came == expected[name]
        assert await store.intake.recall_all("x", "u") == expected


async def test_messages_of_one_agent_keep_their_order(database: str) -> None:
    async with open_store(database, HandClock()) as store:
        paths = [f"/u{n}/telegram" for n in range(3)]
        for n, path in enumerate(paths):
            await store.inbox.post(letter("first", path), new_agent(path, user=f"u{n}"))
        keys = [(f"k{n}", paths[n % 3]) for n in range(60)]
        await at_once(store, *(lambda key=key, path=path: store.inbox.post(letter(key, path)) for key, path in keys))
        for path in paths:
            agent = await store.agents.at(path)
            assert agent is not None
            rows = await store.inbox.waiting(agent.id, Lane.MESSAGES, limit=100)
            assert [row.envelope.key for row in rows] == ["first", *(key for key, to in keys if to == path)]


def test_the_user_of_paths_is_theirs_alone() -> None:
    assert user_of("/ann/telegram") == "ann"
    assert user_of("/ann/telegram", "/ann/agent/x/sub/1") == "ann"
    assert user_of("/ann/telegram", "/eve/telegram") == ""
    assert user_of("/ann/telegram", "/") == ""
