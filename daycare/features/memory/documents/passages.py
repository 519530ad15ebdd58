"""Passages of single documents: those that fit what is said or asked, and all of them made anew."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from math import log1p
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from daycare.agent.blocks import one_line
from daycare.agent.prompt import is_helper
from daycare.agent.sections import DocumentSource, Excerpts, is_long
from daycare.base.bounded import Bounded
from daycare.base.consent import IDENTITY_DOCUMENTS
from daycare.base.documents import Place
from daycare.base.errors import DaycareError
from daycare.base.limits import API_PAGE_MAX_ROWS, PROMPTS_KEPT_MAX, RECALL_LINE_MAX_CHARS
from daycare.base.memories import Tier
from daycare.base.memory_settings import NO_EMBEDDER, DocumentsSection
from daycare.features.memory.documents.chunking import Chunking
from daycare.features.memory.documents.service import Documents
from daycare.features.memory.embed.service import Embedding
from daycare.features.memory.loading import WORDS, loaded
from daycare.features.memory.store.records import StoredMemory
from daycare.features.memory.store.rows import MemoryRows
from daycare.rules.chunks import Chunk, cut
from daycare.rules.document_paths import MEMORY
from daycare.settings import Live
from daycare.store.records import Agent
from daycare.store.sqlite.store import Store

if TYPE_CHECKING:
    from daycare.features.memory.embed.arrays import Floats

PASSAGE_QUESTION_MAX_CHARS: Final = 8_000  # of what was said, looked for in a document: as much as is embedded

_NONE: Final[Excerpts] = ()


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


class Processed(msgspec.Struct, frozen=True, kw_only=True):
    """What came of making a document's passages anew: so many, and so many of them have a vector."""

    path: str
    version: int
    chunks: int
    embedded: int


class Passages:
    """Finds them. Vectors are those that texts with the same words have already; there may be no `embedding`."""

    def __init__(
        self,
        store: Store,
        documents: Documents,
        source: DocumentSource,
        chunking: Chunking,
        embedding: Embedding | None,
        live: Live,
    ) -> None:
        self._memories = store.of(MemoryRows)
        self._documents = documents
        self._source = source
        self._chunking = chunking
        self._embedding = embedding
        self._live = live
        # By agent: of which version, and by which settings.
        self._kept: Bounded[str, tuple[int, DocumentsSection, dict[str, list[Chunk]]]] = Bounded(PROMPTS_KEPT_MAX)
        self._forgotten = 0  # how many times something was

    async def standing(self, agent: Agent, text: str, vector: "Floats | None") -> Excerpts:
        """Return of each document that does not stand whole in a prompt what fits what was said."""
        if is_helper(agent):
            return _NONE
        found, section = [], self._live.now.memory.documents
        for name, passages in (await self._cut(agent, section)).items():
            fits = await self._fitting(passages, text, vector, section)
            if name == MEMORY:
                best = sorted((it.chunk for it in fits[: section.chat_top]), key=lambda it: it.start)
                told = "\n".join(f"{name}: {_line(chunk)}" for chunk in best)
            else:  # who somebody is has to be said in any case
                order = dict.fromkeys([*(it.chunk for it in fits), *passages])
                best = sorted(list(order)[: int(section.identity)], key=lambda it: it.start)
                told = "\n\n".join(chunk.told for chunk in best)
            found.append((name, told))
        return tuple(found)

    async def search(self, agent: Agent, path: str, question: str, limit: int) -> list[Fitting]:
        """Return the passages of a document that fit a question, the best first; raises as `Documents.read`.

        Without the question's vector, which may be late or missing, by words alone.
        """
        text = (await self._documents.read(agent, path)).text
        vector: Floats | None = None
        if self._embedding is not None:
            with suppress(DaycareError):
                vector = await self._embedding.question(question)
        return (await self._fitting(await cut(text), question, vector, self._live.now.memory.documents))[:limit]

    def forget(self) -> None:
        """Keep nothing: something was forgotten."""
        self._forgotten += 1
        self._kept.clear()

    async def process(self, agent: Agent, path: str) -> Processed:
        """Cut a document anew, and embed its passages now. Raises as `Documents.read` and the embedder do."""
        reading = await self._documents.read(agent, path)
        [newest] = await self._documents.history(agent, path, limit=1)
        scope = await self._chunking.again(newest.place, newest.version)
        rows = await self._chunks_of(scope, newest.place)
        embedded = 0
        if self._embedding is not None:
            embedded = await self._embedding.make([(row.no, row.hash, row.text) for row in rows])
        return Processed(path=path, version=reading.version, chunks=len(rows), embedded=embedded)

    # -- inside ------------------------------------------------------------------------------------------------------

    async def _cut(self, agent: Agent, section: DocumentsSection) -> dict[str, list[Chunk]]:
        """Return the documents of an agent that do not stand whole, in passages; kept until some document changes."""
        before, version = self._forgotten, await self._source.version()
        kept = self._kept.get(agent.id)
        if kept is None or kept[:2] != (version, section):
            found = {}
            for name in (*(() if section.identity == "whole" else IDENTITY_DOCUMENTS), MEMORY):
                passage = await self._source.passage(agent, name)
                if passage is not None and (name != MEMORY or is_long(passage, section)):
                    found[name] = await cut(passage.text)
            kept = version, section, found
        if before == self._forgotten:
            self._kept[agent.id] = kept
        return kept[2]

    async def _fitting(
        self, passages: list[Chunk], question: str, vector: "Floats | None", section: DocumentsSection
    ) -> list[Fitting]:
        await loaded(WORDS)

        near: dict[str, float] = {}
        if vector is not None and self._embedding is not None:
            hashes = [hash_of(chunk) for chunk in passages]
            known = await self._memories.known_vectors(self._embedding.model, hashes)
            near = similarities(vector, known)
        least = section.similar(self._embedding.name if self._embedding is not None else NO_EMBEDDER)
        return fitting(passages, question[:PASSAGE_QUESTION_MAX_CHARS], near, least=least)

    async def _chunks_of(self, scope: str, place: Place) -> list[StoredMemory]:
        found: list[StoredMemory] = []
        before: int | None = None
        while page := await self._memories.find(scope, Tier.CHUNK, before=before, limit=API_PAGE_MAX_ROWS):
            found += [memory for memory in page if memory.place == place]
            before = page[-1].no
        return found


def _line(chunk: Chunk) -> str:
    where = f"{' / '.join(chunk.headings)}: " if chunk.headings else ""
    return one_line(f"{where}{chunk.text}", RECALL_LINE_MAX_CHARS)


def fitting(
    passages: Sequence[Chunk], question: str, similarities: Mapping[str, float], *, least: float
) -> list[Fitting]:
    """Return the passages that have a word of a question or at least the similarity `least`, the best first.

    `similarities` are by hash of the passages' texts.
    """
    from daycare.features.memory.language.analysis import telling  # late: `loaded(WORDS)` comes first

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
    from daycare.features.memory.embed.packing import unpacked  # late: without an embedder nobody needs numpy for this

    sizes = (len(vector), 2 * len(vector))
    there = {each: data for each, data in known.items() if len(data) in sizes}
    found = unpacked([*there.values()], len(vector)) @ vector if there else ()
    return dict(zip(there, map(float, found), strict=True))


def _shares(passages: Sequence[Chunk], wanted: Sequence[str]) -> list[float]:
    from daycare.features.memory.language.analysis import words_of

    stems = {word[: max(len(word) - _ENDING_CHARS, _STEM_MIN_CHARS)] for word in wanted}
    has = [{stem for stem in stems if _begins(stem, each)} for each in ({*words_of(it.told)} for it in passages)]
    often = {stem: sum(stem in each for each in has) for stem in stems}
    rarity = {stem: log1p(len(passages) / (1 + many)) for stem, many in often.items()}
    whole = sum(rarity.values())
    return [sum(rarity[stem] for stem in each) / whole if each else 0.0 for each in has]


def _begins(stem: str, words: set[str]) -> bool:
    return any(word.startswith(stem) for word in words)
