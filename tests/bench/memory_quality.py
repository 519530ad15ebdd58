"""How much of what answers a question memory finds, in dialogues whose evidence is known: `--data`, LoCoMo's form.

Recall is the share of the evidence among the first 5, 10 or 20 turns, `budget` its share within 2,000 tokens, lines as
prompts show them. All dialogues lie in one store, each in a scope of its own. Nothing was learned from `--data` when
this runs; the weights were fitted once, on five dialogues.
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, NamedTuple

import apsw
import numpy as np
import trio

from daycare.agent import tokens
from daycare.agent.recall import line
from daycare.base.errors import BrokenError
from daycare.base.recollection import FOLDER_EMBEDDER, LOCAL_EMBEDDER
from daycare.memory import analysis, ranking
from daycare.memory.arrays import Floats
from daycare.memory.local import LocalEmbedder, open_local
from daycare.memory.question import People, read
from daycare.memory.ranking import READ_MAX, Nearness
from daycare.memory.structure import Structure
from daycare.store.contract import Store
from daycare.store.records_memories import Memory, Postings
from daycare.store.sqlite.store import open_store

from . import locomo, memories
from .locomo import ADVERSARIAL, CATEGORIES, Asked, Dialogue
from .measure import rounded, say, scratch

DATA: Final = Path("../shared/data/locomo_dev.json")
BUDGET: Final = 2_000  # tokens, what `[memory.retrieval] max_tokens` is by default
_FIRST: Final = (5, 10, 20)
_POSTINGS_MAX: Final = 10_000

Finder = Callable[[Asked], Sequence[int]]  # places of turns, the best first


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--data", type=Path, default=DATA, help=f"dialogues and questions; default: {DATA}")
    parser.add_argument("--model-dir", type=Path, help="measure a model of the embedder `dir` as well")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Measure every way to search; raises `SystemExit` if there is no data."""
    if not args.data.is_file():
        sys.exit(f"memory-quality: {args.data} is no file; --data names one in the form of LoCoMo")
    dialogues = locomo.read(args.data)
    say(f"{len(dialogues)} dialogues, {sum(len(each.said) for each in dialogues)} turns")
    with scratch(args.dir) as folder:
        return measured(folder, dialogues, embedders(args.model_dir))


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


def measured(folder: Path, dialogues: Sequence[Dialogue], models: Mapping[str, LocalEmbedder]) -> dict[str, Any]:
    """Return the figures for dialogues, which are logged in a new store of a folder."""
    location = folder / "memories.db"
    memories.open_turns(location, sum(len(each.said) for each in dialogues))
    return trio.run(_measured, location, dialogues, models)


async def _measured(
    location: Path, dialogues: Sequence[Dialogue], models: Mapping[str, LocalEmbedder]
) -> dict[str, Any]:
    async with open_store(str(location)) as store:
        numbers = await locomo.keep(store, dialogues)
        scenes = []
        for dialogue, mine in zip(dialogues, numbers, strict=True):
            scenes.append(_Scene(store, dialogue, await store.memories.get([dialogue.id], mine), models))
        naive, porter = _Index(dialogues, "unicode61"), _Index(dialogues, "porter unicode61 remove_diacritics 2")
        ways: dict[str, list[Finder]] = {
            "naive": [naive.finder(at, analysis.words_of) for at in range(len(dialogues))],
            "bm25": [porter.finder(at, _telling) for at in range(len(dialogues))],
            "plain words": [scene.plain() for scene in scenes],
            "structure": [scene.structured() for scene in scenes],
        }
        for name in models:
            ways[f"vectors {name}"] = [scene.vectors(name) for scene in scenes]
            ways[f"plain {name}"] = [scene.plain(name) for scene in scenes]
            ways[f"structure {name}"] = [scene.structured(name) for scene in scenes]
        return _figures({name: _scored(name, scenes, finders) for name, finders in ways.items()})


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


def _scored(name: str, scenes: "Sequence[_Scene]", finders: Sequence[Finder]) -> list[_Score]:
    found = [
        scene.score(at, asked, finder(asked))
        for at, (scene, finder) in enumerate(zip(scenes, finders, strict=True))
        for asked in scene.dialogue.asked
    ]
    say(f"{name}: recall@10 {rounded(_mean(found, 'r10'))}")
    return found


class _Scene:
    """One dialogue as the product has it, and the ways to search it."""

    def __init__(
        self, store: Store, dialogue: Dialogue, kept: Sequence[Memory], models: Mapping[str, LocalEmbedder]
    ) -> None:
        self.dialogue = dialogue
        self._store = store
        self._models = models
        self._kept = kept
        self._numbers = np.array([memory.no for memory in kept], np.int64)
        self._places = {memory.no: place for place, memory in enumerate(kept)}
        self._costs = [tokens.of_text(line(memory, "UTC")) + 1 for memory in kept]
        self._structure = Structure(store.memories.shapes(dialogue.id))
        self._structure.look({memory.no: memory.text for memory in kept})
        self._rows = {name: model.embed([memory.text for memory in kept]) for name, model in models.items()}
        self._postings = cache(self._postings_of)

    def score(self, at: int, asked: Asked, found: Sequence[int]) -> _Score:
        """Return how well a question was answered by these places in this order."""
        ranks = {place: rank for rank, place in enumerate(found)}
        evidence = [ranks.get(place) for place in asked.evidence]
        r5, r10, r20 = (sum(rank is not None and rank < n for rank in evidence) / len(evidence) for n in _FIRST)
        spent = list(accumulate(self._costs[place] for place in found))
        shown = sum(rank is not None and spent[rank] <= BUDGET for rank in evidence) / len(evidence)
        best = min((rank for rank in evidence if rank is not None), default=None)
        return _Score(at, asked.category, r5, r10, r20, 0.0 if best is None else 1 / (best + 1), shown)

    def structured(self, model: str = "") -> Finder:
        """Return the product's way: words, structure, and vectors where there is a model."""

        def find(asked: Asked) -> list[int]:
            question, groups = self._asked(asked)
            ranked = ranking.rank(
                self._structure, groups, question, self.dialogue.asked_ms, near=self._near(model, asked)
            )
            return [self._places[each.no] for each in ranking.finish(self._structure, ranked, question, READ_MAX)]

        return find

    def plain(self, model: str = "") -> Finder:
        """Return the weighted sum of words and vectors that `merge = "plain"` is."""

        def find(asked: Asked) -> list[int]:
            question, groups = self._asked(asked)
            found = ranking.plain(self._structure, groups, question, near=self._near(model, asked))
            return [self._places[each.no] for each in found]

        return find

    def vectors(self, model: str) -> Finder:
        """Return the order of the cosines alone."""

        def find(asked: Asked) -> list[int]:
            found: list[int] = np.argsort(-self._cosines(model, asked), kind="stable").tolist()
            return found

        return find

    def _asked(self, asked: Asked) -> tuple[Any, list[ranking.Group]]:
        question = read(asked.text, self.dialogue.asked_ms, people=People(self._structure.called))
        words = {word for term in question.terms for word in (*term.words, *term.kin)}
        found = {word: postings for word in words if (postings := self._postings(word)) is not None}
        return question, ranking.gather(question.terms, found)

    def _postings_of(self, word: str) -> Postings | None:
        found = self._store.memories.postings(self.dialogue.id, [word], postings_max=_POSTINGS_MAX)
        return found[0] if found else None

    def _near(self, model: str, asked: Asked) -> Nearness | None:
        if not model:
            return None
        cosines = self._cosines(model, asked)
        return Nearness(self._numbers, cosines, float(cosines.mean()), float(cosines.std()))

    def _cosines(self, model: str, asked: Asked) -> Floats:
        found: Floats = (
            self._rows[model] @ self._models[model].embed([analysis.topic(asked.text, self._structure.speakers)])[0]
        )
        return found


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

    def finder(self, dialogue: int, words: Callable[[str], Sequence[str]]) -> Finder:
        """Return a search for any of a question's words by BM25."""
        begin = self._begins[dialogue]

        def find(asked: Asked) -> list[int]:
            match = " OR ".join(f'"{word}"' for word in words(asked.text))
            rows = self._db.execute(
                "SELECT rowid FROM said WHERE said MATCH ? AND rowid BETWEEN ? AND ? ORDER BY rank, rowid LIMIT 100",
                (match, begin, begin + (1 << 32) - 1),
            )
            return [rowid - begin for (rowid,) in rows]

        return find


def _dated(turn: locomo.Said) -> str:
    day = np.datetime64(turn.at_ms, "ms").item()
    return f"[{day.day} {day:%B %Y}] {turn.speaker}: {turn.text}"


def _telling(text: str) -> Sequence[str]:
    return analysis.telling(text) or analysis.words_of(text)
