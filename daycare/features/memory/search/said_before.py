"""What was said, to know what says the same: of a fact and what it came from one is enough."""

from typing import Final

from daycare.features.memory.language.word_runs import words_in
from daycare.features.memory.search.recent import ALIKE, FoundMemory

_FEW_WORDS: Final = 2  # "Yes, thanks" is not the same each time


class SaidBefore:
    """Memories, none of which says in nearly the same words what another does."""

    def __init__(self) -> None:
        self._by_word: dict[int, tuple[FoundMemory, ...]] = {}  # by the first words of their signatures
        self._words: dict[int, set[str]] = {}  # of those that were compared, by their numbers

    def note(self, it: FoundMemory) -> bool:
        """Note a memory; return whether it is new, which it is not where nearly the same words were said."""
        size, first, _ = it.signature
        if size <= _FEW_WORDS:
            return True
        by_word, noted = self._by_word, (it,)
        if by_word.keys().isdisjoint(first):
            by_word.update(dict.fromkeys(first, noted))
            return True
        compared = {id(other): other for word in first for other in by_word.get(word, ())}
        for other in compared.values():
            others = other.signature.size
            if others >= ALIKE * size and size >= ALIKE * others and self._are_alike(it, other):
                return False
        for word in first:
            by_word[word] = by_word.get(word, ()) + noted
        return True

    def _are_alike(self, it: FoundMemory, other: FoundMemory) -> bool:
        """Return whether texts of about as many words share nearly all."""
        mine, theirs = self._words_of(it), self._words_of(other)
        return len(mine & theirs) >= ALIKE * min(len(mine), len(theirs))

    def _words_of(self, it: FoundMemory) -> set[str]:
        no = it.memory.no
        words = self._words.get(no)
        if words is None:
            words = self._words[no] = words_in(it.memory.text.casefold())
        return words
