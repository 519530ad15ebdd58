"""Differences: both texts can be had back from one, it is as short as can be, and it never takes long."""

from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from daycare.base.differences import DiffLine, compare, hunks, unified
from tests.cost import IN_STEP, costs_at_most

_NO_END = "\n\\ No newline at end of file"
_LINES = st.lists(st.sampled_from("abc"), max_size=12)


def joined(lines: list[DiffLine], but: str) -> str:
    text = "".join(f"{line.text}\n" for line in lines if line.mark != but)
    return text.replace(f"{_NO_END}\n", "")


@given(old=_LINES, new=_LINES, old_ends=st.booleans(), new_ends=st.booleans())
def test_both_texts_can_be_had_back(old: list[str], new: list[str], old_ends: bool, new_ends: bool) -> None:
    before, after = (
        "\n".join(lines) + ("\n" if ends and lines else "") for lines, ends in ((old, old_ends), (new, new_ends))
    )
    lines = compare(before, after)
    assert (joined(lines, "+"), joined(lines, "-")) == (before, after)


@given(old=_LINES, new=_LINES)
def test_no_shorter_way_is_left_out(old: list[str], new: list[str]) -> None:
    ended = ["".join(f"{line}\n" for line in lines) for lines in (old, new)]
    edits = sum(line.mark != " " for line in compare(*ended))
    assert edits == len(old) + len(new) - 2 * _common(old, new)


def _common(a: list[str], b: list[str]) -> int:
    """Return the length of the longest common subsequence, the slow way."""
    row = [0] * (len(b) + 1)
    for one in a:
        above = row
        row = [0]
        for n, other in enumerate(b):
            row.append(above[n] + 1 if one == other else max(above[n + 1], row[n]))
    return row[-1]


def test_a_unified_diff_counts_its_lines() -> None:
    old = "".join(f"{number}\n" for number in range(1, 31))
    new = old.replace("3\n4\n", "3\nnew\n4\n", 1).replace("28\n", "")
    assert unified(old, new, "x.md", context=1) == (
        "--- x.md\n+++ x.md\n@@ -3,2 +3,3 @@\n 3\n+new\n 4\n@@ -27,3 +28,2 @@\n 27\n-28\n 29\n"
    )
    assert unified("a", "a", "x") == ""
    assert unified(None, "a\n", "x") == "--- /dev/null\n+++ x\n@@ -0,0 +1,1 @@\n+a\n"
    assert unified("a", None, "x") == f"--- x\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-a{_NO_END}\n"


def test_hunks_that_touch_are_one() -> None:
    lines = compare("1\n2\n3\n4\n5\n6\n7\n8\n", "1\nx\n3\n4\ny\n6\n7\n8\nz\n")
    assert hunks(lines, 1) == [(0, 8), (9, 11)]


def test_no_documents_are_slow_to_compare() -> None:
    """Of the largest size, against two that have nothing in common; and these take as long as they are."""

    def apart(lines: int) -> tuple[str, str]:
        return "a\n" * lines, "b\n" * lines

    assert costs_at_most(IN_STEP, lambda: compare(*apart(51_200)), lambda: compare(*apart(12_800)))
    for worst in (
        ("a\nb\n" * 25_600, "b\na\n" * 25_599 + "c\n"),
        ("a\nb\n" * 1_000, "b\na\n" * 999 + "c\n"),
        ("a\n" * 1_999 + "z\n", "b\n" + "a\n" * 1_999),
        ("\n" * 102_400, "x" * 102_400),
    ):
        assert costs_at_most(4, partial(compare, *worst), partial(compare, *apart(51_200)))
        lines = compare(*worst)
        assert (joined(lines, "+"), joined(lines, "-")) == worst
