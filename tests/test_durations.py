"""Lengths of time as people read them."""

from daycare.base.durations import about, duration


def test_a_duration_is_told_in_its_two_largest_units() -> None:
    told = [duration(s) for s in (-1, 0, 59.9, 3_600, 3_661, 90_061)]
    assert told == ["0 s", "0 s", "59 s", "1 h", "1 h 1 min", "1 d 1 h"]


def test_in_a_sentence_it_is_told_in_the_largest_unit_of_which_there_are_two() -> None:
    lengths = (-1, 1, 90, 117, 120, 7_080, 7_200, 24 * 3_600, 47 * 3_600, 40 * 86_400)
    told = "0 seconds, 1 second, 90 seconds, 117 seconds, 2 minutes, 118 minutes, 2 hours, 24 hours, 47 hours, 40 days"
    assert [about(s) for s in lengths] == told.split(", ")


def test_what_has_just_begun_has_all_of_its_time() -> None:
    assert about(7 * 86_400 - 1) == "7 days" and about(24 * 3_600 - 60) == "24 hours"
    assert about(7 * 86_400 - 3_600) == "6 days"
