"""Vectors of memories: made in the background, a few at a time, and never waited for by an answer.

Rows say what has no vector of the present model yet, so a new model, a crash or an outage need no bookkeeping: what is
missing is made, the newest first, while search goes on over what is there. An embedder that fails, or answers what
cannot be right, is asked again later and later; until then words alone are searched, and `state` says why.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import trio

from daycare.base.errors import ConflictError, DaycareError, InvalidError, UnavailableError
from daycare.base.limits import (
    EMBED_BATCH,
    EMBED_PAUSE_S,
    EMBED_RETRY_BASE_S,
    EMBED_RETRY_MAX_S,
    EMBED_TEXT_MAX_CHARS,
)
from daycare.store.contract_memories import MemoryStore
from daycare.store.records_memories import NewVector

if TYPE_CHECKING:
    from daycare.memory.arrays import Floats

Embed = Callable[[Sequence[str]], Awaitable[memoryview]]


class Model(NamedTuple):
    """An embedder that is ready: the name that vectors of it are stored under, and how it is asked."""

    identity: str
    embed: Embed


_LENGTH_TOLERANCE: Final = 0.05  # of a vector that should have length 1; it is made so anyway
_ZERO: Final = 1e-6


class EmbedderState(msgspec.Struct, frozen=True, kw_only=True):
    """How the embedder is: `trouble` says why it is not used, `done` of `total` memories have a vector of it."""

    embedder: str
    dimensions: int
    trouble: str
    done: int
    total: int


class Embedding:
    """Embeds memories and questions with one embedder, which people call `name`. `load` makes it ready.

    `on_trouble` is called with an error when the embedder turns out to fail, and with None when it works again.
    """

    def __init__(
        self,
        store: MemoryStore,
        name: str,
        load: Callable[[], Awaitable[Model]],
        on_trouble: Callable[[DaycareError | None], None] = lambda _: None,
    ) -> None:
        self.name = name
        self.model = ""  # what vectors are stored under, once it is loaded
        self.dimensions = 0  # known with the first answer
        self.trouble: DaycareError | None = None
        self._store = store
        self._load = load
        self._embed: Embed | None = None
        self._on_trouble = on_trouble
        self.on_made: Callable[[Sequence[int]], None] = lambda _: None  # hears of memories that have vectors now
        self._news = trio.Event()

    def wake(self) -> None:
        """There may be new memories."""
        self._news.set()

    async def run(self) -> None:
        """Make what is missing until cancelled."""
        retry_s = EMBED_RETRY_BASE_S
        while True:
            self._news = trio.Event()  # before looking: what comes after the look sets this one
            try:
                made = await self.catch_up()
            except DaycareError as error:
                self._fail(error)
                await trio.sleep(max(retry_s, error.retry_after_s or 0.0))
                retry_s = min(2 * retry_s, EMBED_RETRY_MAX_S)
                continue
            retry_s = EMBED_RETRY_BASE_S
            if made:
                await trio.sleep(EMBED_PAUSE_S)
            else:
                await self._news.wait()

    async def catch_up(self) -> int:
        """Make the vectors of a bounded number of memories; return of how many. Raises what the embedder does."""
        if self._embed is None:
            self.model, self._embed = await self._load()
        rows = await self._store.unembedded(self.model, EMBED_BATCH)
        if not rows:
            return 0
        texts = {hash_: text for _, hash_, text in rows}
        made = await self._store.known_vectors(self.model, list(texts))
        wanted = [hash_ for hash_ in texts if hash_ not in made]
        made |= await self._make(wanted, [texts[hash_] for hash_ in wanted])
        vectors = [NewVector(no, hash_, made[hash_]) for no, hash_, _ in rows]
        with suppress(ConflictError):  # the model has changed its dimensions: below
            await self._store.embed(
                self.model, self.dimensions or len(next(filter(None, made.values()), b"")) // 2, vectors
            )
            self._works()
            self.on_made([no for no, _, _ in rows])
            return len(rows)
        raise UnavailableError(
            "EMBEDDING_DIMENSIONS",
            f"Embedding with {self.name}: vectors have {self.dimensions} numbers now, the stored ones have others",
            hint="daycare memory reembed",
        )

    async def question(self, text: str) -> "Floats":
        """Return the vector of a question. Raises what the embedder does, at once while it is known to fail."""
        if self.trouble is not None:
            raise self.trouble
        from daycare.memory.analysis import (
            topic,
        )  # late: lists of words that a daemon without an embedder does not need

        vector: Floats = (await self._ask([topic(text[:EMBED_TEXT_MAX_CHARS])]))[0]
        return vector

    async def state(self) -> EmbedderState:
        """Return how the embedder is and how far it has come."""
        missing, total = await self._store.pending(self.model)
        trouble = "" if self.trouble is None else str(self.trouble)
        return EmbedderState(
            embedder=self.name, dimensions=self.dimensions, trouble=trouble, done=total - missing, total=total
        )

    async def _make(self, hashes: Sequence[str], texts: Sequence[str]) -> dict[str, bytes]:
        """Return the vectors of texts as they are stored. One that is refused for itself gets an empty one."""
        if not texts:
            return {}
        try:
            found = await self._ask([text[:EMBED_TEXT_MAX_CHARS] for text in texts])
        except InvalidError:
            if len(texts) == 1:
                return {hashes[0]: b""}
            half = len(texts) // 2
            return await self._make(hashes[:half], texts[:half]) | await self._make(hashes[half:], texts[half:])
        return {hash_: row.astype("<f2").tobytes() for hash_, row in zip(hashes, found, strict=True)}

    async def _ask(self, texts: Sequence[str]) -> "Floats":
        """Ask the embedder and check what it says: as many vectors as texts, finite, alike in length, none zero."""
        from daycare.memory.arrays import np  # late: 20 MB that a daemon without an embedder does not need

        if self._embed is None:
            raise UnavailableError("EMBEDDER_LOADING", f"Embedding with {self.name}: it is not loaded yet")
        found = np.asarray(await self._embed(texts), dtype=np.float32)
        if found.ndim != 2 or found.shape[0] != len(texts) or not found.shape[1]:
            raise self._garbage(f"{found.shape} numbers came for {len(texts)} texts")
        if self.dimensions and found.shape[1] != self.dimensions:
            raise self._garbage(f"vectors have {found.shape[1]} numbers, before they had {self.dimensions}")
        if not np.isfinite(found).all():
            raise self._garbage("some numbers are none")
        length = np.linalg.norm(found, axis=1, keepdims=True)
        if (length < _ZERO).any():
            raise self._garbage("a vector is zero")
        self.dimensions = found.shape[1]
        scaled: Floats = found / length
        return scaled

    def _garbage(self, what: str) -> UnavailableError:
        return UnavailableError("EMBEDDING_GARBAGE", f"Embedding with {self.name}: {what}")

    def _fail(self, error: DaycareError) -> None:
        if self.trouble is None:
            self._on_trouble(error)
        self.trouble = error

    def _works(self) -> None:
        if self.trouble is not None:
            self._on_trouble(None)
        self.trouble = None


async def load_local(kind: str, folder: Path) -> Model:
    """Make an embedder of this machine ready, `local` or `dir` with its folder. Raises `BrokenError`."""
    from daycare.memory.local import open_local, threaded  # late: it brings numpy

    local = await trio.to_thread.run_sync(open_local, kind, folder)
    return Model(local.identity, threaded(local))
