"""What holds when somebody says a thing again, says otherwise, or says it late."""

from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from daycare.base.memories import EntityPart, FactPart
from daycare.features.memory.facts.learned import EntityKind, NewEntity, NewFact
from daycare.features.memory.facts.merging import MergedEntities, MergedFacts, merge_entities, merge_facts, supersedes
from daycare.features.memory.store.records import StoredMemory
from tests.memory.entries import known_entity, known_fact

DAY_MS: Final = 86_400_000
SAID: Final = {no: no * DAY_MS for no in range(1, 100)}  # line 5 was said on day 5


def new(
    attribute: str,
    value: str,
    no: int,
    *,
    subject: str = "Ann",
    statement: str = "",
    begin: int | None = None,
    end: int | None = None,
) -> NewFact:
    return NewFact(
        statement=statement or f"{subject} {attribute} {value}",
        subject=subject,
        attribute=attribute,
        value=value,
        kind="fact",
        confidence=0.9,
        sources=(no,),
        valid_from_ms=begin,
        valid_until_ms=end,
    )


def known(attribute: str, value: str, day: int, *, number: int = 1, end: int | None = None) -> StoredMemory:
    part = FactPart(subject="Ann", attribute=attribute, value=value, valid_until_ms=end)
    return known_fact(number, f"Ann {attribute} {value}", day * DAY_MS, part)


def merged(facts: list[NewFact], before: list[StoredMemory] | None = None) -> MergedFacts:
    return merge_facts(facts, before or [], SAID)


def test_another_value_supersedes_the_older_one_which_is_kept() -> None:
    found = merged([new("lives in", "Bonn", 5)], [known("lives in", "Cologne", 2)])
    assert [fact.value for fact in found.add] == ["Bonn"]
    assert [(it.no, it.until_ms, it.by) for it in found.superseded] == [(1, 5 * DAY_MS, 0)]
    assert found.seen == ()


def test_the_older_one_holds_until_the_newer_begins() -> None:
    found = merged([new("lives in", "Bonn", 5, begin=9 * DAY_MS)], [known("lives in", "Cologne", 2)])
    assert found.superseded[0].until_ms == 9 * DAY_MS


def test_a_fact_never_ends_before_it_was_last_said() -> None:
    found = merged([new("lives in", "Bonn", 5, begin=0)], [known("lives in", "Cologne", 2)])
    assert found.superseded[0].until_ms == 2 * DAY_MS


def test_the_same_again_is_a_mention_more() -> None:
    found = merged([new("dentist", "dr. weber", 5)], [known("dentist", "Dr. Weber", 2)])
    assert (found.add, found.superseded) == ((), ())
    assert [(it.no, it.sources) for it in found.seen] == [(1, (5,))]


def test_spelling_and_small_words_make_no_other_value() -> None:
    for attribute, value in (
        ("favorite colour", "the green"),
        ("fave colour", "Green"),
        ("favourite colour", "GREEN."),
    ):
        assert merged([new(attribute, value, 5)], [known("favourite colour", "green", 2)]).seen


def test_of_some_things_there_are_many() -> None:
    for attribute in ("likes", "speaks", "sister", "dog's name", "allergic to"):
        found = merged([new(attribute, "Lena", 5)], [known(attribute, "Rex", 2)])
        assert len(found.add) == 1
        assert found.superseded == ()
    assert merged([new("best friend", "Lena", 5)], [known("best friend", "Rex", 2)]).superseded


def test_who_dislikes_what_they_liked_likes_it_no_more() -> None:
    found = merged([new("dislikes", "olives", 5)], [known("likes", "olives", 2), known("likes", "figs", 2, number=2)])
    assert [it.no for it in found.superseded] == [1]


def test_what_is_over_ends_and_something_else_does_not() -> None:
    over = new("lives in", "Cologne", 5, end=5 * DAY_MS)
    found = merged([over], [known("lives in", "Cologne", 2), known("works at", "Cologne", 2, number=2)])
    assert [(it.no, it.until_ms) for it in found.superseded] == [(1, 5 * DAY_MS)]
    assert not supersedes(over, FactPart(subject="Ann", attribute="lives in", value="Bonn"))


def test_another_persons_fact_stays() -> None:
    found = merged([new("lives in", "Bonn", 5, subject="Bob")], [known("lives in", "Cologne", 2)])
    assert (len(found.add), found.superseded) == (1, ())


def test_what_is_read_late_supersedes_nothing_newer_and_has_an_end() -> None:
    found = merged([new("lives in", "Aachen", 1)], [known("lives in", "Bonn", 5)])
    assert found.superseded == ()
    assert found.add[0].valid_until_ms == 5 * DAY_MS


def test_what_is_read_late_ends_with_the_first_that_followed() -> None:
    before = [known("lives in", "Bonn", 3, end=6 * DAY_MS), known("lives in", "Kiel", 6, number=2)]
    assert merged([new("lives in", "Aachen", 1)], before).add[0].valid_until_ms == 3 * DAY_MS


def test_who_moves_back_has_a_new_fact() -> None:
    before = [known("lives in", "Bonn", 3, end=6 * DAY_MS), known("lives in", "Kiel", 6, number=2)]
    found = merged([new("lives in", "Bonn", 9)], before)
    assert [fact.value for fact in found.add] == ["Bonn"]
    assert [it.no for it in found.superseded] == [2]


def test_what_was_said_while_it_held_is_a_mention() -> None:
    assert merged([new("lives in", "Bonn", 4)], [known("lives in", "Bonn", 3, end=6 * DAY_MS)]).seen


def test_within_one_range_the_last_word_counts_whatever_the_order() -> None:
    facts = [new("dentist", "Dr. Weber", 2), new("dentist", "Dr. Gallo", 7), new("dentist", "Dr. Weber", 4)]
    for order in (facts, facts[::-1]):
        found = merged(list(order))
        assert [(it.value, it.sources, it.valid_until_ms) for it in found.add] == [
            ("Dr. Weber", (2, 4), 7 * DAY_MS),
            ("Dr. Gallo", (7,), None),
        ]


def test_plain_statements_are_compared_by_their_words() -> None:
    before = known_fact(4, "Ann went to Rome", DAY_MS, FactPart(subject="Ann"))
    again = new("", "", 5, statement="Ann went to Rome!")
    other = new("", "", 6, statement="Ann went to Oslo")
    found = merged([again, other], [before])
    assert [it.no for it in found.seen] == [4]
    assert [it.statement for it in found.add] == ["Ann went to Oslo"]


FACTS: Final = st.lists(
    st.builds(
        new,
        st.sampled_from(["lives in", "likes", "dislikes", "dentist", ""]),
        st.sampled_from(["Bonn", "Kiel", "tea"]),
        st.integers(1, 9),
        begin=st.sampled_from([None, 2 * DAY_MS]),
        end=st.sampled_from([None, 7 * DAY_MS]),
    ),
    max_size=12,
)


@given(FACTS)
def test_nothing_is_lost_and_at_most_one_value_holds(facts: list[NewFact]) -> None:
    found = merged(facts)
    assert {no for fact in found.add for no in fact.sources} == {no for fact in facts for no in fact.sources}
    for attribute in ("lives in", "dentist"):
        assert sum(fact.attribute == attribute and fact.valid_until_ms is None for fact in found.add) <= 1
    for fact in found.add:
        assert fact.valid_until_ms is None or fact.valid_until_ms >= (fact.valid_from_ms or 0)


@given(FACTS)
def test_what_holds_is_not_added_a_second_time(facts: list[NewFact]) -> None:
    first = merged(facts)
    stored = [
        known_fact(number, fact.statement, max(SAID[no] for no in fact.sources), fact)
        for number, fact in enumerate(first.add, 1)
    ]
    holding = [fact for fact in first.add if fact.valid_until_ms is None]
    again = merge_facts(holding, stored, SAID)
    assert (again.add, again.superseded) == ((), ())


def entity(name: str, kind: EntityKind = "person", *aliases: str, no: int = 1, description: str = "") -> NewEntity:
    return NewEntity(name=name, kind=kind, sources=(no,), aliases=aliases, description=description)


def stored(number: int, name: str, kind: EntityKind = "person", *aliases: str, description: str = "") -> StoredMemory:
    return known_entity(number, EntityPart(name=name, kind=kind, aliases=aliases, description=description))


def entities(new: list[NewEntity], before: list[StoredMemory]) -> MergedEntities:
    return merge_entities(new, before, SAID)


def test_case_title_accent_and_alias_make_no_other_entity() -> None:
    before = [
        stored(1, "Zoë"),
        stored(2, "Dr. Weber"),
        stored(3, "Melanie", "person", "Mel"),
        stored(4, "New York", "place"),
    ]
    for name, kind, number in (
        ("zoe", "person", 1),
        ("Weber", "person", 2),
        ("MEL", "person", 3),
        ("new york", "place", 4),
    ):
        found = entities([entity(name, kind)], before)  # type: ignore[arg-type]
        assert (found.add, [it.no for it in found.seen]) == ((), [number])


def test_a_part_of_a_persons_name_is_that_person_if_there_is_one_only() -> None:
    one = entities([entity("Anna", no=7, description="Bob's boss")], [stored(1, "Anna Smith")])
    assert [(it.entity.aliases, it.entity.description, it.sources) for it in one.seen if it.entity] == [
        (("Anna",), "Bob's boss", (7,))
    ]
    two = entities([entity("Anna")], [stored(1, "Anna Smith"), stored(2, "Anna Jones")])
    assert [it.name for it in two.add] == ["Anna"]
    longer = entities([entity("Anna Smith")], [stored(1, "Anna")])
    assert longer.seen[0].entity is not None and longer.seen[0].entity.aliases == ("Anna Smith",)


def test_a_similar_name_is_somebody_else() -> None:
    assert entities([entity("Ann")], [stored(1, "Anna")]).add
    assert entities([entity("York", "place")], [stored(1, "New York", "place")]).add
    assert entities([entity("Paris", "place")], [stored(1, "Paris")]).add


def test_what_was_described_keeps_its_description() -> None:
    found = entities([entity("Lena", description="Bob's friend")], [stored(1, "Lena", description="Ann's sister")])
    assert found.seen[0].entity is not None and found.seen[0].entity.description == "Ann's sister"


def test_new_ones_are_merged_with_each_other() -> None:
    found = entities([entity("Lena Brandt", no=1), entity("Lena", no=4), entity("LENA", no=6)], [])
    (lena,) = found.add
    assert (lena.name, lena.sources, lena.aliases) == ("Lena Brandt", (1, 4, 6), ("Lena", "LENA"))
