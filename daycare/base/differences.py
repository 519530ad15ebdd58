"""What differs between two texts, line by line, in bounded time: for people who are to say yes to it."""

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

DIFFERENCE_MAX_LINES: Final = 4_000  # compared of both texts together; past it all that differs is shown as replaced
DIFFERENCE_MAX_EDITS: Final = 400  # looked for: the time grows with lines times edits

Mark = Literal[" ", "-", "+"]
_NO_END: Final = "\n\\ No newline at end of file"


class DiffLine(NamedTuple):
    """A line of a difference: kept, removed or added."""

    mark: Mark
    text: str


def compare(old: str, new: str) -> list[DiffLine]:
    """Return the lines of both texts in order, each marked; a last line that nothing ends says so.

    The same beginning and end are found first; of what is left the fewest edits are looked for, and past the bounds
    all of it is replaced.
    """
    before, after = _lines(old), _lines(new)
    most = min(len(before), len(after))
    start = next((n for n in range(most) if before[n] != after[n]), most)
    end = next((n for n in range(most - start) if before[-1 - n] != after[-1 - n]), most - start)
    between = _between(before[start : len(before) - end], after[start : len(after) - end])
    return [*_all(" ", before[:start]), *between, *_all(" ", before[len(before) - end :])]


def hunks(lines: Sequence[DiffLine], context: int) -> list[tuple[int, int]]:
    """Return where the changes are, from and to, each with so many kept lines around it."""
    found: list[tuple[int, int]] = []
    for number, line in enumerate(lines):
        if line.mark != " ":
            first, stop = max(number - context, 0), min(number + 1 + context, len(lines))
            if found and first <= found[-1][1]:
                found[-1] = (found[-1][0], stop)
            else:
                found.append((first, stop))
    return found


def unified(old: str | None, new: str | None, name: str, context: int = 3) -> str:
    """Return a unified diff, which `patch` takes; empty if nothing differs. None is a text that is not there."""
    if old == new:
        return ""
    lines = compare(old or "", new or "")
    result = [f"--- {name if old is not None else '/dev/null'}", f"+++ {name if new is not None else '/dev/null'}"]
    removed = added = at = 0
    for first, stop in hunks(lines, context):
        between = stop - first
        removed += _count(lines[at:first], "+")
        added += _count(lines[at:first], "-")
        part = lines[first:stop]
        olds, news = between - sum(line.mark == "+" for line in part), between - sum(line.mark == "-" for line in part)
        result.append(f"@@ -{_range(removed, olds)} +{_range(added, news)} @@")
        result += [f"{line.mark}{line.text}" for line in part]
        removed, added, at = removed + olds, added + news, stop
    return "\n".join(result) + "\n"


def _count(lines: Sequence[DiffLine], but: Mark) -> int:
    return sum(line.mark != but for line in lines)


def _range(first: int, length: int) -> str:
    return f"{first + 1 if length else first},{length}"


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    last = lines.pop()
    return [*lines, last + _NO_END] if last else lines


def _all(mark: Mark, texts: Sequence[str]) -> list[DiffLine]:
    return [DiffLine(mark, text) for text in texts]


def _between(a: list[str], b: list[str]) -> list[DiffLine]:
    """Return the way from one to the other: greedy, as Myers describes it, furthest point by diagonal."""
    replaced = [*_all("-", a), *_all("+", b)]
    if not a or not b or len(a) + len(b) > DIFFERENCE_MAX_LINES:
        return replaced
    reach = {1: 0}
    trail: list[dict[int, int]] = []
    for edits in range(min(len(a) + len(b), DIFFERENCE_MAX_EDITS) + 1):
        trail.append(reach.copy())
        for k in range(-edits, edits + 1, 2):
            down = k == -edits or (k != edits and reach[k - 1] < reach[k + 1])
            x = reach[k + 1] if down else reach[k - 1] + 1
            while x < len(a) and x - k < len(b) and a[x] == b[x - k]:
                x += 1
            reach[k] = x
            if x >= len(a) and x - k >= len(b):
                return _way(a, b, trail)
    return replaced


def _way(a: list[str], b: list[str], trail: list[dict[int, int]]) -> list[DiffLine]:
    """Walk back from the end of both to their beginning."""
    way: list[DiffLine] = []
    x, y = len(a), len(b)
    for edits in range(len(trail) - 1, -1, -1):
        reach, k = trail[edits], x - y
        down = k == -edits or (k != edits and reach[k - 1] < reach[k + 1])
        from_k = k + 1 if down else k - 1
        to_x = reach[from_k]
        to_y = to_x - from_k
        while x > max(to_x, 0) and y > max(to_y, 0):
            x, y = x - 1, y - 1
            way.append(DiffLine(" ", a[x]))
        if edits:
            way.append(DiffLine("+", b[to_y]) if down else DiffLine("-", a[to_x]))
            x, y = to_x, to_y
    return way[::-1]
