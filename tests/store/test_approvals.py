"""Requests for approval: made once, decided once, on what was seen, together with what the decision does."""

from collections.abc import Callable
from typing import Any

import pytest

from daycare.base.documents import Attribution, Layer, NewVersion, Place, digest
from daycare.base.errors import BusyError, ConflictError, InvalidError, NotFoundError
from daycare.base.limits import APPROVAL_S, APPROVALS_OPEN_MAX, APPROVALS_PER_HOUR, INBOX_MAX_MESSAGES
from daycare.base.messages import EnvelopeKind, Origin
from daycare.features.approvals.records import (
    Approval,
    ApprovalFinding,
    ApprovalState,
    DocumentAction,
    Grant,
    Letter,
    NewApproval,
    Revision,
    content_hash,
    measured,
)
from daycare.features.approvals.rows import ApprovalRows
from daycare.features.memory.documents.rows import DocumentRows
from daycare.store.records import Agent, Reply, Shows
from daycare.store.sqlite.store import Store
from tests.store.samples import PATH, HandClock, commits, new_agent, post

BY = "telegram:42"
ID = "id-u1-telegram"
MEMORY = Place(Layer.AGENT, ID, "MEMORY.md")


def hidden(it: Approval) -> Letter | None:
    """Show it to nobody."""
    return None


def shown_in(agent: Agent) -> Callable[[Approval], Letter]:
    """Show it in an agent's conversation."""

    def show(it: Approval) -> Letter:
        reply = Reply(connector="telegram", text=f"request {it.no}: {it.seen}", shows=Shows(it.no, it.content_hash))
        return Letter(agent, reply)

    return show


def wish(key: str = "1:1", text: str = "- likes tea\n", **more: Any) -> NewApproval:
    verb = more.pop("verb", "write")
    fields: dict[str, Any] = {
        "kind": "memory",
        "agent_id": ID,
        "path": PATH,
        "user": "u1",
        "decider": "u1",
        "action": DocumentAction(verb=verb, place=more.pop("place", MEMORY), text=text),
        "base_hash": "",
        "salt": f"salt of {key}",
        "reason": "they said so",
        "trace": "trace-1",
    }
    return NewApproval(key=key, **(fields | more))


async def agent(store: Store, path: str = PATH) -> Agent:
    return await store.agents.create(new_agent(path))


async def request(store: Store, new: NewApproval | None = None) -> Approval:
    return (await store.of(ApprovalRows).request(new or wish(), hidden))[0]


async def approve(store: Store, it: Approval, **more: Any) -> Approval:
    fields = {"seen": it.content_hash, "by": BY} | more
    return (await store.of(ApprovalRows).decide(it.no, "approve", **fields))[0]


async def overwrite(store: Store, text: str | None, place: Place = MEMORY) -> str:
    """Change a document past the desk; return its hash."""
    by = Attribution(origin=Origin.PERSON, author="direct:u1")
    return (await store.of(DocumentRows).write(NewVersion(place=place, user="u1", by=by, text=text))).hash


async def told(store: Store) -> list[tuple[EnvelopeKind, str]]:
    return [(row.envelope.kind, row.envelope.text) for row in await store.inbox.waiting(ID)]


async def memory(store: Store) -> str | None:
    document = await store.of(DocumentRows).get(MEMORY)
    return document.text if document else None


# -- making ------------------------------------------------------------------------------------------------------------


async def test_a_request_is_made_once_for_each_call(store: Store) -> None:
    me = await agent(store)
    first, is_new = await store.of(ApprovalRows).request(wish(), shown_in(me))
    again, is_new_again = await store.of(ApprovalRows).request(wish(text="another text"), shown_in(me))
    assert (is_new, is_new_again) == (True, False)
    assert again == first == await store.of(ApprovalRows).get(first.no) == await store.of(ApprovalRows).by_key("1:1")
    [row] = await store.outbox.waiting("telegram")
    assert row.text == f"request 1: {first.content_hash[:8]}", "it is shown once, with its number"
    assert row.turn is None and await memory(store) is None


async def test_a_content_hash_binds_who_asks_the_action_and_the_base(store: Store) -> None:
    one = wish()
    hashes = {
        content_hash(one, "a", "memory"),
        content_hash(one, "b", "memory"),
        content_hash(one, "a", "identity"),
        content_hash(wish(text="other"), "a", "memory"),
        content_hash(wish(verb="append"), "a", "memory"),
        content_hash(wish(base_hash="1" * 64), "a", "memory"),
        content_hash(wish(salt="other"), "a", "memory"),
        content_hash(wish(place=Place(Layer.AGENT, ID, "OTHER.md")), "a", "memory"),
    }
    assert len(hashes) == 8


async def test_a_request_on_another_base_is_refused(store: Store) -> None:
    await agent(store)
    await overwrite(store, "there\n")
    with pytest.raises(ConflictError, match="changed meanwhile") as refused:
        await request(store)
    assert refused.value.code == "DOCUMENT_CHANGED"
    assert await store.of(ApprovalRows).find() == []


async def test_ten_open_ones_are_the_most_of_an_agent_and_its_helpers(store: Store) -> None:
    await agent(store)
    for number in range(APPROVALS_OPEN_MAX):
        await request(store, wish(f"1:{number}", path=PATH if number % 2 else f"{PATH}/sub/{number}"))
    for path in (PATH, f"{PATH}/sub/3", f"{PATH}/sub/3/search/1"):
        with pytest.raises(BusyError, match="10 requests wait") as full:
            await request(store, wish("1:x", path=path))
        assert full.value.code == "APPROVALS_OPEN" and "/approvals" in full.value.hint
    assert (await request(store, wish("1:0"))).no == 1, "a repeat is no request"
    await request(store, wish("2:0", path="/u1/subject", agent_id="other"))
    await request(store, wish("3:0", path="/u1/agent/sub", agent_id="third"))
    await approve(store, await request(store, wish("1:1")))
    await request(store, wish("1:x", base_hash=digest("- likes tea\n"), text="more"))


async def test_what_is_over_is_not_open_whether_it_was_swept_up_or_not(store: Store, clock: HandClock) -> None:
    await agent(store)
    for number in range(APPROVALS_OPEN_MAX):
        await request(store, wish(f"1:{number}"))
    with pytest.raises(BusyError) as full:
        await store.of(ApprovalRows).check_room(f"{PATH}/sub/1", clock.ms)
    assert full.value.code == "APPROVALS_OPEN"
    clock.ms += int(APPROVAL_S * 1000)
    await store.of(ApprovalRows).check_room(PATH, clock.ms)
    await request(store, wish("1:x"))


async def test_thirty_an_hour_are_the_most(store: Store, clock: HandClock) -> None:
    await agent(store)
    for number in range(APPROVALS_PER_HOUR):
        it = await request(store, wish(f"1:{number}"))
        await store.of(ApprovalRows).decide(it.no, "reject", seen=it.seen, by=BY)
        clock.ms += 60_000
    with pytest.raises(BusyError) as full:
        await request(store, wish("1:x"))
    assert full.value.code == "APPROVALS_HOURLY"
    assert full.value.retry_after_s == 30 * 60.0, "then the first is an hour old"
    clock.ms += 30 * 60_000
    await request(store, wish("1:x"))


# -- deciding ----------------------------------------------------------------------------------------------------------


async def test_an_approved_one_is_carried_out_and_told_together(store: Store) -> None:
    await agent(store)
    it = await request(store, wish(provenance=("web:https://example.org",)))
    seen = commits(store)
    done = await approve(store, it, why="fine")
    assert len(seen) == 1, "one transaction"
    assert (done.state, done.version, done.decided_by, done.why) == (ApprovalState.APPROVED, 1, BY, "fine")
    document = await store.of(DocumentRows).get(MEMORY)
    assert document is not None and document.text == "- likes tea\n"
    by = document.version.by
    assert (by.author, by.approver, by.reason, by.origin) == (PATH, BY, "they said so", Origin.AGENT)
    assert by.provenance == ("web:https://example.org",)
    [(kind, text)] = await told(store)
    assert kind is EnvelopeKind.NOTICE and "Request 1" in text and "approved" in text and "fine" in text


@pytest.mark.parametrize("verb", ["write", "append", "delete"])
async def test_each_verb_does_what_was_shown(store: Store, verb: Any) -> None:
    await agent(store)
    base = await overwrite(store, "old")
    action = DocumentAction(verb=verb, place=MEMORY, text="new\n", head="never\n")
    shown = measured(action, "old")
    it = await request(store, wish(action=action, base_hash=base))
    assert (await approve(store, it)).version == 2
    assert await memory(store) == shown == {"write": "new\n", "append": "old\nnew\n", "delete": None}[verb]


async def test_an_append_to_nothing_begins_with_its_head(store: Store) -> None:
    await agent(store)
    action = DocumentAction(verb="append", place=MEMORY, text="- x", head="# Memory")
    await approve(store, await request(store, wish(action=action)))
    assert await memory(store) == measured(action, None) == "# Memory\n- x"


async def test_a_rejected_one_changes_nothing_and_is_told_with_the_reason(store: Store) -> None:
    await agent(store)
    it = await request(store)
    done, is_new = await store.of(ApprovalRows).decide(it.no, "reject", seen=it.seen, by=BY, why="that was a joke")
    assert is_new and done.state is ApprovalState.REJECTED and done.version is None
    assert await memory(store) is None
    [(kind, text)] = await told(store)
    assert kind is EnvelopeKind.NOTICE and "rejected" in text and "that was a joke" in text


async def test_only_the_first_decision_counts(store: Store) -> None:
    await agent(store)
    it = await request(store)
    await approve(store, it)
    with pytest.raises(ConflictError, match="approved already by telegram:42") as late:
        await store.of(ApprovalRows).decide(it.no, "reject", seen=it.seen, by="telegram:43")
    assert late.value.code == "APPROVAL_DECIDED"
    with pytest.raises(ConflictError):
        await approve(store, it, by="direct:u1")
    assert len(await told(store)) == 1


async def test_a_repeat_of_the_same_decision_is_no_error_and_does_nothing(store: Store) -> None:
    await agent(store)
    it = await request(store)
    first = await approve(store, it)
    assert await store.of(ApprovalRows).decide(it.no, "approve", seen=it.seen, by=BY) == (first, False)
    with pytest.raises(ConflictError, match="approved already"):
        await approve(store, it, why="with another reason")
    assert len(await told(store)) == 1 and len(await store.of(DocumentRows).history(MEMORY)) == 1


@pytest.mark.parametrize("seen", ["", "0" * 8, "0" * 64, "%", "________", "short", "x" * 65])
async def test_a_hash_that_was_not_shown_decides_nothing(store: Store, seen: str) -> None:
    await agent(store)
    it = await request(store)
    for verdict in ("approve", "reject"):
        with pytest.raises(ConflictError) as refused:
            await store.of(ApprovalRows).decide(it.no, verdict, seen=seen, by=BY)
        assert refused.value.code == "APPROVAL_CHANGED"
    for seen in (it.content_hash[:7], it.content_hash + "0", it.content_hash.upper()[:8] + "G"):
        with pytest.raises(ConflictError):
            await approve(store, it, seen=seen)
    assert await store.of(ApprovalRows).get(it.no) == it


async def test_a_base_that_changed_meanwhile_is_never_overwritten(store: Store) -> None:
    await agent(store)
    it = await request(store)
    base = await overwrite(store, "others were here\n")
    with pytest.raises(ConflictError) as stale:
        await approve(store, it)
    assert stale.value.code == "APPROVAL_BASE"
    assert await store.of(ApprovalRows).get(it.no) == it and await memory(store) == "others were here\n"
    revised = await store.of(ApprovalRows).revise(
        it.no, Revision(action=it.action, base_hash=base, salt="new"), seen=it.content_hash
    )
    assert (revised.state, revised.revision, revised.base_hash) == (ApprovalState.PENDING, 2, base)
    with pytest.raises(ConflictError) as old:
        await approve(store, it)
    assert old.value.code == "APPROVAL_CHANGED", "the old hash decides no more"
    assert (await approve(store, revised)).state is ApprovalState.APPROVED
    assert await memory(store) == "- likes tea\n"


async def test_an_edited_one_is_pending_until_its_new_content_is_approved(store: Store) -> None:
    await agent(store)
    it = await request(store, wish(findings=(ApprovalFinding(severity="danger", meaning="x"),)))
    new = DocumentAction(verb="write", place=MEMORY, text="- likes coffee\n")
    revision = Revision(action=new, base_hash="", salt="new", edited_by=BY)
    edited = await store.of(ApprovalRows).revise(it.no, revision, seen=it.content_hash)
    assert edited.state is ApprovalState.PENDING and await memory(store) is None and not edited.flagged
    with pytest.raises(ConflictError):
        await store.of(ApprovalRows).revise(it.no, revision, seen=it.content_hash)
    done = await approve(store, edited)
    assert done.state is ApprovalState.EDITED
    document = await store.of(DocumentRows).get(MEMORY)
    assert document is not None and document.text == "- likes coffee\n"
    assert (document.version.by.author, document.version.by.origin) == (BY, Origin.PERSON)
    [(_, text)] = await told(store)
    assert "a text that the user wrote" in text


async def test_a_revision_on_another_base_is_refused(store: Store) -> None:
    await agent(store)
    it = await request(store)
    await overwrite(store, "there\n")
    with pytest.raises(ConflictError) as refused:
        await store.of(ApprovalRows).revise(
            it.no, Revision(action=it.action, base_hash="", salt="s"), seen=it.content_hash
        )
    assert refused.value.code == "DOCUMENT_CHANGED"


async def test_what_cannot_be_written_leaves_the_request_pending(store: Store) -> None:
    await agent(store)
    it = await request(store, wish(text="ä" * 60_000))  # the desk measures before it asks; the store does once more
    with pytest.raises(InvalidError) as refused:
        await approve(store, it)
    assert refused.value.code == "DOCUMENT_TOO_LARGE"
    assert await store.of(ApprovalRows).get(it.no) == it and await told(store) == []


async def test_an_outdated_one_ends_and_is_told(store: Store) -> None:
    await agent(store)
    it = await request(store)
    ended = await store.of(ApprovalRows).outdate(it.no, seen=it.content_hash, why="it says so already")
    assert (ended.state, ended.why) == (ApprovalState.STALE, "it says so already")
    [(kind, text)] = await told(store)
    assert kind is EnvelopeKind.NOTICE and "it says so already" in text
    with pytest.raises(ConflictError):
        await store.of(ApprovalRows).outdate(it.no, seen=it.content_hash, why="again")


async def test_a_dead_agent_is_not_told_which_is_counted(store: Store) -> None:
    await agent(store)
    it = await request(store)
    await store.agents.set_state(ID, "dead", "done")
    seen = commits(store)
    assert (await approve(store, it)).state is ApprovalState.APPROVED
    assert await memory(store) == "- likes tea\n", "its person has decided all the same"
    assert sum(commit.unheard for commit in seen) == 1 and await store.dead.find() == []


async def test_an_agent_with_a_full_inbox_gets_a_dead_letter(store: Store) -> None:
    await agent(store)
    it = await request(store)
    for number in range(INBOX_MAX_MESSAGES):
        await post(store, f"m{number}")
    assert (await approve(store, it)).state is ApprovalState.APPROVED
    [letter] = await store.dead.find()
    assert (letter.source, letter.code) == ("post", "INBOX_FULL")


async def test_a_number_that_there_is_not_is_unknown(store: Store) -> None:
    assert await store.of(ApprovalRows).get(7) is None and await store.of(ApprovalRows).by_key("x") is None
    with pytest.raises(NotFoundError):
        await store.of(ApprovalRows).decide(7, "approve", seen="0" * 8, by=BY)
    with pytest.raises(NotFoundError):
        await store.of(ApprovalRows).undo(7, by=BY)


# -- undoing, expiring, granting ---------------------------------------------------------------------------------------


async def test_what_a_request_did_is_undone_once_by_a_new_version(store: Store) -> None:
    await agent(store)
    base = await overwrite(store, "old\n")
    it = await request(store, wish(base_hash=base))
    await approve(store, it)
    undone, is_new = await store.of(ApprovalRows).undo(it.no, by=BY)
    assert is_new and undone.undone == 3 and await memory(store) == "old\n"
    assert await store.of(ApprovalRows).undo(it.no, by=BY) == (undone, False)
    assert [kind for kind, _ in await told(store)] == [EnvelopeKind.NOTICE, EnvelopeKind.NOTE]


async def test_what_was_changed_since_is_not_undone(store: Store) -> None:
    await agent(store)
    it = await request(store)
    await approve(store, it)
    await overwrite(store, "mine\n")
    with pytest.raises(ConflictError) as refused:
        await store.of(ApprovalRows).undo(it.no, by=BY)
    assert refused.value.code == "DOCUMENT_CHANGED" and await memory(store) == "mine\n"


async def test_what_did_nothing_cannot_be_undone(store: Store) -> None:
    await agent(store)
    it = await request(store)
    for _ in range(2):
        with pytest.raises(ConflictError) as refused:
            await store.of(ApprovalRows).undo(it.no, by=BY)
        assert refused.value.code == "APPROVAL_NOT_DONE"
        await store.of(ApprovalRows).decide(it.no, "reject", seen=it.seen, by=BY)


async def test_after_a_week_a_request_expires(store: Store, clock: HandClock) -> None:
    await agent(store)
    it = await request(store)
    clock.ms += int(APPROVAL_S * 1000) - 1
    assert await store.of(ApprovalRows).expire() == []
    clock.ms += 1
    with pytest.raises(ConflictError, match="its time is over"):
        await approve(store, it)
    [ended] = await store.of(ApprovalRows).expire()
    assert ended.state is ApprovalState.EXPIRED and await store.of(ApprovalRows).expire() == []
    [(kind, text)] = await told(store)
    assert kind is EnvelopeKind.NOTE and "expired" in text, "no turn is worth it"


async def test_what_was_granted_is_approved_at_once_until_the_end(store: Store, clock: HandClock) -> None:
    me = await agent(store)
    grant = Grant(agent_id=ID, kind="memory", user="u1", by=BY, until=clock.ms + 1_000)
    await store.of(ApprovalRows).grant(grant)
    assert await store.of(ApprovalRows).grants(ID) == [grant]
    it, is_new = await store.of(ApprovalRows).request(wish(), shown_in(me))
    assert is_new and (it.state, it.version, it.decided_by) == (ApprovalState.APPROVED, 1, BY)
    assert await memory(store) == "- likes tea\n"
    assert await told(store) == [] and await store.outbox.count() == 0, "the model reads it at once"
    base = digest("- likes tea\n")
    for other in (
        wish("2", "x", base_hash=base, findings=(ApprovalFinding(severity="warning", meaning="a link"),)),
        wish("3", "x", base_hash=base, kind="identity"),
        wish("4", "x", base_hash=base, kind="tool"),
        wish("5", "x", base_hash=base, decider="operator"),
        wish("6", "x", base_hash=base, agent_id="other"),
        wish("8", "x", place=Place(Layer.GLOBAL, "", "knowledge/x.md")),
        wish("9", "x", place=Place(Layer.AGENT, ID, "SOUL.md")),
    ):
        assert (await request(store, other)).state is ApprovalState.PENDING
    clock.ms += 1_000
    assert (await request(store, wish("7", "x", base_hash=base))).state is ApprovalState.PENDING


@pytest.mark.parametrize("back_ms", [86_400_000, 366 * 86_400_000])
async def test_what_a_clock_granted_that_was_ahead_is_asked_for(store: Store, clock: HandClock, back_ms: int) -> None:
    await agent(store)
    await store.of(ApprovalRows).grant(Grant(agent_id=ID, kind="memory", user="u1", by=BY, until=clock.ms + 3_600_000))
    clock.ms -= back_ms
    assert (await request(store, wish())).state is ApprovalState.PENDING


@pytest.mark.parametrize("back_ms", [86_400_000, 366 * 86_400_000])
async def test_a_request_of_a_clock_that_was_ahead_waits_no_longer_than_others(
    store: Store, clock: HandClock, back_ms: int
) -> None:
    await agent(store)
    it = await request(store)
    clock.ms -= back_ms
    assert await store.of(ApprovalRows).expire() == [], "not early"
    clock.ms += int(APPROVAL_S * 1000) - 1
    assert await store.of(ApprovalRows).expire() == []
    clock.ms += 1
    assert [ended.no for ended in await store.of(ApprovalRows).expire()] == [it.no]


async def test_requests_of_a_clock_that_was_ahead_do_not_count_for_this_hour(store: Store, clock: HandClock) -> None:
    await agent(store)
    for number in range(APPROVALS_PER_HOUR):
        it = await request(store, wish(f"1:{number}"))
        await store.of(ApprovalRows).decide(it.no, "reject", seen=it.seen, by=BY)
    with pytest.raises(BusyError):
        await request(store, wish("2:1"))
    clock.ms -= 366 * 86_400_000
    assert (await request(store, wish("2:1"))).state is ApprovalState.PENDING


async def test_identity_is_never_granted(store: Store) -> None:
    with pytest.raises(InvalidError):
        await store.of(ApprovalRows).grant(Grant(agent_id=ID, kind="identity", user="u1", by=BY, until=2**50))


async def test_messages_of_decided_requests_are_found_until_they_are_settled(store: Store, clock: HandClock) -> None:
    me = await agent(store)
    its = [(await store.of(ApprovalRows).request(wish(f"1:{number}"), shown_in(me)))[0] for number in range(3)]
    for it in its[:2]:
        await store.of(ApprovalRows).decide(it.no, "reject", seen=it.seen, by=BY)
    assert await store.of(ApprovalRows).outlived(["telegram"], 0) == [(2, 2), (1, 1)], "the newest first"
    assert await store.of(ApprovalRows).outlived(["telegram"], 0, limit=1) == [(2, 2)]
    assert await store.of(ApprovalRows).outlived(["other"], 0) == []
    assert await store.of(ApprovalRows).outlived(["telegram"], clock.ms) == [], "too old"
    await store.outbox.give_up(1, "GONE", "nobody there")
    assert await store.of(ApprovalRows).outlived(["telegram"], 0) == [(2, 2)]
    await store.of(ApprovalRows).settle(2)
    assert await store.of(ApprovalRows).outlived(["telegram"], 0) == []


# -- finding -----------------------------------------------------------------------------------------------------------


async def test_requests_are_found_by_decider_and_state(store: Store) -> None:
    await agent(store)
    for key, decider in (("1", "u1"), ("2", "u2"), ("3", "u1")):
        await request(store, wish(key, decider=decider))
    first = await store.of(ApprovalRows).get(1)
    assert first is not None
    await store.of(ApprovalRows).decide(1, "reject", seen=first.seen, by=BY)

    async def numbers(**which: Any) -> list[int]:
        return [it.no for it in await store.of(ApprovalRows).find(**which)]

    assert await numbers() == [3, 2, 1]
    assert await numbers(decider="u1") == [3, 1]
    assert await numbers(decider="u1", states=[ApprovalState.PENDING]) == [3]
    assert await numbers(states=[ApprovalState.PENDING, ApprovalState.REJECTED], before=3) == [2, 1]
    assert await numbers(limit=1) == [3]


async def test_a_delivered_message_is_known_by_its_receipt(store: Store) -> None:
    me = await agent(store)
    it, _ = await store.of(ApprovalRows).request(wish(), shown_in(me))
    [row] = await store.outbox.waiting("telegram")
    assert not await store.of(ApprovalRows).was_shown(it.no, it.content_hash, "u1")
    await store.outbox.part_sent(row.seq, 1, "77")
    assert not await store.of(ApprovalRows).was_shown(it.no, it.content_hash, "u1"), "not all of it"
    await store.outbox.sent([row.seq], "78")
    assert await store.of(ApprovalRows).was_shown(it.no, it.content_hash, "u1")
    assert not await store.of(ApprovalRows).was_shown(it.no, it.content_hash, "u2"), "somebody else has seen it"
    assert not await store.of(ApprovalRows).was_shown(it.no, "0" * 64, "u1")
    for receipt in ("77", "78"):
        assert await store.of(ApprovalRows).shown_by("u1", "telegram", "u1", receipt) == it
    for decider, connector, user, receipt in (
        ("u2", "telegram", "u1", "77"),
        ("u1", "slack", "u1", "77"),
        ("u1", "telegram", "u2", "77"),
        ("u1", "telegram", "u1", "7"),
        ("u1", "telegram", "u1", ""),
    ):
        assert await store.of(ApprovalRows).shown_by(decider, connector, user, receipt) is None
    await approve(store, it)
    assert await store.of(ApprovalRows).shown_by("u1", "telegram", "u1", "77") is None, (
        "there is nothing to edit any more"
    )


async def test_decided_requests_expire_with_everything_else(store: Store, clock: HandClock) -> None:
    await agent(store)
    done = await request(store)
    await approve(store, done)
    base = digest("- likes tea\n")
    kept = await request(store, wish("2", "x", base_hash=base))
    await request(store, wish("3", "y", base_hash=base))
    clock.ms += 1_000
    while await store.ledger.expire(clock.ms):
        pass
    assert await store.of(ApprovalRows).get(done.no) is None
    assert await store.of(ApprovalRows).get(kept.no) == kept, "what is pending stays"
