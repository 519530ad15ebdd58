"""Where words are: the index of one small scope in memory, and the memories that have the terms of a question.

The index is what the store says of it, found ten times as fast. It is made from the rows, a few at a time, and thrown
away at will. A number that rises costs an entry for each of its words; what was changed or removed is kept aside, and
so much of it that it counts is a reason to begin anew.
"""

from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from daycare.features.memory.embed.arrays import Numbers, distinct, np
from daycare.features.memory.language.analysis import Term
from daycare.features.memory.store.records import Postings

_ASIDE_MAX: Final = 200  # numbers beside the lists: each is looked at for each word that is asked for
_ENTRY_BYTES: Final = 8
_WORD_BYTES: Final = 200  # of a word, its list and its place in the table
_NOWHERE: Final = array("q")


class InvertedIndex:
    """Which memories have a word. It is for who asks to know whether all are in it."""

    def __init__(self) -> None:
        self._where: dict[str, array[int]] = {}
        self._last = 0
        self._entries = 0
        self._gone: set[int] = set()  # in the lists, but not to be found there
        self._late: dict[int, frozenset[str]] = {}  # not in the lists

    @property
    def worn(self) -> bool:
        """Whether so much was changed that it is to be made anew."""
        return len(self._gone) + len(self._late) > _ASIDE_MAX

    @property
    def nbytes(self) -> int:
        """How much memory it takes, about."""
        return _ENTRY_BYTES * self._entries + _WORD_BYTES * len(self._where)

    def put(self, number: int, stems: Iterable[str]) -> None:
        """Add a memory with its words, or those that it has now."""
        if number <= self._last:
            self._gone.add(number)
            self._late[number] = frozenset(stems)
            return
        self._last = number
        found = set(stems)
        self._entries += len(found)
        for stem in found:
            if (numbers := self._where.get(stem)) is None:
                numbers = self._where[stem] = array("q")
            numbers.append(number)

    def remove(self, numbers: Iterable[int]) -> None:
        """Remove memories."""
        for number in numbers:
            self._late.pop(number, None)
            if number <= self._last:
                self._gone.add(number)

    def has_any(self, stems: Iterable[str]) -> bool:
        """Return whether any memory has one of these words."""
        return any(map(self._numbers, stems))

    def postings(self, words: Mapping[str, Sequence[str]], most: int) -> list[Postings]:
        """Return where words are, the rarest first, as far as they have `most` entries together.

        `words` are those asked for by their stems. What has too many entries by itself is left out, as the store does
        where there are others; a scope that is small enough for this has no such word.
        """
        found = [(stem, self._numbers(stem)) for stem in words]
        listed: list[Postings] = []
        for stem, numbers in sorted(found, key=lambda it: len(it[1])):
            most -= len(numbers)
            if most < 0:
                break
            if numbers:
                listed.append(Postings(stem, tuple(dict.fromkeys(words[stem])), len(numbers), numbers.tobytes()))
        return listed

    def _numbers(self, stem: str) -> "array[int]":
        found = self._where.get(stem, _NOWHERE)
        if self._gone:
            late = [number for number, stems in self._late.items() if stem in stems]
            found = array("q", sorted([number for number in found if number not in self._gone] + late))
        return found


class Group(NamedTuple):
    """Where a term of the question is: memories with its word, and with another one that may be meant by it.

    Numbers rise, each once. `own_in` and `kin_in` are how many have them; they may be more than are listed.
    """

    own: Numbers
    own_in: int
    kin: Numbers
    kin_in: int
    weight: float = 1.0


def gather(terms: Sequence[Term], found: Mapping[str, Postings]) -> list[Group]:
    """Return where each term is, from the postings of words; each stem counts for the first term that has it."""
    groups: list[Group] = []
    taken: set[str] = set()
    for term in terms:
        own = {found[word].stem: found[word] for word in term.words if word in found}
        kin = {found[word].stem: found[word] for word in term.kin if word in found}
        own = {stem: each for stem, each in own.items() if stem not in taken}
        kin = {stem: each for stem, each in kin.items() if stem not in taken and stem not in own}
        taken |= own.keys()
        if own or kin:
            groups.append(Group(*_joined(own.values()), *_joined(kin.values()), term.weight))
    return groups


def _joined(found: Collection[Postings]) -> tuple[Numbers, int]:
    """Return the numbers of memories with any of some words, and how many there are."""
    numbers = np.frombuffer(b"".join([each.numbers for each in found]), "<i8")
    if len(found) > 1:
        numbers = distinct(numbers)
    return numbers, max([len(numbers), *[each.memories for each in found]])
