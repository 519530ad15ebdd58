"""What every store promises of replies, timers, dead letters and the ledger."""

import pytest

from daycare.base.causes import Person
from daycare.base.errors import BusyError, ConflictError, DaycareError, NotFoundError
from daycare.base.limits import INBOX_MAX_MESSAGES, OUTBOX_MAX_MESSAGES
from daycare.store.records_upkeep import DeadFilter
from daycare.store.sqlite.store import Store
from tests.store.samples import (
    EPOCH_MS,
    PATH,
    HandClock,
    answer,
    begin,
    commits,
    conclude,
    end,
    letter,
    new_agent,
    post,
    reply,
    timer,
    tool_step,
)

FUTURE = EPOCH_MS + 10_000


async def test_a_reply_waits_until_its_receipt(store: Store) -> None:
    one, two = await reply(store, "one", "two")
    assert await store.outbox.start(one) == 1
    row = await store.outbox.get(one)
    assert row is not None and (row.state, row.attempts) == ("sending", 1)
    assert [row.seq for row in await store.outbox.waiting("telegram", after=one)] == [two]
    assert await store.outbox.waiting("slack") == []
    assert await store.outbox.sent([one, two], "message 7") == 2
    assert await store.outbox.sent([one, two], "message 8") == 0
    row = await store.outbox.get(one)
    assert row is not None and (row.state, row.receipt) == ("sent", "message 7")
    assert await store.outbox.count() == 0


async def test_nothing_is_started_that_was_delivered_or_given_up(store: Store) -> None:
    one, two = await reply(store, "one", "two")
    await store.outbox.sent([one], "r")
    await store.outbox.start(two)
    await store.outbox.give_up(two, "X", "y")
    assert [await store.outbox.start(seq) for seq in (one, two, 999_999)] == [0, 0, 0]


async def test_a_failed_try_says_whether_the_reply_may_have_arrived(store: Store) -> None:
    [seq] = await reply(store, "one")
    for untouched, state in ((True, "waiting"), (False, "sending")):
        await store.outbox.start(seq)
        await store.outbox.retry(seq, "away", 5, untouched=untouched)
        [tried] = await store.outbox.waiting("telegram")
        assert (tried.state, tried.error, tried.retry_at) == (state, "away", 5)
    assert await store.outbox.start(seq) == 3
    await store.outbox.sent([seq], "r")
    await store.outbox.retry(seq, "late", 9)
    row = await store.outbox.get(seq)
    assert row is not None and (row.state, row.error) == ("sent", None)


async def test_tries_that_end_with_the_daemon_are_spread_out_from_the_third_on(store: Store) -> None:
    [seq] = await reply(store, "one")
    waits = []
    for _ in range(10):
        await store.outbox.start(seq)
        row = await store.outbox.get(seq)
        assert row is not None
        waits.append(max(row.retry_at - EPOCH_MS, 0) / 1000)
    assert waits == [0, 0, 8, 18, 32, 50, 72, 98, 128, 162]


async def test_past_the_bound_the_oldest_unread_reply_becomes_a_dead_letter(store: Store) -> None:
    seqs = await reply(store, *(str(number) for number in range(OUTBOX_MAX_MESSAGES)))
    assert await store.dead.count() == 0
    await reply(store, "x", "y")
    assert await store.outbox.count() == OUTBOX_MAX_MESSAGES
    letters = await store.dead.find()
    assert [(it.seq, it.code, it.body) for it in letters] == [(seq, "OUTBOX_FULL", str(n)) for n, seq in
                                                            reversed(list(enumerate(seqs[:2])))]  # fmt: skip


async def test_a_reply_given_up_on_is_replayed_once_behind_the_others(store: Store) -> None:
    one, two = await reply(store, "one", "two")
    await store.outbox.start(one)
    for _ in range(2):
        await store.outbox.give_up(one, "BLOCKED", "the person left")
    [dead] = await store.dead.find()
    assert (dead.source, dead.seq, dead.attempts, dead.body) == ("outbox", one, 1, "one")
    seen = commits(store)
    again = await store.dead.replay(dead.no)
    assert again > two, "a courier that passed the old number finds the new one"
    assert seen[-1].connectors == {"telegram"}
    assert [(row.text, row.attempts) for row in await store.outbox.waiting("telegram")] == [("two", 0), ("one", 0)]
    with pytest.raises(ConflictError):
        await store.dead.replay(dead.no)
    assert (await store.dead.count(), len(await store.dead.find())) == (0, 1)


@pytest.mark.parametrize("state", range(5))
async def test_a_replay_touches_only_what_is_dead(store: Store, state: int) -> None:
    """A reply that waits, is being sent or was delivered is left as it is, whatever a letter says of it."""
    one, other = await reply(store, "one", "other")
    await store.outbox.give_up(one, "BLOCKED", "the person left")
    [dead] = await store.dead.find()
    database = store._db
    database.execute("UPDATE outbox SET state = ? WHERE seq = ?", (state, one))
    before = database.execute("SELECT * FROM outbox ORDER BY seq").fetchall()
    if state >= 3:
        assert await store.dead.replay(dead.no) > other
        return
    with pytest.raises(ConflictError):
        await store.dead.replay(dead.no)
    assert database.execute("SELECT * FROM outbox ORDER BY seq").fetchall() == before
    assert await store.dead.count() == 1


async def test_a_dead_message_is_replayed_once_also_to_the_next_incarnation(store: Store) -> None:
    first = await post(store, "a", cause=Person(name="y"))
    await store.agents.set_state(first.agent_id, "dead")
    [dead] = await store.dead.find()
    with pytest.raises(NotFoundError):
        await store.dead.replay(dead.no)
    assert await store.dead.count() == 1, "a refused replay may be tried again"
    second = await store.inbox.post(letter("b"), new_agent(agent_id="second"))
    seq = await store.dead.replay(dead.no)
    rows = await store.inbox.waiting(second.agent_id)
    assert [(row.envelope.text, row.envelope.cause) for row in rows] == [
        ("text of b", None),
        ("text of a", Person(name="y")),
    ]
    assert rows[1].seq == seq
    with pytest.raises(ConflictError):
        await store.dead.replay(dead.no)
    with pytest.raises(NotFoundError):
        await store.dead.replay(999_999)


async def test_a_dead_letter_after_a_pruning_is_not_taken_for_the_pruned_one(store: Store, clock: HandClock) -> None:
    for key in ("a", "b"):
        agent, turn, _ = await begin(store, key)
        await store.turns.park(agent, turn, code="X", reason="y")
        [dead] = await store.dead.find()
        seq = await store.dead.replay(dead.no)
        [row] = await store.inbox.rows([seq])
        assert row.envelope.text == f"text of {key}"
        await conclude(store, seq)
        clock.ms += 1_000
        assert await store.dead.prune(before_ms=clock.ms) == 1


async def test_dead_letters_are_listed_newest_first_by_path_and_page(store: Store) -> None:
    for key, path in zip("abcd", (PATH, PATH, "/u1/direct", PATH), strict=True):
        agent, turn, _ = await begin(store, key, to=path)
        await store.turns.park(agent, turn, code="X", reason=key)
    found = await store.dead.find(DeadFilter(path=PATH), limit=2)
    found += await store.dead.find(DeadFilter(path=PATH), before=found[-1].no)
    assert [it.reason for it in found] == ["d", "b", "a"]
    assert await store.dead.get(found[1].no) == found[1]
    assert await store.dead.get(999_999) is None


async def test_timers_fire_once_and_in_order(store: Store) -> None:
    agent = await store.agents.create(new_agent())
    for key, due in (("c", 30), ("a", 10), ("b", 20), ("later", 99)):
        await store.timers.add(timer(agent, key, due))
    assert await store.timers.next_due() == 10
    assert [it.due_at for it in await store.timers.find(agent.id)] == [10, 20, 30, 99]
    assert [await store.timers.fire(50, 2), await store.timers.fire(50, 2), await store.timers.fire(50, 2)] == [2, 1, 0]
    rows = await store.inbox.waiting(agent.id)
    assert [row.envelope.key for row in rows] == ["timer-a", "timer-b", "timer-c"]
    assert await store.timers.next_due() == 99


async def test_a_timer_is_set_once_per_key(store: Store) -> None:
    agent = await store.agents.create(new_agent())
    seen = commits(store)
    number = await store.timers.add(timer(agent, "k", 10))
    assert seen[-1].timers
    assert await store.timers.add(timer(agent, "k", 20)) == number
    assert await store.timers.next_due() == 10
    assert await store.timers.find("nobody") == []


async def test_a_timer_that_is_refused_becomes_a_dead_letter_and_the_next_still_fires(store: Store) -> None:
    agent = await store.agents.create(new_agent())
    await store.timers.add(timer(agent, "lost", 10, agent_id="an earlier incarnation"))
    await store.timers.add(timer(agent, "found", 20))
    assert await store.timers.fire(50, 10) == 2
    assert [(it.source, it.code) for it in await store.dead.find()] == [("timer", "AGENT_DEAD")]
    assert [row.envelope.key for row in await store.inbox.waiting(agent.id)] == ["timer-found"]
    assert await store.timers.find() == []


async def test_timers_are_bounded_per_agent(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    most = 20
    monkeypatch.setattr("daycare.store.sqlite.timers.TIMERS_MAX_PER_AGENT", most)
    agent, turn, _ = await begin(store, "a")
    other = await store.agents.create(new_agent("/u1/agent/x"))
    for number in range(most):
        await store.timers.add(timer(agent, str(number), number))
    with pytest.raises(BusyError):
        await store.timers.add(timer(agent, "one too many", 5))
    await store.timers.add(timer(other, "one", 5))
    await store.timers.add(timer(agent, "0", 5))
    assert turn.attempt == 1


async def test_expiry_keeps_the_newest_row_and_what_waits(store: Store, clock: HandClock) -> None:
    for number in range(3):
        await answer(store, f"done-{number}")
    waiting = await post(store, "waiting")
    agent, turn, _ = await begin(store)
    await store.turns.journal([tool_step(turn, 1)])
    replies = await reply(store, "one", "two", "three", "four")
    await store.outbox.sent(replies[1:], "r")
    late = await post(store, "late")
    clock.ms = FUTURE
    while await store.ledger.expire(FUTURE):
        pass
    assert [row.seq for row in await store.inbox.waiting(agent.id)] == [late.seq]
    assert await store.inbox.receipt(1) is None
    assert [row.seq for row in await store.outbox.unread(PATH)] == replies[:1]
    assert [await store.outbox.get(seq) for seq in replies[1:3]] == [None, None]
    assert await store.outbox.get(replies[3]) is not None, "the newest number is never given out again"
    assert (await reply(store, "five"))[0] > replies[3]
    assert len(await store.turns.history(agent.id, 1, 100)) >= 6, "conversations stay"
    assert waiting.seq < late.seq


async def test_an_expired_newest_row_would_give_its_number_away_so_it_stays(store: Store, clock: HandClock) -> None:
    turn = await answer(store, "a", "b")
    clock.ms = FUTURE
    assert await store.ledger.expire(FUTURE) == 1
    assert (await post(store, "b")).duplicate
    assert (await post(store, "c")).seq > turn.seqs[-1]


async def test_what_ended_later_than_the_limit_does_not_expire(store: Store) -> None:
    await answer(store, "a", "b")
    assert await store.ledger.expire(EPOCH_MS) == 0


async def test_expiry_is_bounded_in_one_call_and_reports_until_done(store: Store, clock: HandClock) -> None:
    for start in range(0, 3_000, INBOX_MAX_MESSAGES):
        await store.inbox.post_all([(letter(f"k{start + n}"), new_agent()) for n in range(INBOX_MAX_MESSAGES)])
        agent = await store.agents.at(PATH)
        assert agent is not None
        rows = await store.inbox.waiting(agent.id, limit=INBOX_MAX_MESSAGES)
        turn = await store.turns.begin(agent, rows)
        await store.turns.finish(agent, turn, end(turn))
    clock.ms = FUTURE
    first = await store.ledger.expire(FUTURE)
    second = await store.ledger.expire(FUTURE)
    assert (first, second, await store.ledger.expire(FUTURE)) == (2_000, 999, 0)


async def test_events_are_read_newest_first(store: Store) -> None:
    for number in range(3):
        await post(store, f"k{number}")
    await store.ledger.record([(number, "u1", PATH if number else "", "t", f'{{"n":{number}}}') for number in range(3)])
    await store.ledger.record([])
    assert await store.ledger.events() == ['{"n":2}', '{"n":1}', '{"n":0}']
    assert await store.ledger.events(path=PATH, limit=1) == ['{"n":2}']


async def test_a_trace_tells_the_story_in_order(store: Store, clock: HandClock) -> None:
    agent, turn, _ = await begin(store, "a")
    clock.ms += 1
    await store.turns.journal([tool_step(turn, 1)])
    clock.ms += 1
    await store.turns.finish(agent, turn, end(turn, "hello"))
    clock.ms += 1
    [row] = await store.outbox.unread(PATH)
    await store.outbox.sent([row.seq], "r7")
    story = store.ledger.trace("trace-a")
    whats = [entry.what for entry in story]
    assert set(whats[:2]) == {"accepted", f"turn {turn.turn} started"}
    assert whats[2] == "tool started"
    assert set(whats[3:6]) == {"answered", f"turn {turn.turn} done", "reply queued"}
    assert whats[6:] == ["reply delivered"]
    assert {entry.path for entry in story} == {PATH}
    assert store.ledger.trace("unknown") == []
    assert await store.ledger.size_bytes() > 4096


async def test_every_refusal_names_the_next_step(store: Store) -> None:
    agent, turn, rows = await begin(store, "a")
    await store.turns.finish(agent, turn, end(turn))
    await store.agents.set_state(agent.id, "dead")
    for attempt in (
        lambda: store.inbox.post(letter("x")),
        lambda: store.turns.finish(agent, turn, end(turn)),
        lambda: store.turns.begin(agent, rows),
        lambda: store.dead.replay(1),
        lambda: store.agents.set_state(agent.id, "living"),
        lambda: store.people.unlink("telegram:1"),
    ):
        with pytest.raises(DaycareError) as caught:
            await attempt()
        assert caught.value.hint, caught.value
