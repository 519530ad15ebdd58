"""What every store promises of memories: each turn is logged once, each entry curated once, nobody reads another's."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from daycare.store.records_documents import Layer, Place
from daycare.store.records_memories import (
    Comparable,
    EndedTurn,
    Forgotten,
    Lesson,
    Memory,
    MemoryCounts,
    NewMemory,
    NewVector,
    NewVectors,
    Postings,
    Shape,
    Tier,
    Uncurated,
    VectorModel,
    VectorPage,
)


class MemoryStore(Protocol):
    """Memories by scope. A scope is whose they are, such as `ann` or `ann/subuser/bob`.

    Every read but those of workers names its scopes, and returns nothing of others: the condition is part of the
    query. What is not async blocks for long over many rows: call it in a thread. When an agent dies or a person is
    removed, what is remembered of them stays until it expires or somebody forgets it.
    """

    # -- the log -----------------------------------------------------------------------------------------------------

    async def unlogged(self, limit: int) -> list[EndedTurn]:
        """Return ended turns that are not in the log, those of one agent in the order in which they ended."""
        ...

    async def log(
        self, turns: Sequence[EndedTurn], entries: Sequence[NewMemory], vectors: NewVectors | None = None
    ) -> list[int]:
        """Keep what was said in these turns and count them as logged, together; return the entries' numbers.

        `vectors` are those of the entries, where they are known already. If they do not fit the model's others, the
        entries are kept without. Idempotent: entries of a turn that is logged already, or whose words were forgotten
        meanwhile, are left out (number 0). A turn may have no entries. Raises `ConflictError` for a turn that has not
        ended.
        """
        ...

    async def uncurated(self, limit: int, *, after: str = "") -> list[Uncurated]:
        """Return for each living agent with entries after its mark what waits for its worker.

        In order of the agents' ids, from the first that comes after `after`.
        """
        ...

    async def entries(self, agent_id: str, *, after: int, through: int, max_chars: int) -> list[Memory]:
        """Return log entries of one agent in order, without echoes, until they have `max_chars`; one at least."""
        ...

    async def mark(self, agent_id: str) -> int:
        """Return the number of the last log entry that this agent's worker has looked at, 0 if none."""
        ...

    async def learn(self, lesson: Lesson) -> list[int] | None:
        """Keep what was learned and advance the agent's mark from `after` to `through`, together.

        Returns the numbers of `lesson.add`, or None, with nothing changed but the charge, when the mark is not at
        `after`: somebody has done it already. Sources that were forgotten meanwhile take with them what was learned
        from nothing else (number 0). What is `seen` without a new description counts as mentioned once for each
        source. Memories of other scopes than the agent's are left alone.
        """
        ...

    async def expire(self, before_ms: int, limit: int) -> int:
        """Delete curated log entries that were kept before `before_ms`; return how many (0: all done).

        Those of an agent that is dead count as curated once the newest of them is as old. What was learned from them
        stays, and from which turns.
        """
        ...

    # -- chunks of documents -----------------------------------------------------------------------------------------

    async def unchunked(self, limit: int) -> list[tuple[Place, int]]:
        """Return (place, newest version) of documents whose chunks are not of that version; 0: it was deleted."""
        ...

    async def chunk(self, place: Place, version: int, chunks: Sequence[NewMemory]) -> bool:
        """Replace a document's chunks; False, with nothing changed, when `version` is not the newest any more."""
        ...

    # -- reading -----------------------------------------------------------------------------------------------------

    def postings(self, scope: str, terms: Sequence[str], *, postings_max: int) -> list[Postings]:
        """Return where words are in a scope, the rarest first, until there are `postings_max` numbers; at least one.

        Words of one stem are one. Of a word that is in more memories than that, and looked for alone, these are the
        newest, and `memories` is an estimate.
        """
        ...

    def found(
        self, scope: str, terms: Sequence[str], *, postings_max: int, limit: int, tiers: Sequence[Tier] = ()
    ) -> list[tuple[int, float]]:
        """Return (number, score) of the best memories of one scope that have any of these words, in order of number.

        The score is BM25, with each word counted once in a memory. Of the words those that `postings` would return; of
        many memories only those with the rarest of them are weighed.
        """
        ...

    def shapes(self, scope: str, *, after: int = 0, limit: int = 100_000) -> list[Shape]:
        """Return the memories of a scope in order of number, beginning after `after`."""
        ...

    def shapes_of(self, scope: str, numbers: Sequence[int]) -> list[Shape]:
        """Return those of the memories that are in this scope, in order of number."""
        ...

    def latest(self, scope: str) -> tuple[int, int]:
        """Return numbers that rise with each memory that is added, and with each that is changed or deleted.

        With nothing else; 0 before the first.
        """
        ...

    def gone_since(self, scope: str, gone: int) -> list[int] | None:
        """Return what was changed or deleted since the second number of `latest` was `gone`; None: too much to tell."""
        ...

    def texts(self, scope: str, numbers: Sequence[int]) -> dict[int, str]:
        """Return the texts of those of the memories that are in this scope."""
        ...

    def worded(self, scope: str, numbers: Sequence[int]) -> list[tuple[int, str, list[str]]]:
        """Return (number, text, words as the index has them) of those of the memories that are in this scope."""
        ...

    def stems(self, words: Sequence[str]) -> list[list[str]]:
        """Return each of these words as the index has it: in parts if it cuts it, of none if it leaves it out."""
        ...

    async def get(self, scopes: Sequence[str], numbers: Sequence[int]) -> list[Memory]:
        """Return those of the memories that are in these scopes, in the order of `numbers`."""
        ...

    async def find(
        self,
        scope: str,
        tier: Tier,
        *,
        words: str = "",
        path: str = "",
        living: bool = True,
        before: int | None = None,
        limit: int = 100,
    ) -> list[Memory]:
        """Return memories of one tier, the newest first, beginning below number `before`.

        `path` is the root of a subtree of agents; `living` leaves out facts that hold no longer; each of `words` must
        stand in the text, without regard to case.
        """
        ...

    async def about(self, scope: str, subjects: Sequence[str], names: Sequence[str], limit: int) -> list[Memory]:
        """Return the facts that hold on these subjects, and the entities with one of these names, the newest first.

        Case does not count. Aliases are names.
        """
        ...

    async def speaking(self, scope: str, names: Mapping[str, Sequence[str]], limit: int) -> list[int]:
        """Return the newest `limit` memories that are about one of these names, and as many that are worded so.

        `names` are without case, each with its words as `memory.analysis` has them; worded so is what has all of these,
        in any order. Numbers rise.
        """
        ...

    async def passages(self, scope: str, layers: Sequence[Layer], name: str) -> list[int]:
        """Return the numbers of the chunks of documents of a name in some layers, whoever has them; numbers rise.

        A name that ends with `/` is a folder, an empty one all there is.
        """
        ...

    async def comparable(self, scope: str, lesson: Comparable, *, before: int, limit: int) -> list[Memory]:
        """Return facts with a lower number than `before` that hold and that new ones may end or repeat.

        The newest first. Of attributes that have one value at a time these are all, whatever was learned since.
        """
        ...

    async def derived(self, scope: str, numbers: Sequence[int]) -> list[int]:
        """Return what was learned from these log entries and from nothing else."""
        ...

    async def turns_of(self, scope: str, numbers: Sequence[int]) -> list[tuple[str, int]]:
        """Return (agent id, turn) of the words that these memories come from, also when the log has expired."""
        ...

    async def counts(self, scope: str | None = None) -> MemoryCounts:
        """Return how much one scope, or all, remember; how much has no vector is told by `pending`."""
        ...

    async def scopes(self, *, after: str = "", limit: int = 100) -> list[str]:
        """Return scopes that have memories, in order."""
        ...

    # -- vectors -----------------------------------------------------------------------------------------------------

    async def unembedded(self, model: str, limit: int) -> list[tuple[int, str, str]]:
        """Return (number, hash, text) of memories without a vector of this model, newest first."""
        ...

    async def pending(self, model: str) -> tuple[int, int]:
        """Return how many memories have no vector of this model, and how many memories there are."""
        ...

    async def vector_models(self) -> list[VectorModel]:
        """Return the models of which there are vectors."""
        ...

    async def known_vectors(self, model: str, hashes: Sequence[str]) -> dict[str, bytes]:
        """Return vectors that texts with these hashes have already, in any scope."""
        ...

    async def embed(self, model: str, dimensions: int, vectors: Sequence[NewVector]) -> int:
        """Keep vectors; those of memories that were changed or forgotten meanwhile are left out. Idempotent.

        Returns how many were kept. Raises `ConflictError` EMBEDDING_DIMENSIONS when this model's vectors have others,
        or these are not of `dimensions`.
        """
        ...

    def vectors(self, scope: str, model: str, *, after: int = 0, page: int = 4_096) -> Iterator[VectorPage]:
        """Yield a scope's vectors of one model, in order of number, beginning after `after`."""
        ...

    def vectors_of(self, model: str, numbers: Sequence[int]) -> VectorPage:
        """Return the vectors of some memories in order of number; those without one are left out."""
        ...

    async def drop_vectors(self, keep: Sequence[str], limit: int) -> int:
        """Delete vectors of models that are not to be kept; return how many (0: all done)."""
        ...

    # -- forgetting --------------------------------------------------------------------------------------------------

    async def forget(
        self,
        scope: str,
        numbers: Sequence[int],
        *,
        turns: Sequence[tuple[str, int]] = (),
        versions: Sequence[tuple[Place, int]] = (),
    ) -> Forgotten:
        """Remove memories, the words of turns (agent id, turn) and of versions of documents, for good and together.

        What is left of each is a hash. With memories goes what was learned from nothing else; with a turn the turns
        that came of it (later ones of its trace), and of each its history, journal, log entries, files, results,
        recorded events, letters, requests and reminders' words, and the summaries that cover it; a reply that was not
        delivered yet is not any more. What workers and searches noted since then in the same words goes as well,
        uncounted. With a version go others of this document with its text. Nothing of it is in the database's
        files when this returns. Idempotent. Raises, with nothing changed, `ConflictError` for a turn that has not
        ended, and for the newest version of a document; `BusyError` FORGET_UNFINISHED when it is forgotten, but
        somebody reads the files so long that old pages of them could not be overwritten: a repeat does that.
        """
        ...
