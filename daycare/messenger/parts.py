"""Runs of marked text cut into messages: within the limit, at a good place, and no character torn apart."""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Final, TypeVar

import wcwidth

Mark = tuple[str, str]  # its kind, such as `bold`, and the URL of a link or the language of code
Run = tuple[str, tuple[Mark, ...]]  # text and its marks, the outermost first
T = TypeVar("T")

PRE: Final = "pre"  # the mark of a code block, which is cut at its lines
_ENDS = ".!?\u2026\u061f\u06d4"  # of sentences before a space, in Latin and Arabic script
_SENTENCE = re.compile(rf"""(?<![{_ENDS}])[{_ENDS}]++["')\]\u201d\u2019\u00bb]*+(?=\s)|[\u3002\uff01\uff1f]++""")
_SPACE = re.compile(r"\s+")
_LOOKS_EMPTY = frozenset("\u2800\u3164\u115f\u1160\uffa0\ufffc")  # letters and signs without any ink


def is_blank(text: str) -> bool:
    """Whether there is nothing to see in it, which platforms refuse."""
    if any(char.isalnum() for char in text):
        return False
    return all(
        char.isspace() or char in _LOOKS_EMPTY or unicodedata.category(char) in ("Cc", "Cf", "Mn") for char in text
    )


class Splitter:
    """Cuts runs. Places are numbers of characters; a piece has at most `marks_max` marks, where that is said."""

    def __init__(self, runs: Sequence[Run], marks_max: int | None = None) -> None:
        runs = [run for run in runs if run[0]]
        self.text = "".join(text for text, _ in runs)
        self._styles = [style for _, style in runs]
        self._bounds = list(accumulate((len(text) for text, _ in runs), initial=0))  # of the runs, in characters
        astral = max(self.text, default="") > "\uffff"  # else each character is one unit
        lengths = accumulate((1 + (char > "\uffff") for char in self.text), initial=0)
        self._units: Sequence[int] = list(lengths) if astral else range(len(self.text) + 1)
        self._marks_max = marks_max

    def split(self, limit: int, made: Callable[[int, int], tuple[T, int]]) -> Iterator[T]:
        """Yield what `made` writes of each piece, from one place to another; no piece is blank.

        `made` says how long that became, in UTF-16 units: where it is more than the `limit`, which is at least 2, the
        piece is cut shorter.
        """
        assert limit >= 2, "an emoji takes two units"
        start = self._after_space(0)
        first = limit
        while start < len(self.text):
            room = first
            while True:
                cut = self._cut(start, room)
                end = start + len(self.text[start:cut].rstrip())
                if is_blank(self.text[start:end]):
                    break
                written, length = made(start, end)
                if length <= limit or room == 2:
                    yield written
                    likely = limit * self.units(start, end) // max(length, 1)  # signs of the next one take as much room
                    first = min(max(likely, limit * 9 // 10, 2), limit)
                    break
                room = max(min(room * limit // length, self.units(start, end)) - 1, 2)
            start = self._after_space(cut)

    def units(self, start: int, end: int) -> int:
        """Return the length of a piece in UTF-16 units."""
        return self._units[end] - self._units[start]

    def runs(self, start: int, end: int) -> list[Run]:
        """Return the runs of a piece."""
        found = []
        for index in range(self._run_at(start), len(self._styles)):
            if self._bounds[index] >= end:
                break
            text = self.text[max(self._bounds[index], start) : min(self._bounds[index + 1], end)]
            found.append((text, self._styles[index]))
        return found

    def marks(self, start: int, end: int) -> list[tuple[int, int, Mark]]:
        """Return (begin, end, mark) of each mark in a piece, properly nested and in the order of the text."""
        return self._marked(start, end)[0]

    def _run_at(self, at: int) -> int:
        return bisect_right(self._bounds, at) - 1

    def _in_code(self, at: int) -> bool:
        return at < len(self.text) and any(kind == PRE for kind, _ in self._styles[self._run_at(at)])

    def _marked(self, start: int, end: int) -> tuple[list[tuple[int, int, Mark]], int]:
        """Return the marks of a piece, and where that ended: earlier if there would be too many."""
        found: list[tuple[int, int, Mark]] = []
        opened: list[tuple[Mark, int]] = []
        count = 0
        for index in range(self._run_at(start), len(self._styles) + 1):
            at = max(self._bounds[index], start)
            style = self._styles[index] if index < len(self._styles) and at < end else ()
            if self._marks_max is not None and count + len(style) > self._marks_max:
                style, end = (), at
            for depth, (mark, _) in enumerate(opened):
                if mark not in style:  # what was opened later ends too, and begins anew if it goes on
                    found += [(begin, min(at, end), ended) for ended, begin in reversed(opened[depth:])]
                    del opened[depth:]
                    break
            if at >= end:
                break
            begun = [(mark, at) for mark in style if all(mark != known for known, _ in opened)]
            opened += begun
            count += len(begun)
        found = [self._trimmed(*mark) for mark in found]
        return sorted((mark for mark in found if mark[0] < mark[1]), key=lambda mark: (mark[0], -mark[1])), end

    def _trimmed(self, begin: int, stop: int, mark: Mark) -> tuple[int, int, Mark]:
        """No mark has space at its ends; a code block keeps its indentation."""
        while stop > begin and self.text[stop - 1].isspace():  # slices would be copies of all of it, for each mark
            stop -= 1
        if not self._in_code(begin):
            while begin < stop and self.text[begin].isspace():
                begin += 1
        return begin, stop, mark

    def _after_space(self, at: int) -> int:
        """Where the next part begins: after spaces and empty lines, but before the indentation of code."""
        space = _SPACE.match(self.text, at)
        if space is None:
            return at
        line = space[0].rfind("\n")
        begin = at + line + 1
        return begin if (line >= 0 or at == 0) and self._in_code(begin) else space.end()

    def _cut(self, start: int, room: int) -> int:
        end = bisect_right(self._units, self._units[start] + room) - 1
        last = end if self._marks_max is None else self._marked(start, end)[1]
        return end if last == len(self.text) else self._good_place(start, last, room)

    def _good_place(self, start: int, end: int, room: int) -> int:
        """The last paragraph, line, sentence or word in the second half of the part; a code block is kept whole.

        A word that is longer than that half is cut: it would leave a part of a few words before it.
        """
        half = start + (end - start + 1) // 2
        if self._in_code(end) and self._in_code(end - 1):
            run = self._run_at(end)
            while run and self._styles[run - 1] == self._styles[run]:
                run -= 1
            begin = self._bounds[run]
            if begin > start + (end - start) // 4 and self._fits(run, room):
                return begin
        for separator, in_code in (("\n\n", False), ("\n", False), ("\n\n", True), ("\n", True)):
            at = self.text.rfind(separator, half, end + len(separator))
            while at >= 0 and self._in_code(at) != in_code:
                at = self.text.rfind(separator, half, at + len(separator) - 1)
            if at >= 0:
                return at
        for found in reversed(list(_SENTENCE.finditer(self.text, half, end))):
            if not self._in_code(found.end()):
                return found.end()
        spaces = [space.start() for space in _SPACE.finditer(self.text, half, end + 1)]
        if spaces:
            return spaces[-1]
        return self._between_characters(start, end)

    def _fits(self, run: int, room: int) -> bool:
        last = run
        while last + 1 < len(self._styles) and self._styles[last + 1] == self._styles[run]:
            last += 1
        return self._units[self._bounds[last + 1]] - self._units[self._bounds[run]] <= room

    def _between_characters(self, start: int, end: int) -> int:
        """The last place up to `end` that tears no letter from its accents, no flag and no emoji apart."""
        at = start
        for cluster in wcwidth.iter_graphemes(self.text[start : end + 64]):
            if at + len(cluster) > end:
                break
            at += len(cluster)
        return at if at > start else end
