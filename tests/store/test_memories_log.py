"""The log: every turn gets into it once, whatever the order in which turns end, and is curated once."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daycare.base.causes import Answer
from daycare.base.errors import ConflictError, InvalidError
from daycare.base.memories import Tier
from daycare.base.messages import EnvelopeKind, Message, Text
from daycare.features import open_store
from daycare.features.memory.store.records import EndedTurn, MergeResult, Seen, StoredMemory, Superseded
from daycare.features.memory.store.rows import MemoryRows
from daycare.store.records import Agent, Summary, Turn
from daycare.store.sqlite.store import Store
from tests.store.remembering import (
    SCOPE,
    agent_at,
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
from tests.store.samples import EPOCH_MS, HandClock, answer, begin, end, post, tool_step

A, B = "/u1/telegram", "/u1/agent/b"


async def test_a_turn_waits_for_the_log_from_its_end_until_it_is_there(store: Store, clock: HandClock) -> None:
    clock.ms += 5
    turn = await said(store, "hello")
    agent, open_turn, _ = await begin(store, "k2")
    [waiting] = await store.of(MemoryRows).unlogged(10)
    assert waiting == EndedTurn(
        turn=turn.turn,
        agent_id=turn.agent_id,
        session=1,
        ended_at=clock.ms,
        trace=turn.trace,
        messages=(Message("user", (Text("hello"),)), Message("assistant", (Text("noted"),))),
    )
    [no] = await store.of(MemoryRows).log([waiting], entries_of(waiting))
    assert await store.of(MemoryRows).unlogged(10) == []
    stored = await only(store, no)
    assert (stored.text, stored.turn, stored.speaker, stored.created_at) == ("hello", turn.turn, "Ann", clock.ms)
    await store.turns.finish(agent, open_turn, end(open_turn))
    assert [each.turn for each in await store.of(MemoryRows).unlogged(10)] == [open_turn.turn]


async def test_logging_a_turn_again_keeps_nothing_twice(store: Store) -> None:
    await said(store, "once")
    turns = await store.of(MemoryRows).unlogged(10)
    [no] = await store.of(MemoryRows).log(turns, entries_of(turns[0]))
    assert await store.of(MemoryRows).log(turns, entries_of(turns[0])) == [0]
    assert [it.no for it in await store.of(MemoryRows).find(SCOPE, Tier.LOG)] == [no]


async def test_a_turn_without_entries_is_logged_as_well(store: Store) -> None:
    await said(store, "a")
    assert await store.of(MemoryRows).log(await store.of(MemoryRows).unlogged(10), []) == []
    assert await store.of(MemoryRows).unlogged(10) == []


async def test_a_turn_that_has_not_ended_is_not_logged(store: Store) -> None:
    agent, turn, _ = await begin(store, "k")
    unfinished = EndedTurn(turn=turn.turn, agent_id=agent.id, session=1, ended_at=0, trace="", messages=())
    with pytest.raises(ConflictError):
        await store.of(MemoryRows).log([unfinished], [entry("x", turn.turn)])
    await store.turns.finish(agent, turn, end(turn))
    assert len(await store.of(MemoryRows).unlogged(10)) == 1


async def test_a_turn_that_was_set_aside_is_logged_when_it_ends_at_last(store: Store, clock: HandClock) -> None:
    agent, old, _ = await begin(store, "a")
    waiting = tool_step(old, 1, state="waiting", wait="w", wait_until=EPOCH_MS + 10**9)
    await store.turns.set_aside(agent, old, [waiting])
    clock.ms += 1
    later = await said(store, "meanwhile")
    assert await written(store) != []
    assert await store.of(MemoryRows).unlogged(10) == []
    clock.ms += 1
    await store.turns.finish(agent, old, end(old, history=(Message("user", (Text("the old one"),)),)))
    [waits] = await store.of(MemoryRows).unlogged(10)
    assert waits.turn == old.turn < later.turn
    await written(store)
    assert await store.of(MemoryRows).unlogged(10) == []


@pytest.mark.parametrize("limit", [1, 2, 100])
async def test_the_turns_of_an_agent_come_in_the_order_in_which_they_ended(
    store: Store, clock: HandClock, limit: int
) -> None:
    agent, old, _ = await begin(store, "a")
    waiting = tool_step(old, 1, state="waiting", wait="w", wait_until=EPOCH_MS + 10**9)
    await store.turns.set_aside(agent, old, [waiting])
    ended = []
    for key in "bcd":
        clock.ms += 1
        ended.append((await answer(store, key)).turn)
    clock.ms += 1
    await store.turns.finish(agent, old, end(old))
    clock.ms += 1
    ended += [old.turn, (await answer(store, "e")).turn]
    found: list[int] = []
    while turns := await store.of(MemoryRows).unlogged(limit):
        assert len(turns) <= limit
        await store.of(MemoryRows).log(turns, [])
        found += [turn.turn for turn in turns]
    assert found == ended


@dataclass
class Life:
    """Two agents that begin, set aside, finish turns, and a scribe that logs some of them now and then."""

    store: Store
    clock: HandClock
    open: dict[str, tuple[Agent, Turn]] = field(default_factory=dict)
    aside: list[tuple[Agent, Turn]] = field(default_factory=list)
    ended: dict[str, list[int]] = field(default_factory=lambda: {A: [], B: []})
    logged: dict[str, list[int]] = field(default_factory=lambda: {A: [], B: []})
    count: int = 0

    async def step(self, what: int, path: str, limit: int) -> None:
        self.clock.ms += 1
        if what == 0 and path not in self.open:
            self.count += 1
            agent, turn, _ = await begin(self.store, f"k{self.count}", to=path)
            self.open[path] = (agent, turn)
        elif what == 1 and path in self.open:
            agent, turn = self.open.pop(path)
            await self.finish(agent, turn, path)
        elif what == 2 and path in self.open:
            agent, turn = self.open.pop(path)
            step = tool_step(turn, 1, state="waiting", wait=f"w{turn.turn}", wait_until=EPOCH_MS + 10**9)
            await self.store.turns.set_aside(agent, turn, [step])
            self.aside.append((agent, turn))
        elif what == 3 and self.aside:
            agent, turn = self.aside.pop(limit % len(self.aside))
            await self.finish(agent, turn, agent.path)
        elif what == 4:
            await self.log(limit)

    async def finish(self, agent: Agent, turn: Turn, path: str) -> None:
        await self.store.turns.finish(agent, turn, end(turn))
        self.ended[path].append(turn.turn)

    async def log(self, limit: int) -> bool:
        turns = await self.store.of(MemoryRows).unlogged(limit)
        assert len(turns) <= limit
        await self.store.of(MemoryRows).log(turns, [entry("x", it.turn, agent_id=it.agent_id) for it in turns])
        for each in turns:
            agent = await self.store.agents.get(each.agent_id)
            assert agent is not None
            self.logged[agent.path].append(each.turn)
        return bool(turns)


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.integers(0, 4), st.sampled_from([A, B]), st.integers(1, 4)),
        max_size=60,
    )
)
async def test_however_turns_end_each_is_logged_once_and_in_order(steps: list[tuple[int, str, int]]) -> None:
    clock = HandClock()
    async with open_store("memory:", clock) as store:
        life = Life(store, clock)
        for what, path, limit in steps:
            await life.step(what, path, limit)
        while await life.log(3):
            pass
        assert life.logged == life.ended


# -- curation ----------------------------------------------------------------------------------------------------------


async def entries(store: Store, after: int, through: int, max_chars: int = 10_000) -> list[StoredMemory]:
    return await store.of(MemoryRows).entries("id-u1-telegram", after=after, through=through, max_chars=max_chars)


async def test_what_is_logged_waits_for_the_worker_until_its_mark_has_passed(store: Store, clock: HandClock) -> None:
    first, second = await logged(store, "one", "two", at_ms=EPOCH_MS + 7)
    [waiting] = await store.of(MemoryRows).unextracted(10)
    assert (waiting.after, waiting.through, waiting.entries) == (0, second, 2)
    assert (waiting.oldest_ms, waiting.newest_ms) == (EPOCH_MS + 7, EPOCH_MS + 7)
    assert (waiting.session, waiting.current, waiting.compacted) == (1, 1, False)
    assert [it.text for it in await entries(store, 0, second)] == ["one", "two"]
    assert [it.text for it in await entries(store, 0, second, max_chars=3)] == ["one"]
    assert [it.text for it in await entries(store, first, second, max_chars=0)] == ["two"], "at least one"
    assert await store.of(MemoryRows).learn(MergeResult(agent_id=waiting.agent_id, after=0, through=first)) == []
    [waiting] = await store.of(MemoryRows).unextracted(10)
    assert (waiting.after, waiting.through, waiting.entries) == (first, second, 1)
    assert await store.of(MemoryRows).mark(waiting.agent_id) == first
    await learned(store)
    assert await store.of(MemoryRows).unextracted(10) == []
    [third] = await logged(store, "three")
    [waiting] = await store.of(MemoryRows).unextracted(10)
    assert (waiting.after, waiting.through) == (second, third)


async def test_of_a_range_only_the_first_who_learns_from_it_is_heard(store: Store) -> None:
    [no] = await logged(store, "my cat is Tom")
    lesson = MergeResult(agent_id="id-u1-telegram", after=0, through=no, add=(fact("Ann has a cat", no),))
    assert await store.of(MemoryRows).learn(lesson) is not None
    assert await store.of(MemoryRows).learn(lesson) is None
    assert len(await store.of(MemoryRows).find(SCOPE, Tier.FACT)) == 1


@pytest.mark.parametrize("through", [0, 10**6, 2**40])
async def test_a_mark_goes_no_further_than_the_log(store: Store, through: int) -> None:
    await logged(store, "one")
    with pytest.raises(InvalidError):
        await store.of(MemoryRows).learn(MergeResult(agent_id="id-u1-telegram", after=0, through=through))
    assert await store.of(MemoryRows).mark("id-u1-telegram") == 0


async def test_what_waits_comes_in_pages_of_agents_and_the_dead_are_left_out(store: Store) -> None:
    paths = (A, B, "/u1/agent/c", "/u1/agent/d")
    for path in paths:
        await logged(store, "x", to=path, path=path)
    await store.agents.set_state((await agent_at(store, A)).id, "dead")
    living = sorted([(await agent_at(store, path)).id for path in paths[1:]])
    first = [each.agent_id for each in await store.of(MemoryRows).unextracted(2)]
    assert first == living[:2]
    assert [each.agent_id for each in await store.of(MemoryRows).unextracted(2, after=first[-1])] == living[2:]
    assert await store.of(MemoryRows).unextracted(2, after=living[-1]) == []


async def test_a_new_session_and_a_summary_show_with_what_waits(store: Store) -> None:
    turn = await said(store, "one")
    await written(store)
    agent = await agent_at(store)
    summary = Summary(
        agent_id=agent.id,
        session=1,
        user="u1",
        origin=agent.origin,
        through=turn.turn,
        turns=1,
        text="s",
        tokens_before=2,
        tokens_after=1,
    )
    await store.summaries.add(summary, None)
    await store.agents.new_session(agent.id, "reset")
    [waiting] = await store.of(MemoryRows).unextracted(10)
    assert (waiting.session, waiting.current, waiting.compacted) == (1, 2, True)


async def test_what_contradicts_a_fact_supersedes_it_and_both_stay(store: Store, clock: HandClock) -> None:
    one, two = await logged(store, "I live in Rome", "I live in Oslo")
    first, second = await learned(
        store,
        fact("Ann lives in Rome", one, attribute="home", value="Rome"),
        fact("Ann lives in Oslo", two, attribute="home", value="Oslo"),
    )
    gone = store.of(MemoryRows).latest(SCOPE)[1]
    [third] = await logged(store, "Paris it is")
    [new] = await learned(
        store, fact("Ann lives in Paris", third), superseded=(Superseded(second, 0, EPOCH_MS), Superseded(first, 0, 7))
    )
    assert {it.no for it in await store.of(MemoryRows).find(SCOPE, Tier.FACT)} == {new}
    assert {it.no for it in await store.of(MemoryRows).find(SCOPE, Tier.FACT, living=False)} == {first, second, new}
    old = await only(store, first)
    assert old.fact is not None and (old.fact.superseded_by, old.fact.valid_until_ms) == (new, 7)
    assert old.sources == (one,)
    assert store.of(MemoryRows).gone_since(SCOPE, gone) == [first, second]
    assert {shape.no: shape.until_ms for shape in store.of(MemoryRows).shapes(SCOPE)}[first] == 7
    counts = await store.of(MemoryRows).counts(SCOPE)
    assert (counts.facts, counts.superseded) == (1, 2)


async def test_an_entity_that_is_met_again_is_the_same_one(store: Store) -> None:
    [one] = await logged(store, "Bob called")
    [bob] = await learned(store, entity("Bob", one))
    [two] = await logged(store, "Bob wrote")
    gone = store.of(MemoryRows).latest(SCOPE)[1]
    await learned(store, seen=(Seen(no=bob, sources=(two, one), at_ms=EPOCH_MS + 9),))
    found = await only(store, bob)
    assert found.entity is not None and (found.entity.mentions, found.entity.last_ms) == (2, EPOCH_MS + 9)
    assert found.sources == (one, two)
    assert store.of(MemoryRows).latest(SCOPE)[1] == gone, "nothing that ranking knows of it has changed"


async def test_an_entity_that_is_described_anew_is_found_by_that(store: Store) -> None:
    [one] = await logged(store, "Bob called")
    [bob] = await learned(store, entity("Bob", one, description="a friend"))
    [two] = await logged(store, "my brother Bob")
    part = entity("Bob", description="Ann's brother", aliases=("Bobby",)).entity
    seen = Seen(no=bob, sources=(two,), at_ms=1, text="Bob - Ann's brother", index="bob sibling", entity=part)
    await learned(store, seen=(seen,))
    found = await only(store, bob)
    assert (found.text, found.index, found.entity) == ("Bob - Ann's brother", "bob sibling", part)
    search = store.of(MemoryRows).alike(SCOPE, ["sibling"], postings_max=9, limit=9)
    assert search == [bob]
    assert store.of(MemoryRows).alike(SCOPE, ["friend"], postings_max=9, limit=9) == []
    assert [it.no for it in await store.of(MemoryRows).about(SCOPE, [], ["BOBBY"], 9)] == [bob]


async def test_nothing_is_learned_about_other_scopes(store: Store) -> None:
    [theirs] = await logged(store, "I like tea", to="/u2/telegram", scope="u2", user="u2")
    await learned(store, fact("Ben likes tea", theirs, scope="u2"), agent_id="id-u2-telegram")
    [tea] = await store.of(MemoryRows).find("u2", Tier.FACT)
    [mine] = await logged(store, "I like tea")
    numbers = await learned(
        store,
        fact("from theirs", theirs),
        fact("into theirs", mine, scope="u2"),
        fact("my own", mine, theirs),
        superseded=(Superseded(tea.no, 2, 1),),
        seen=(Seen(no=tea.no, sources=(mine,), at_ms=1, text="changed"),),
    )
    assert numbers[:2] == [0, 0]
    assert (await only(store, numbers[2])).sources == (mine,)
    assert await store.of(MemoryRows).find("u2", Tier.FACT) == [tea]


# -- expiry ------------------------------------------------------------------------------------------------------------


_PAGES = "SELECT {} FROM dbstat WHERE name = 'memories'"


async def expired(store: Store, before_ms: int, limit: int = 2) -> int:
    total = 0
    while deleted := await store.of(MemoryRows).expire(before_ms, limit):
        assert deleted <= limit
        total += deleted
    return total


async def test_only_what_was_curated_and_is_old_expires(store: Store, clock: HandClock) -> None:
    old = await logged(store, "one", "two", "three")
    clock.ms += 1_000
    young = await logged(store, "four")
    assert await expired(store, clock.ms + 1) == 0, "nobody has looked at it"
    lesson = MergeResult(agent_id="id-u1-telegram", after=0, through=old[1], add=(fact("a fact", old[0]),))
    assert await store.of(MemoryRows).learn(lesson)
    assert await expired(store, clock.ms) == 2
    assert [it.no for it in await store.of(MemoryRows).find(SCOPE, Tier.LOG)] == [*young, old[2]]
    await learned(store)
    assert await expired(store, clock.ms) == 1
    assert [it.no for it in await store.of(MemoryRows).find(SCOPE, Tier.LOG)] == young
    [kept] = await store.of(MemoryRows).find(SCOPE, Tier.FACT)
    assert await store.of(MemoryRows).turns_of(SCOPE, [kept.no]) == [(kept.agent_id, 1)], (
        "it still says where it is from"
    )
    assert store.of(MemoryRows).alike(SCOPE, ["one"], postings_max=9, limit=9) == []
    assert await store.of(MemoryRows).unextracted(9) == []


async def test_a_dead_agents_log_expires_when_its_newest_entry_is_as_old(store: Store, clock: HandClock) -> None:
    await logged(store, "one")
    clock.ms += 1_000
    await logged(store, "two")
    await store.agents.set_state("id-u1-telegram", "dead")
    assert len(await store.of(MemoryRows).find(SCOPE, Tier.LOG)) == 2, "nothing goes by itself"
    assert await expired(store, clock.ms) == 0
    assert await expired(store, clock.ms + 1) == 2


async def test_what_expired_leaves_no_empty_pages_among_what_stays(store: Store, clock: HandClock) -> None:
    facts = []
    for round_ in range(30):
        await said(store, *(f"word{round_} of message {number} in round {round_}" for number in range(20)))
        log = await written(store)
        facts += await learned(store, *(fact(f"word{round_} is number {no & 0xFFFF}", no) for no in log[:6]))
    rows = store.of(MemoryRows)
    before = await rows.get([SCOPE], facts)
    assert await expired(store, clock.ms + 1, limit=64) == 600
    room, unused = rows._number(_PAGES.format("sum(pgsize)")) or 0, rows._number(_PAGES.format("sum(unused)")) or 0
    assert unused < room / 4, f"{unused} of {room} bytes are unused"
    words = rows._number("SELECT sum(length(block)) FROM memory_words_data") or 0
    assert words < 6_000, f"{words} bytes of words of {len(facts)} facts"
    assert await rows.get([SCOPE], facts) == before
    assert texts(store, "word7") == facts[42:48]
    assert texts(store, "message") == []


async def test_numbers_of_expired_entries_are_never_given_out_again(store: Store, clock: HandClock) -> None:
    before = await logged(store, "one", "two")
    await learned(store)
    assert await expired(store, clock.ms + 1) == 2
    [after] = await logged(store, "three")
    assert after > max(before)
    assert await store.of(MemoryRows).mark("id-u1-telegram") == before[-1]


async def test_a_turn_that_a_result_ends_is_logged_under_its_new_number(store: Store, clock: HandClock) -> None:
    agent, old, _ = await begin(store, "a")
    step = tool_step(old, 1, state="waiting", wait="w", wait_until=EPOCH_MS + 10**9)
    await store.turns.set_aside(agent, old, [step])
    await post(store, "b", kind=EnvelopeKind.RESULT, cause=Answer("w"))
    rows = await store.inbox.waiting(agent.id)
    new = await store.turns.begin(agent, rows)
    await store.turns.finish(agent, new, end(new, history=(Message("user", (Text("all of it"),)),)))
    numbers = await written(store)
    assert [it.text for it in await store.of(MemoryRows).get([SCOPE], numbers)] == ["all of it"]
    assert await store.of(MemoryRows).unlogged(9) == []
