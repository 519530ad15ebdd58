"""The sums that limits ask for: exactly what could be counted, at the same cost however many agents there are."""

import random
from pathlib import Path

import pytest

from daycare.base.budget import Measure, Use, day_of
from daycare.base.errors import DaycareError, NotFoundError
from daycare.base.limits import BUDGET_STRAND_S
from daycare.base.messages import Usage
from daycare.features import open_store, rows
from daycare.features.budgets.records import Ceiling, NewReservation
from daycare.features.budgets.rows import BudgetRows
from daycare.features.budgets.rows_scopes import parts_of
from daycare.store.records import Spend, User
from daycare.store.sqlite.purging import purge
from daycare.store.sqlite.store import Store
from tests.chance import SEED
from tests.store import counting
from tests.store.samples import HandClock
from tests.stored import located
from tests.vm import Steps, counted

DAY_MS = 86_400_000
MOST = Use(usd=100, tokens=1_000, calls=1, minutes=60_000)
MEASURES: tuple[Measure, ...] = ("usd", "tokens", "calls", "minutes")
USED = {
    "usd": "cost_micros + unsettled_micros",
    "tokens": "input_tokens + output_tokens + unsettled_tokens",
    "calls": "calls + unsettled",
    "minutes": "wall_ms + unsettled_ms",
}
RESERVED = {"usd": "cost_micros", "tokens": "tokens", "calls": "1", "minutes": "wall_ms"}


def ceiling(path: str, key: str, measure: Measure = "usd", most: int = 10**12) -> Ceiling:
    return Ceiling(path=path, name=f"day.{measure}", key=key, measure=measure, most=most, limit=most)


def new(path: str, day: str) -> NewReservation:
    return NewReservation(path=path, user=path.split("/")[1], day=day, provider="p", model="m", most=MOST)


def spend(path: str, no: int = 0, *, micros: int = 7, tokens: int = 42) -> Spend:
    return Spend(
        agent_id="",
        user=path.split("/")[1],
        turn=0,
        provider="p",
        model="m",
        usage=Usage(tokens, 3),
        cost_micros=micros,
        wall_ms=5,
        reservation=no,
        path=path,
    )


# -- what it costs -----------------------------------------------------------------------------------------------------


async def reserving(folder: Path, topics: int) -> Steps:
    """Return what a call costs in a topic of a group that has so many, each with helpers that have spent today."""
    clock = HandClock()
    async with open_store(str(folder / f"{topics}.db"), clock) as store:
        day = day_of(clock.now_ms(), "UTC")
        await store.people.add(User(id="crew", name="Crew", kind="group"))
        for number in range(topics):
            topic = f"crew-{number}"
            await store.people.add(User(id=topic, name=topic, kind="group", parent="crew"))
            for helper in range(3):
                await store.of(BudgetRows).settle(spend(f"/{topic}/telegram/sub/{helper}"))
            await store.of(BudgetRows).reserve(new(f"/{topic}/telegram", day), [])
        paths = ("/crew-1/telegram", "/crew-1", "/crew", "/")
        ceilings = [ceiling(path, key) for path in paths for key in (day, day[:7])]
        with counted(store) as steps:
            reserved = await store.of(BudgetRows).reserve(new("/crew-1/telegram", day), ceilings)
            await store.of(BudgetRows).settle(spend("/crew-1/telegram", reserved.no))
        assert reserved.no and reserved.standings[4].used == topics * 3 * 7, "the group pays for all of its topics"
        return steps


async def test_a_reservation_costs_the_same_with_ten_topics_and_with_five_hundred(tmp_path: Path) -> None:
    few, many = await reserving(tmp_path, 10), await reserving(tmp_path, 500)
    assert many.all <= 1.2 * few.all, f"{few.all} steps with few topics, {many.all} with many:\n{many}"


# -- whether they are right --------------------------------------------------------------------------------------------


def counted_out(store: Store, path: str, key: str) -> dict[Measure, tuple[int, int]]:
    """Return what counts for a path by looking through all that was spent and reserved."""
    db = store._db
    found: dict[Measure, tuple[int, int]] = {}
    for measure in MEASURES:
        used = reserved = 0
        for root, which in parts_of(db, path):
            [(sum_,)] = db.execute(
                f"SELECT coalesce(sum({USED[measure]}), 0) FROM spending WHERE key = ?2 AND {which}", (root, key)
            )
            used += sum_
            [(sum_,)] = db.execute(
                f"SELECT coalesce(sum({RESERVED[measure]}), 0) FROM reservations"
                f" WHERE day >= ?2 AND day < ?2 || '~' AND {which}",
                (root, key),
            )
            reserved += sum_
        found[measure] = used, reserved
    return found


async def check(store: Store, chance: random.Random, paths: list[str]) -> None:
    """Compare the sums of some paths with what counts."""
    keys = [str(key) for (key,) in store._db.execute("SELECT DISTINCT key FROM spending")]
    keys += [str(key) for (key,) in store._db.execute("SELECT DISTINCT day FROM reservations")] or ["2027-01-01"]
    for path in chance.sample(paths, 6):
        key = chance.choice(keys)
        key = key[:7] if chance.random() < 0.5 else key
        standings = await store.of(BudgetRows).standings([ceiling(path, key, measure) for measure in MEASURES])
        assert {it.ceiling.measure: (it.used, it.reserved) for it in standings} == counted_out(store, path, key), (
            f"{path} in {key}"
        )


@pytest.mark.parametrize("round_", range(6))
async def test_sums_are_what_could_be_counted_whatever_happens(tmp_path: Path, round_: int) -> None:
    print(f"SEED={SEED}")
    chance = random.Random(f"{SEED}/{round_}")
    file, clock = str(tmp_path / "daycare.db"), HandClock()
    users = ["ann", "bob", "cy", "crew", "t1", "t2"]
    agents = [f"/{user}{rest}" for user in users for rest in ("/telegram", "/telegram/sub/0", "/agent/x/sub/1/sub/0")]
    agents += ["/ann/task/1", "/ann/task/1/sub/0", "/ann/cron/daily", "/ann/subuser/bob", "/ann/subuser/bob/sub/3"]
    agents += ["/bob/subuser/cy", "/bob", "/t1/telegram/memory", "/t2/telegram/search/0"]
    paths = [*agents, *(f"/{user}" for user in users), "/", "/ann/subuser", "/bob/subuser", "/ann/cron", "/ann/agent"]
    parents: dict[str, str | None] = {"bob": "ann", "cy": "bob", "t1": "crew", "t2": "crew"}
    open_: list[tuple[int, str]] = []
    there: set[str] = set()
    for _ in range(4):
        async with open_store(file, clock, inline=True) as store:
            open_.clear()  # what an earlier process had reserved counts in full
            if not there:
                store._db.execute(
                    "INSERT OR IGNORE INTO tasks (path, user, origin, asker, key, prompt, parameters, deliver,"
                    " connector, waits, state, after_turn, agent_id, seq, trace, created_at, deadline_at, payer,"
                    " ended_at)"
                    " VALUES ('/ann/task/1', 'ann', 'agent', '', 'k', '', '{}', '', '', 0, 'done', 0, '', 0, '', 0, 0,"
                    " '/ann/agent/x/sub/1', 1)"
                )
            for _ in range(60):
                what = chance.choice(("reserve", "reserve", "settle", "settle", "spend", "release", "strand", "user"))
                path = chance.choice(agents)
                if what == "reserve":
                    day = day_of(clock.now_ms(), chance.choice(("UTC", "Pacific/Auckland")))
                    limit = ceiling(chance.choice(paths), day, most=chance.choice((300, 10**9)))
                    reserved = await store.of(BudgetRows).reserve(new(path, day), [limit])
                    open_ += [(reserved.no, path)] if reserved.no else []
                elif what == "spend":
                    await store.of(BudgetRows).settle(
                        spend(path, micros=chance.randrange(9), tokens=chance.randrange(9))
                    )
                elif what == "user":
                    user = chance.choice(users)
                    if user in there and chance.random() < 0.5:
                        await store.people.remove(user)
                        there = {each.id for each in await store.people.find()}  # all below went along
                        parents[user] = chance.choice([None, *sorted(there)])
                    elif user not in there and (parents.get(user) or user) in {user, *there}:
                        await store.people.add(User(id=user, name=user, parent=parents.get(user)))
                        there.add(user)
                elif open_:
                    no, where = open_.pop(chance.randrange(len(open_)))
                    if what == "settle":
                        await store.of(BudgetRows).settle(spend(where, no, micros=chance.randrange(200)))
                        await store.of(BudgetRows).settle(spend(where, no))  # a repeat
                    elif what == "release":
                        await store.of(BudgetRows).release(no)
                    else:
                        await store.of(BudgetRows).strand(no)
                if chance.random() < 0.05:
                    clock.ms += chance.choice((DAY_MS // 3, DAY_MS, 40 * DAY_MS, 500 * DAY_MS))
                if chance.random() < 0.1:
                    await store.ledger.expire(clock.now_ms() - DAY_MS)
                await check(store, chance, paths)
            counting.check(store)
        gone = chance.choice(users)
        try:
            purge(located(Path(file)), gone, clock.now_ms(), rows())
        except DaycareError as refused:
            assert refused.code == "USER_UNKNOWN"
        there = {user for user in there if user != gone}
        async with open_store(file, clock, inline=True) as store:
            there &= {user.id for user in await store.people.find()}
            await check(store, chance, paths)
            counting.check(store)


async def test_what_is_stranded_for_its_age_is_in_the_sums_in_full(tmp_path: Path) -> None:
    clock = HandClock()
    async with open_store(str(tmp_path / "daycare.db"), clock, inline=True) as store:
        day = day_of(clock.now_ms(), "UTC")
        await store.of(BudgetRows).reserve(new("/ann/telegram", day), [])
        clock.ms += round(1000 * BUDGET_STRAND_S) + 1
        await store.ledger.expire(clock.now_ms() - DAY_MS)
        [standing] = await store.of(BudgetRows).standings([ceiling("/ann", day)])
        assert (standing.used, standing.reserved) == (100, 0)


async def test_nobody_is_put_below_somebody_who_is_below_them(tmp_path: Path) -> None:
    async with open_store(str(tmp_path / "daycare.db"), inline=True) as store:
        await store.people.add(User(id="ann", name="Ann"))
        await store.people.add(User(id="bob", name="Bob", parent="ann"))
        await store.people.remove("ann")  # and bob with her
        with pytest.raises(NotFoundError, match="bob"):
            await store.people.add(User(id="ann", name="Ann", parent="bob"))
