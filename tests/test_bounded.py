"""A dict with a bound."""

from hypothesis import given
from hypothesis import strategies as st

from daycare.base.bounded import Bounded, MadeOnce


def test_it_drops_what_was_written_longest_ago() -> None:
    kept: Bounded[str, int] = Bounded(2)
    for key in ("a", "b", "a", "c"):
        kept[key] = len(kept)
    assert list(kept) == ["a", "c"]


def test_reading_keeps_nothing_and_a_touch_does() -> None:
    kept: Bounded[str, int] = Bounded(2)
    kept["a"], kept["b"] = 1, 2
    assert kept.get("a") == kept["a"] == 1 and kept.touch("b", 5) == 2
    kept["c"] = 3
    assert list(kept) == ["b", "c"]
    assert kept.touch("b", 5) == 2 and kept.touch("d", 4) == 4
    assert list(kept.items()) == [("b", 2), ("d", 4)]


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans())), st.integers(1, 6))
def test_it_holds_the_newest_and_never_more(steps: list[tuple[int, bool]], most: int) -> None:
    kept: Bounded[int, int] = Bounded(most)
    order: list[int] = []  # the newest last, with no bound
    for key, written in steps:
        if written:
            kept[key] = key
        else:
            assert kept.touch(key, key) == key
        order = [*(each for each in order if each != key), key]
        assert list(kept) == order[-most:]


def test_what_is_made_of_an_object_is_made_once_while_it_is_among_the_last() -> None:
    made: list[list[int]] = []

    def make(it: list[int]) -> int:
        made.append(it)
        return len(it)

    once = MadeOnce(make, 2)
    first, alike, third = [1], [1], [1, 2]
    assert [once.of(each) for each in (first, first, alike, third, alike)] == [1, 1, 1, 2, 1]
    assert [id(each) for each in made] == [id(first), id(alike), id(third)]
    assert once.of(first) == 1 and made[-1] is first
