"""What every store promises of a batch that comes over a connector, and of what a connector remembers."""

from pathlib import Path
from typing import Literal

import pytest
import trio

from daycare.base.errors import ConflictError, InvalidError
from daycare.base.limits import FRAGMENT_MAX_CHARS, INBOX_MAX_MESSAGES
from daycare.base.messages import Envelope, EnvelopeKind, Lane
from daycare.features import open_store
from daycare.store.records import Arrival, Fragment, InboxRow, PairingRequest, Taken, User
from daycare.store.sqlite.intake import CONNECTOR_NAMES_MAX, CONNECTOR_VALUE_MAX_CHARS
from daycare.store.sqlite.store import Store
from daycare.testing.faults import Killed, Switch
from tests.store.samples import PATH, HandClock, answer, begin, commits, conclude, letter, new_agent, post

BOT = "telegram"
CHAT = User(id="club", name="The club", kind="group", keys=("telegram:-42",))
TOPIC = User(id="club-t7", name="Trips", kind="group", parent="club", keys=("telegram:-42:7",))


def arrival(key: str, *, edits: str = "", user: User | None = None, to: str = PATH, **more: object) -> Arrival:
    owner = user.id if user else "u1"
    create = new_agent(to, user=owner)
    return Arrival(envelope=letter(key, to, user=owner, **more), create=create, edits=edits, user=user)


def scrap(key: str, body: str = "{") -> Fragment:
    return Fragment(key=key, code="UNREADABLE", reason="no JSON", body=body)


def knock(key: str = "telegram:66") -> PairingRequest:
    return PairingRequest(key=key, connector=BOT, kind="person", name="Eve", code_hash="h" * 64)


async def waiting(store: Store, path: str = PATH) -> list[InboxRow]:
    agent = await store.agents.at(path)
    return await store.inbox.waiting(agent.id, limit=5_000) if agent else []


async def fill(store: Store, path: str = PATH) -> None:
    batch = [(letter(f"full-{number}", path), new_agent(path)) for number in range(INBOX_MAX_MESSAGES)]
    await store.inbox.post_all(batch)


def kind_of(taken: Taken) -> Envelope:
    assert taken.envelope is not None and taken.receipt is not None and not taken.receipt.duplicate
    return taken.envelope


# -- a batch ----------------------------------------------------------------------------------------------------------


async def test_a_batch_and_its_cursor_are_one_commit_in_order(store: Store) -> None:
    seen = commits(store)
    taken = await store.intake.take(BOT, [arrival("a"), scrap("s"), arrival("b"), knock(), arrival("c")], "17")
    seqs = [each.receipt.seq for each in taken if each.receipt]
    assert seqs == sorted(seqs) and len(seqs) == 3
    assert [row.seq for row in await waiting(store)] == seqs, "the order of the batch is the order of the inbox"
    assert await store.intake.recall(BOT) == "17"
    assert len(seen) == 1 and [row.seq for row in seen[0].posted] == seqs
    assert [(each.show_code, each.refused) for each in taken] == [
        (False, ""), (False, "no JSON"), (False, ""), (True, ""), (False, ""),
    ]  # fmt: skip


async def test_a_batch_that_breaks_leaves_neither_rows_nor_cursor(store: Store) -> None:
    await store.intake.take(BOT, [arrival("before")], "1")
    with pytest.raises(UnicodeEncodeError):
        await store.intake.take(BOT, [arrival("a"), scrap("s"), knock(), arrival("b", text="half \ud83d")], "2")
    assert await store.intake.recall(BOT) == "1"
    assert [row.envelope.key for row in await waiting(store)] == ["before"]
    assert (await store.dead.find(), await store.strangers.find()) == ([], [])
    taken = await store.intake.take(BOT, [arrival("a"), arrival("b")], "2")
    assert [each.receipt is not None and each.receipt.duplicate for each in taken] == [False, False]


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_crash_at_the_commit_leaves_all_of_a_batch_or_nothing(
    tmp_path: Path, autojump_clock: object, when: Literal["before", "after"]
) -> None:
    file = str(tmp_path / "daycare.db")
    batch: list[Arrival | PairingRequest | Fragment] = [
        arrival("a"),
        scrap("s"),
        knock(),
        arrival("t", user=TOPIC, to="/club-t7/telegram"),
        arrival("b"),
    ]
    async with open_store(file, HandClock(), inline=True) as store:
        await store.people.add(CHAT)
        switch = Switch(store, lambda: None)
        switch.kill_at(1, when)
        with pytest.raises(Killed):
            await store.intake.take(BOT, batch, "2")
        store._db.exec_trace = None
    async with open_store(file, HandClock(), inline=True) as store:
        left = (
            await store.intake.recall(BOT),
            len(await waiting(store)),
            len(await store.dead.find()),
            len(await store.strangers.find()),
            await store.people.by_key("telegram:-42:7") is not None,
        )
        assert left == (("2", 2, 1, 1, True) if when == "after" else ("", 0, 0, 0, False))
        again = await store.intake.take(BOT, batch, "2")
        repeated = [each.receipt.duplicate for each in again if each.receipt]
        assert repeated == [when == "after"] * 3
        assert (len(await waiting(store)), len(await store.dead.find())) == (2, 1)


async def test_a_repeated_batch_adds_nothing(store: Store) -> None:
    first = await store.intake.take(BOT, [arrival("a"), scrap("s"), arrival("a")], "1")
    again = await store.intake.take(BOT, [arrival("a"), scrap("s"), arrival("b")], "2")
    assert [each.receipt.duplicate for each in first if each.receipt] == [False, True], "also within one batch"
    assert [each.receipt.duplicate for each in again if each.receipt] == [True, False]
    assert again[0].receipt and first[0].receipt and again[0].receipt.seq == first[0].receipt.seq
    assert [row.envelope.key for row in await waiting(store)] == ["a", "b"]
    assert len(await store.dead.find()) == 1


async def test_an_empty_batch_moves_the_cursor_and_one_without_a_cursor_keeps_it(store: Store) -> None:
    await store.intake.take(BOT, [], "5")
    await store.intake.take(BOT, [arrival("a")])
    assert (await store.intake.recall(BOT), await store.intake.recall("other")) == ("5", "")


async def test_scrap_is_kept_once_per_key_and_connector_and_cannot_be_replayed(store: Store) -> None:
    for connector in (BOT, "telegram2"):
        for _ in range(2):
            await store.intake.take(connector, [scrap("update:7", "x" * 10_000)])
    letters = await store.dead.find()
    assert len(letters) == 2, "two bots may count alike"
    assert {(it.source, it.code, len(it.body)) for it in letters} == {("intake", "UNREADABLE", FRAGMENT_MAX_CHARS)}
    with pytest.raises(ConflictError):
        await store.dead.replay(letters[0].no)


# -- what is refused --------------------------------------------------------------------------------------------------


async def test_a_message_for_a_full_inbox_becomes_a_dead_letter_whose_key_stays_known(store: Store) -> None:
    await fill(store)
    seen = commits(store)
    [over, other] = await store.intake.take(BOT, [arrival("over"), arrival("free", to="/u1/agent/x")], "3")
    assert "inbox full" in over.refused and over.receipt is None
    assert other.receipt is not None and await store.intake.recall(BOT) == "3"
    assert [row.envelope.key for row in seen[0].posted] == ["free"], "nobody is woken for it"
    [repeat] = await store.intake.take(BOT, [arrival("over")])
    assert repeat.receipt is not None and (repeat.receipt.duplicate, repeat.receipt.state) == (True, "dead")
    [dead] = await store.dead.find()
    assert (dead.source, dead.code) == ("inbox", "INBOX_FULL")
    await conclude(store, (await waiting(store))[0].seq)
    await store.dead.replay(dead.no)
    assert (await waiting(store))[-1].envelope.text == "text of over"
    assert (await store.inbox.counts())["waiting"] == INBOX_MAX_MESSAGES + 1, "counted right in memory, too"
    assert "inbox full" in (await store.intake.take(BOT, [arrival("more")]))[0].refused


async def test_what_cannot_be_posted_keeps_none_of_the_others_out(store: Store) -> None:
    await store.people.add(CHAT)
    await store.people.add(User(id="club-t7", name="Somebody", keys=("telegram:9",)))
    nobody = Arrival(envelope=letter("gone", "/u1/agent/gone"))
    batch = [arrival("a"), arrival("t", user=TOPIC, to="/club-t7/telegram"), nobody, arrival("b")]
    taken = await store.intake.take(BOT, batch, "9")
    assert [bool(each.refused) for each in taken] == [False, True, True, False]
    assert [row.envelope.key for row in await waiting(store)] == ["a", "b"]
    assert await store.intake.recall(BOT) == "9"
    assert {(it.source, it.code, it.body) for it in await store.dead.find()} == {
        ("intake", "USER_EXISTS", "text of t"),
        ("intake", "AGENT_UNKNOWN", "text of gone"),
    }


# -- edits ------------------------------------------------------------------------------------------------------------


async def test_an_edit_of_what_waits_or_is_worked_on_is_a_message_that_says_so(store: Store) -> None:
    await post(store, "m")
    [first] = await store.intake.take(BOT, [arrival("m:e1", edits="m")])
    await begin(store)
    [second] = await store.intake.take(BOT, [arrival("m:e2", edits="m")])
    for edit in (first, second):
        assert (kind_of(edit).kind, kind_of(edit).person.edits) == (EnvelopeKind.TEXT, "m")


async def test_an_edit_of_what_was_answered_is_a_note_and_commands_nothing(store: Store) -> None:
    await answer(store, "m")
    command = arrival("m:e1", edits="m", text="/stop", kind=EnvelopeKind.COMMAND, lane=Lane.CONTROL)
    [edit] = await store.intake.take(BOT, [command])
    assert (kind_of(edit).kind, kind_of(edit).lane) == (EnvelopeKind.NOTE, Lane.MESSAGES)
    assert kind_of(edit).person.edits == "m"


async def test_an_edit_that_asks_what_was_only_noted_so_far_is_a_message(store: Store) -> None:
    await post(store, "m", kind=EnvelopeKind.NOTE)
    await answer(store)
    ask, note = arrival("m:e1", edits="m"), arrival("m:e2", edits="m", kind=EnvelopeKind.NOTE)
    kinds = [kind_of(taken).kind for taken in await store.intake.take(BOT, [ask, note])]
    assert kinds == [EnvelopeKind.TEXT, EnvelopeKind.NOTE]


async def test_an_edit_of_what_was_given_up_or_never_seen_is_a_message_of_its_own(store: Store) -> None:
    agent, turn, _ = await begin(store, "m")
    await store.turns.park(agent, turn, code="X", reason="y")
    for taken in await store.intake.take(BOT, [arrival("m:e1", edits="m"), arrival("n:e1", edits="n")]):
        assert (kind_of(taken).kind, kind_of(taken).cause) == (EnvelopeKind.TEXT, None)


async def test_an_edit_looks_for_its_original_with_its_own_agent_only(store: Store) -> None:
    await answer(store, "m", to="/u2/telegram")
    [edit] = await store.intake.take(BOT, [arrival("m:e1", edits="m")])
    assert kind_of(edit).kind is EnvelopeKind.TEXT


# -- topics -----------------------------------------------------------------------------------------------------------


async def test_a_topic_gets_a_user_of_its_own_once(store: Store) -> None:
    await store.people.add(CHAT)
    to = "/club-t7/telegram"
    await store.intake.take(BOT, [arrival("a", user=TOPIC, to=to), arrival("b", user=TOPIC, to=to)])
    await store.intake.take(BOT, [arrival("c", user=TOPIC, to=to)])
    found = await store.people.by_key("telegram:-42:7")
    assert found is not None and (found.id, found.parent, found.keys) == ("club-t7", "club", ("telegram:-42:7",))
    assert [user.id for user in await store.people.find()] == ["club", "club-t7"]
    assert [row.envelope.key for row in await waiting(store, to)] == ["a", "b", "c"]


async def test_a_topic_never_becomes_a_user_who_is_somebody_else(store: Store) -> None:
    """Not a namesake, not another topic that was named alike, not one who was removed and left conversations."""
    await store.people.add(CHAT)
    await store.people.add(User(id="op", name="Op", operator=True))
    await store.people.add(User(id="ex", name="Ex", keys=("telegram:5",)))
    await store.people.remove("ex")
    await store.intake.take(BOT, [arrival("a", user=TOPIC, to="/club-t7/telegram")])
    other = User(id="club-t7", name="Food", kind="group", parent="club", keys=("telegram:-42:_7",))
    removed = User(id="ex", name="Talk", kind="group", parent="club", keys=("telegram:-42:8",))
    linked = User(id="club-t9", name="Cars", kind="group", parent="club", keys=("telegram:-42:7",))
    for user in (other, removed, linked):
        [taken] = await store.intake.take(BOT, [arrival("x", user=user, to=f"/{user.id}/telegram")])
        assert taken.refused
    assert [user.id for user in await store.people.find()] == ["club", "club-t7", "op"], "and leaves nothing behind"


# -- memory -----------------------------------------------------------------------------------------------------------


async def test_a_connector_remembers_values_of_its_own_and_forgets_empty_ones(store: Store) -> None:
    for name, value in (("hold:1", "a"), ("hold:2", "b"), ("holder", "c"), ("hold:1", "d")):
        await store.intake.remember(BOT, name, value)
    await store.intake.remember("other", "hold:9", "x")
    assert await store.intake.recall_all(BOT, "hold:") == {"hold:1": "d", "hold:2": "b"}
    await store.intake.remember(BOT, "hold:2", "")
    await store.intake.remember(BOT, "never", "")
    assert await store.intake.recall_all(BOT, "") == {"hold:1": "d", "holder": "c"}
    assert await store.intake.recall(BOT, "hold:9") == ""


async def test_a_prefix_is_taken_by_the_letter(store: Store) -> None:
    for name in ("a%b:1", "axb:1", "A%B:1", "a_b:1"):
        await store.intake.remember(BOT, name, "v")
    assert list(await store.intake.recall_all(BOT, "a%b:")) == ["a%b:1"]
    assert list(await store.intake.recall_all(BOT, "a_b:")) == ["a_b:1"]


async def test_what_a_connector_remembers_is_bounded_and_the_cursor_stays(store: Store, clock: HandClock) -> None:
    await store.intake.take(BOT, [], "7")
    async with trio.open_nursery() as nursery:
        for number in range(CONNECTOR_NAMES_MAX):
            nursery.start_soon(store.intake.remember, BOT, f"n{number}", "v")
    clock.ms += 1
    for number in range(5):
        await store.intake.remember(BOT, f"later{number}", "v")
    kept = await store.intake.recall_all(BOT, "")
    assert len(kept) == CONNECTOR_NAMES_MAX + 1 and await store.intake.recall(BOT) == "7"
    assert {"later0", "later4"} <= kept.keys()


async def test_the_newest_value_is_never_the_one_that_goes(store: Store) -> None:
    async with trio.open_nursery() as nursery:
        for number in range(CONNECTOR_NAMES_MAX):
            nursery.start_soon(store.intake.remember, BOT, f"n{number}", "v")
    await store.intake.remember(BOT, "zzz", "of the same millisecond")
    assert await store.intake.recall(BOT, "zzz") != ""


async def test_a_value_that_is_too_long_is_refused(store: Store) -> None:
    await store.intake.remember(BOT, "fits", "v" * CONNECTOR_VALUE_MAX_CHARS)
    with pytest.raises(InvalidError):
        await store.intake.remember(BOT, "long", "v" * (CONNECTOR_VALUE_MAX_CHARS + 1))
    assert list(await store.intake.recall_all(BOT, "")) == ["fits"]
