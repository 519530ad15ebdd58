"""The structure of a scope is that of its rows, however they came."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daycare.base.memories import Tier
from daycare.features.memory.embed.arrays import np
from daycare.features.memory.search import traits
from daycare.features.memory.search.structure import NOWHERE, SearchLimits, Structure
from daycare.features.memory.store.records import MemoryShape


def shape(no: int, tier: Tier = Tier.LOG, session: int = 1, turn: int = 0, until_ms: int | None = None,
          agent: str = "a", speaker: str = "Ann", at_ms: int = 0) -> MemoryShape:  # fmt: skip
    return MemoryShape(
        no, tier, agent, f"/u/agent/{agent}", session, turn or no, speaker, at_ms or 1_000 * no, until_ms
    )


@st.composite
def scopes(draw: st.DrawFn) -> list[MemoryShape]:
    rows = []
    for at in range(draw(st.integers(0, 40))):
        tier = draw(st.sampled_from([Tier.LOG, Tier.LOG, Tier.LOG, Tier.FACT, Tier.ENTITY, Tier.CHUNK]))
        turn = draw(st.integers(1, at + 1))
        rows.append(shape(2 * at + 5, tier, draw(st.integers(1, 3)), turn, agent=draw(st.sampled_from("ab"))))
    return rows


def cut(rows: Sequence[MemoryShape], at: Sequence[int]) -> list[Sequence[MemoryShape]]:
    ends = sorted({0, len(rows), *(place for place in at if place <= len(rows))})
    return [rows[begin:end] for begin, end in pairwise(ends)]


@given(scopes(), st.lists(st.integers(0, 40)))
@settings(max_examples=200)
def test_neighbours_are_those_of_the_conversation_whatever_pages_they_came_in(
    rows: list[MemoryShape], ends: list[int]
) -> None:
    structure = Structure()
    for page in cut(rows, ends):
        structure.append(page)
    assert structure.numbers.tolist() == [row.no for row in rows]
    conversations: dict[tuple[str, int], list[int]] = {}
    for place, row in enumerate(rows):
        if row.tier is Tier.LOG:
            conversations.setdefault((row.agent_id, row.session), []).append(place)
    before = dict.fromkeys(range(len(rows)), NOWHERE)
    after = dict(before)
    for places in conversations.values():
        for one, next_ in pairwise(places):
            after[one], before[next_] = next_, one
    assert structure.before.tolist() == [*before.values(), NOWHERE]
    assert structure.after.tolist() == [*after.values(), NOWHERE]


@given(scopes())
def test_a_fact_is_tied_to_a_log_entry_of_its_turn_and_nothing_else_is(rows: list[MemoryShape]) -> None:
    anchors = Structure(rows).anchor.tolist()
    for place, (row, anchor) in enumerate(zip(rows, anchors, strict=True)):
        if row.tier is Tier.LOG:
            assert anchor == place
        elif row.tier is Tier.FACT:
            there = [at for at, other in enumerate(rows) if other.tier is Tier.LOG and other.turn == row.turn]
            assert anchor in there or (not there and anchor == NOWHERE)
        else:
            assert anchor == NOWHERE


def found(structure: Structure, limits: SearchLimits) -> list[int]:
    places = np.arange(structure.size)
    numbers: list[int] = structure.numbers[structure.admits(places, limits)].tolist()
    return numbers


MIXED = [
    shape(1, speaker="Ann"),
    shape(2, session=2, turn=7),
    shape(3, session=2, turn=8),
    shape(4, agent="b", session=2, turn=9, speaker="Bob"),
    shape(5, Tier.FACT, session=2, turn=9, until_ms=50_000),
    shape(6, Tier.FACT, session=1, turn=1, until_ms=90_000),
    shape(7, Tier.ENTITY),
    shape(8, Tier.CHUNK, agent=""),
    shape(9, Tier.CHUNK, agent="a"),
    shape(10, Tier.CHUNK, agent="b"),
]


@pytest.mark.parametrize(
    ("limits", "numbers"),
    [
        (SearchLimits(agent_id="a"), [1, 2, 3, 4, 5, 6, 7, 8, 9]),
        (SearchLimits(tiers=(Tier.LOG,)), [1, 2, 3, 4]),
        (SearchLimits(tiers=(Tier.FACT, Tier.ENTITY)), [5, 6, 7]),
        (SearchLimits(tiers=(Tier.FACT,), now_ms=50_000), [6]),
        (SearchLimits(tiers=(Tier.FACT,), now_ms=90_000), []),
        (SearchLimits(tiers=(Tier.LOG,), since_ms=2_000, until_ms=4_000), [2, 3]),
        (SearchLimits(tiers=(Tier.LOG,), agent_id="a", shown=(2, 7)), [1, 2, 4]),
        (SearchLimits(tiers=(Tier.LOG, Tier.FACT), agent_id="b", shown=(2, 0)), [1, 2, 3, 5, 6]),
        (SearchLimits(tiers=(Tier.LOG,), agent_id="nobody", shown=(2, 0)), [1, 2, 3, 4]),
        (SearchLimits(tiers=(Tier.LOG,), under="/u/agent/b"), [4]),
        (SearchLimits(tiers=(Tier.LOG,), under="/u/agent"), [1, 2, 3, 4]),
        (SearchLimits(tiers=(Tier.LOG,), under="/u/age"), []),
    ],
)
def test_limits_leave_out_what_may_not_be_found(limits: SearchLimits, numbers: list[int]) -> None:
    assert found(Structure(MIXED), limits) == numbers


def test_what_is_removed_is_not_found_and_what_ends_is_found_until_then() -> None:
    structure = Structure(MIXED)
    structure.look({1: "Where?", 5: "Ann has 3 cats"})
    structure.renew([1, 4, 5, 77], [shape(5, Tier.FACT, until_ms=20_000)])
    assert structure.living == len(MIXED) - 2
    assert found(structure, SearchLimits(agent_id="b")) == [2, 3, 5, 6, 7, 8, 10]
    assert found(structure, SearchLimits(tiers=(Tier.FACT,), now_ms=20_000)) == [6]
    assert structure.traits[4] == 0, "its text may be another one"
    assert structure.places(np.array([1, 2, 4, 5])).tolist() == [1, 4]
    structure.renew([5], [])
    structure.renew([5], [])
    assert structure.living == len(MIXED) - 3


@pytest.mark.parametrize("learned", ["before", "after"])
def test_what_was_learned_speaks_for_itself_once_its_words_are_gone(learned: str) -> None:
    said, fact = shape(1, turn=1), shape(2, Tier.FACT, turn=1)
    structure = Structure([said])
    if learned == "before":
        structure.append([fact])
        assert structure.anchor.tolist() == [0, 0]
    structure.renew([1], [])
    if learned == "after":
        structure.append([fact])
    assert structure.anchor.tolist()[1] == NOWHERE


def test_what_a_text_is_like_is_kept() -> None:
    structure = Structure(MIXED)
    structure.look({2: "When was it?", 99: "of another scope"})
    assert structure.traits[1] == traits.of("When was it?")
    assert np.count_nonzero(structure.traits) == 1


def test_speakers_are_known_by_each_word_of_their_name() -> None:
    structure = Structure([shape(1, speaker="Ann Lee"), shape(2, speaker="Bob"), shape(3, speaker="Ann Lee")])
    assert structure.speakers == ["Ann Lee", "Bob"]
    assert structure.called["lee"] == structure.called["ann"] == {structure.speaker_code("Ann Lee")}
    assert structure.speaker_code("Carl") is None


def test_an_empty_structure_has_nothing() -> None:
    structure = Structure()
    assert structure.living == structure.size == structure.sessions == 0
    assert structure.places(np.array([1, 2])).tolist() == []
    assert found(structure, SearchLimits()) == []
