"""Budgets in the store: reserved before, settled after, and counted for everything above."""

from pathlib import Path

import pytest
import trio

from daycare.base.budget import Measure, Use
from daycare.base.messages import Usage
from daycare.features import open_store
from daycare.features.budgets.records import BudgetRow, Ceiling, NewReservation, Reserved, Spent
from daycare.features.budgets.rows import BudgetRows
from daycare.features.history.rows import HistoryRows
from daycare.store.records import Spend, User
from daycare.store.sqlite.store import Store
from tests.store.samples import EPOCH_MS, HandClock, answer, new_agent

DAY = "2027-01-01"
MOST = Use(usd=100, tokens=1_000, calls=1, minutes=60_000)


def ceiling(path: str = "/u1", most: int = 1_000, name: str = "day.usd", key: str = DAY) -> Ceiling:
    measure: Measure = name.partition(".")[2]  # type: ignore[assignment]
    return Ceiling(path=path, name=name, key=key, measure=measure, most=most, limit=most)


def wish(path: str = "/u1/telegram", user: str = "u1", most: Use = MOST) -> NewReservation:
    return NewReservation(path=path, user=user, day=DAY, provider="p", model="m", most=most)


def spend(no: int = 0, *, turn: int = 1, micros: int = 7, agent: str = "id-u1-telegram") -> Spend:
    usage = Usage(input_tokens=30, output_tokens=12)
    return Spend(
        agent_id=agent,
        user="u1",
        turn=turn,
        provider="p",
        model="m",
        usage=usage,
        cost_micros=micros,
        wall_ms=5,
        reservation=no,
    )


async def days(store: Store, path: str = "/") -> list[Spent]:
    return await store.of(BudgetRows).spent(DAY, DAY, path=path)


async def used(store: Store, *paths: str) -> list[tuple[int, int]]:
    found = await store.of(BudgetRows).standings([ceiling(path) for path in paths])
    return [(it.used, it.reserved) for it in found]


async def test_a_reservation_counts_for_everything_above_and_the_settled_cost_in_its_place(store: Store) -> None:
    await store.agents.create(new_agent("/u1/telegram"))
    reserved = await store.of(BudgetRows).reserve(wish("/u1/telegram/sub/0"), [ceiling()])
    assert reserved.no > 0
    above = ("/u1/telegram/sub/0", "/u1/telegram", "/u1", "/")
    assert await used(store, *above, "/u1/telegra", "/u10", "/u1/telegram/sub/1") == [(0, 100)] * 4 + [(0, 0)] * 3
    await store.of(BudgetRows).settle(spend(reserved.no))
    assert await used(store, *above, "/u10") == [(7, 0)] * 4 + [(0, 0)]
    (row,) = await days(store)
    assert (row.path, row.calls, row.use) == ("/u1/telegram/sub/0", 1, Use(7, 42, 1, 5))


async def test_no_reservation_goes_over_a_ceiling_however_many_ask_at_once(store: Store) -> None:
    found: list[Reserved] = []

    async def ask(number: int) -> None:
        found.append(await store.of(BudgetRows).reserve(wish(f"/u1/agent/a{number}"), [ceiling(most=250)]))

    async with trio.open_nursery() as nursery:
        for number in range(64):
            nursery.start_soon(ask, number)
    assert sum(it.no > 0 for it in found) == 2  # a third would have made 300 of 250
    assert await used(store, "/u1") == [(0, 200)]
    refused = next(it for it in found if not it.no)
    assert refused.standings[0].reached and not refused.standings[0].used_up


async def test_a_call_settles_what_was_reserved_for_it_once(store: Store) -> None:
    first, second = [(await store.of(BudgetRows).reserve(wish(), [ceiling()])).no for _ in range(2)]
    for _ in range(2):  # a repeat after a failed commit
        await store.of(BudgetRows).settle(spend(first))
    assert await used(store, "/u1") == [(7, 100)]
    # The same again after a crash is another call, which has cost something, too.
    await store.of(BudgetRows).settle(spend(second))
    assert await used(store, "/u1") == [(14, 0)]
    assert (await store.of(BudgetRows).total())["cost_micros"] == 14
    assert await store.of(BudgetRows).total("u1") == {"input_tokens": 60, "output_tokens": 24, "cost_micros": 14}
    assert await store.of(BudgetRows).total("u2") == {"input_tokens": 0, "output_tokens": 0, "cost_micros": 0}


async def test_calls_without_a_reservation_are_counted_each(store: Store) -> None:
    agent = await store.agents.create(new_agent())
    for _ in range(2):
        await store.of(BudgetRows).settle(spend())
    (row,) = await days(store)
    assert (row.calls, row.cost_micros, row.path) == (2, 14, agent.path)


async def test_what_nobody_knows_the_end_of_counts_in_full_and_what_was_free_not_at_all(store: Store) -> None:
    cut, free = [(await store.of(BudgetRows).reserve(wish(), [ceiling()])).no for _ in range(2)]
    for _ in range(2):
        await store.of(BudgetRows).strand(cut)
        await store.of(BudgetRows).release(free)
    assert await used(store, "/u1") == [(100, 0)]
    (row,) = await days(store)
    assert (row.calls, row.unsettled, row.use) == (0, 1, Use(100, 1_000, 1, 60_000))
    await store.of(BudgetRows).settle(spend(cut))  # too late: it was taken for dead, and counts in full
    assert await used(store, "/u1") == [(100, 0)]


async def test_a_day_counts_for_its_month_and_for_no_other_day(store: Store) -> None:
    await store.of(BudgetRows).settle(spend((await store.of(BudgetRows).reserve(wish(), [])).no))
    keys = ("2027-01", "2026-12", DAY, "2027-01-02")
    found = await store.of(BudgetRows).standings([ceiling(key=key, name="day.tokens") for key in keys])
    assert [it.used for it in found] == [42, 0, 42, 0]
    await store.of(BudgetRows).reserve(wish(), [])
    found = await store.of(BudgetRows).standings([ceiling(key=key) for key in keys])
    assert [it.reserved for it in found] == [100, 0, 100, 0]


async def test_the_day_of_a_call_without_reservation_is_that_of_its_user(store: Store, clock: HandClock) -> None:
    await store.people.add(User(id="u1", name="U", zone="Asia/Tokyo"))
    clock.ms = EPOCH_MS + 16 * 3_600_000  # afternoon of the first in Greenwich, the second in Tokyo
    await store.of(BudgetRows).settle(spend())
    (row,) = await store.of(BudgetRows).spent("2027-01-02", "2027-01-02")
    assert row.cost_micros == 7


async def test_what_topics_of_a_chat_spend_counts_for_the_chat(store: Store) -> None:
    await store.people.add(User(id="fam", name="F", kind="group"))
    await store.people.add(User(id="fam-t7", name="F7", kind="group", parent="fam"))
    await store.of(BudgetRows).reserve(wish("/fam-t7/telegram", "fam-t7"), [])
    assert await used(store, "/fam", "/fam-t7", "/fam/telegram") == [(0, 100), (0, 100), (0, 0)]
    assert [row.path for row in await store.of(BudgetRows).spent(DAY, DAY, path="/fam")] == []


async def test_an_opened_store_takes_what_it_finds_reserved_for_dead(tmp_path: Path, clock: HandClock) -> None:
    for _ in range(2):
        async with open_store(str(tmp_path / "daycare.db"), clock) as store:
            no = (await store.of(BudgetRows).reserve(wish(), [])).no
    async with open_store(str(tmp_path / "daycare.db"), clock) as store:
        assert await used(store, "/u1") == [(200, 0)]
        (row,) = await days(store)
        assert (row.unsettled, row.unsettled_micros) == (2, 200)
        assert (await store.of(BudgetRows).reserve(wish(), [])).no > no, "numbers never come back"


async def test_limits_are_kept_as_they_were_set(store: Store, clock: HandClock) -> None:
    row = BudgetRow(
        path="/u1",
        limits={"day.usd": 5},
        raises={DAY: {"day.usd": 2}},
        set_by="ann",
        updated_at=clock.ms,
    )
    await store.of(BudgetRows).put(BudgetRow(path="/u1", limits={"day.calls": 1}))
    await store.of(BudgetRows).put(row)
    await store.of(BudgetRows).put(BudgetRow(path="/"))
    assert [each.path for each in await store.of(BudgetRows).find()] == ["/", "/u1"]
    assert (await store.of(BudgetRows).find())[1] == row
    assert await store.of(BudgetRows).remove("/u1") and not await store.of(BudgetRows).remove("/u1")


async def test_that_a_share_was_reached_is_news_once(store: Store) -> None:
    assert await store.of(BudgetRows).mark(ceiling(), 80)
    assert not await store.of(BudgetRows).mark(ceiling(), 80)
    assert await store.of(BudgetRows).mark(ceiling(), 100)
    assert await store.of(BudgetRows).mark(ceiling(most=2_000), 80), "a raised limit is another"


async def test_sums_do_not_grow_without_end(store: Store, clock: HandClock) -> None:
    for number in range(3):
        await store.of(BudgetRows).settle(
            spend((await store.of(BudgetRows).reserve(wish(f"/u1/telegram/sub/{number}"), [])).no)
        )
    await store.of(BudgetRows).settle(spend((await store.of(BudgetRows).reserve(wish("/u1/agent/memory"), [])).no))
    await store.of(BudgetRows).reserve(wish(), [])
    clock.ms += 100 * 86_400_000
    while await store.ledger.expire(0):
        pass
    rows = {row.path: row for row in await days(store)}
    assert {path: (row.calls, row.unsettled, row.cost_micros) for path, row in rows.items()} == {
        "/u1/telegram": (3, 1, 21),
        "/u1/agent/memory": (1, 0, 7),
    }
    clock.ms += 365 * 86_400_000
    while await store.ledger.expire(0):
        pass
    assert await days(store) == []
    assert sum(row.calls for row in await store.of(BudgetRows).spent("2027-01", "2027-01")) == 4
    assert (await store.of(BudgetRows).total())["cost_micros"] == 28 + 100


@pytest.mark.parametrize("name", ["day.usd", "day.tokens", "day.calls", "day.minutes"])
async def test_every_measure_is_counted(store: Store, name: str) -> None:
    await store.of(BudgetRows).strand((await store.of(BudgetRows).reserve(wish(), [])).no)
    await store.of(BudgetRows).settle(spend((await store.of(BudgetRows).reserve(wish(), [])).no))
    await store.of(BudgetRows).reserve(wish(), [])
    (it,) = await store.of(BudgetRows).standings([ceiling(name=name)])
    most, settled = MOST.of(it.ceiling.measure), Use(7, 42, 1, 5).of(it.ceiling.measure)
    assert (it.used, it.reserved) == (most + settled, most)


async def test_history_says_what_the_models_of_each_turn_took(store: Store) -> None:
    first, second = await answer(store, "one"), await answer(store, "two")
    for micros in (5, 7):
        usage = Usage(input_tokens=100, output_tokens=10, cached_tokens=80)
        await store.of(BudgetRows).settle(
            Spend(agent_id="", user="u1", turn=first.turn, provider="p", model="m", usage=usage, cost_micros=micros)
        )
    page = await store.of(HistoryRows).page(first.agent_id, before=second.turn + 1, limit=5)
    took = {it.turn: (it.input_tokens, it.cached_tokens, it.output_tokens, it.cost_micros) for it in page.turns}
    assert took == {first.turn: (200, 160, 20, 12), second.turn: (0, 0, 0, 0)}
