"""What every store promises of its inbox."""

from itertools import pairwise

import pytest
import trio
from msgspec.structs import replace

from daycare.base.causes import Person
from daycare.base.errors import BusyError, DaycareError, NotFoundError
from daycare.base.limits import INBOX_MAX_MESSAGES
from daycare.base.messages import Envelope, EnvelopeKind, File, Lane, Origin, Told, ToldDocument
from daycare.store.records import Receipt, Reply
from daycare.store.sqlite.inbox import CONTROL_MAX_MESSAGES
from daycare.store.sqlite.store import Store
from tests.store.samples import PATH, answer, commits, conclude, letter, new_agent, post


async def fill(store: Store, count: int) -> None:
    await store.inbox.post_all([(letter(f"filler-{n}"), new_agent()) for n in range(count)])


async def test_a_posted_message_waits_exactly_as_it_was_sent(store: Store) -> None:
    sent = letter(
        "k",
        kind=EnvelopeKind.COMMAND,
        lane=Lane.CONTROL,
        chain=("/u1/agent/a",),
        via=("/u1/agent/b",),
        files=(File(id=1, name="a.txt", media_type="text/plain", size=3),),
        origins=(Origin.FILE,),
        told=Told(("1", "g2"), (ToldDocument("a.md", "agent", 7),), ("b.md",), (Origin.FORWARD,)),
        reply_target="42/7",
        cause=Person(name="é\U0001f600\0", more={"file": "é"}),
        text="",
    )
    plain = Envelope(
        to=sent.to, user=sent.user, origin=sent.origin, sender=sent.sender, key=sent.key, text="x", trace=sent.trace
    )
    same = {name for name in sent.__struct_fields__ if getattr(sent, name) == getattr(plain, name)}
    assert same <= {"to", "user", "origin", "sender", "key", "trace", "agent_id"}, "a field that this test does not set"
    receipt = await store.inbox.post(sent, new_agent())
    [row] = await store.inbox.waiting(receipt.agent_id)
    assert (row.seq, row.attempts) == (receipt.seq, 0)
    pinned = {name: getattr(row.envelope, name) for name in row.envelope.__struct_fields__}
    assert pinned == {name: getattr(sent, name) for name in sent.__struct_fields__} | {"agent_id": receipt.agent_id}


async def test_a_repeated_key_returns_the_first_receipt_and_later_the_result(store: Store) -> None:
    first = await post(store, "k")
    again = replace(first, duplicate=True)
    assert (first.trace, first.path, first.state) == ("trace-k", PATH, "waiting")
    assert await post(store, "k", text="other words", trace="other trace") == again
    turn = await answer(store, result="42")
    done = replace(first, state="done", result="42", turn=turn.turn)
    assert await post(store, "k") == replace(done, duplicate=True)
    assert await store.inbox.receipt(first.seq) == done
    assert await store.inbox.waiting(first.agent_id) == []


async def test_keys_are_per_agent(store: Store) -> None:
    here, there = await post(store, "k"), await post(store, "k", "/u2/telegram", user="u2")
    assert not there.duplicate and here.seq != there.seq


async def test_the_order_of_seq_is_the_order_of_posting_and_of_the_announcements(store: Store) -> None:
    seen = commits(store)
    receipts: dict[int, Receipt] = {}

    async def send(number: int) -> None:
        receipts[number] = await post(store, f"k{number}")

    for start in range(0, 200, 50):
        async with trio.open_nursery() as nursery:
            for number in range(start, start + 50):
                nursery.start_soon(send, number)
    rows = await store.inbox.waiting(receipts[0].agent_id, limit=500)
    assert sorted(row.seq for row in rows) == [row.seq for row in rows]
    assert [row for commit in seen for row in commit.posted] == [
        type(row)(row.seq, row.agent_id, letter(row.envelope.key), 0, row.created_at) for row in rows
    ]
    groups = [[receipts[n].seq for n in range(start, start + 50)] for start in range(0, 200, 50)]
    assert all(max(earlier) < min(later) for earlier, later in pairwise(groups)), "what was acknowledged comes first"


async def test_waiting_rows_come_in_pages_in_order(store: Store) -> None:
    await fill(store, 10)
    agent = await store.agents.at(PATH)
    assert agent is not None
    first = await store.inbox.waiting(agent.id, limit=6)
    rest = await store.inbox.waiting(agent.id, after=first[-1].seq, limit=6)
    assert [row.envelope.key for row in first + rest] == [f"filler-{n}" for n in range(10)]
    assert await store.inbox.rows([rest[0].seq, 999_999, first[0].seq]) == [first[0], rest[0]]


async def test_each_lane_can_be_read_by_itself(store: Store) -> None:
    await fill(store, 5)
    await store.inbox.post_all([(letter(f"c{n}", lane=Lane.CONTROL), new_agent()) for n in range(3)])
    await store.inbox.post(letter("last"), new_agent())
    agent = await store.agents.at(PATH)
    assert agent is not None

    async def keys(lane: Lane | None, after: int = 0, limit: int = 64) -> list[str]:
        return [row.envelope.key for row in await store.inbox.waiting(agent.id, lane, after=after, limit=limit)]

    [first] = await store.inbox.waiting(agent.id, Lane.CONTROL, limit=1)
    assert first.envelope.key == "c0", "no message stands before it"
    assert await keys(Lane.CONTROL, first.seq) == ["c1", "c2"]
    assert await keys(Lane.MESSAGES, limit=6) == [*(f"filler-{n}" for n in range(5)), "last"]
    assert len(await keys(None)) == 9


async def test_a_full_inbox_refuses_before_commit_and_lets_the_control_lane_pass(store: Store) -> None:
    await fill(store, INBOX_MAX_MESSAGES)
    seen = commits(store)
    with pytest.raises(BusyError) as caught:
        await post(store, "one too many")
    assert (caught.value.code, caught.value.retry_after_s) == ("INBOX_FULL", 30.0)
    assert PATH in caught.value.message and PATH in caught.value.hint
    assert (await store.inbox.counts())["waiting"] == INBOX_MAX_MESSAGES
    assert [row for commit in seen for row in commit.posted] == []
    assert (await post(store, "filler-0")).duplicate, "a repeat is no new message"
    for number in range(CONTROL_MAX_MESSAGES):
        assert not (await post(store, f"stop-{number}", lane=Lane.CONTROL)).duplicate
    with pytest.raises(BusyError):
        await post(store, "one stop too many", lane=Lane.CONTROL)


async def test_a_place_in_a_full_inbox_is_free_again_after_an_answer(store: Store) -> None:
    await fill(store, INBOX_MAX_MESSAGES)
    agent = await store.agents.at(PATH)
    assert agent is not None
    [row] = await store.inbox.waiting(agent.id, limit=1)
    await conclude(store, row.seq)
    assert not (await post(store, "now")).duplicate
    with pytest.raises(BusyError):
        await post(store, "one too many")


async def test_a_batch_is_all_or_nothing(store: Store) -> None:
    seen = commits(store)
    with pytest.raises(NotFoundError):
        await store.inbox.post_all([(letter("a"), new_agent()), (letter("b", "/nobody/agent/x"), None)])
    assert await store.agents.at(PATH) is None
    assert await store.inbox.counts() == {"waiting": 0}
    assert [row for commit in seen for row in commit.posted] == []
    receipts = await store.inbox.post_all([(letter("a"), new_agent()), (letter("b"), None), (letter("a"), None)])
    assert [receipt.duplicate for receipt in receipts] == [False, False, True]
    assert receipts[0].seq < receipts[1].seq and receipts[2].seq == receipts[0].seq


async def test_posting_to_nobody_is_refused_unless_told_whom_to_create(store: Store) -> None:
    with pytest.raises(NotFoundError) as caught:
        await store.inbox.post(letter("k"))
    assert caught.value.code == "AGENT_UNKNOWN"
    receipt = await store.inbox.post(letter("k"), new_agent(agent_id="fresh"))
    assert receipt.agent_id == "fresh"
    assert (await store.inbox.post(letter("l"), new_agent(agent_id="other"))).agent_id == "fresh"


async def test_a_dead_path_gets_a_new_incarnation_and_a_pinned_message_never_reaches_it(store: Store) -> None:
    old = await post(store, "k")
    await store.agents.set_state(old.agent_id, "dead", "dismissed")
    with pytest.raises(NotFoundError):
        await store.inbox.post(letter("k2"))
    new = await store.inbox.post(letter("k"), new_agent(agent_id="second"))
    assert new.agent_id == "second" and not new.duplicate, "keys belong to the incarnation"
    assert (await store.inbox.post(letter("k4", agent_id="second"))).agent_id == "second"
    for create in (None, new_agent(agent_id="third")):
        with pytest.raises(NotFoundError) as caught:
            await store.inbox.post(letter("k3", agent_id=old.agent_id), create)
        assert caught.value.code == "AGENT_DEAD"
    assert [row.envelope.key for row in await store.inbox.waiting("second")] == ["k", "k4"]


async def test_agents_with_work_are_listed_once_in_pages(store: Store) -> None:
    for number in range(7):
        for key in "ab":
            await post(store, key, f"/u1/agent/a{number}")
    idle = await post(store, "x", "/u1/agent/idle")
    await conclude(store, idle.seq)
    found: list[str] = []
    while page := await store.inbox.agents_with_work(after=found[-1] if found else "", limit=3):
        found += page
    assert found == [f"id-u1-agent-a{number}" for number in range(7)]


async def test_concluding_twice_keeps_the_first_result_and_replies_once(store: Store) -> None:
    receipt = await post(store, "k")
    [row] = await store.inbox.rows([receipt.seq])
    agent = await store.agents.get(receipt.agent_id)
    assert agent is not None
    for result in ("first", "second"):
        await store.inbox.conclude(
            agent, row, result, replies=[Reply(connector="telegram", text=result)], new_session="reset"
        )
    assert (await post(store, "k")).result == "first"
    assert [it.text for it in await store.outbox.waiting("telegram")] == ["first"]
    renewed = await store.agents.get(agent.id)
    assert renewed is not None and renewed.session == 2
    assert await store.inbox.counts() == {"waiting": 0}
    assert await store.inbox.receipt(999_999) is None


async def test_a_refused_write_does_not_harm_its_neighbours(store: Store) -> None:
    """Also when it had changed something before it failed: half of the writes are such batches."""
    await post(store, "first")
    outcomes: dict[int, str] = {}
    asked: list[str] = []

    async def write(number: int) -> None:
        try:
            if number % 2:
                asked.append(f"good-{number}")
            if number % 2:
                await post(store, f"good-{number}")
            elif number % 4:
                await store.inbox.post_all([(letter(f"bad-{number}"), None), (letter("x", "/nobody/agent/x"), None)])
            else:
                await store.inbox.post(letter("x", "/nobody/agent/x"))
            outcomes[number] = "ok"
        except DaycareError as error:
            outcomes[number] = error.code

    async with trio.open_nursery() as nursery:
        for number in range(44):
            nursery.start_soon(write, number)
    assert outcomes == {number: "ok" if number % 2 else "AGENT_UNKNOWN" for number in range(44)}
    agent = await store.agents.at(PATH)
    assert agent is not None
    keys = [row.envelope.key for row in await store.inbox.waiting(agent.id, limit=100)]
    assert keys == ["first", *asked], "in the order they were asked for"
    assert len(asked) == 22


async def test_the_write_of_a_cancelled_caller_happens_and_is_announced_or_does_not_happen_at_all(store: Store) -> None:
    await post(store, "first")
    seen = commits(store)
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            for number in range(5):
                nursery.start_soon(post, store, f"k{number}")
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
    repeated = [await post(store, f"k{number}") for number in range(5)]
    announced = [row.envelope.key for commit in seen for row in commit.posted]
    assert sorted(announced) == [f"k{number}" for number in range(5)], "each exactly once, by one of the two calls"
    assert len({receipt.seq for receipt in repeated}) == 5


async def test_the_listener_hears_of_a_commit_before_its_caller_continues(store: Store) -> None:
    seen = commits(store)
    for number in range(20):
        receipt = await post(store, f"k{number}")
        assert seen[-1].posted[-1].seq == receipt.seq
    assert len([row for commit in seen for row in commit.posted]) == 20
