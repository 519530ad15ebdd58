"""Runs of text cut into messages that Telegram takes: within the limit, at a good place, entities in each part."""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final

import wcwidth

ENTITIES_MAX: Final = 100  # in one message; the server drops the others without a word

Mark = tuple[str, str]  # the type of an entity, and its URL or language
Run = tuple[str, tuple[Mark, ...]]  # text and its marks, the outermost first
Part = tuple[str, tuple[dict[str, Any], ...]]

_ENDS = ".!?\u2026\u061f\u06d4"  # of sentences before a space, in Latin and Arabic script
_SENTENCE = re.compile(rf"""(?<![{_ENDS}])[{_ENDS}]++["')\]\u201d\u2019\u00bb]*+(?=\s)|[\u3002\uff01\uff1f]++""")
_SPACE = re.compile(r"\s+")
_LOOKS_EMPTY = frozenset("\u2800\u3164\u115f\u1160\uffa0\ufffc")  # letters and signs without any ink


def split(runs: Sequence[Run], limit: int) -> list[Part]:
    """Cut into parts of 1 to `limit` UTF-16 units, which is at least 2; none is blank."""
    assert limit >= 2, "an emoji takes two units"
    return list(_Splitter([run for run in runs if run[0]], limit).parts())


def is_blank(text: str) -> bool:
    """Whether there is nothing to see in it, which Telegram refuses."""
    if any(char.isalnum() for char in text):
        return False
    return all(
        char.isspace() or char in _LOOKS_EMPTY or unicodedata.category(char) in ("Cc", "Cf", "Mn") for char in text
    )


class _Splitter:
    def __init__(self, runs: Sequence[Run], limit: int) -> None:
        self._text = "".join(text for text, _ in runs)
        self._styles = [style for _, style in runs]
        self._bounds = list(accumulate((len(text) for text, _ in runs), initial=0))  # of the runs, in characters
        self._units = list(accumulate((1 + (char > "\uffff") for char in self._text), initial=0))
        self._limit = limit

    def parts(self) -> list[Part]:
        found: list[Part] = []
        start = self._after_space(0)
        while start < len(self._text):
            cut = self._cut(start)
            end = start + len(self._text[start:cut].rstrip())
            if not is_blank(self._text[start:end]):
                marks, _ = self._marks(start, end)
                entities = tuple(self._entity(mark, begin, stop, start) for begin, stop, mark in marks)
                found.append((self._text[start:end], entities))
            start = self._after_space(cut)
        return found

    def _entity(self, mark: Mark, begin: int, stop: int, start: int) -> dict[str, Any]:
        kind, extra = mark
        entity: dict[str, Any] = {
            "type": kind,
            "offset": self._units[begin] - self._units[start],
            "length": self._units[stop] - self._units[begin],
        }
        if extra:
            entity["url" if kind == "text_link" else "language"] = extra
        return entity

    def _run_at(self, at: int) -> int:
        return bisect_right(self._bounds, at) - 1

    def _in_code(self, at: int) -> bool:
        return at < len(self._text) and any(kind == "pre" for kind, _ in self._styles[self._run_at(at)])

    def _marks(self, start: int, end: int) -> tuple[list[tuple[int, int, Mark]], int]:
        """Return (begin, end, mark) between two places, properly nested and in the order of the text.

        Also returns where that ended: earlier if there would be more than the server takes.
        """
        found: list[tuple[int, int, Mark]] = []
        opened: list[tuple[Mark, int]] = []
        count = 0
        for index in range(self._run_at(start), len(self._styles) + 1):
            at = max(self._bounds[index], start)
            style = self._styles[index] if index < len(self._styles) and at < end else ()
            if count + len(style) > ENTITIES_MAX:
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
        """The server wants no space at the ends; a code block keeps its indentation."""
        while stop > begin and self._text[stop - 1].isspace():  # slices would be copies of all of it, for each mark
            stop -= 1
        if not self._in_code(begin):
            while begin < stop and self._text[begin].isspace():
                begin += 1
        return begin, stop, mark

    def _after_space(self, at: int) -> int:
        """Where the next part begins: after spaces and empty lines, but before the indentation of code."""
        space = _SPACE.match(self._text, at)
        if space is None:
            return at
        line = space[0].rfind("\n")
        begin = at + line + 1
        return begin if (line >= 0 or at == 0) and self._in_code(begin) else space.end()

    def _cut(self, start: int) -> int:
        end = bisect_right(self._units, self._units[start] + self._limit) - 1
        _, last = self._marks(start, end)
        return end if last == len(self._text) else self._good_place(start, last)

    def _good_place(self, start: int, end: int) -> int:
        """The last paragraph, line, sentence or word in the second half of the part; a code block is kept whole.

        A word that is longer than that half is cut: it would leave a part of a few words before it.
        """
        half = start + (end - start + 1) // 2
        if self._in_code(end) and self._in_code(end - 1):
            run = self._run_at(end)
            while run and self._styles[run - 1] == self._styles[run]:
                run -= 1
            begin = self._bounds[run]
            if begin > start + (end - start) // 4 and self._fits(run):
                return begin
        for separator, in_code in (("\n\n", False), ("\n", False), ("\n\n", True), ("\n", True)):
            at = self._text.rfind(separator, half, end + len(separator))
            while at >= 0 and self._in_code(at) != in_code:
                at = self._text.rfind(separator, half, at + len(separator) - 1)
            if at >= 0:
                return at
        for found in reversed(list(_SENTENCE.finditer(self._text, half, end))):
            if not self._in_code(found.end()):
                return found.end()
        spaces = [space.start() for space in _SPACE.finditer(self._text, half, end + 1)]
        if spaces:
            return spaces[-1]
        return self._between_characters(start, end)

    def _fits(self, run: int) -> bool:
        last = run
        while last + 1 < len(self._styles) and self._styles[last + 1] == self._styles[run]:
            last += 1
        return self._units[self._bounds[last + 1]] - self._units[self._bounds[run]] <= self._limit

    def _between_characters(self, start: int, end: int) -> int:
        """The last place up to `end` that tears no letter from its accents, no flag and no emoji apart."""
        at = start
        for cluster in wcwidth.iter_graphemes(self._text[start : end + 64]):
            if at + len(cluster) > end:
                break
            at += len(cluster)
        return at if at > start else end
