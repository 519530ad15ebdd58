"""Vectors of memories: made in the background, a few at a time, and never waited for by an answer.

An embedder that is quick makes those of what was just said before it is written, so that one commit keeps both.

Rows say what has no vector of the present model yet, so a new model, a crash or an outage need no bookkeeping: what is
missing is made, the newest first, while search goes on over what is there; once nothing is missing, vectors of other
models are deleted. An embedder that fails, or answers what cannot be right, is asked again later and later; until then
words alone are searched, and `state` says why.
"""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import trio

from daycare.base.errors import BudgetError, DaycareError, InvalidError, UnavailableError
from daycare.base.limits import EMBED_QUESTION_S
from daycare.base.memory_settings import LOCAL_EMBEDDER
from daycare.features.memory.loading import LOCAL, VECTORS, loaded
from daycare.features.memory.store.records import NewVector, NewVectors, VectorModel
from daycare.features.memory.store.rows import MemoryRows
from daycare.inference.metering import INSTALLATION, Meter, Payer
from daycare.store.worker import IDLE_S, Worker

if TYPE_CHECKING:
    from daycare.features.memory.embed.arrays import Floats

EMBED_BATCH: Final = 32  # texts embedded with one call: 3,072 numbers each are 1.2 MB of JSON
EMBED_PAUSE_S: Final = 0.02  # between two calls: a share of the machine, and of a provider's rate, is left for others
EMBED_RETRY_BASE_S: Final = 2.0  # before an embedder that failed is asked again; doubles ...
EMBED_RETRY_MAX_S: Final = 300.0  # ... up to this: so long at most until it is noticed that it works again
EMBED_DROP_ROWS: Final = 2_000  # vectors of a model that is used no more, deleted with one commit: some 10 ms
EMBED_TEXT_MAX_CHARS: Final = 8_000  # of one text: models read 256 to 8,192 tokens, and cut the rest themselves

Embed = Callable[[Sequence[str]], Awaitable[memoryview]]


class Model(NamedTuple):
    """An embedder that is ready: the name that vectors of it are stored under, and how it is asked.

    A `quick` one takes less time for a text than a commit does.
    """

    identity: str
    embed: Embed
    quick: bool = False


_ZERO: Final = 1e-6
_LARGEST: Final = 1e15  # of a number in a vector whose length should be 1: more squares past what 32 bits hold


class EmbedderState(msgspec.Struct, frozen=True, kw_only=True):
    """How the embedder is: `trouble` says why it is not used, `done` of `total` memories have a vector of `model`.

    `dimensions` is 0 until the first vector. `before` are models whose vectors are kept until all have new ones.
    """

    embedder: str
    model: str
    dimensions: int
    trouble: str
    done: int
    total: int
    before: tuple[VectorModel, ...] = ()


class Embedding:
    """Embeds memories and questions with one embedder, which people call `name`. `load` makes it ready.

    `meter` charges each call, where calls cost something. `on_trouble` is called with an error when the embedder turns
    out to fail, and with None when it works again.
    """

    def __init__(
        self,
        store: MemoryRows,
        name: str,
        load: Callable[[], Awaitable[Model]],
        on_trouble: Callable[[DaycareError | None], None] = lambda _: None,
        meter: Callable[[str, Sequence[str], Payer], Meter] | None = None,
    ) -> None:
        self.name = name
        self.model = ""  # what vectors are stored under, once it is loaded
        self.dimensions = 0  # known with the first answer
        self.trouble: DaycareError | None = None
        self._store = store
        self._load = load
        self._meter = meter
        self._embed: Embed | None = None
        self._quick = False
        self._on_trouble = on_trouble
        self.on_made: Callable[[Sequence[int]], None] = lambda _: None  # hears of memories that have vectors now
        self.worker = Worker(self._make_missing)
        self._retry_s = EMBED_RETRY_BASE_S
        self._renewed = trio.Event()
        self._loading = trio.Lock()

    async def _make_missing(self) -> float:
        try:
            busy = bool(await self.catch_up()) or await self._drop_others()
        except DaycareError as error:
            self._fail(error)
            with trio.move_on_after(max(self._retry_s, error.retry_after_s or 0.0)):
                await self._renewed.wait()
            self._retry_s = min(2 * self._retry_s, EMBED_RETRY_MAX_S)
            return 0.0
        self._retry_s = EMBED_RETRY_BASE_S
        if not busy:
            return IDLE_S
        await trio.sleep(EMBED_PAUSE_S)
        return 0.0

    async def catch_up(self) -> int:
        """Make the vectors of a bounded number of memories; return of how many. Raises what the embedder does."""
        await self._open()
        rows = await self._store.unembedded(self.model, EMBED_BATCH)
        if not rows:
            return 0
        await self._keep(rows)
        return len(rows)

    async def make(self, rows: Sequence[tuple[int, str, str]]) -> int:
        """Make the vectors of these memories (number, hash, text) now; return of how many. Raises what it does."""
        await self._open()
        for at in range(0, len(rows), EMBED_BATCH):
            await self._keep(rows[at : at + EMBED_BATCH])
        return len(rows)

    async def renew(self) -> None:
        """Forget all vectors of the model, which is another one under the same name; they are made anew."""
        await self._open()
        others = [each.model for each in await self._store.vector_models() if each.model != self.model]
        while await self._store.drop_vectors(others, EMBED_DROP_ROWS):
            await trio.lowlevel.checkpoint()
        self.dimensions = 0
        self._works()
        self._renewed.set()
        self._renewed = trio.Event()
        self.worker.wake()

    async def question(self, text: str) -> "Floats":
        """Return the vector of a question. Raises what the embedder does, at once while it is known to fail.

        It is loaded for that if nobody has done it yet: a command that needs a daemon for a moment asks at once.
        """
        if self.trouble is not None:
            raise self.trouble
        with trio.move_on_after(EMBED_QUESTION_S):
            await self._open()
        from daycare.features.memory.language.analysis import topic

        vector: Floats = (await self._ask([topic(text[:EMBED_TEXT_MAX_CHARS])]))[0]
        return vector

    async def vectors(self, texts: Sequence[str], payer: Payer) -> "Floats":
        """Return the vectors of texts that are nobody's memory, for who pays. Raises as `question`."""
        if self.trouble is not None and not isinstance(self.trouble, BudgetError):  # that of memory's own calls
            raise self.trouble
        with trio.move_on_after(EMBED_QUESTION_S):
            await self._open()
        return await self._ask(texts, payer)

    async def at_once(self, texts: Sequence[str]) -> NewVectors | None:
        """Return the vectors of texts that are about to be kept, None if the embedder is not quick, or not well."""
        if self._embed is None or not self._quick or self.trouble is not None or not texts:
            return None
        try:
            found = await self._ask([text[:EMBED_TEXT_MAX_CHARS] for text in texts])
        except DaycareError:
            return None  # who makes them in the background finds the same, and says so
        from daycare.features.memory.embed.packing import packed

        return NewVectors(self.model, self.dimensions, packed(found))

    async def ready(self) -> str:
        """Return what vectors are stored under, once that is known. Raises what loading does."""
        await self._open()
        return self.model

    async def state(self) -> EmbedderState:
        """Return how the embedder is and how far it has come."""
        missing, total = await self._store.pending(self.model)
        models = await self._store.vector_models()
        return EmbedderState(
            embedder=self.name,
            model=self.model,
            dimensions=self.dimensions,
            trouble="" if self.trouble is None else str(self.trouble),
            done=total - missing,
            total=total,
            before=tuple(each for each in models if each.model != self.model),
        )

    async def _open(self) -> None:
        if self._embed is not None:
            return
        async with self._loading:
            if self._embed is None:
                await loaded(VECTORS)
                model, embed, quick = await self._load()
                self.model, self._embed, self._quick = model, embed, quick
                self.dimensions = self.dimensions or await self._stored_dimensions()

    async def _stored_dimensions(self) -> int:
        return next((each.dimensions for each in await self._store.vector_models() if each.model == self.model), 0)

    async def _keep(self, rows: Sequence[tuple[int, str, str]]) -> None:
        texts = {hash_: text for _, hash_, text in rows}
        made = await self._store.known_vectors(self.model, list(texts))
        wanted = [hash_ for hash_ in texts if hash_ not in made]
        made |= await self._make(wanted, [texts[hash_] for hash_ in wanted])
        vectors = [NewVector(no, hash_, made[hash_]) for no, hash_, _ in rows]
        await self._store.embed(self.model, self.dimensions or await self._stored_dimensions(), vectors)
        self._works()
        self.on_made([no for no, _, _ in rows])

    async def _drop_others(self) -> bool:
        """Delete some vectors of other models, now that each memory has one of this; return whether there were any."""
        if all(each.model == self.model for each in await self._store.vector_models()):
            return False
        await self._store.drop_vectors([self.model], EMBED_DROP_ROWS)
        return True

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
        from daycare.features.memory.embed.packing import packed

        return dict(zip(hashes, packed(found), strict=True))

    async def _ask(self, texts: Sequence[str], payer: Payer = INSTALLATION) -> "Floats":
        """Ask the embedder and check what it says: as many vectors as texts, finite, alike in length, none zero."""
        from daycare.features.memory.embed.arrays import np

        if self._embed is None:
            raise UnavailableError("EMBEDDER_LOADING", f"Embedding with {self.name}: it is not loaded yet")
        if self._meter is None:
            made = await self._embed(texts)
        else:
            async with self._meter(self.name, texts, payer) as call:
                made = await self._embed(texts)
                call.read()
        found = np.asarray(made, dtype=np.float32)
        if found.ndim != 2 or found.shape[0] != len(texts) or not found.shape[1]:
            raise self._garbage(f"{found.shape} numbers came for {len(texts)} texts")
        if self.dimensions and found.shape[1] != self.dimensions:
            what = f"vectors have {found.shape[1]} numbers, before they had {self.dimensions}"
            raise self._garbage(what, hint="if it is another model by now: daycare memory reembed")
        if not (np.abs(found) <= _LARGEST).all():  # what is no number is not, either
            raise self._garbage("some numbers are invalid, or far too large")
        length = np.linalg.norm(found, axis=1, keepdims=True)
        if (length < _ZERO).any():
            raise self._garbage("a vector is zero")
        self.dimensions = found.shape[1]
        scaled: Floats = found / length
        return scaled

    def _garbage(self, what: str, hint: str = "") -> UnavailableError:
        return UnavailableError("EMBEDDING_GARBAGE", f"Embedding with {self.name}: {what}", hint=hint)

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
    await loaded(LOCAL)
    from daycare.features.memory.embed.local import open_local, threaded

    local = await trio.to_thread.run_sync(open_local, kind, folder)
    return Model(local.identity, threaded(local), quick=kind == LOCAL_EMBEDDER)
