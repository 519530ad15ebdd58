"""How much of what answers a question memory finds, in dialogues whose evidence is known: `--data`, LoCoMo's form.

Recall is the share of the evidence among the first 5, 10 or 20 turns, `budget` its share within 2,000 tokens, lines as
prompts show them. All dialogues lie in one store, each in a scope of its own. Nothing was learned from `--data` when
this runs; the weights were fitted once, on five dialogues.
"""

import argparse
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple
from zoneinfo import ZoneInfo

import apsw
import numpy as np
import trio

from daycare.agent import tokens
from daycare.base.errors import BrokenError
from daycare.base.memory_settings import FOLDER_EMBEDDER, LOCAL_EMBEDDER, MemorySection, RetrievalSection
from daycare.features import open_store
from daycare.features.memory.embed.arrays import Floats
from daycare.features.memory.embed.local import LocalEmbedder, open_local, threaded
from daycare.features.memory.embed.service import Embedding, Model
from daycare.features.memory.embed.vectors import VectorBlock
from daycare.features.memory.language import analysis
from daycare.features.memory.recall import line
from daycare.features.memory.search.queries import MemoryQuery
from daycare.features.memory.search.service import Search
from daycare.features.memory.store.records import StoredMemory
from daycare.features.memory.store.rows import MemoryRows
from daycare.settings import Config, Live
from daycare.store.sqlite.store import Store

from . import locomo, memories
from .locomo import ADVERSARIAL, CATEGORIES, Asked, Dialogue
from .measure import median, rounded, say, scratch
from .servers import a_server, new_database
from .unrelated import TASKS

DATA: Final = Path("../shared/data/locomo_dev.json")
BUDGET: Final = 2_000  # tokens, what `[memory.retrieval] max_tokens` is by default
_FIRST: Final = (5, 10, 20)
_HITS: Final = 80  # asked for: twice as many turns as 2,000 tokens hold

Finder = Callable[[int, Asked], Awaitable[Sequence[int]]]  # of a dialogue's question the turns, the best first
_Figures = dict[str, Any]


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--data", type=Path, default=DATA, help=f"dialogues and questions; default: {DATA}")
    parser.add_argument("--together", action="store_true", help="all dialogues in one scope, as if one person had them")
    parser.add_argument("--postgresql", action="store_true", help="on a server; see the benchmark `postgres`")
    parser.add_argument("--redis", action="store_true", help="searched in a copy in Redis, of the test extra")
    parser.add_argument("--model-dir", type=Path, help="measure a model of the embedder `dir` as well")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Measure every way to search; raises `SystemExit` if there is no data."""
    if not args.data.is_file():
        sys.exit(f"memory-quality: {args.data} is not a file; --data names one in the form of LoCoMo")
    dialogues = locomo.read(args.data)
    if args.together:
        dialogues = [locomo.joined(dialogues)]
    say(f"{len(dialogues)} dialogues, {sum(len(each.said) for each in dialogues)} turns")
    with scratch(args.dir) as folder, _in_redis() if args.redis else nullcontext():
        if not args.postgresql:
            return measured(folder, dialogues, embedders(args.model_dir))
        with a_server(folder) as server:
            return trio.run(_measured, new_database(server), dialogues, embedders(args.model_dir))


@contextmanager
def _in_redis() -> Iterator[None]:
    """Let searches ask a copy in Redis."""
    import pytest

    from tests import redis_server

    with pytest.MonkeyPatch.context() as patch, redis_server.instead(patch):
        yield
    redis_server.remove_all()


def embedders(model_dir: Path | None) -> dict[str, LocalEmbedder]:
    """Return those embedders that can be had here."""
    found = {}
    wanted = {LOCAL_EMBEDDER: None} | ({FOLDER_EMBEDDER: model_dir} if model_dir else {})
    for name, folder in wanted.items():
        try:
            found[name] = open_local(name, folder)
        except BrokenError as error:
            say(f"without {name}: {error.message}; {error.hint}")
    return found


def measured(folder: Path, dialogues: Sequence[Dialogue], models: Mapping[str, LocalEmbedder]) -> _Figures:
    """Return the figures for dialogues, which are logged in a new store of a folder."""
    return trio.run(_measured, str(folder / "memories.db"), dialogues, models)


async def _measured(location: str, dialogues: Sequence[Dialogue], models: Mapping[str, LocalEmbedder]) -> _Figures:
    async with open_store(location) as store:
        await memories.add_turns(store, sum(len(each.said) for each in dialogues))
        numbers = await locomo.keep(store, dialogues)
        kept = [await store.of(MemoryRows).get([each.id], mine) for each, mine in zip(dialogues, numbers, strict=True)]
        scenes = [_Scene(*it) for it in zip(dialogues, kept, strict=True)]
        naive, porter = _Index(dialogues, "unicode61"), _Index(dialogues, "porter unicode61 remove_diacritics 2")
        ways: dict[str, Finder] = {
            "naive": naive.finder(analysis.words_of),
            "bm25": porter.finder(_telling),
            "plain words": _searched(store, scenes, None, "plain"),
            "structure": _searched(store, scenes, None),
        }
        for name, model in models.items():
            embedder = await _embedded(store, model)
            ways[f"vectors {name}"] = _nearest(store, scenes, embedder)
            ways[f"plain {name}"] = _searched(store, scenes, embedder, "plain")
            ways[f"structure {name}"] = _searched(store, scenes, embedder)
        times: dict[str, float | None] = {}
        figures = _figures({name: await _scored(name, scenes, find, times) for name, find in ways.items()})
        figures["search_ms"] = times["structure"]
        for key, name in (("unrelated_none", "structure"), ("unrelated_local", f"structure {LOCAL_EMBEDDER}")):
            figures[key] = rounded(await _unrelated(ways[name], len(scenes))) if name in ways else None
        return figures


async def _unrelated(find: Finder, dialogues: int) -> float:
    """Return how many memories come back, on average, for a message that has nothing to do with a dialogue."""
    most = RetrievalSection().max_results
    found = [await find(at, Asked(text, 0, ())) for text in TASKS for at in range(dialogues)]
    return sum(min(len(each), most) for each in found) / len(found)


class _Embedder:
    """An embedding, and the vectors of questions that it was asked for: three ways to search want each."""

    def __init__(self, embedding: Embedding) -> None:
        self.embedding = embedding
        self._vectors: dict[str, Floats] = {}

    async def vector(self, question: str) -> Floats:
        if question not in self._vectors:
            self._vectors[question] = await self.embedding.question(question)
        return self._vectors[question]


async def _embedded(store: Store, model: LocalEmbedder) -> _Embedder:
    """Return an embedding that has made the vectors of all memories."""

    async def load() -> Model:
        return Model(model.identity, threaded(model))

    embedding = Embedding(store.of(MemoryRows), model.identity, load)
    while await embedding.catch_up():
        pass
    return _Embedder(embedding)


def _searched(
    store: Store,
    scenes: "Sequence[_Scene]",
    model: _Embedder | None,
    merge: Literal["structure", "plain"] = "structure",
) -> Finder:
    """Return the product's search."""
    section = RetrievalSection(merge=merge)
    search = Search(
        store, Live(Config(memory=MemorySection(retrieval=section))), None if model is None else model.embedding
    )

    async def find(at: int, asked: Asked) -> list[int]:
        scene = scenes[at]
        query = MemoryQuery(
            scope=scene.dialogue.id,
            text=asked.text,
            now_ms=scene.dialogue.asked_ms,
            limit=_HITS,
            least=section.min_score,
            vector=None if model is None else await model.vector(asked.text),
        )
        return scene.places(hit.memory.no for hit in await search.find(query))

    return find


def _nearest(store: Store, scenes: "Sequence[_Scene]", model: _Embedder) -> Finder:
    """Return a search by vectors alone."""
    embedding = model.embedding

    @cache
    def block(at: int) -> VectorBlock:
        made = VectorBlock(embedding.dimensions)
        for page in store.of(MemoryRows).vectors(scenes[at].dialogue.id, embedding.model):
            made.extend(page)
        return made

    async def find(at: int, asked: Asked) -> list[int]:
        vector = await model.vector(asked.text)
        found = block(at).search(
            vector, _HITS, lambda numbers: store.of(MemoryRows).vectors_of(embedding.model, numbers)
        )
        return scenes[at].places(found.numbers.tolist())

    return find


def _figures(scores: Mapping[str, "list[_Score]"]) -> dict[str, Any]:
    """Return what `--json` has: the keys that are asked for first, then everything."""

    def of(way: str, figure: str) -> float | None:
        return rounded(_mean(scores[way], figure)) if way in scores else None

    local = f"structure {LOCAL_EMBEDDER}"
    return {
        "naive": of("naive", "r10"),
        "bm25": of("bm25", "r10"),
        "best_none": of("structure", "r10"),
        "best_local": of(local, "r10"),
        "budget_none": of("structure", "budget"),
        "budget_local": of(local, "budget"),
        "ways": {name: _of_way(found) for name, found in scores.items()},
    }


def _of_way(found: "Sequence[_Score]") -> dict[str, Any]:
    answered = [score for score in found if score.category != ADVERSARIAL]
    figures: dict[str, Any] = {name: rounded(_mean(answered, name)) for name in ("r5", "r10", "r20", "mrr", "budget")}
    for category, name in CATEGORIES.items():
        figures[name] = rounded(_mean([score for score in found if score.category == category], "r10"))
    figures["adversarial"] = rounded(_mean([score for score in found if score.category == ADVERSARIAL], "r10"))
    return figures


class _Score(NamedTuple):
    """How one question fared. `dialogue` is the place of its dialogue."""

    dialogue: int
    category: int
    r5: float
    r10: float
    r20: float
    mrr: float
    budget: float


def _mean(scores: Sequence[_Score], figure: str) -> float | None:
    values = [getattr(score, figure) for score in scores if score.category != ADVERSARIAL] or [
        getattr(score, figure) for score in scores
    ]
    return sum(values) / len(values) if values else None


async def _scored(name: str, scenes: "Sequence[_Scene]", find: Finder, times: dict[str, float | None]) -> list[_Score]:
    """Return how all questions fared by one way to search; `times` gets the median of what one took."""
    found, took = [], []
    for at, scene in enumerate(scenes):
        for asked in scene.dialogue.asked:
            began = time.perf_counter()
            places = await find(at, asked)
            took.append(1000 * (time.perf_counter() - began))
            found.append(scene.score(at, asked, places))
    times[name] = rounded(median(took))
    say(f"{name}: recall@10 {rounded(_mean(found, 'r10'))}, {times[name]} ms")
    return found


class _Scene:
    """One dialogue as the product keeps it."""

    def __init__(self, dialogue: Dialogue, kept: Sequence[StoredMemory]) -> None:
        self.dialogue = dialogue
        self._places = {memory.no: place for place, memory in enumerate(kept)}
        self._costs = [tokens.of_text(line(memory, ZoneInfo("UTC"))) + 1 for memory in kept]

    def places(self, numbers: Iterable[int]) -> list[int]:
        """Return which turns of the dialogue memories are."""
        return [self._places[no] for no in numbers]

    def score(self, at: int, asked: Asked, found: Sequence[int]) -> _Score:
        """Return how well a question was answered by these turns in this order."""
        ranks = {place: rank for rank, place in enumerate(found)}
        evidence = [ranks.get(place) for place in asked.evidence]
        r5, r10, r20 = (sum(rank is not None and rank < n for rank in evidence) / len(evidence) for n in _FIRST)
        spent = list(accumulate(self._costs[place] for place in found))
        shown = sum(rank is not None and spent[rank] <= BUDGET for rank in evidence) / len(evidence)
        best = min((rank for rank in evidence if rank is not None), default=None)
        return _Score(at, asked.category, r5, r10, r20, 0.0 if best is None else 1 / (best + 1), shown)


class _Index:
    """Every turn of every dialogue in one FTS5 table, as search without structure has it."""

    def __init__(self, dialogues: Sequence[Dialogue], tokenizer: str) -> None:
        self._db = apsw.Connection(":memory:")
        self._db.execute(f"CREATE VIRTUAL TABLE said USING fts5 (text, tokenize = '{tokenizer}')")
        self._begins = [at << 32 for at in range(len(dialogues))]
        for begin, dialogue in zip(self._begins, dialogues, strict=True):
            self._db.executemany(
                "INSERT INTO said (rowid, text) VALUES (?, ?)",
                ((begin + place, _dated(turn)) for place, turn in enumerate(dialogue.said)),
            )

    def finder(self, words: Callable[[str], Sequence[str]]) -> Finder:
        """Return a search for any of a question's words by BM25."""

        async def find(at: int, asked: Asked) -> list[int]:
            begin = self._begins[at]
            match = " OR ".join(f'"{word}"' for word in words(asked.text))
            rows = self._db.execute(
                "SELECT rowid FROM said WHERE said MATCH ? AND rowid BETWEEN ? AND ? ORDER BY rank, rowid LIMIT ?",
                (match, begin, begin + (1 << 32) - 1, _HITS),
            )
            return [rowid - begin for (rowid,) in rows]

        return find


def _dated(turn: locomo.Said) -> str:
    day = np.datetime64(turn.at_ms, "ms").item()
    return f"[{day.day} {day:%B %Y}] {turn.speaker}: {turn.text}"


def _telling(text: str) -> Sequence[str]:
    return analysis.telling(text) or analysis.words_of(text)
