"""What a search reads of memories, wherever that is: in the store, or in a copy elsewhere.

It says which memories may answer a question. What they are is read in the store, so nothing that was forgotten there is
ever shown, whatever a copy has of it yet.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

from daycare.features.memory.store.records import MemoryShape, Postings, VectorPage


class MemoryIndex(Protocol):
    """Each read blocks, may be called in any thread, and names its scope; the store's is `MemoryRows`.

    All raise `UnavailableError` where what they read is away.
    """

    def latest(self, scope: str) -> tuple[int, int]:
        """Return numbers of which the first is another with each memory that is added, the second with each change.

        A memory that is changed or removed is a change, with a copy also a vector that comes later.
        """

    def gone_since(self, scope: str, gone: int) -> list[int] | None:
        """Return what was changed since the second number of `latest` was `gone`; None: too much to tell."""

    def shapes(self, scope: str, *, after: int = 0, limit: int = 100_000) -> list[MemoryShape]:
        """Return the memories of a scope in order of number, beginning after `after`."""

    def shapes_of(self, scope: str, numbers: Sequence[int]) -> list[MemoryShape]:
        """Return those of the memories that are in this scope, in order of number."""

    def texts(self, scope: str, numbers: Sequence[int]) -> dict[int, str]:
        """Return the texts of those of the memories that are in this scope."""

    def worded(self, scope: str, numbers: Sequence[int]) -> list[tuple[int, str, list[str]]]:
        """Return (number, text, words as the index has them) of those of the memories that are in this scope."""

    def stems(self, words: Sequence[str]) -> list[list[str]]:
        """Return each of these words as the index has it."""

    def postings(self, scope: str, terms: Sequence[str], *, postings_max: int) -> list[Postings]:
        """Return where words are in a scope, the rarest first, until there are `postings_max` numbers."""

    def dimensions(self, model: str) -> int:
        """Return how many dimensions the vectors of a model have, 0 where there are none of it."""

    def vectors(self, scope: str, model: str, *, after: int = 0) -> Iterator[VectorPage]:
        """Yield a scope's vectors of one model, in order of number, beginning after `after`."""

    def vectors_of(self, model: str, numbers: Sequence[int]) -> VectorPage:
        """Return the vectors of memories of one scope in order of number; those without one are left out."""
