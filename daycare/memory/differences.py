"""Differences of two texts as people read them. Pure functions, in bounded time."""

import difflib
from typing import Final

_COMPARED_MAX: Final = 500_000  # pairs of lines: some 50 ms; past it a part is shown as replaced
_CONTEXT_LINES: Final = 3


def difference(old: str | None, new: str | None, path: str, *, was: str = "before", now: str = "after") -> str:
    """Return a unified diff, empty if nothing changed; None is a text that is not there.

    It can be applied by `patch`: also that one of them does not end its last line is said.
    """
    if old == new:
        return ""
    names = [
        f"{path} ({was})" if old is not None else "/dev/null",
        f"{path} ({now})" if new is not None else "/dev/null",
    ]
    before, after = _lines(old or ""), _lines(new or "")
    if len(before) * len(after) > _COMPARED_MAX:
        lines = _coarse(before, after)
    else:
        lines = list(difflib.unified_diff(before, after, n=_CONTEXT_LINES, lineterm=""))[2:]
    return "".join(f"{line}\n" for line in (f"--- {names[0]}", f"+++ {names[1]}", *lines))


def _lines(text: str) -> list[str]:
    """Return the lines; the last one says if nothing ends it."""
    lines = text.split("\n")
    last = lines.pop()
    return [*lines, f"{last}\n\\ No newline at end of file"] if last else lines


def _coarse(before: list[str], after: list[str]) -> list[str]:
    """Return the difference as one replaced part."""
    most = min(len(before), len(after))
    start = next((n for n in range(most) if before[n] != after[n]), most)
    end = next((n for n in range(most - start) if before[-1 - n] != after[-1 - n]), most - start)
    first = max(0, start - _CONTEXT_LINES)
    more = min(end, _CONTEXT_LINES)
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    head = before[first:start]
    tail = before[len(before) - end : len(before) - end + more]
    around = len(head) + len(tail)
    return [
        f"@@ -{_range(first, len(old) + around)} +{_range(first, len(new) + around)} @@",
        *(f" {line}" for line in head),
        *(f"-{line}" for line in old),
        *(f"+{line}" for line in new),
        *(f" {line}" for line in tail),
    ]


def _range(first: int, length: int) -> str:
    return f"{first + 1 if length else first},{length}"
