"""Words that come piece by piece, let through without the secrets that are known: also one that the pieces have cut."""

from bisect import bisect_left
from collections import deque
from typing import Final, NamedTuple

from daycare.base.secrecy import known_needles, without_known
from daycare.base.secret_encodings import HEAD_CHARS, found_at, lowered

ESCAPES: Final = "%\\&"  # what a text may have in place of its signs begins with one of these
_LAST: Final = "\U0010ffff"  # sorts behind every letter


class _Beginning(NamedTuple):
    """Where a secret may begin, and which needles begin as the text does from there: a range of the sorted ones."""

    start: int
    low: int
    high: int


class Veil:
    """Holds back the end of a text for as long as it may be the beginning of a secret, which is a few letters mostly.

    What a secret is found by is looked for as it stands; one behind escapes that are cut by the pieces may pass.
    """

    def __init__(self) -> None:
        self._needles, self._heads = known_needles()
        self._ending = False
        self._held = ""
        self._low = ""  # the same in small letters
        self._begun: list[_Beginning] = []
        self._found: list[tuple[int, int]] = []  # whole secrets: each goes out in one piece, and is seen

    def feed(self, piece: str) -> str:
        """Return what can be shown after this piece."""
        if not self._needles:
            return piece
        fresh = len(self._held)
        self._held += piece
        self._low += lowered(piece)
        before = max(fresh - HEAD_CHARS + 1, 0)
        heads = deque(before + at + HEAD_CHARS - 1 for at in found_at(self._heads, HEAD_CHARS, self._low[before:]))
        at = fresh
        while at < len(self._held) and (self._begun or heads):
            if not self._begun:
                at = heads[0]  # nothing has begun before
            begins = bool(heads) and heads[0] == at
            if begins:
                heads.popleft()
            self._step(at, begins=begins)
            at += 1
        end = min((each.start for each in self._begun), default=max(len(self._held) - HEAD_CHARS + 1, 0))
        end = next((start for start, stop in self._found if start < end < stop), end)
        return self._let_out(end)

    def end(self) -> str:
        """Return what was held back; nothing is fed after that."""
        self._ending = True  # what the text's end cuts is seen, too
        return self._let_out(len(self._held))

    def _step(self, at: int, *, begins: bool) -> None:
        sign = self._low[at]
        alive: list[_Beginning] = []
        if begins:
            head = self._low[at - HEAD_CHARS + 1 : at]
            low = bisect_left(self._needles, head)
            high = bisect_left(self._needles, head + _LAST)
            self._begun.append(_Beginning(at - HEAD_CHARS + 1, low, high))
        for start, low, high in self._begun:
            depth = at - start
            so_far = self._needles[low][:depth]
            low = bisect_left(self._needles, so_far + sign, low, high)
            high = bisect_left(self._needles, f"{so_far}{sign}{_LAST}", low, high)
            if low < high and len(self._needles[low]) == depth + 1:  # the shortest stands first
                whole = start
                while self._found and start < self._found[-1][1]:
                    whole = min(whole, self._found.pop()[0])
                self._found.append((whole, at + 1))
                low += 1
            if low < high:
                alive.append(_Beginning(start, low, high))
        self._begun = alive

    def _let_out(self, end: int) -> str:
        shown, self._held, self._low = self._held[:end], self._held[end:], self._low[end:]
        self._begun = [each._replace(start=each.start - end) for each in self._begun]
        whole = any(start < end for start, _ in self._found)
        self._found = [(start - end, stop - end) for start, stop in self._found if start >= end]
        return without_known(shown) if whole or self._ending or any(sign in shown for sign in ESCAPES) else shown
