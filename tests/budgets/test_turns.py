"""Budgets within turns: what is refused, what people are told, and that nothing they wrote is lost."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from daycare.base.errors import ConflictError, InvalidError, UnavailableError
from daycare.base.messages import Usage
from daycare.config import Config, ModelSection, ModelsSection, ProviderSection
from daycare.plugin import InferRequest, Plugin, ProviderConfig
from daycare.settings import BudgetsSection
from daycare.store.records import User
from daycare.testing.clock import VirtualClock
from daycare.testing.crash import Doom
from daycare.testing.daemon import OWNER, TestDaemon, open_daemon
from daycare.testing.scripted import Scripted, call, say

DIRECT = f"/{OWNER}/direct"
DOLLAR = 1_000_000


def config(*, fallbacks: tuple[str, ...] = (), priced: bool = True, **sections: Any) -> Config:
    """A model whose calls cost a cent for each 20 tokens it writes, and next to nothing for what it reads.

    The longest answer that is expected costs less than a cent.
    """
    facts = {"input_usd": 0.001, "output_usd": 500.0} if priced else {}
    nothing = ModelSection(input_usd=0, output_usd=0)
    model = ModelSection(context_tokens=8_000, output_tokens=16, **facts)  # type: ignore[arg-type]
    return Config(
        models=ModelsSection(default="scripted/model", fallbacks=fallbacks),
        providers={
            "scripted": ProviderSection(kind="scripted", models={"model": model}),
            **({"free": ProviderSection(kind="free", models={"model": nothing})} if fallbacks else {}),
        },
        budgets=BudgetsSection(**sections),
    )


class Free(Scripted):
    """A provider that costs nothing."""

    name = "free"

    def plugin(self) -> Plugin:
        def make(_config: ProviderConfig) -> Scripted:
            return self

        return Plugin(name="free", providers={"free": make})


def operator(*limits: str) -> dict[str, Any]:
    return {"operator": limits}


def costing(cents: int, text: str = "done") -> Any:
    """A reply that costs so many cents."""
    return lambda request: say_with(text, Usage(output_tokens=20 * cents))


def say_with(text: str, usage: Usage) -> Any:
    from msgspec.structs import replace

    return replace(say(text), usage=usage)


async def used(house: TestDaemon, path: str = DIRECT) -> dict[str, int]:
    found = await house.daemon.budgeting.controls.explained(path)
    return {f"{view.path} {limit.name}": limit.used for view in found for limit in view.limits}


async def heard(house: TestDaemon, path: str = DIRECT) -> list[str]:
    return [row.text for row in await house.store.outbox.unread(path)]


async def test_a_call_is_charged_to_everything_above_with_what_the_provider_counted(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    everything = ("100usd a month",)
    async with open_daemon(tmp_path, Scripted(costing(30)), config=config(everything=everything)) as house:
        await house.talk("hello")
        assert await used(house) == {f"/{OWNER} day.usd": 30 * 10_000, "/ month.usd": 30 * 10_000}
        assert house.events("budget.warned") == []


async def test_at_a_hundred_percent_the_message_is_kept_and_answered_when_the_budget_is_raised(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_daemon(tmp_path, Scripted(costing(100)), config=config(**operator("1usd a day"))) as house:
        assert await house.talk("first") == "done"
        await house.say("second")
        await trio.sleep(1)
        await house.say("third")
        await trio.sleep(1)
        _, second, third = await heard(house)
        assert second == (
            "The budget of /ann for today, $1.00, is used up until 00:00. "
            "/budget raise /ann 1usd today allows as much again. What came is kept."
        )
        assert third == "The budget is still used up until 00:00: /budget shows it. What came is kept."
        assert len(house.model.history) == 1
        (exhausted,) = house.events("budget.exhausted")
        assert (exhausted["budget"], exhausted["used"], exhausted["limit"]) == ("/ann", DOLLAR, DOLLAR)

        said = await house.talk("/budget raise 2 usd today")
        assert "$1.00 of $3.00 today" in said and "I answer what waited: 2 messages." in said
        await trio.sleep(1)
        _, again = house.model.history
        assert [it.text.partition("] ")[2] for it in again.messages if it.role == "user"][-2:] == ["second", "third"]
        assert await house.talk("fourth") == "done"  # the third dollar
        await house.say("fifth")
        await trio.sleep(1)
        assert "$3.00, is used up" in (await heard(house))[-1]


async def test_the_next_day_begins_anew(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    clock, limited = VirtualClock(), config(**operator("1usd a day"))
    async with open_daemon(tmp_path, Scripted(costing(100)), config=limited, clock=clock) as house:
        await house.talk("first")
        await house.say("second")
        await trio.sleep(3_600)
        clock.shift(86_400 - 3_600)
        assert await house.talk("third") == "done"


async def test_people_are_told_once_at_eighty_percent(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    async with open_daemon(tmp_path, Scripted(costing(45)), config=config(**operator("2usd a day"))) as house:
        for number in range(4):
            await house.talk(f"message {number}")
        assert house.events("budget.warned") == [], "after three calls it was at 67 percent"
        await house.talk("once more")
        (warned,) = house.events("budget.warned")
        assert (warned["budget"], warned["used"], warned["share"]) == ("/ann", 180 * 10_000, 80)
        (notice,) = house.events("notice")
        assert str(notice["text"]).startswith(
            "$1.80 of $2.00 (90 %) of the budget of /ann for today are used. At 100 %"
        )
        assert "/budget raise /ann 2usd today" in str(notice["text"])


async def test_new_people_start_with_a_daily_budget_that_only_an_operator_raises(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_daemon(tmp_path, Scripted(costing(200)), config=config()) as house:
        await house.store.people.add(User(id="bob", name="Bob", keys=("direct:bob",)))
        assert await house.talk("hello", user="bob") == "done"
        await house.say("again", user="bob")
        await trio.sleep(1)
        told = (await heard(house, "/bob/direct"))[-1]
        assert told.startswith("The budget of /bob for today, $2.00, is used up until 00:00. Ann may raise it: ")
        notices = [str(event["text"]) for event in house.events("notice") if event["user"] == OWNER]
        assert notices and "/budget raise /bob 2usd today" in notices[-1]

        refused = await house.talk("/budget raise 5 usd today", user="bob")
        assert refused == "The budget of /bob is not yours to change."
        assert "I answer what waited: 1 message." in await house.talk("/budget raise /bob 2usd today")
        await trio.sleep(1)
        assert (await heard(house, "/bob/direct"))[-1] == "done"


async def test_a_free_model_answers_when_the_money_is_used_up(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    free = Free(lambda request: say("for nothing"))
    setup = config(fallbacks=("free/model",), **operator("1usd a day"))
    async with open_daemon(tmp_path, Scripted(costing(100)), config=setup, plugins=[free.plugin()]) as house:
        assert await house.talk("first") == "done"
        assert await house.talk("second") == "for nothing"


async def test_without_a_price_tokens_and_calls_are_what_is_limited(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    setup = config(priced=False, **operator("0.01usd a day", "2calls a day"))
    async with open_daemon(tmp_path, Scripted(costing(100)), config=setup) as house:
        await house.talk("first")
        await house.talk("second")
        await house.say("third")
        await trio.sleep(1)
        assert "The budget of /ann for today, 2 calls, is used up" in (await heard(house))[-1]
        assert "Nobody knows the price of scripted/model" in await house.talk("/spend")


async def test_a_turn_that_runs_out_of_budget_keeps_what_it_has_done(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_daemon(tmp_path, config=config(**operator("1calls a day"))) as house:
        house.model.enqueue(call(("remind", {"after_s": 60, "text": "stretch"})))
        await house.say("remind me")
        await trio.sleep(1)
        told = (await heard(house))[-1]
        assert "1 call, is used up" in told and "What I have done so far stands" in told
        assert await house.store.dead.find() == [], "nothing is to be done again"
        agent = await house.store.agents.at(DIRECT)
        assert agent is not None and len(await house.store.timers.find(agent.id)) == 1
        await trio.sleep(70)
        assert (await heard(house))[-1].startswith("Due now: stretch\n"), "a reminder needs no model to be told"


@pytest.mark.parametrize(
    ("error", "counts"),
    [
        (UnavailableError("RATE_LIMITED", "slow down", retry_after_s=100), 0),
        (UnavailableError("PROVIDER_UNREACHABLE", "the connection failed"), 0),
        (InvalidError("REQUEST_REFUSED", "no"), 0),
        (UnavailableError("STREAM_CUT", "half of it"), 1),
    ],
)
async def test_a_refusal_is_free_and_a_reply_that_broke_off_counts_in_full(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, error: UnavailableError, counts: int
) -> None:
    async with open_daemon(tmp_path, config=config(**operator("50calls a day"))) as house:
        house.model.enqueue(error, error, error)
        await house.say("hello")
        await trio.sleep(0.5)
        assert await used(house) == {f"/{OWNER} day.calls": counts}
        assert bool(await _unsettled(house)) == bool(counts)


async def _unsettled(house: TestDaemon) -> int:
    return sum(row.unsettled_micros for row in await house.daemon.budgeting.controls.spent(1))


async def test_a_call_that_a_person_stops_counts_in_full(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_daemon(tmp_path, config=config(**operator("500usd a day"))) as house:
        house.model.enqueue(30.0, say("too late"))
        await house.say("a long story")
        await trio.sleep(5)
        assert await _unsettled(house) == 0
        assert await house.talk("/stop") == "Stopped."
        (row,) = await house.daemon.budgeting.controls.spent(1)
        assert (row.calls, row.unsettled) == (0, 1)
        assert row.unsettled_micros >= 16 * 500


async def test_calls_wait_while_others_have_reserved_what_is_left(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_daemon(tmp_path, config=config(**operator("0.011usd a day"))) as house:  # a call may take 0.008
        for name in ("a", "b"):
            await house.agent(f"/{OWNER}/agent/{name}")
        short = say_with("done", Usage(output_tokens=2))
        house.model.enqueue(20.0, short, short)
        slow = await house.say("slow", path=f"/{OWNER}/agent/a")
        await trio.sleep(1)
        quick = await house.say("quick", path=f"/{OWNER}/agent/b")
        await trio.sleep(5)
        assert len(house.model.history) == 1, "the slow one may still need it all"
        assert await house.hear(slow) == "done" and await house.hear(quick) == "done"
        assert house.events("budget.exhausted") == []


async def test_where_nothing_limits_a_call_no_commit_comes_before_it(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async def commits(setup: Config) -> int:
        async with open_daemon(tmp_path, config=setup) as house:
            await house.talk("first")
            doom = Doom()
            doom.hang_over(house.store)
            await house.talk("second")
            return doom.commits

    none = await commits(config(**operator()))
    assert await commits(config(**operator("50000usd a day"))) == none + 1
    assert await commits(config(priced=False)) == none, "a limit of money does not bind what has no price"


async def test_what_a_provider_does_not_count_is_estimated(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_daemon(tmp_path, config=config()) as house:
        house.model.enqueue(say_with("some words", Usage()))
        await house.talk("hello")
        (row,) = await house.daemon.budgeting.controls.spent(1)
        assert row.input_tokens > 100 and row.output_tokens > 0


async def test_a_model_test_is_charged_too(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    async with open_daemon(tmp_path, Scripted(costing(30)), config=config()) as house:
        from daycare.inference.metering import Payer

        await house.daemon.pool.test(payer=Payer(path=f"/{OWNER}", user=OWNER))
        (row,) = await house.daemon.budgeting.controls.spent(1)
        assert (row.path, row.calls, row.cost_micros) == (f"/{OWNER}", 1, 30 * 10_000)


async def test_memory_workers_go_by_the_rules_when_there_is_no_budget(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    setup = config(**operator("1usd a day"))
    async with open_daemon(tmp_path, Scripted(costing(85)), config=setup, curates=True) as house:
        await house.talk("My sister Ida lives in Oslo.")
        await house.talk("/new")
        await trio.sleep(30)
        (learned,) = house.events("memory.learned")
        assert learned["by"] == "rules"
        assert "and until 00:00 the rest is for what people write" in str(learned["reason"])
        assert len(house.model.history) == 1
        assert house.events("budget.exhausted") == [], "people still have a fifth"
        assert await house.talk("hello") == "done"


async def test_a_limit_of_an_agent_binds_its_helpers(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    async with open_daemon(tmp_path, config=config()) as house:
        await house.daemon.budgeting.controls.put(DIRECT, {"day.calls": 2})
        house.model.enqueue(call(("spawn", {"task": "look it up", "wait": True})), say("found"))
        await house.say("ask a helper")
        await trio.sleep(2)
        assert len(house.model.history) == 2, "the second call was the helper's"
        assert f"The budget of {DIRECT} for today, 2 calls, is used up" in (await heard(house))[-1]


async def test_budgets_are_told_and_set_in_a_chat(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    async with open_daemon(tmp_path, Scripted(costing(30)), config=config(operator=BudgetsSection().person)) as house:
        await house.talk("hello")
        shown = await house.talk("/budget")
        assert "/ann: $0.30 of $2.00 today (15 %); 600 tokens of 1,000,000 tokens today (0 %)" in shown
        assert await house.talk("/budget set /ann/agent 10 usd month") == "/ann/agent: $0.00 of $10.00 this month (0 %)"
        assert "there is no amount" in await house.talk("/budget raise")
        assert "expected a registered connector" in await house.talk("/budget set /ann/nowhere 5 usd day")
        spend = await house.talk("/spend")
        assert spend.splitlines()[:2] == ["today: $0.30, 600 tokens, 1 call", "this month: $0.30, 600 tokens, 1 call"]
        assert "/ann/direct $0.30" in spend


async def test_what_was_reserved_when_the_daemon_died_stays_charged(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    clock = VirtualClock()
    setup = config(**operator("500usd a day"))
    async with open_daemon(tmp_path, location="daycare.db", config=setup, clock=clock) as house:
        house.model.enqueue(1e6, say("never"))
        await house.say("hello")
        await trio.sleep(1)
    async with open_daemon(tmp_path, location="daycare.db", config=setup, clock=clock) as house:
        await trio.sleep(5)
        (row,) = await house.daemon.budgeting.controls.spent(1)
        assert (row.calls, row.unsettled) == (1, 1), "the turn was taken again, and the first call may have been billed"


async def test_the_longest_answer_is_what_is_reserved(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    async with open_daemon(tmp_path, config=config(**operator("500usd a day"))) as house:
        seen: list[int] = []

        def look(request: InferRequest) -> Any:
            (row,) = house.store._db.execute("SELECT tokens, cost_micros FROM reservations").fetchall()
            seen.extend(int(str(each)) for each in row)
            return say("here")

        house.model.enqueue(look)
        await house.talk("hello")
        tokens, micros = seen
        assert micros == pytest.approx((tokens - 16) * 0.001 + 16 * 500, abs=1)
        assert house.store._db.execute("SELECT count(*) FROM reservations").fetchall() == [(0,)]


@pytest.mark.parametrize(
    ("limit", "answer"),
    [
        ("100000tokens a day", None),
        ("5000tokens a day", "shorter"),
        ("300tokens a day", "refused"),
        ("1usd a day", "shorter"),
    ],
)
async def test_a_budget_smaller_than_the_longest_answer_allows_a_shorter_one(
    tmp_path: Path, autojump_clock: object, limit: str, answer: str | None
) -> None:
    model = Scripted()
    setup = config(**operator(limit))
    section = ModelSection(context_tokens=32_000, output_tokens=5_000, input_usd=0.001, output_usd=500.0)
    providers = {"scripted": ProviderSection(kind="scripted", models={"model": section})}
    async with open_daemon(tmp_path, model, config=msgspec.structs.replace(setup, providers=providers)) as house:
        model.enqueue(say_with("short", Usage(input_tokens=100, output_tokens=20)))
        if answer == "refused":
            with pytest.raises(ConflictError, match="has 300 tokens left"):
                await house.talk("tell me")
            assert not model.history
            return
        assert await house.talk("tell me") == "short"
        [asked] = model.history
        granted = asked.max_output_tokens
        assert granted is not None and (granted == 5_000 if answer is None else 256 <= granted < 5_000)
        [counted] = (await used(house)).values()
        assert counted in (120, 20 * 500 + 1), "charged is what it took"
