"""What every store promises of turns."""

from typing import Any

import pytest

from daycare.base.causes import AgentQuestion
from daycare.base.errors import ConflictError
from daycare.base.limits import TIMERS_MAX_PER_AGENT
from daycare.base.messages import EnvelopeKind, Lane, Message, Origin, Text, ToolResult
from daycare.features.budgets.rows import BudgetRows
from daycare.store.records import Agent, Effects, Reply
from daycare.store.sqlite.store import Store
from tests.store.samples import PATH, answer, begin, commits, end, letter, new_agent, post, said, timer, tool_step


async def everything(store: Store, agent: Agent) -> dict[str, Any]:
    """Take a picture of all that a turn could change."""
    return {
        "waiting": await store.inbox.waiting(agent.id),
        "history": await store.turns.history(agent.id, 1, 100),
        "replies": await store.outbox.waiting("telegram"),
        "timers": await store.timers.find(),
        "dead": await store.dead.find(),
        "spent": await store.of(BudgetRows).total(),
        "open": await store.turns.open_turn(agent.id),
        "agents": await store.agents.find(include_dead=True),
    }


async def test_a_turn_is_open_with_its_rows_until_it_is_finished(store: Store) -> None:
    agent, turn, rows = await begin(store, "a", "b")
    assert (turn.seqs, turn.attempt, turn.session) == (tuple(row.seq for row in rows), 1, 1)
    assert turn.trace == "trace-a"
    assert await store.turns.open_turn(agent.id) == turn
    assert await store.turns.load(turn.turn) == (turn, rows, [])
    await store.turns.finish(agent, turn, end(turn))
    assert await store.turns.open_turn(agent.id) is None
    assert await store.inbox.waiting(agent.id) == []


@pytest.mark.parametrize("by", ["parent", "nobody", "somebody else"])
async def test_who_has_told_a_helper_to_end_hears_nothing_of_a_turn_that_was_faster(store: Store, by: str) -> None:
    """Its lane had not seen the dismissal yet: the turn's end was on its way into the store."""
    helper = f"{PATH}/sub/1"
    parent = await begin(store, "a")
    asked = AgentQuestion(asker=parent[0].id, wait="turn:1:0:ask0")
    await post(store, "task", helper, origin=Origin.AGENT, sender=PATH, cause=asked)
    agent, turn, rows = await begin(store, to=helper)
    said_by = {"parent": PATH, "somebody else": "system"}
    if by in said_by:
        await post(store, "stop", helper, sender=said_by[by], kind=EnvelopeKind.DISMISS, lane=Lane.CONTROL)
    told = rows[0].envelope.answer("done", "ok", ())
    assert told is not None
    await store.turns.finish(agent, turn, end(turn, effects=Effects(posts=(told,))))
    heard = [row.envelope.text for row in await store.inbox.waiting(parent[0].id) if row.envelope.sender == helper]
    assert heard == ([] if by == "parent" else ["done"])
    assert await store.dead.find() == []


async def test_a_turn_begins_in_the_current_session_even_if_the_caller_knows_an_older_one(store: Store) -> None:
    await post(store, "a")
    agent = await store.agents.at(PATH)
    assert agent is not None
    await store.agents.new_session(agent.id, "reset")
    turn = await store.turns.begin(agent, await store.inbox.waiting(agent.id))
    assert turn.session == 2


async def test_resuming_counts_a_failed_attempt_and_suspending_takes_one_back(store: Store) -> None:
    agent, turn, rows = await begin(store, "a")
    resumed, again, _ = await store.turns.resume(turn.turn)
    assert (resumed.attempt, again) == (1, rows), "it was interrupted"
    await store.turns.retry(turn.turn, "model away", 0)
    assert (await store.turns.resume(turn.turn))[0].attempt == 2
    await store.turns.suspend(turn.turn)
    assert (await store.turns.load(turn.turn))[0].attempt == 1
    assert (await store.turns.resume(turn.turn))[0].attempt == 2, "and it is the same attempt again"
    for _ in range(3):
        await store.turns.suspend(turn.turn)
    assert (await store.turns.load(turn.turn))[0].attempt == 0, "never below zero"
    await store.turns.finish(agent, turn, end(turn))
    assert (await store.turns.resume(turn.turn))[0].attempt == 0, "an ended turn is not tried again"
    with pytest.raises(ConflictError):
        await store.turns.resume(999_999)


async def test_only_the_turn_that_is_alone_pays_for_a_death(store: Store) -> None:
    agent, turn, _ = await begin(store, "a")
    assert await store.turns.recover() == [], "one death is nobody's fault"
    await store.turns.resume(turn.turn)
    assert await store.turns.recover() == [agent.id]
    assert (await store.turns.resume(turn.turn, alone=True))[0].attempt == 1
    assert await store.turns.recover() == [agent.id]
    assert (await store.turns.load(turn.turn))[0].attempt == 3
    await store.turns.retry(turn.turn, "model away", 0)
    assert await store.turns.recover() == [], "it waited for its next try"
    await store.turns.resume(turn.turn)
    await store.turns.suspend(turn.turn)
    assert await store.turns.recover() == [], "the stop was an orderly one"
    await store.turns.resume(turn.turn)
    await store.turns.finish(agent, turn, end(turn))
    assert await store.turns.recover() == []


async def test_a_failed_try_leaves_its_reason_and_the_time_of_the_next(store: Store) -> None:
    agent, turn, _ = await begin(store, "a")
    await store.turns.retry(turn.turn, "model away", 1234)
    tried = await store.turns.open_turn(agent.id)
    assert tried is not None and (tried.error, tried.retry_at) == ("model away", 1234)
    await store.turns.finish(agent, turn, end(turn))
    await store.turns.retry(turn.turn, "late", 99)
    assert (await store.turns.load(turn.turn))[0].error == "model away"


async def test_the_journal_replaces_a_step_and_keeps_their_order(store: Store) -> None:
    agent, turn, _ = await begin(store, "a")
    started = tool_step(turn, 2, call_id="c", arguments={"q": [1, None]}, idempotent=False)
    model = tool_step(turn, 1, kind="model", state="done", message=said("x"))
    await store.turns.journal([started, model])
    done = tool_step(
        turn, 2, state="done", message=Message("tool", (ToolResult(call_id="c", name="search", text="42"),)),
        effects=Effects(posts=(letter("later"),), timers=(timer(agent, "t", 5),)),
    )  # fmt: skip
    await store.turns.journal([done])
    assert (await store.turns.load(turn.turn))[2] == [model, done]


async def test_steered_rows_belong_to_the_turn_that_saw_them_unless_it_is_given_up(store: Store) -> None:
    agent, turn, rows = await begin(store, "a")
    late = await post(store, "b")
    await store.turns.journal([tool_step(turn, 1, kind="steer", state="done", seqs=(late.seq,))])
    _, found, _ = await store.turns.resume(turn.turn)
    assert [row.seq for row in found] == [rows[0].seq, late.seq]
    await store.turns.park(agent, turn, code="X", reason="y")
    assert [it.seq for it in await store.dead.find()] == [rows[0].seq]
    assert [row.seq for row in await store.inbox.waiting(agent.id)] == [late.seq], "it has done nothing wrong"


async def test_an_ended_turn_refuses_every_change(store: Store) -> None:
    agent, turn, _ = await begin(store, "a")
    await store.turns.finish(agent, turn, end(turn, "hello"))
    before = await everything(store, agent)
    step = tool_step(turn, 1)
    with pytest.raises(ConflictError):
        await store.turns.journal([step])
    with pytest.raises(ConflictError):
        await store.turns.finish(agent, turn, end(turn, "again", effects=Effects(posts=(letter("p"),))))
    with pytest.raises(ConflictError):
        await store.turns.split(turn)
    with pytest.raises(ConflictError):
        await store.turns.park(agent, turn, code="X", reason="y", replies=[Reply(connector="telegram", text="sorry")])
    assert await everything(store, agent) == before


async def test_finishing_commits_replies_posts_timers_and_results_together(store: Store) -> None:
    agent, turn, rows = await begin(store, "a", "b")
    other = await store.agents.create(new_agent("/u1/agent/x"))
    effects = Effects(posts=(letter("p1", other.path), letter("p2", other.path)), timers=(timer(agent, "t", 77),))
    seen = commits(store)
    before = await everything(store, agent)
    await store.turns.journal([tool_step(turn, 1, state="done", effects=effects)])
    assert await everything(store, agent) == before, "effects appear only with the end of the turn"
    assert await store.inbox.waiting(other.id) == []

    await store.turns.finish(agent, turn, end(turn, "one", "two", effects=effects, result="42"))
    assert [row.envelope.key for row in await store.inbox.waiting(other.id)] == ["p1", "p2"]
    assert [(it.text, it.turn, it.state) for it in await store.outbox.waiting("telegram")] == [
        ("one", turn.turn, "waiting"),
        ("two", turn.turn, "waiting"),
    ]
    assert [it.due_at for it in await store.timers.find(agent.id)] == [77]
    assert [(await store.inbox.receipt(row.seq)).result for row in rows] == ["42", "42"]  # type: ignore[union-attr]
    assert [message.text for message in await store.turns.history(agent.id, 1, 100)] == ["question", "42"]
    told = seen[-1]
    assert told.completed == [(row.seq, "42") for row in rows]
    assert (told.connectors, told.timers, [row.envelope.key for row in told.posted]) == (
        {"telegram"},
        True,
        ["p1", "p2"],
    )


async def test_a_post_that_is_refused_at_the_end_becomes_a_dead_letter_and_the_turn_still_commits(store: Store) -> None:
    agent, turn, _ = await begin(store, "a")
    effects = Effects(posts=(letter("lost", "/u1/agent/nobody"), letter("found")))
    await store.turns.finish(agent, turn, end(turn, effects=effects))
    [dead] = await store.dead.find()
    assert (dead.source, dead.code, dead.path) == ("post", "AGENT_UNKNOWN", "/u1/agent/nobody")
    assert [row.envelope.key for row in await store.inbox.waiting(agent.id)] == ["found"]


async def test_a_timer_that_is_refused_at_the_end_becomes_a_dead_letter_and_the_turn_still_commits(
    store: Store,
) -> None:
    agent, turn, _ = await begin(store, "a")
    many = Effects(timers=tuple(timer(agent, str(n), n) for n in range(TIMERS_MAX_PER_AGENT + 2)))
    await store.turns.finish(agent, turn, end(turn, effects=many))
    assert [(it.source, it.code) for it in await store.dead.find()] == [("timer", "TIMERS_MAX")] * 2
    assert len(await store.timers.find(limit=5_000)) == TIMERS_MAX_PER_AGENT


async def test_parking_makes_dead_letters_of_the_messages_and_tells_their_senders(store: Store) -> None:
    agent, turn, rows = await begin(store, "a", "b")
    await store.turns.retry(turn.turn, "no answer", 0)
    resumed, _, _ = await store.turns.resume(turn.turn)
    seen = commits(store)
    await store.turns.park(
        agent,
        resumed,
        code="MODEL_AWAY",
        reason="no answer",
        history=(said("gave up"),),
        replies=[Reply(connector="telegram", text="sorry", target="9")],
        posts=[letter("told")],
    )
    letters = await store.dead.find()
    assert [(it.seq, it.code, it.reason, it.attempts, it.source) for it in letters] == [
        (row.seq, "MODEL_AWAY", "no answer", 2, "inbox") for row in reversed(rows)
    ]
    assert [(it.text, it.target) for it in await store.outbox.unread(PATH)] == [("sorry", "9")]
    assert [row.envelope.key for row in await store.inbox.waiting(agent.id)] == ["told"]
    assert seen[-1].completed == [(row.seq, None) for row in rows]
    assert (await post(store, "a")).state == "dead", "a repeat of a message given up on is not tried again"
    assert [message.text for message in await store.turns.history(agent.id, 1, 10)] == ["gave up"]
    assert await store.turns.open_turn(agent.id) is None


async def test_splitting_gives_each_row_the_attempts_of_the_turn(store: Store) -> None:
    agent, turn, rows = await begin(store, "a", "b")
    await store.turns.retry(turn.turn, "no answer", 0)
    resumed, _, _ = await store.turns.resume(turn.turn)
    await store.turns.split(resumed)
    split = await store.inbox.waiting(agent.id)
    assert [(row.seq, row.attempts) for row in split] == [(row.seq, 2) for row in rows]
    alone = await store.turns.begin(agent, split[:1])
    assert alone.attempt == 3 and alone.turn > turn.turn


async def test_history_is_whole_turns_of_the_session_oldest_first(store: Store) -> None:
    for number in range(4):
        turn = await answer(store, f"k{number}", history=tuple(said(f"{number}.{part}") for part in range(3)))

    async def texts(limit: int, session: int = 1) -> list[str]:
        return [message.text for message in await store.turns.history(turn.agent_id, session, limit)]

    assert await texts(3) == ["3.0", "3.1", "3.2"]
    assert await texts(4) == ["2.0", "2.1", "2.2", "3.0", "3.1", "3.2"]
    assert len(await texts(100)) == 12
    await begin(store, "open")
    assert len(await texts(100)) == 12, "an open turn has said nothing yet"


async def test_a_new_session_hides_the_old_one(store: Store) -> None:
    turn = await answer(store, "a", history=(said("old"),))
    seen = commits(store)
    assert await store.agents.new_session(turn.agent_id, "reset") == 2
    assert seen[-1].agents == {turn.agent_id}
    assert await store.turns.history(turn.agent_id, 2, 100) == []
    await answer(store, "b", history=(Message("user", (Text("new"),)),))
    assert [message.text for message in await store.turns.history(turn.agent_id, 2, 100)] == ["new"]


async def test_a_finished_step_starts_the_count_of_attempts_anew(store: Store) -> None:
    _, turn, _ = await begin(store, "a")
    for _ in range(3):
        await store.turns.retry(turn.turn, "no answer", 0)
        await store.turns.resume(turn.turn)
    await store.turns.journal([tool_step(turn, 0, state="started")])
    assert (await store.turns.load(turn.turn))[0].attempt == 4, "a start is no progress"
    await store.turns.journal([tool_step(turn, 1, kind="steer", state="done")])
    assert (await store.turns.load(turn.turn))[0].attempt == 4, "what a person adds is none either"
    await store.turns.journal([tool_step(turn, 0, state="done")])
    assert (await store.turns.load(turn.turn))[0].attempt == 1
