"""One scope as search sees it: its structure, its vectors and, of a small one, its words in memory.

All of that follows the rows of the store.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from daycare.base.bounded import MadeOnce
from daycare.base.limits import SEARCH_INLINE_ROWS
from daycare.base.memories import Tier
from daycare.base.memory_settings import TEXT_WEIGHT, VECTOR_WEIGHT, RetrievalSection
from daycare.features.memory.embed.vectors import EXACT_MAX_BYTES, VectorBlock
from daycare.features.memory.search import ranking
from daycare.features.memory.search.index import MemoryIndex
from daycare.features.memory.search.postings import Group, InvertedIndex, gather
from daycare.features.memory.search.queries import MemoryQuery
from daycare.features.memory.search.question import NamedPeople, SearchQuestion, hear, read
from daycare.features.memory.search.ranking import Nearness, RankingWeights, Scored
from daycare.features.memory.search.structure import SearchLimits, Structure
from daycare.features.memory.store.records import MemoryShape, Postings, VectorPage, most_alike

SEARCH_POSTINGS_MAX: Final = 10_000  # entries of the index of words that one search reads: some 8 ms
SEARCH_READ_ROWS: Final = 1_000  # of what is kept in memory, read there before: some 5 ms; more in a thread of its own
LEAN_MAX_BYTES: Final = 1024 * 1024  # of exact vectors in a lean scope: 680 of 384 dimensions

_AHEAD_ROWS: Final = 64  # texts looked at before others have a turn: a millisecond
FRESH_MAX: Final = 20_000  # memories whose new vectors are not in a block yet; past it the block is read again


class SearchScope:
    """The memories of one scope. `model` tells which vectors are used, "" for none yet.

    Of a `lean` one less is kept in memory, and more read for an answer: words stay with the store, and of many vectors
    only bits are kept.
    """

    def __init__(self, store: MemoryIndex, scope: str, model: Callable[[], str], *, lean: bool = False) -> None:
        self._store = store
        self._scope = scope
        self._model = model
        self._lean = lean
        self._structure = Structure()
        self._words = InvertedIndex()
        self._looked = 0  # places before it were looked at ahead of the questions, and have their words in the index
        self._last = 0
        self._latest = (0, 0)  # when it was caught up: the store's numbers of the latest memory and the latest change
        self._block: VectorBlock | None = None
        self._block_model = ""
        self._fresh: list[int] = []  # memories whose vectors are to be read (again)

    @property
    def size(self) -> int:
        """How many memories there are."""
        return self._structure.living

    @property
    def nbytes(self) -> int:
        """How much memory is taken for it, about."""
        return self._structure.nbytes + self._words.nbytes + (self._block.nbytes if self._block is not None else 0)

    @property
    def behind(self) -> bool:
        """Whether it keeps words, and there are texts that nobody has looked at."""
        return self._keeps_words and self._looked < self._structure.size

    def is_behind(self, latest: tuple[int, int]) -> bool:
        """Whether there is something to follow, where these are the store's numbers."""
        return latest != self._latest

    def catch_up(self, latest: tuple[int, int] | None = None) -> bool:
        """Follow what was changed or deleted, and read what was added, a bounded part; return whether there is more.

        `latest` is what the store says, if that is known.
        """
        if latest is None:
            latest = self._store.latest(self._scope)
        # Before what is read: what changes meanwhile is looked at next time.
        if not self.is_behind(latest):
            return False
        is_revised = bool(self._last) and latest[1] != self._latest[1]
        changed = self._store.gone_since(self._scope, self._latest[1]) if is_revised else []
        if changed is None:
            self._structure, self._block, self._last = Structure(), None, 0
            self._begin_looking()
        elif changed:
            self._revise(changed)
        shapes = self._store.shapes(self._scope, after=self._last, limit=SEARCH_READ_ROWS)
        self._take(shapes)
        more = len(shapes) == SEARCH_READ_ROWS
        self._latest = (0 if more else latest[0], latest[1])
        return more

    def catch_up_all(self) -> None:
        """Read all that was added. Blocks."""
        while shapes := self._store.shapes(self._scope, after=self._last):
            self._take(shapes)

    def prepare(self) -> None:
        """Read all that searches need of it. Blocks."""
        self.catch_up()
        self.catch_up_all()
        model = self._model()
        dimensions = self._store.dimensions(model) if model else 0
        if dimensions and self._block_of(model, dimensions) is None:
            self._read_vectors(model, dimensions)

    def at_hand(self, query: MemoryQuery) -> bool:
        """Return whether a search reads no vectors, or few."""
        model = self._model()
        if query.vector is None or not model or self.size <= SEARCH_READ_ROWS:
            return True
        block = self._block_of(model, len(query.vector))
        return block is not None and block.exact and len(self._fresh) <= SEARCH_READ_ROWS

    def embedded(self, numbers: Sequence[int]) -> None:
        """Note that memories, of any scope, have a vector now."""
        if self._block is not None:
            self._fresh += numbers
        if len(self._fresh) > FRESH_MAX:
            self._block, self._fresh = None, []

    def find(self, query: MemoryQuery, section: RetrievalSection, count: int) -> Sequence[Scored]:
        """Return the best memories for a question by these settings, the best first. Blocks for some milliseconds."""
        structure = self._structure
        if not self.size:
            return ()
        people = NamedPeople(structure.called, structure.speaker_code(query.speaker) if query.speaker else None)
        heard = query.heard or hear(query.text, query.now_ms, query.zone)
        question = read(heard, people, query.recent)
        groups = self._groups(question)
        near = self._near(query)
        if not groups and not question.spans and near is None:
            return ()
        limits = SearchLimits(
            tiers=query.tiers,
            since_ms=query.since_ms,
            until_ms=query.until_ms,
            now_ms=None if query.superseded else query.now_ms,
            agent_id=query.agent_id,
            shown=query.shown,
            under=query.under,
            among=None if query.among is None else structure.among(query.among),
        )
        if section.merge == "plain":
            shares = section.weights
            found = ranking.plain(
                structure, groups, question, near=near, limits=limits, text=shares.text, vector=shares.vector
            )
            return found[:count]
        weights = _weights.of(section)
        ranked = ranking.rank(structure, groups, question, query.now_ms, near=near, limits=limits, weights=weights)
        if unread := ranking.unread(structure, ranked):
            structure.look(self._store.texts(self._scope, unread))
        return ranking.finish(structure, ranked, question, count, weights, least=query.least)

    def alike(
        self, words: Sequence[str], postings_max: int, limit: int, latest: tuple[int, int] | None = None
    ) -> list[int] | None:
        """Return the memories that have most of these words; None where the store has to say it."""
        if self.catch_up(latest) or not self._has_words:
            return None
        if not self.size:
            return []
        by_stem = self._by_stem(words)
        listed = self._listed(by_stem, postings_max)
        if not listed and self._words.has_any(by_stem):
            return None  # there are frequent words only: the store knows where they were lately
        return most_alike(listed, self.size, limit)

    def look_ahead(self) -> bool:
        """Look at some texts that no question has led to yet, and index their words; return whether there are more.

        Else each question of a small scope pays for those that it is the first to find, and for the store's index.
        """
        end = min(self._looked + _AHEAD_ROWS, self._structure.size)
        self._look(self._structure.numbers[self._looked : end].tolist())
        self._looked = end
        return self.behind

    # -- inside ------------------------------------------------------------------------------------------------------

    @property
    def _keeps_words(self) -> bool:
        return not self._lean and self.size <= SEARCH_INLINE_ROWS

    def _take(self, shapes: Sequence[MemoryShape]) -> None:
        if shapes:
            self._structure.append(shapes)
            self._last = shapes[-1].no
            self.embedded([shape.no for shape in shapes])
            if self._looked and not self._keeps_words:
                self._begin_looking()  # the words of a large scope are the store's to find

    def _revise(self, changed: Sequence[int]) -> None:
        there = self._store.shapes_of(self._scope, changed)
        self._structure.renew(changed, there)
        self._words.remove(changed)
        if self._words.worn:
            self._begin_looking()
        else:
            seen = self._structure.numbers[: self._looked]
            self._look([shape.no for shape in there if len(seen) and shape.no <= seen[-1]])
        if self._block is not None:
            self._block.remove(changed)
        self.embedded([shape.no for shape in there])

    def _begin_looking(self) -> None:
        self._words, self._looked = InvertedIndex(), 0

    def _look(self, numbers: Sequence[int]) -> None:
        rows = self._store.worded(self._scope, numbers) if numbers else []
        self._structure.look({no: text for no, text, _ in rows})
        for no, _, stems in rows:
            self._words.put(no, stems)

    def _groups(self, question: SearchQuestion) -> list[Group]:
        """Return where the question's terms are: first their words, then, as far as it goes, what they may mean."""
        words = dict.fromkeys(word for term in question.terms for word in term.words)
        kin = dict.fromkeys(word for term in question.terms for word in term.kin if word not in words)
        postings = self._postings(list(words), SEARCH_POSTINGS_MAX)
        left = SEARCH_POSTINGS_MAX - sum(each.listed for each in postings)
        if kin and left > 0:
            others = self._postings(list(kin), left)
            postings += [each for each in others if each.listed == each.memories]  # part of one would mislead
        return gather(question.terms, {word: each for each in postings for word in each.words})

    @property
    def _has_words(self) -> bool:
        """Whether all of the scope is in the index in memory, or soon would be."""
        return self._keeps_words and self._structure.size - self._looked <= _AHEAD_ROWS

    def _postings(self, words: Sequence[str], most: int) -> list[Postings]:
        """Return where words are: from memory if all of the scope is there, or nearly all."""
        if self._has_words:
            return self._listed(self._by_stem(words), most)
        return self._store.postings(self._scope, words, postings_max=most)

    def _listed(self, by_stem: Mapping[str, Sequence[str]], most: int) -> list[Postings]:
        while self.behind:
            self.look_ahead()
        return self._words.postings(by_stem, most)

    def _by_stem(self, words: Sequence[str]) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for word, stems in zip(words, self._store.stems(words), strict=True):
            for stem in stems:
                found.setdefault(stem, []).append(word)
        return found

    def _near(self, query: MemoryQuery) -> Nearness | None:
        model = self._model()
        if query.vector is None or not model:
            return None
        block = self._block_of(model, len(query.vector))
        if block is None:
            block = self._read_vectors(model, len(query.vector))
        elif self._fresh:
            fresh, self._fresh = self._fresh, []  # in this order: the loop may add some at any moment
            page = self._store.vectors_of(model, [no for no in dict.fromkeys(fresh) if self._is_mine(no)])
            if page.numbers:
                block.extend(page)
        if not block.size:
            return None

        def fetch(numbers: Sequence[int]) -> VectorPage:
            return self._store.vectors_of(model, numbers)

        return Nearness(*(block.scores(query.vector) or block.search(query.vector, ranking.NEAR_MAX, fetch)))

    def _read_vectors(self, model: str, dimensions: int) -> VectorBlock:
        most = LEAN_MAX_BYTES if self._lean else EXACT_MAX_BYTES
        block = self._block = VectorBlock(dimensions, most, expected=self.size)
        self._block_model, self._fresh = model, []
        for page in self._store.vectors(self._scope, model):
            block.extend(page)
        return block

    def _block_of(self, model: str, dimensions: int) -> VectorBlock | None:
        block = self._block
        if block is None or block.worn or (self._block_model, block.dimensions) != (model, dimensions):
            return None
        return block

    def _is_mine(self, number: int) -> bool:
        return self._last >> 32 == number >> 32


def _weights_of(section: RetrievalSection) -> RankingWeights:
    """Return what the ranking goes by."""
    shares = section.weights
    factors = {Tier.LOG: shares.logs, Tier.FACT: shares.facts, Tier.ENTITY: shares.entities}
    changed = {tier: factor for tier, factor in factors.items() if factor != 1.0}
    weights = RankingWeights(recency=shares.recency, tiers=changed)
    return weights.scaled(text=shares.text / TEXT_WEIGHT, vector=shares.vector / VECTOR_WEIGHT)


_weights: Final = MadeOnce(_weights_of, 1)
