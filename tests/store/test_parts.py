"""What every store promises of replies in parts, of tries that cost nothing, and of words that did not arrive."""

import msgspec
import pytest

from daycare.base.errors import BusyError
from daycare.base.limits import INBOX_MAX_MESSAGES
from daycare.base.messages import Choice, EnvelopeKind, File, Origin
from daycare.store.records import InboxRow, OutboxRow, Reply, TurnEnd
from daycare.store.sqlite.store import Store
from tests.store.samples import (
    PATH,
    answer,
    begin,
    commits,
    conclude,
    end,
    letter,
    new_agent,
    post,
    reply,
    tool_step,
)


async def row_of(store: Store, seq: int) -> OutboxRow:
    row = await store.outbox.get(seq)
    assert row is not None
    return row


async def waiting(store: Store) -> list[InboxRow]:
    agent = await store.agents.at(PATH)
    assert agent is not None
    return await store.inbox.waiting(agent.id, limit=5_000)


# -- parts ------------------------------------------------------------------------------------------------------------


async def test_each_part_is_confirmed_by_itself_and_the_receipts_are_joined(store: Store) -> None:
    [seq] = await reply(store, "long")
    for part in (1, 2):
        assert await store.outbox.start(seq) == 1, "the next part has all its tries"
        await store.outbox.part_sent(seq, part, f"m{part}")
        row = await row_of(store, seq)
        assert (row.state, row.parts_sent, row.attempts, row.retry_at, row.error) == ("waiting", part, 0, 0, None)
    await store.outbox.start(seq)
    await store.outbox.sent([seq], "m3")
    row = await row_of(store, seq)
    assert (row.state, row.receipt) == ("sent", "m1 m2 m3")


async def test_a_part_that_was_confirmed_before_is_not_confirmed_again(store: Store) -> None:
    [seq] = await reply(store, "long")
    for part in (1, 2, 2, 1):
        await store.outbox.part_sent(seq, part, f"m{part}")
    row = await row_of(store, seq)
    assert (row.parts_sent, row.receipt) == (2, "m1 m2")
    await store.outbox.start(seq)
    await store.outbox.part_sent(seq, 2, "m2")
    assert (await row_of(store, seq)).state == "sending", "the try of the third still stands"


async def test_the_tries_of_one_part_are_not_those_of_the_next(store: Store) -> None:
    [seq] = await reply(store, "long")
    for attempt in (1, 2, 3):
        assert await store.outbox.start(seq) == attempt
        await store.outbox.retry(seq, "away", 99)
    await store.outbox.part_sent(seq, 1, "m1")
    assert await store.outbox.start(seq) == 1


async def test_nothing_is_confirmed_of_what_was_sent_or_given_up(store: Store) -> None:
    one, two = await reply(store, "one", "two")
    await store.outbox.sent([one], "m")
    await store.outbox.give_up(two, "X", "y")
    for seq in (one, two):
        await store.outbox.part_sent(seq, 3, "late")
    assert [(await row_of(store, seq)).parts_sent for seq in (one, two)] == [0, 0]
    assert (await row_of(store, one)).receipt == "m"


async def test_a_reply_that_was_given_up_in_the_middle_goes_on_there(store: Store) -> None:
    [seq] = await reply(store, "long")
    await store.outbox.part_sent(seq, 2, "m1 m2")
    await store.outbox.give_up(seq, "BLOCKED", "gone")
    [dead] = await store.dead.find()
    row = await row_of(store, await store.dead.replay(dead.no))
    assert (row.state, row.parts_sent, row.receipt) == ("waiting", 2, "m1 m2")


@pytest.mark.parametrize("untouched", [False, True])
@pytest.mark.parametrize("tried", [False, True])
async def test_a_replayed_reply_goes_on_as_tried_unless_it_was_surely_not_taken(
    store: Store, tried: bool, untouched: bool
) -> None:
    [seq] = await reply(store, "one")
    if tried:
        await store.outbox.start(seq)
    await store.outbox.give_up(seq, "TIMEOUT", "no answer", untouched=untouched)
    assert (await row_of(store, seq)).state == "dead"
    [dead] = await store.dead.find()
    again = await row_of(store, await store.dead.replay(dead.no))
    assert (again.state, again.attempts) == ("sending" if tried and not untouched else "waiting", 0)
    await store.outbox.start(again.seq)
    await store.outbox.give_up(again.seq, "BLOCKED", "gone", untouched=True)
    once_more = (await store.dead.find())[0]
    assert (await row_of(store, await store.dead.replay(once_more.no))).state == "waiting", "its callers know the rest"


async def test_a_try_that_is_nobodys_fault_is_not_counted(store: Store) -> None:
    [seq] = await reply(store, "one")
    for _ in range(20):
        assert await store.outbox.start(seq) == 1
        await store.outbox.retry(seq, "busy", 5, untouched=True, uncounted=True)
    row = await row_of(store, seq)
    assert (row.state, row.attempts, row.retry_at) == ("waiting", 0, 5)


async def test_what_belongs_to_a_reply_is_kept_with_it(store: Store) -> None:
    agent, turn, _ = await begin(store, "a")
    full = Reply(
        connector="telegram",
        text="choose",
        target="42",
        reply_to="17",
        silent=True,
        effect="confetti",
        choices=(Choice("Yes", "yes please"),),
        files=(File(id=3, name="a.png", media_type="image/png", size=9),),
    )
    ended = TurnEnd(turn=turn.turn, state="done", seqs=turn.seqs, history=(), result="", replies=(full,))
    await store.turns.finish(agent, turn, ended)
    [row] = await store.outbox.waiting("telegram")
    assert {name: getattr(row, name) for name in full.__struct_fields__} == msgspec.structs.asdict(full)
    alone = await store.outbox.add(agent, Reply(connector="telegram", text="by itself"), "trace")
    assert (await row_of(store, alone)).turn is None


# -- what did not arrive ----------------------------------------------------------------------------------------------


async def test_the_agent_is_left_a_note_of_a_reply_that_did_not_arrive(store: Store) -> None:
    [seq] = await reply(store, "x" * 1_000)
    seen = commits(store)
    for _ in range(2):
        await store.outbox.give_up(seq, "BLOCKED", "the person left")
    [note] = await waiting(store)
    it = note.envelope
    assert (it.key, it.kind, it.origin) == (f"undelivered:{seq}", EnvelopeKind.NOTE, Origin.SYSTEM)
    assert "the person left" in it.text and len(it.text) < 300
    assert [row.seq for row in seen[0].posted] == [note.seq], "it is awake for it"


async def test_nobody_is_left_a_note_of_a_notice_or_a_commands_answer(store: Store) -> None:
    agent, turn, _ = await begin(store, "a")
    await store.turns.finish(agent, turn, end(turn))
    notice = await store.outbox.add(agent, Reply(connector="telegram", text="news"), "trace")
    await post(store, "/help")
    [command] = await waiting(store)
    await store.inbox.conclude(agent, command, "text", replies=[Reply(connector="telegram", text="text")])
    for row in await store.outbox.waiting("telegram"):
        await store.outbox.give_up(row.seq, "BLOCKED", "gone")
    assert (await row_of(store, notice)).state == "dead"
    assert await waiting(store) == []


async def test_a_dead_agent_and_one_with_a_full_inbox_are_left_none(store: Store) -> None:
    one, two = await reply(store, "one", "two")
    await store.inbox.post_all([(letter(f"m{n}"), new_agent()) for n in range(INBOX_MAX_MESSAGES)])
    await store.outbox.give_up(one, "BLOCKED", "gone")
    assert (await store.inbox.counts())["waiting"] == INBOX_MAX_MESSAGES, "every queue has its bound"
    agent = await store.agents.at(PATH)
    assert agent is not None
    await store.agents.set_state(agent.id, "dead")
    await store.outbox.give_up(two, "BLOCKED", "gone")
    assert await store.inbox.counts() == {"waiting": 0}


# -- trying a turn again ----------------------------------------------------------------------------------------------


async def test_what_a_turn_was_given_up_with_is_replayed_once_and_in_order(store: Store) -> None:
    agent, turn, _ = await begin(store, "a", "b")
    steered = await post(store, "c")
    await store.turns.journal([tool_step(turn, 1, kind="steer", state="done", seqs=(steered.seq,))])
    await store.turns.park(agent, turn, code="X", reason="y")
    other_agent, other, _ = await begin(store, "d", to="/u2/telegram")
    await store.turns.park(other_agent, other, code="X", reason="y")
    assert await store.dead.replay_turn(agent.id, other.turn) == 0, "a turn of somebody else"
    assert await store.dead.replay_turn(agent.id, 999) == 0
    assert [row.envelope.text for row in await waiting(store)] == ["text of c"], "it has a turn of its own"
    assert await store.dead.replay_turn(agent.id, turn.turn) == 2
    assert [row.envelope.text for row in await waiting(store)] == ["text of c", "text of a", "text of b"]
    assert await store.dead.replay_turn(agent.id, turn.turn) == 0
    assert len(await waiting(store)) == 3 and await store.dead.count() == 1


async def test_what_was_replayed_by_itself_is_not_replayed_with_its_turn(store: Store) -> None:
    agent, turn, _ = await begin(store, "a", "b")
    await store.turns.park(agent, turn, code="X", reason="y")
    await store.dead.replay((await store.dead.find())[0].no)
    assert await store.dead.replay_turn(agent.id, turn.turn) == 1
    assert sorted(row.envelope.text for row in await waiting(store)) == ["text of a", "text of b"]


async def test_a_turn_that_was_answered_has_nothing_to_replay(store: Store) -> None:
    turn = await answer(store, "a")
    assert await store.dead.replay_turn(turn.agent_id, turn.turn) == 0


async def test_a_turn_is_replayed_whole_or_not_at_all(store: Store) -> None:
    agent, turn, _ = await begin(store, "a", "b")
    await store.turns.park(agent, turn, code="X", reason="y")
    await store.inbox.post_all([(letter(f"m{n}"), new_agent()) for n in range(INBOX_MAX_MESSAGES - 1)])
    with pytest.raises(BusyError):
        await store.dead.replay_turn(agent.id, turn.turn)
    assert (await store.dead.count(), len(await waiting(store))) == (2, INBOX_MAX_MESSAGES - 1)
    await conclude(store, (await waiting(store))[0].seq)
    assert await store.dead.replay_turn(agent.id, turn.turn) == 2
