"""Where the terms of a question are: memories with a term's own word, and with one that may be meant by it."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from daycare.features.memory.embed.arrays import Numbers, distinct, np
from daycare.features.memory.language.analysis import Term
from daycare.store.records_memories import Postings


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
