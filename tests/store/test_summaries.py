"""What every store promises of summaries, and of the bounded reads of a conversation."""

import pytest
from msgspec.structs import replace

from daycare.base.errors import ConflictError
from daycare.base.messages import Origin, Usage
from daycare.features.budgets.rows import BudgetRows
from daycare.store.records import Agent, Spend, Step, Summary, Turn
from daycare.store.records_conversations import Past
from daycare.store.sqlite.store import Store
from tests.store.samples import EPOCH_MS, answer, begin, end, said

EVERYTHING = {"after": 0, "before": 2**62, "max_chars": 1_000_000}


def summary(agent_id: str, through: int, text: str = "short", session: int = 1) -> Summary:
    return Summary(
        agent_id=agent_id,
        session=session,
        user="u1",
        origin=Origin.AGENT,
        through=through,
        turns=3,
        text=text,
        tokens_before=100,
        tokens_after=10,
    )


def spend(agent_id: str, turn: int) -> Spend:
    return Spend(agent_id=agent_id, user="u1", turn=turn, provider="p", model="m", usage=Usage(7, 8), cost_micros=9)


def step(turn: Turn, number: int = 0) -> Step:
    return Step(turn=turn.turn, step=number, kind="summary", name="p/m", state="done")


def texts(past: Past) -> list[str]:
    return [message.text for turn in past.turns for message in turn.messages]


async def conversation(store: Store, turns: int) -> tuple[str, list[Turn]]:
    """Let turns end that say `0`, `1`, ...; each has some 50 characters in the store."""
    found = [await answer(store, f"k{number}", history=(said(str(number)),)) for number in range(turns)]
    return found[0].agent_id, found


async def test_the_summary_that_reaches_furthest_is_the_latest(store: Store) -> None:
    assert await store.summaries.latest("a", 1) is None
    for through in (5, 9, 7):
        await store.summaries.add(summary("a", through), None)
    latest = await store.summaries.latest("a", 1)
    assert latest == replace(summary("a", 9), created_at=EPOCH_MS)
    assert [it.through for it in await store.summaries.find("a", 1)] == [9, 7, 5]
    assert [it.through for it in await store.summaries.find("a", 1, limit=2)] == [9, 7]
    assert await store.summaries.latest("a", 2) is None and await store.summaries.latest("b", 1) is None


async def test_a_summary_and_its_step_are_recorded_together_and_once(store: Store) -> None:
    agent, turn, _ = await begin(store, "a")
    for text in ("first", "second"):
        await store.summaries.add(summary(agent.id, 5, text), step(turn))
    assert [it.text for it in await store.summaries.find(agent.id, 1)] == ["first"]
    assert (await store.turns.load(turn.turn))[2] == [step(turn)]


async def test_a_summary_that_was_no_use_is_journaled_all_the_same(store: Store) -> None:
    agent, turn, _ = await begin(store, "a")
    await store.summaries.add(None, step(turn))
    assert await store.summaries.find(agent.id, 1) == []
    assert (await store.turns.load(turn.turn))[2] == [step(turn)]


async def test_for_a_turn_that_has_ended_nothing_is_recorded(store: Store) -> None:
    agent, turn, _ = await begin(store, "a")
    await store.turns.finish(agent, turn, end(turn))
    with pytest.raises(ConflictError):
        await store.summaries.add(summary(agent.id, 5), step(turn))
    assert await store.summaries.latest(agent.id, 1) is None


async def test_newest_and_oldest_read_whole_turns_until_they_are_too_long(store: Store) -> None:
    agent, turns = await conversation(store, 10)
    for read in (store.summaries.newest, store.summaries.oldest):
        everything = await read(agent, 1, **EVERYTHING)
        assert texts(everything) == [str(number) for number in range(10)] and everything.whole
        assert [turn.turn for turn in everything.turns] == [turn.turn for turn in turns]
        part = await read(agent, 1, after=turns[2].turn, before=turns[7].turn, max_chars=1_000_000)
        assert texts(part) == ["3", "4", "5", "6"] and part.whole
    newest = await store.summaries.newest(agent, 1, **(EVERYTHING | {"max_chars": 350}))
    oldest = await store.summaries.oldest(agent, 1, **(EVERYTHING | {"max_chars": 350}))
    assert texts(newest) == ["7", "8", "9"] and texts(oldest) == ["0", "1", "2"]
    assert not newest.whole and not oldest.whole


async def test_a_turn_that_is_too_long_by_itself_is_read(store: Store) -> None:
    turn = await answer(store, "long", history=(said("x" * 5_000),))
    past = await store.summaries.newest(turn.agent_id, 1, **(EVERYTHING | {"max_chars": 10}))
    assert len(past.turns) == 1 and past.whole


async def test_turns_that_said_nothing_or_are_open_are_left_out(store: Store) -> None:
    agent, turns = await conversation(store, 2)
    await answer(store, "silent", history=())
    await begin(store, "open")
    past = await store.summaries.newest(agent, 1, **EVERYTHING)
    assert [turn.turn for turn in past.turns] == [turn.turn for turn in turns] and past.whole


async def test_reads_stay_in_their_session(store: Store) -> None:
    agent, _ = await conversation(store, 3)
    await store.agents.new_session(agent, "reset")
    await answer(store, "new", history=(said("new"),))
    for read in (store.summaries.newest, store.summaries.oldest):
        past = await read(agent, 2, **EVERYTHING)
        assert texts(past) == ["new"] and past.whole


async def test_the_price_of_a_session_is_that_of_its_turns(store: Store) -> None:
    async def priced(key: str) -> Agent:
        agent, turn, _ = await begin(store, key)
        for _ in range(2):
            await store.of(BudgetRows).settle(spend(agent.id, turn.turn))
        await store.turns.finish(agent, turn, end(turn))
        return agent

    agent = await priced("a")
    await priced("b")
    assert await store.summaries.spent(agent.id, 1, 100) == 36
    assert await store.summaries.spent(agent.id, 1, 1) == 18
    await store.agents.new_session(agent.id, "reset")
    await priced("c")
    assert (await store.summaries.spent(agent.id, 1, 100), await store.summaries.spent(agent.id, 2, 100)) == (36, 18)
