"""A million agents: what is asked for often costs the same with a thousand agents and with twenty thousand.

What is compared are steps of SQLite's machine; seconds are for `python -m tests.bench million`.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path

import trio

from daycare.base.budget import day_of
from daycare.config import Config, ModelsSection, ProviderSection
from daycare.features.budgets.records import NewReservation
from daycare.features.budgets.rows import BudgetRows
from daycare.store.records import Spend
from daycare.testing.clock import VirtualClock
from daycare.testing.daemon import TestDaemon, open_daemon
from tests.bench import crowd
from tests.budgets.test_sums import MOST, ceiling
from tests.budgets.test_sums import spend as call
from tests.store import counting
from tests.vm import Steps, counted

FEW, MANY = 1_000, 20_000
BUSY = 20  # people for whom something waits
PERSON = "u5"
Work = Callable[[TestDaemon], Awaitable[object]]


def told(text: str, user: str) -> Work:
    """Let somebody type a command, and wait for the answer."""

    async def run(house: TestDaemon) -> str:
        return await house.talk(text, user=user, path=f"/{user}/direct")

    return run


async def reserve(house: TestDaemon) -> None:
    """Make a reservation under three ceilings, and charge the call."""
    day = day_of(house.daemon.clock.now_ms(), "UTC")
    path = f"/{PERSON}/direct"
    ceilings = [ceiling(each, key) for each in (path, f"/{PERSON}", "/") for key in (day, day[:7])]
    new = NewReservation(path=path, user=PERSON, day=day, provider="p", model="m", most=MOST)
    reserved = await house.store.of(BudgetRows).reserve(new, ceilings)
    assert reserved.no, "there is room"
    spent: Spend = call(path, reserved.no)
    await house.store.of(BudgetRows).settle(spent)


WORK: dict[str, Work] = {
    "GET /v1/status": lambda house: house.daemon.status(),
    "a metrics scrape": lambda house: house.daemon.observation.measured.families(),
    "the first look at the jobs": lambda house: house.daemon.cron.schedule._rewind(house.daemon.clock.now_ms()),
    "health": lambda house: house.daemon.health.look(whole=True),
    "a reservation": reserve,
    **{
        f"{text} by {user}": told(text, user)
        for user in (crowd.OWNER, PERSON)
        for text in ("/status", "/model", "/model default", "/model scripted/model", "/agents", "/cron", "/use")
    },
    "/spend by a person": told("/spend", PERSON),
}

# What a person asks for whole, however much there is: in pieces, between which others have a turn.
LISTS: dict[str, Work] = {
    "GET /v1/budgets": lambda house: house.daemon.budgeting.controls.listed(),
    "GET /v1/spend": lambda house: house.daemon.budgeting.controls.spent(1),
    "GET /v1/users": lambda house: house.store.people.find(),
}


class Longest(trio.abc.Instrument):
    """The most steps that any task made without a pause."""

    def __init__(self, found: Steps) -> None:
        self._found = found
        self._before = 0
        self.steps = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Take note that a task has its turn."""
        self._before = self._found.all

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """Take note that it is over."""
        self.steps = max(self.steps, self._found.all - self._before)


async def costs(folder: Path, agents: int) -> dict[str, Steps]:
    """Return what everything costs in a house with so many agents."""
    clock = VirtualClock()
    folder.mkdir()
    crowd.build(folder / "daycare.db", agents, clock.now_ms(), BUSY)
    config = Config(
        models=ModelsSection(default="scripted/model"), providers={"scripted": ProviderSection(kind="scripted")}
    )
    found: dict[str, Steps] = {}
    async with open_daemon(folder, location="daycare.db", clock=clock, config=config) as house:
        for name, work in WORK.items():
            await work(house)  # what is read once is no cost of the next
            with counted(house.store) as found[name]:
                await work(house)
            assert not found[name].counting(house.store._db), f"{name} counts all entries of something"
        counting.check(house.store)
    return found


async def test_what_is_asked_for_often_costs_the_same_with_twenty_times_the_agents(
    tmp_path: Path, autojump_clock: object
) -> None:
    few, many = [await costs(tmp_path / str(number), number) for number in (FEW, MANY)]
    grown = [
        f"{name}: {few[name].all} steps with {FEW} agents, {many[name].all} with {MANY}:\n{many[name]}"
        for name in few
        if many[name].all > 1.25 * few[name].all + 100
    ]
    assert not grown, "\n".join(grown)


async def test_no_listing_holds_the_loop_for_longer_with_five_times_the_agents(
    tmp_path: Path, autojump_clock: object
) -> None:
    held: dict[str, list[int]] = {name: [] for name in LISTS}
    for agents in (10 * FEW, 50 * FEW):
        clock = VirtualClock()
        home = tmp_path / str(agents)
        home.mkdir()
        crowd.build(home / "daycare.db", agents, clock.now_ms(), BUSY)
        async with open_daemon(home, location="daycare.db", clock=clock) as house:
            for name, work in LISTS.items():
                with counted(house.store) as found:
                    longest = Longest(found)
                    trio.lowlevel.add_instrument(longest)
                    await work(house)
                    await trio.lowlevel.checkpoint()
                    trio.lowlevel.remove_instrument(longest)
                held[name].append(longest.steps)
    assert all(0 < many <= 1.25 * few for few, many in held.values()), held
