"""Forgetting: what goes with what, what stays as a hash, and who is told so."""

import pytest

from daycare.base.documents import Attribution, Layer, NewVersion, Place, digest
from daycare.base.errors import ConflictError
from daycare.base.memories import Tier
from daycare.base.messages import EnvelopeKind, File, Message, Origin, Text, ToolCall, ToolResult
from daycare.features.approvals.records import ApprovalState
from daycare.features.approvals.rows import ApprovalRows
from daycare.features.memory.documents.rows import DocumentRows
from daycare.features.memory.store.records import Forgotten, MergeResult, StoredMemory, Superseded
from daycare.features.memory.store.rows import MemoryRows
from daycare.store.records import Agent, Effects, Summary, Turn
from daycare.store.sqlite.store import Store
from tests.store.remembering import (
    MODEL,
    SCOPE,
    agent_at,
    embedded,
    entity,
    entries_of,
    entry,
    fact,
    learned,
    logged,
    only,
    said,
    texts,
    written,
)
from tests.store.samples import EPOCH_MS, PATH, HandClock, begin, end, letter, new_agent, post, timer, tool_step
from tests.store.test_approvals import hidden, wish

SOUL = Place(Layer.AGENT, "a1", "SOUL.md")
BY = Attribution(origin=Origin.AGENT, author="/ann/telegram", reason="because of a secret")


async def all_texts(store: Store, scope: str = SCOPE) -> list[str]:
    found: list[StoredMemory] = []
    for tier in Tier:
        found += await store.of(MemoryRows).find(scope, tier, living=False)
    return sorted(it.text for it in found)


async def messages(store: Store, session: int = 1) -> list[Message]:
    return await store.turns.history((await agent_at(store)).id, session, 100)


# -- memories ----------------------------------------------------------------------------------------------------------


async def test_a_forgotten_memory_is_found_in_no_way(store: Store) -> None:
    one, two = await logged(store, "the secret word", "another word")
    await embedded(store)
    gone = store.of(MemoryRows).latest(SCOPE)[1]
    assert await store.of(MemoryRows).forget(SCOPE, [one]) == Forgotten(memories=1, turns=0, versions=0, summaries=0)
    assert texts(store, "secret word") == [two]
    assert [shape.no for shape in store.of(MemoryRows).shapes(SCOPE)] == [two]
    assert await store.of(MemoryRows).get([SCOPE], [one]) == []
    assert await all_texts(store) == ["another word"]
    assert store.of(MemoryRows).vectors_of(MODEL, [one, two]).numbers == (two,)
    assert await store.of(MemoryRows).unembedded(MODEL, 9) == []
    assert await store.of(MemoryRows).pending(MODEL) == (0, 1)
    counts = await store.of(MemoryRows).counts(SCOPE)
    assert (counts.logs, counts.text_bytes) == (1, len("another word"))
    assert store.of(MemoryRows).gone_since(SCOPE, gone) == [one]
    assert (await store.of(MemoryRows).unextracted(9))[0].entries == 1
    assert await store.of(MemoryRows).entries("id-u1-telegram", after=0, through=two, max_chars=999) == await store.of(
        MemoryRows
    ).get([SCOPE], [two])


async def test_forgetting_can_be_repeated(store: Store) -> None:
    [one] = await logged(store, "secret")
    turn = (await only(store, one)).turn
    turns = [("id-u1-telegram", turn)]
    assert (await store.of(MemoryRows).forget(SCOPE, [one], turns=turns)).turns == 1
    nothing = Forgotten(memories=0, turns=0, versions=0, summaries=0)
    assert await store.of(MemoryRows).forget(SCOPE, [one], turns=turns) == nothing
    assert await store.of(MemoryRows).forget(SCOPE, []) == await store.of(MemoryRows).forget("nobody", [one, 10**12])


async def test_nobody_forgets_what_is_anothers(store: Store) -> None:
    [theirs] = await logged(store, "theirs", to="/u2/telegram", scope="u2", user="u2")
    await logged(store, "mine")
    assert (await store.of(MemoryRows).forget(SCOPE, [theirs])).memories == 0
    assert await all_texts(store, "u2") == ["theirs"]


async def test_with_a_source_goes_what_was_learned_from_nothing_else(store: Store) -> None:
    one, two = await logged(store, "my code is 1234", "the code is 1234, and my dog is Rex")
    alone, both, dog = await learned(
        store, fact("Ann's code", one), fact("Ann's code is 1234", one, two), fact("Ann's dog is Rex", two)
    )
    assert (await store.of(MemoryRows).forget(SCOPE, [one])).memories == 2
    assert await store.of(MemoryRows).get([SCOPE], [alone]) == []
    assert (await only(store, both)).sources == (two,)
    assert (await store.of(MemoryRows).forget(SCOPE, [two])).memories == 3
    assert await store.of(MemoryRows).get([SCOPE], [both, dog]) == []
    assert await store.of(MemoryRows).about(SCOPE, ["Ann"], [], 9) == []


async def test_an_entity_that_others_speak_of_loses_what_only_the_forgotten_said(store: Store) -> None:
    one, two = await logged(store, "my friend Bob Miller was in prison", "Bob is my friend, he paints")
    [bob, painter] = await learned(
        store,
        entity("Bob", one, two, description="was in prison", aliases=("Bob Miller",)),
        entity("Robert", one, two, description="a friend who paints", aliases=("Bob",)),
    )
    await store.of(MemoryRows).forget(SCOPE, [one])
    found = await only(store, bob)
    assert found.entity is not None
    assert (found.text, found.entity.description, found.entity.aliases) == ("Bob", "", ())
    assert (found.entity.mentions, found.sources) == (1, (two,))
    kept = await only(store, painter)
    assert kept.entity is not None
    assert (kept.entity.description, kept.entity.aliases) == ("a friend who paints", ("Bob",))
    assert texts(store, "prison miller") == []
    assert await store.of(MemoryRows).about(SCOPE, [], ["bob miller"], 9) == []


async def test_a_fact_goes_with_its_turn_also_when_the_log_has_expired(store: Store, clock: HandClock) -> None:
    [one] = await logged(store, "my code is 1234")
    turn = (await only(store, one)).turn
    [known, plain] = await learned(store, fact("code 1234", one), fact("by itself", turn=turn))
    clock.ms += 1
    assert await store.of(MemoryRows).expire(clock.ms, 9) == 1
    assert await store.of(MemoryRows).turns_of(SCOPE, [known]) == [("id-u1-telegram", turn)]
    assert (await store.of(MemoryRows).forget(SCOPE, [], turns=[("id-u1-telegram", turn)])).memories == 2
    assert await store.of(MemoryRows).get([SCOPE], [known, plain]) == []


async def test_what_is_learned_from_forgotten_entries_only_is_left_out(store: Store) -> None:
    one, two = await logged(store, "secret", "open")
    through = two
    await store.of(MemoryRows).forget(SCOPE, [one])
    lesson = MergeResult(
        agent_id="id-u1-telegram",
        after=0,
        through=through,
        add=(fact("from it", one), fact("from both", one, two), entry("by itself", tier=Tier.FACT)),
        superseded=(Superseded(one, 0, 1),),
    )
    numbers = await store.of(MemoryRows).learn(lesson)
    assert numbers is not None and numbers[0] == 0 and all(numbers[1:])
    assert (await only(store, numbers[1])).sources == (two,)


# -- turns -------------------------------------------------------------------------------------------------------------


async def test_a_turn_keeps_its_shape_and_loses_its_words(store: Store) -> None:
    agent, turn, rows = await begin(store, "k")
    file = await store.files.put("f", "u1", Origin.PERSON, "secret.txt", "text/plain", b"secret")
    kept = await store.files.put(f"result:{turn.turn}:2", "u1", Origin.AGENT, "s", "text/plain", b"secret")
    other = await store.files.put(f"result:{turn.turn}1:2", "u1", Origin.AGENT, "s", "text/plain", b"other")
    history = (
        Message("user", (Text("a secret"), file), at_ms=5, sender="telegram:42"),
        Message("assistant", (Text("let me see"), ToolCall("c1", "search", {"words": "secret"}))),
        Message("tool", (ToolResult(call_id="c1", name="search", text="the secret"),)),
        Message("assistant", (Text("it is secret"),)),
    )
    await store.turns.journal([tool_step(turn, 1, arguments={"words": "secret"})])
    await store.turns.finish(agent, turn, end(turn, "the secret is out", history=history, result="secret"))
    await written(store)
    forgotten = await store.of(MemoryRows).forget(SCOPE, [], turns=[(agent.id, turn.turn)])
    assert forgotten == Forgotten(memories=1, turns=1, versions=0, summaries=0, traces=("trace-k",))
    gone = Text("[forgotten]")
    assert await messages(store) == [
        Message("user", (gone,), at_ms=5, sender="telegram:42"),
        Message("assistant", (gone, ToolCall("c1", "search", {}))),
        Message("tool", (ToolResult(call_id="c1", name="search", text="[forgotten]"),)),
        Message("assistant", (gone,)),
    ]
    loaded, _, steps = await store.turns.load(turn.turn)
    assert (loaded.state, steps) == ("done", [])
    receipt = await store.inbox.receipt(rows[0].seq)
    assert receipt is not None and (receipt.state, receipt.result) == ("done", "[forgotten]")
    [reply] = [row for seq in range(1, 9) if (row := await store.outbox.get(seq)) is not None]
    assert (reply.text, reply.state) == ("[forgotten]", "dead"), "it was not delivered"
    assert await store.outbox.waiting("telegram") == []
    for forgotten_file in (file, kept):
        assert await store.files.get(forgotten_file.id, "u1") == File(
            id=forgotten_file.id, name="[forgotten]", media_type="text/plain", size=0
        )
        assert await store.files.read(forgotten_file.id, "u1") == b""
    assert await store.files.read(other.id, "u1") == b"other"


async def test_a_delivered_reply_stays_delivered(store: Store) -> None:
    turn = await said(store, "x", answer="secret")
    [row] = await store.outbox.waiting("telegram")
    await store.outbox.sent([row.seq], "receipt-1")
    await store.of(MemoryRows).forget(SCOPE, [], turns=[(turn.agent_id, turn.turn)])
    reply = await store.outbox.get(row.seq)
    assert reply is not None
    assert (reply.state, reply.receipt, reply.text) == ("sent", "receipt-1", "[forgotten]")


async def test_a_turn_that_was_forgotten_gets_into_no_log(store: Store) -> None:
    first, second = await said(store, "secret one"), await said(store, "secret two")
    turns = await store.of(MemoryRows).unlogged(9)
    await store.of(MemoryRows).forget(SCOPE, [], turns=[(first.agent_id, first.turn)])
    numbers = await store.of(MemoryRows).log(turns, [each for turn in turns for each in entries_of(turn)])
    assert numbers[0] == 0 and numbers[1]
    await store.of(MemoryRows).forget(SCOPE, [], turns=[(second.agent_id, second.turn)])
    assert await store.of(MemoryRows).unlogged(9) == [] and await all_texts(store) == []


async def test_a_turn_that_has_not_ended_is_not_forgotten(store: Store) -> None:
    [no] = await logged(store, "kept")
    agent, turn, _ = await begin(store, "k")
    with pytest.raises(ConflictError) as caught:
        await store.of(MemoryRows).forget(SCOPE, [no], turns=[(agent.id, turn.turn)])
    assert caught.value.code == "TURN_OPEN"
    assert await all_texts(store) == ["kept"], "all of it or nothing"
    await store.turns.finish(agent, turn, end(turn))
    assert (await store.of(MemoryRows).forget(SCOPE, [no], turns=[(agent.id, turn.turn)])).turns == 1


async def test_a_turn_of_another_agent_is_not_forgotten_by_its_number(store: Store) -> None:
    turn = await said(store, "kept")
    assert (await store.of(MemoryRows).forget(SCOPE, [], turns=[("somebody", turn.turn)])).turns == 0
    assert (await messages(store))[0].text == "kept"


async def test_what_came_of_a_turn_goes_with_it_and_what_was_before_stays(store: Store, clock: HandClock) -> None:
    before = await said(store, "before")
    agent, turn, _ = await begin(store, "ask")
    helper = new_agent("/u1/telegram/sub/0", kind="sub")
    await store.inbox.post(letter("to the helper", "/u1/telegram/sub/0", trace=turn.trace), helper)
    await store.turns.finish(agent, turn, end(turn, history=(Message("user", (Text("secret"),)),)))
    sub = await agent_at(store, "/u1/telegram/sub/0")
    rows = await store.inbox.waiting(sub.id)
    at_work = await store.turns.begin(sub, rows)
    with pytest.raises(ConflictError):
        await store.of(MemoryRows).forget(SCOPE, [], turns=[(agent.id, turn.turn)])
    await store.turns.finish(sub, at_work, end(at_work, history=(Message("user", (Text("secret"),)),)))
    after = await said(store, "after")
    await written(store)
    forgotten = await store.of(MemoryRows).forget(SCOPE, [], turns=[(agent.id, turn.turn)])
    assert (forgotten.turns, forgotten.memories) == (2, 2)
    assert [it.text for it in await store.turns.history(sub.id, 1, 9)] == ["[forgotten]"]
    assert [it.text for it in await messages(store) if it.role == "user"] == ["before", "[forgotten]", "after"]
    assert before.turn < turn.turn < after.turn


async def test_forgetting_a_turn_that_goes_on_with_an_older_trace_leaves_the_older_turn(
    store: Store, clock: HandClock
) -> None:
    first = await said(store, "first", answer="first answer")
    clock.ms += 1_000
    await post(store, "note", kind=EnvelopeKind.NOTICE, trace=first.trace, text="decided")
    agent = await agent_at(store)
    turn = await store.turns.begin(agent, await store.inbox.waiting(agent.id))
    assert turn.trace == first.trace
    await store.turns.finish(agent, turn, end(turn, "second answer"))
    await store.of(MemoryRows).forget(SCOPE, [], turns=[(agent.id, turn.turn)])
    assert (await messages(store))[0].text == "first"
    assert [row.text for row in await store.outbox.waiting("telegram")] == ["first answer"]


async def test_summaries_that_cover_a_turn_go_with_it(store: Store) -> None:
    turns = [await said(store, text) for text in ("one", "two", "three")]
    agent = await agent_at(store)
    for turn in turns:
        summary = Summary(
            agent_id=agent.id,
            session=1,
            user="u1",
            origin=agent.origin,
            through=turn.turn,
            turns=1,
            text=f"up to {turn.turn}",
            tokens_before=2,
            tokens_after=1,
        )
        await store.summaries.add(summary, None)
    forgotten = await store.of(MemoryRows).forget(SCOPE, [], turns=[(agent.id, turns[1].turn)])
    assert forgotten.summaries == 2
    assert [it.through for it in await store.summaries.find(agent.id, 1)] == [turns[0].turn]


async def test_a_request_for_approval_of_a_forgotten_turn_cannot_be_decided(store: Store) -> None:
    turn = await said(store, "remember my secret")
    it, _ = await store.of(ApprovalRows).request(wish(text="- secret\n", trace=turn.trace, reason="secret"), hidden)
    await store.of(MemoryRows).forget(SCOPE, [], turns=[(turn.agent_id, turn.turn)])
    bare = await store.of(ApprovalRows).get(it.no)
    assert bare is not None and bare.state is ApprovalState.STALE
    assert (bare.action.text, bare.reason, bare.content_hash) == ("[forgotten]", "[forgotten]", it.content_hash)
    with pytest.raises(ConflictError):
        await store.of(ApprovalRows).decide(it.no, "approve", seen=it.content_hash, by="telegram:42")


async def test_a_dead_letter_of_a_forgotten_turn_cannot_be_replayed(store: Store) -> None:
    agent, turn, _ = await begin(store, "k")
    await store.turns.park(agent, turn, code="X", reason="failed on a secret", history=(Message("user", (Text("s"),)),))
    [buried] = await store.dead.find()
    await store.of(MemoryRows).forget(SCOPE, [], turns=[(agent.id, turn.turn)])
    bare = await store.dead.get(buried.no)
    assert bare is not None and "text of k" not in bare.body and bare.reason == "[forgotten]"
    assert await store.dead.count() == 0
    with pytest.raises(ConflictError):
        await store.dead.replay(buried.no)


async def test_a_reminder_of_a_forgotten_turn_comes_without_its_words(store: Store) -> None:
    agent, turn, _ = await begin(store, "k")
    reminder = timer(agent, "t", EPOCH_MS + 5, text="the secret", trace=turn.trace)
    other = timer(agent, "o", EPOCH_MS + 5, text="other", trace="another")
    effects = Effects(timers=(reminder, other))
    await store.turns.finish(agent, turn, end(turn, effects=effects))
    await store.of(MemoryRows).forget(SCOPE, [], turns=[(agent.id, turn.turn)])
    assert sorted(it.envelope.text for it in await store.timers.find()) == ["[forgotten]", "other"]
    assert await store.timers.fire(EPOCH_MS + 5, 9) == 2


async def test_events_tell_no_words_of_a_forgotten_turn(store: Store) -> None:
    turn = await said(store, "k")
    event = '{"event":"turn.failed","at_ms":1,"turn":1,"attempt":1,"code":"X","reason":"a secret","trace":"%s"}'
    await store.ledger.record([(EPOCH_MS, "u1", PATH, turn.trace, event % turn.trace)])
    await store.ledger.record([(EPOCH_MS, "u1", PATH, "other", event % "other")])
    await store.of(MemoryRows).forget(SCOPE, [], turns=[(turn.agent_id, turn.turn)])
    other, bare = await store.ledger.events()
    assert bare == (event % turn.trace).replace("a secret", "[forgotten]") and "a secret" in other


async def test_notes_of_workers_and_searches_since_then_go_as_well(store: Store) -> None:
    async def work(path: str, kind: str, user: str = "u1") -> tuple[Agent, Turn]:
        await store.agents.create(new_agent(path, kind=kind, user=user))
        _, turn, _ = await begin(store, f"{path}-{len(await store.turns.history(path, 1, 9))}", to=path)
        agent = await agent_at(store, path)
        await store.turns.finish(agent, turn, end(turn, history=(Message("user", (Text("secret note"),)),)))
        return agent, turn

    await work("/u1/telegram/search/0", "search")
    *_, no = await logged(store, "secret")
    agents = [
        (await work(path, kind))[0]
        for path, kind in (("/u1/telegram/memory", "memory"), ("/u1/telegram/search/1", "search"))
    ]
    kept = [(await work("/u1/agent/x", "agent"))[0], (await work("/u2/telegram/memory", "memory", "u2"))[0]]
    kept.append(await agent_at(store, "/u1/telegram/search/0"))
    forgotten = await store.of(MemoryRows).forget(SCOPE, [no])
    assert (forgotten.memories, forgotten.turns) == (1, 0), "they are no conversation"
    for agent in agents:
        assert [it.text for it in await store.turns.history(agent.id, 1, 9)] == ["[forgotten]"]
    for agent in kept:
        assert [it.text for it in await store.turns.history(agent.id, 1, 9)] == ["secret note"]


# -- documents ---------------------------------------------------------------------------------------------------------


async def put(store: Store, text: str | None) -> int:
    new = NewVersion(place=SOUL, user="u1", by=BY, text=text)
    return (await store.of(DocumentRows).write(new)).version


async def test_an_old_version_keeps_its_place_in_the_line_and_its_hash(store: Store) -> None:
    for text in ("a secret", "open", "a secret", "open too", None):
        await put(store, text)
    forgotten = await store.of(MemoryRows).forget(SCOPE, [], versions=[(SOUL, 1)])
    assert forgotten.versions == 2, "with all that said the same"
    line = [await store.of(DocumentRows).at(SOUL, version) for version in range(1, 6)]
    assert [it and it.text for it in line] == ["[forgotten]", "open", "[forgotten]", "open too", None]
    assert [it.hash for it in await store.of(DocumentRows).history(SOUL)][-1] == digest("a secret")
    assert line[0] is not None and line[0].version.by.reason == "[forgotten]"
    assert line[1] is not None and line[1].version.by.reason == BY.reason


async def test_what_a_document_says_now_is_not_forgotten(store: Store) -> None:
    for text in ("a secret", "open", "a secret"):
        await put(store, text)
    for version in (1, 3):
        with pytest.raises(ConflictError) as caught:
            await store.of(MemoryRows).forget(SCOPE, [], versions=[(SOUL, version)])
        assert caught.value.code == "DOCUMENT_CURRENT"
    await store.of(MemoryRows).forget(SCOPE, [], versions=[(SOUL, 9), (Place(Layer.GLOBAL, "", "x.md"), 1)])


async def test_nothing_is_undone_to_a_forgotten_version(store: Store) -> None:
    await put(store, "a secret")
    await put(store, "open")
    await store.of(MemoryRows).forget(SCOPE, [], versions=[(SOUL, 1)])
    with pytest.raises(ConflictError) as caught:
        await store.of(DocumentRows).undo(NewVersion(place=SOUL, user="u1", by=BY))
    assert caught.value.code == "DOCUMENT_FORGOTTEN"
    await put(store, "[forgotten]")
    undone = await store.of(DocumentRows).undo(NewVersion(place=SOUL, user="u1", by=BY))
    assert undone.hash == digest("open"), "whoever writes the word by themselves has forgotten nothing"
    again = await store.of(DocumentRows).undo(NewVersion(place=SOUL, user="u1", by=BY))
    assert again.hash == digest("[forgotten]")


async def test_chunks_and_the_request_of_a_forgotten_version_go_with_it(store: Store) -> None:
    it, _ = await store.of(ApprovalRows).request(wish(text="- secret\n"), hidden)
    await store.of(ApprovalRows).decide(it.no, "approve", seen=it.content_hash, by="telegram:42")
    place = it.action.place
    assert place is not None
    await store.of(MemoryRows).chunk(place, 1, [entry("- secret", tier=Tier.CHUNK)])
    await store.of(DocumentRows).write(NewVersion(place=place, user="u1", by=BY, text="open"))
    forgotten = await store.of(MemoryRows).forget(SCOPE, [], versions=[(place, 1)])
    assert (forgotten.versions, forgotten.memories) == (1, 1)
    assert texts(store, "secret") == []
    bare = await store.of(ApprovalRows).get(it.no)
    assert bare is not None and (bare.state, bare.action.text) == (ApprovalState.APPROVED, "[forgotten]")
    assert await store.of(MemoryRows).unchunked(9) == [(place, 2)]


async def test_an_unknown_turn_is_nothing_to_forget(store: Store) -> None:
    assert (await store.of(MemoryRows).forget(SCOPE, [], turns=[("nobody", 999)])).turns == 0
    assert (await store.of(MemoryRows).forget(SCOPE, [999])).memories == 0
