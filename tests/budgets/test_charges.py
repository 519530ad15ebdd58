"""A task's spending counts for whoever asked for it, and a sub-user's for one budget, however it is reached."""

from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from daycare.base.budget import Use
from daycare.base.causes import TaskWork
from daycare.base.messages import Usage
from daycare.features import open_store
from daycare.features.budgets.records import Ceiling, NewReservation
from daycare.features.budgets.rows import BudgetRows
from daycare.features.tasks.records import NewTask
from daycare.features.tasks.rows import TaskRows
from daycare.store.records import Spend, User
from daycare.store.sqlite.store import Store
from daycare.testing.daemon import OWNER, TestDaemon, open_daemon
from daycare.testing.scripted import Scripted, call, say
from tests.budgets.test_turns import config, heard, used
from tests.cron.helpers import ledger, schedule
from tests.store.samples import HandClock, letter, new_agent
from tests.tasks.helpers import Working, ended

SCRIBE = f"/{OWNER}/agent/scribe"
DAY = "2027-01-01"


# -- tasks -------------------------------------------------------------------------------------------------------------


async def asks(house: TestDaemon, prompt: str = "look", **more: Any) -> str:
    """Let the scribe start a task; return what that came to."""
    assert isinstance(house.model, Working)
    house.model.enqueue(call(("task_start", {"prompt": prompt, "name": "look", **more})), say("asked"))
    return await house.talk("go", path=SCRIBE)


async def test_what_a_task_spends_counts_for_who_asked_and_once_for_their_user(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    model = Working()
    async with open_daemon(tmp_path, model, config=config()) as house:
        budgets = house.daemon.budgeting.controls
        await house.agent(SCRIBE)
        for path in (SCRIBE, f"/{OWNER}", "/", f"/{OWNER}/task", f"/{OWNER}/agent"):
            await budgets.put(path, {"day.calls": 50})
        model.task.enqueue(call(("spawn", {"task": "a part of it"})))  # its helper's call is the model's own default
        await asks(house)
        await ended(house, "look")
        await trio.sleep(5)
        calls = len(model.history) + len(model.task.history)
        assert len(model.task.history) == 2 and calls >= 5
        shown = await used(house, SCRIBE)
        assert shown[f"{SCRIBE} day.calls"] >= calls - 1, "but for calls of other agents"
        assert shown[f"/{OWNER} day.calls"] == shown["/ day.calls"] == shown[f"/{OWNER}/agent day.calls"]
        of_task = (await used(house, f"/{OWNER}/task/look"))[f"/{OWNER}/task day.calls"]
        assert of_task == 3, "the task's two and its helper's"
        rows = await house.store.of(BudgetRows).spent(DAY, DAY, path=SCRIBE)
        assert {(row.path, row.payer) for row in rows} == {
            (SCRIBE, ""),
            (f"/{OWNER}/task/look", SCRIBE),
            (f"/{OWNER}/task/look/sub/0", SCRIBE),
        }
        assert sum(row.calls for row in rows) == shown[f"{SCRIBE} day.calls"]


async def test_the_budget_of_who_asked_binds_the_task(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    model = Working()
    async with open_daemon(tmp_path, model, config=config()) as house:
        await house.agent(SCRIBE)
        await house.daemon.budgeting.controls.put(SCRIBE, {"day.calls": 5})
        model.task.default = lambda request: call(("task_progress", {"text": "on and on"}))
        await asks(house)
        it = await ended(house, "look")
        assert (it.state, len(model.task.history)) == ("failed", 2), "two calls of its own, and 80 % are for the rest"
        assert f"The budget of {SCRIBE} for today, 5 calls, is used to 80 %" in (it.result or "")
        other = await house.store.of(BudgetRows).payer_of(f"/{OWNER}/task/look/sub/0")
        assert other == SCRIBE
        assert await house.store.of(BudgetRows).payer_of("/ann/direct") == ""


async def test_a_persons_task_counts_for_nobody_else(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    model = Working()
    async with open_daemon(tmp_path, model, config=config()) as house:
        await house.talk("/task look")
        [task] = await house.store.of(TaskRows).find()
        await ended(house, task.id)
        rows = await house.store.of(BudgetRows).spent(DAY, DAY)
        assert {row.payer for row in rows if "/task/" in row.path} == {""}


async def test_a_jobs_task_counts_for_the_budget_of_the_job(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    model = Scripted(lambda request: call(("task_progress", {"text": "on and on"})))
    async with open_daemon(tmp_path, model, config=config()) as house:
        await house.daemon.budgeting.controls.put(f"/{OWNER}/cron/sum", {"day.calls": 3})
        await schedule(house, at="2027-01-01T00:10", task="report")
        await trio.sleep(3_600)
        [run] = await ledger(house)
        assert len(model.history) == 3, "the budget of the job is all its own"
        assert run.state == "failed" and f"/{OWNER}/cron/sum" in run.reason
        assert (await used(house, f"/{OWNER}/cron/sum"))[f"/{OWNER}/cron/sum day.calls"] == 3


PATHS = (
    "/u/agent/x",
    "/u/agent/x/sub/0",
    "/u/agent/y",
    "/u/task/1",
    "/u/task/1/sub/0",
    "/u/task/2",
    "/u/task/3",
    "/u/cron/job",
    "/u/task/none",
)
PAYERS = {"1": "/u/agent/x", "2": "/u/agent/x/sub/0", "3": "/u/cron/job"}
SCOPES = ("/", "/u", "/u/agent", "/u/agent/x", "/u/agent/x/sub/0", "/u/agent/y", "/u/task", "/u/task/1", "/u/cron/job")


def within(path: str, scope: str) -> bool:
    return scope == "/" or path == scope or path.startswith(f"{scope}/")


def payer(path: str) -> str:
    parts = path.split("/")
    return PAYERS.get(parts[3], "") if parts[2] == "task" else ""


def counts(path: str, scope: str) -> bool:
    return within(path, scope) or (payer(path) != "" and within(payer(path), scope))


async def with_tasks(store: Store) -> None:
    await store.people.add(User(id="u", name="U"))
    for name, asker in PAYERS.items():
        path = f"/u/task/{name}"
        await store.of(TaskRows).start(
            NewTask(
                user="u",
                id=name,
                key=name,
                prompt="x",
                create=replace(new_agent(path, user="u", kind="task"), role="task"),
                message=letter(name, to=path, user="u", cause=TaskWork()),
                deadline_at=2**52,
                payer=asker,
            )
        )


@settings(max_examples=60, deadline=None)
@given(
    limit=st.integers(1, 12),
    steps=st.lists(
        st.tuples(
            st.sampled_from(["call", "free", "settle", "settle", "release", "strand"]),
            st.sampled_from(PATHS),
            st.integers(0, 3),
        ),
        max_size=40,
    ),
)
async def test_each_call_counts_once_wherever_it_counts_and_none_begins_that_may_go_over(
    limit: int, steps: list[tuple[str, str, int]]
) -> None:
    """Compared with a plain list of calls: (path, what it took, whether it still runs)."""
    most = Use(usd=3, tokens=3, calls=1, minutes=1)
    running: dict[int, str] = {}
    taken: list[tuple[str, int]] = []
    counted: dict[str, int] = dict.fromkeys(SCOPES, 0)  # what the provider has
    limits: dict[str, Any] = {"key": DAY, "most": limit, "limit": limit}
    ceilings = [Ceiling(path=scope, name="day.usd", measure="usd", **limits) for scope in SCOPES]
    async with open_store("memory:", HandClock(), inline=True) as store:
        await with_tasks(store)

        def settling(path: str, no: int, cost: int) -> Spend:
            return Spend(
                agent_id="", user="u", turn=0, provider="p", model="m", usage=Usage(1, 1), cost_micros=cost,
                reservation=no, path=path,
            )  # fmt: skip

        for what, path, cost in steps:
            if what == "call":
                binding = [it for it in ceilings if counts(path, it.path)]
                before = {it.path: _held(it.path, taken, running) for it in binding}
                made = await store.of(BudgetRows).reserve(
                    NewReservation(path=path, user="u", day=DAY, provider="p", model="m", most=most), binding
                )
                assert bool(made.no) == all(held < limit and held + most.usd <= limit for held in before.values())
                if made.no:
                    running[made.no] = path
            elif what == "free":
                await store.of(BudgetRows).settle(settling(path, 0, 0))
            elif running:
                no, of = next(iter(running.items()))
                del running[no]
                if what == "release":
                    await store.of(BudgetRows).release(no)
                elif what == "strand":
                    await store.of(BudgetRows).strand(no)
                    taken.append((of, most.usd))
                else:
                    await store.of(BudgetRows).settle(settling(of, no, cost))
                    await store.of(BudgetRows).settle(settling(of, no, cost))  # a repeat after a crash
                    taken.append((of, cost))
                    for scope in SCOPES:
                        counted[scope] += cost if counts(of, scope) else 0
        for it in await store.of(BudgetRows).standings(ceilings):
            scope = it.ceiling.path
            assert it.used == sum(cost for path, cost in taken if counts(path, scope)), scope
            assert it.reserved == sum(most.usd for path in running.values() if counts(path, scope)), scope
            assert counted[scope] <= it.used, "never below the provider's own count"
            assert it.used + it.reserved <= limit


def _held(scope: str, taken: list[tuple[str, int]], running: dict[int, str]) -> int:
    used_ = sum(cost for path, cost in taken if counts(path, scope))
    return used_ + sum(3 for path in running.values() if counts(path, scope))


# -- sub-users ---------------------------------------------------------------------------------------------------------


async def with_mia(house: TestDaemon) -> None:
    await house.store.people.add(User(id="mia", name="Mia", parent=OWNER, keys=("direct:mia",)))


MIA = f"/{OWNER}/subuser/mia"


async def test_a_subuser_starts_with_a_budget_of_their_own_for_all_their_agents(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    model = Working()
    async with open_daemon(tmp_path, model, config=config(person=("3calls a day",))) as house:
        await with_mia(house)
        await house.agent("/mia/agent/scribe")
        assert await house.talk("one", user="mia") == "echo: one"
        assert await house.talk("two", user="mia", path="/mia/agent/scribe") == "echo: two"
        assert await house.talk("three", user="mia") == "echo: three"
        for path, shown in ((MIA, MIA), ("/mia/agent/scribe", "/mia/agent/scribe")):
            await house.say("four", user="mia", path=path if path != MIA else "")
            await trio.sleep(2)
            assert f"The budget of {MIA} for today, 3 calls, is used up" in (await heard(house, shown))[-1]
        assert await house.talk("and me?") == "echo: and me?", "their owner is bound by their own"
        for path in (MIA, "/mia/agent/scribe"):
            assert (await used(house, path))[f"{MIA} day.calls"] == 3
        assert [view.path for view in await house.daemon.budgeting.controls.listed()] == ["/", "/ann", MIA]


async def test_what_a_subuser_spends_counts_for_their_owner_and_once(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    limits = config(everything=("100calls a day",), operator=("50calls a day",))
    async with open_daemon(tmp_path, config=limits) as house:
        await with_mia(house)
        budgets = house.daemon.budgeting.controls
        await house.agent("/mia/agent/scribe")
        await house.talk("one", user="mia")
        await house.talk("two", user="mia", path="/mia/agent/scribe")
        await house.talk("three")
        await budgets.put("/mia", {"day.calls": 9})
        await budgets.put(f"/{OWNER}/subuser", {"day.calls": 9})
        await budgets.put(MIA, {"day.calls": 9})
        for path in (MIA, "/mia/agent/scribe"):
            shown = await used(house, path)
            assert [shown[f"{each} day.calls"] for each in ("/mia", MIA, f"/{OWNER}", "/")] == [2, 2, 3, 3]
        assert len(await house.store.of(BudgetRows).spent(DAY, DAY, path=MIA)) == 2


@pytest.mark.parametrize("path", [MIA, "/mia", f"/{OWNER}/subuser", f"/{OWNER}"])
async def test_a_budget_above_a_subuser_binds_all_their_agents(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, path: str
) -> None:
    async with open_daemon(tmp_path, config=config()) as house:
        await with_mia(house)
        await house.agent("/mia/agent/scribe")
        await house.daemon.budgeting.controls.put(path, {"day.calls": 2})
        await house.talk("one", user="mia")
        await house.talk("two", user="mia", path="/mia/agent/scribe")
        await house.say("three", user="mia")
        await house.say("four", user="mia", path="/mia/agent/scribe")
        await trio.sleep(2)
        for where in (MIA, "/mia/agent/scribe"):
            assert f"The budget of {path} for today, 2 calls, is used up" in (await heard(house, where))[-1], where
        assert len(house.model.history) == 2


async def test_two_peoples_subusers_are_not_mixed_up(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    async with open_daemon(tmp_path, config=config()) as house:
        await with_mia(house)
        await house.store.people.add(User(id="ben", name="Ben", keys=("direct:ben",)))
        await house.talk("one", user="mia")
        ceiling = Ceiling(path="/ben/subuser/mia", name="day.calls", key=DAY, measure="calls", most=9, limit=9)
        [standing] = await house.store.of(BudgetRows).standings([ceiling])
        assert standing.used == 0
