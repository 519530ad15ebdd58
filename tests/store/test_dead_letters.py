"""What every store promises of dead letters: a bound for all, and whoever has most makes room."""

from typing import Any

import pytest

from daycare.store.records import Arrival, DeadLetter, Fragment, User
from daycare.store.sqlite.letters import insert
from daycare.store.sqlite.store import Store
from tests.cost import IN_STEP, costs_at_most
from tests.store.samples import HandClock, answer, begin, letter

BOT = "telegram"
MOST = 20


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daycare.store.sqlite.letters.DEAD_LETTERS_MAX", MOST)


async def give_up(store: Store, user: str, *numbers: int) -> None:
    """Let messages of a user become dead letters."""
    entries = [
        Fragment(key=f"{user}-{n}", code="TOO_LONG", reason="too long", body="words", user=user) for n in numbers
    ]
    await store.intake.take(BOT, entries)


async def left(store: Store, user: str) -> list[int]:
    """Return which of a user's letters are left, oldest first."""
    letters = [it for it in await store.dead.find(limit=1_000) if it.user == user]
    return sorted(int(it.trace.rpartition("-")[2]) for it in letters)


@pytest.mark.usefixtures("few")
async def test_who_has_most_dead_letters_makes_room_and_others_keep_theirs(store: Store) -> None:
    await give_up(store, "ann", *range(3))
    await give_up(store, "ben", *range(5))
    await give_up(store, "eve", *range(500))
    assert (await left(store, "ann"), await left(store, "ben")) == ([*range(3)], [*range(5)])
    assert await left(store, "eve") == [*range(488, 500)], "their own oldest"
    await give_up(store, "ann", *range(3, 40))
    kept = [len(await left(store, user)) for user in ("ann", "ben", "eve")]
    assert (sum(kept), kept[1], abs(kept[0] - kept[2]) <= 1) == (MOST, 5, True)


@pytest.mark.usefixtures("few")
async def test_dropped_dead_letters_are_counted_by_whose_they_were_until_pruned(store: Store, clock: HandClock) -> None:
    assert await store.dead.dropped() == []
    await give_up(store, "ann", 1)
    await give_up(store, "eve", *range(50))
    clock.ms += 5
    await give_up(store, "eve", 50)
    [drop] = await store.dead.dropped()
    assert (drop.user, drop.letters, drop.first_at, drop.last_at) == ("eve", 32, clock.ms - 5, clock.ms)
    await store.dead.prune(before_ms=clock.ms)
    assert len(await store.dead.dropped()) == 1, "the last was not before"
    clock.ms += 1
    await store.dead.prune(before_ms=clock.ms)
    assert await store.dead.dropped() == []
    await give_up(store, "eve", *range(100, 100 + MOST))
    assert len(await left(store, "eve")) == MOST, "what was pruned is not counted any more"
    assert await store.dead.dropped() == []


@pytest.mark.usefixtures("few")
async def test_topics_and_sub_users_have_the_share_of_those_above_them(store: Store) -> None:
    await store.people.add(User(id="club", name="Club", kind="group"))
    for n in range(10):
        await store.people.add(User(id=f"club-t{n}", name="Topic", kind="group", parent="club"))
    await give_up(store, "ann", *range(8))
    for n in range(10):
        await give_up(store, f"club-t{n}", *range(10))
    assert await left(store, "ann") == [*range(8)]
    assert [drop.user for drop in await store.dead.dropped()] == ["club"]


@pytest.mark.usefixtures("few")
async def test_a_write_that_is_undone_counts_no_letter(store: Store) -> None:
    """Nor does one that is tried again without another one that spoiled its commit."""

    def spoiled(tx: Any) -> None:
        insert(tx, "intake", 0, "", "", "ann", "person", "x:ann-99", "TOO_LONG", "too long", 1, "words")
        raise ZeroDivisionError

    await give_up(store, "ann", *range(10))
    for _ in range(30):
        with pytest.raises(ZeroDivisionError):
            await store._writer.write(spoiled)
    await give_up(store, "eve", *range(10))
    assert (await left(store, "ann"), await left(store, "eve")) == ([*range(10)], [*range(10)])
    assert await store.dead.dropped() == []


async def test_all_kinds_of_letters_have_a_share(store: Store) -> None:
    await answer(store, "a")
    agent, turn, _ = await begin(store, "b")
    await store.turns.park(agent, turn, code="X", reason="y")
    await store.intake.take(BOT, [Arrival(envelope=letter("gone", "/u1/agent/gone"))])
    assert [it.user for it in await store.dead.find()] == ["u1", "u1"]
    assert isinstance(await store.dead.get(1), DeadLetter)


async def test_a_letter_costs_the_same_however_many_there_are() -> None:
    def filled(many: int) -> Store:
        store = Store("memory:", HandClock(), inline=True)
        tx_run = store._db.execute
        tx_run("BEGIN")
        for n in range(many):
            tx_run(
                "INSERT INTO dead_letters (source, seq, agent_id, path, user, origin, trace, code, reason, attempts,"
                " body, created_at, share) VALUES ('intake', 0, '', '', ?1, 'person', ?2, 'X', 'y', 1, 'words', 1, ?1)",
                (f"user-{n % 10}", f"x:{n}"),
            )
        tx_run("COMMIT")
        store._writer.memory.load(store._db)
        return store

    numbers = iter(range(10**9))

    def bury(store: Store) -> None:
        for _ in range(50):
            row = ("intake", 0, "", "", "eve", "person", f"e:{next(numbers)}", "X", "y", 1, "words")
            store._writer._write_inline(lambda tx, row=row: insert(tx, *row))  # type: ignore[misc]

    few_, many = filled(10), filled(10_000)
    assert costs_at_most(IN_STEP, lambda: bury(many), lambda: bury(few_))
    few_.shut()
    many.shut()
