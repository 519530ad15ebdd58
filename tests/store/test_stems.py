"""Words are the same to an index whether it is asked about one or about many."""

import apsw
import pytest

from daycare.store.sqlite.stems import stemmer, stems_of


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["running", "runs", "2026", "a", "x" * 100],
        ["running", "don't", "a_b", "", "cats"],
        ["running", "straße", "猫が", "naïve", "²", "cats"],
    ],
    ids=["none", "plain", "cut", "of other scripts"],
)
def test_words_have_the_same_stems_together_as_alone(words: list[str]) -> None:
    db = apsw.Connection(":memory:")
    assert stems_of(db, words) == [stemmer(db)(word) for word in words]
