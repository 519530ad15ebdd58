"""Which passages of one document fit a question: by its words, and by vectors where there are some."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from math import log1p
from typing import TYPE_CHECKING, Final, NamedTuple

from daycare.features.memory.language.analysis import telling, words_of
from daycare.rules.chunks import Chunk

if TYPE_CHECKING:
    from daycare.features.memory.embed.arrays import Floats

_ENDING_CHARS: Final = 3  # what a word may have that another form of it has not: lives, living
_STEM_MIN_CHARS: Final = 3


class Fitting(NamedTuple):
    """A passage that fits. `words` is the share of the question's words that it has, from 0 to 1, rare ones count more.

    `similarity` is that of its vector to the question's, None if one of them is missing.
    """

    chunk: Chunk
    words: float
    similarity: float | None

    @property
    def score(self) -> float:
        """How well it fits."""
        return self.words + max(self.similarity or 0.0, 0.0)


def fitting(
    passages: Sequence[Chunk], question: str, similarities: Mapping[str, float], *, least: float
) -> list[Fitting]:
    """Return the passages that have a word of a question or at least the similarity `least`, the best first.

    `similarities` are by hash of the passages' texts.
    """
    shares = _shares(passages, telling(question))
    found = [
        Fitting(chunk, share, similarities.get(hash_of(chunk))) for chunk, share in zip(passages, shares, strict=True)
    ]
    kept = [it for it in found if it.words or (it.similarity is not None and it.similarity >= least)]
    return sorted(kept, key=lambda it: (-it.score, it.chunk.start))


def hash_of(chunk: Chunk) -> str:
    """Return the hash under which the vector of a passage is known."""
    return sha256(chunk.text.encode()).hexdigest()


def similarities(vector: "Floats", known: Mapping[str, bytes]) -> dict[str, float]:
    """Return how near stored vectors are to a question's; those of another model's length are left out."""
    from daycare.features.memory.embed.arrays import (  # late: without an embedder nobody needs numpy for this
        np,
        widened,
    )

    there = {each: widened(np.frombuffer(data, "<f2")) for each, data in known.items() if len(data) == 2 * len(vector)}
    return {each: float(other @ vector) for each, other in there.items()}


def _shares(passages: Sequence[Chunk], wanted: Sequence[str]) -> list[float]:
    stems = {word[: max(len(word) - _ENDING_CHARS, _STEM_MIN_CHARS)] for word in wanted}
    has = [{stem for stem in stems if _begins(stem, each)} for each in ({*words_of(it.told)} for it in passages)]
    often = {stem: sum(stem in each for each in has) for stem in stems}
    rarity = {stem: log1p(len(passages) / (1 + many)) for stem, many in often.items()}
    whole = sum(rarity.values())
    return [sum(rarity[stem] for stem in each) / whole if each else 0.0 for each in has]


def _begins(stem: str, words: set[str]) -> bool:
    return any(word.startswith(stem) for word in words)
