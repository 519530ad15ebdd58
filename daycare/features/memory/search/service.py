"""Searching what is remembered: words from an index, vectors from a block in memory, ranked by structure.

What is kept in memory of a scope follows from its rows: it is made at the first question, brought up to date before
each answer, and dropped at will. One question of a scope is looked at at a time; in large scopes, and where much is to
be read first, in a thread.

Who stops waiting for an answer is not held up by it: the search goes on by itself, and what it has read into memory is
there for the next question. Else nobody with a deadline would ever get an answer from a scope that takes long to read.
"""

from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Final

import outcome
import trio
from msgspec.structs import replace
from trio import to_thread

from daycare.base.errors import DaycareError, UnavailableError
from daycare.base.limits import RECALL_LINE_HEAD_CHARS, SEARCH_INLINE_ROWS
from daycare.base.memories import Tier
from daycare.base.memory_settings import RetrievalSection
from daycare.features.memory.embed.service import Embedding
from daycare.features.memory.loading import SEARCH, loaded
from daycare.features.memory.search.index import MemoryIndex
from daycare.features.memory.search.queries import MemoryHit, MemoryQuery
from daycare.features.memory.search.recent import FoundMemory, RecentMemories
from daycare.features.memory.search.said_before import SaidBefore
from daycare.features.memory.store.records import ECHO, EVERYBODY
from daycare.features.memory.store.rows import MemoryRows
from daycare.settings import Live
from daycare.store.sqlite.store import Store
from daycare.store.worker import IDLE_S, Worker

if TYPE_CHECKING:
    from daycare.features.memory.search.question import HeardQuestion
    from daycare.features.memory.search.ranking import Scored
    from daycare.features.memory.search.search_scope import SearchScope

SEARCH_SCOPES_MAX: Final = 256  # of which something is kept in memory: 70 bytes a memory, its vector and its words ...
SEARCH_MAX_BYTES: Final = 32 * 1024 * 1024  # ... as long as all take no more, but for the one asked last

PREPARED_MAX: Final = 8  # scopes read at a start: of a household, all who talk

AGAIN_FOLD: Final = 2  # of what is wanted: among so many a memory is looked for that was wanted before
_ASIDE_MAX: Final = 4  # searches in threads: each reads a whole scope, and they take turns with the interpreter anyway
_SPARE: Final = 20  # echoes of one thing that may rank before it
_PAUSE_S: Final = 0.01  # between looks ahead, which take a tenth of it
_MORE: Final = 5  # rows read at first beyond those that are wanted: most questions drop fewer
_PAGE: Final = 24  # rows read at a time where it is not known how many are enough


class Search:
    """Searches the memories of scopes. Without an `embedding` by words and structure alone.

    `elsewhere` is a copy of them that is read in the place of the store; only in threads, as it is across a network.
    """

    def __init__(
        self, store: Store, live: Live, embedding: Embedding | None, elsewhere: MemoryIndex | None = None
    ) -> None:
        self._rows = store.of(MemoryRows)
        self._reading = self._rows.reading
        self._elsewhere = elsewhere
        self._live = live
        self._embedding = embedding
        self._search_scopes: OrderedDict[str, _Kept] = OrderedDict()
        self._taken = 0  # bytes of all scopes, as each was when it was last asked
        self._aside = trio.CapacityLimiter(_ASIDE_MAX)
        self._recent = RecentMemories(store)
        self.worker = Worker(self._follow)

    async def find(self, query: MemoryQuery) -> list[MemoryHit]:
        """Return what fits a question, the best first; passages of documents that everybody reads among them."""
        await loaded(SEARCH)
        if query.heard is None:
            query = replace(query, heard=_heard(query))
        scopes = [query.scope]
        reads_all = Tier.CHUNK in query.tiers and query.scope != EVERYBODY
        if self._elsewhere is None:
            await self._rows.states([*scopes, EVERYBODY] if reads_all else scopes)  # both at once
        found = await self._find(query, query.scope)
        if reads_all and (everybodys := await self._find(query, EVERYBODY)):
            scopes.append(EVERYBODY)
            found = sorted([*found, *everybodys], key=lambda it: -it.score)
        return await self._read(scopes, found, query)

    async def prepare(self) -> None:
        """Read into memory what searches need of those who were in the last turns, as far as there is room for it.

        So the first question after a start is answered as soon as a later one. What is away is read when it is asked.
        """
        await loaded(SEARCH)
        from daycare.features.memory.search.search_scope import SEARCH_READ_ROWS

        for scope in await self._rows.recent_scopes(PREPARED_MAX):
            if self._is_short():
                return
            kept = self._kept(scope)
            await kept.turn.acquire()
            try:
                far = self._elsewhere is not None
                if far or await self._reading(kept.searched.catch_up) or kept.searched.size > SEARCH_READ_ROWS:
                    await to_thread.run_sync(kept.searched.prepare, limiter=self._aside)
                else:
                    await self._reading(kept.searched.prepare)
            except UnavailableError:
                return  # whoever asks next is told
            finally:
                self._answered(scope, kept)

    async def alike(self, scope: str, words: Sequence[str], postings_max: int, limit: int) -> list[int]:
        """Return the memories of a scope that have most of these words, as `MemoryRows.alike` does."""
        kept = self._search_scopes.get(scope) if self._elsewhere is None else None
        if kept is not None and kept.is_free:
            kept.turn.acquire_nowait()
            try:
                latest = (await self._rows.states([scope]))[scope].latest
                found = await self._reading(partial(kept.searched.alike, words, postings_max, limit, latest))
            finally:
                kept.turn.release()
            if found is not None:
                return found
        return await self._reading(partial(self._rows.alike, scope, words, postings_max, limit))

    async def _follow(self) -> float:
        """Read what was added or changed in scopes of which something is kept, before somebody asks them."""
        if self._elsewhere is None:
            states = await self._rows.states(list(self._search_scopes))
            for scope, state in states.items():
                kept = self._search_scopes.get(scope)
                if kept is not None and kept.is_free and kept.searched.is_behind(state.latest):
                    kept.turn.acquire_nowait()
                    try:
                        await self._reading(partial(kept.searched.catch_up, state.latest))
                    finally:
                        self._answered(scope, kept)
                    await trio.lowlevel.checkpoint()
        return IDLE_S

    def drop(self, scope: str) -> None:
        """Keep nothing of a scope in memory."""
        self._recent.drop(scope)
        if (kept := self._search_scopes.pop(scope, None)) is not None:
            self._taken -= kept.nbytes

    def embedded(self, numbers: Sequence[int]) -> None:
        """Note that these memories have vectors now."""
        for kept in self._search_scopes.values():
            kept.searched.embedded(numbers)

    async def _read(self, scopes: Sequence[str], found: Sequence["Scored"], query: MemoryQuery) -> list[MemoryHit]:
        """Return the first of what was found, without what a better one says in nearly the same words.

        Echoes come behind all others: what they repeat is preferred. No more rows are read than that takes.
        """
        kept: list[MemoryHit] = []
        echoes: list[tuple[FoundMemory, Scored]] = []
        said = SaidBefore()
        chars, enough = 0, inf if query.enough_chars is None else query.enough_chars
        limit, looked_at = query.limit, set[int]()
        memories: dict[int, FoundMemory] = {}
        again = [it for it in found[: AGAIN_FOLD * limit] if it.no in query.again]
        step = limit + _MORE if query.enough_chars is None else _PAGE
        parts = [(found[begin : begin + step], limit, enough) for begin in range(0, len(found), step)]
        for part, most, until in (*parts, (again, AGAIN_FOLD * limit, inf)):
            if not part or len(kept) >= most or chars >= until:
                continue
            await trio.lowlevel.checkpoint()  # what came before took a millisecond
            if not looked_at:
                await self._recent.look(scopes)
            memories |= await self._recent.get(scopes, [it.no for it in part if it.no not in memories])
            for each in part:
                it = memories.get(each.no)
                if it is None or each.no in looked_at:
                    continue
                looked_at.add(each.no)
                if it.memory.role == ECHO:
                    echoes.append((it, each))
                elif said.note(it):
                    kept.append(MemoryHit(it.memory, *each[1:], it.lines))
                    if it.memory.tier is not Tier.CHUNK:  # a passage may stand in the prompt anyway
                        chars += RECALL_LINE_HEAD_CHARS + it.signature.chars
                    if len(kept) == most or chars >= until:
                        break
        if len(kept) < limit and chars < enough:
            kept += [MemoryHit(it.memory, *each[1:], it.lines) for it, each in echoes if said.note(it)]
            del kept[limit:]
        return kept

    async def _find(self, query: MemoryQuery, scope: str) -> Sequence["Scored"]:
        kept = self._kept(scope)
        try:
            kept.turn.acquire_nowait()
        except trio.WouldBlock:
            await kept.turn.acquire()
        aside = self._elsewhere is not None
        try:
            if not aside:
                latest = (await self._rows.states([scope]))[scope].latest
                found = await self._reading(partial(_found_at_hand, kept.searched, query, self._live, latest))
                if found is not None:
                    return found
                aside = True
        finally:
            if not aside:
                self._answered(scope, kept)
        answer = _Answer()
        trio.lowlevel.spawn_system_task(self._answer, query, scope, kept, answer)
        await answer.there.wait()
        assert answer.found is not None
        return answer.found.unwrap()

    async def _answer(self, query: MemoryQuery, scope: str, kept: "_Kept", answer: "_Answer") -> None:
        section = self._live.now.memory.retrieval
        answer.found = await outcome.acapture(
            partial(to_thread.run_sync, limiter=self._aside), _found, kept.searched, query, section
        )
        answer.there.set()
        self._answered(scope, kept)

    def _answered(self, scope: str, kept: "_Kept") -> None:
        """Let the next question have its turn, make room for what this one has read, and look ahead.

        Where room is short, a scope that was asked once may be dropped before it is asked again: that would be in vain.
        """
        kept.turn.release()
        if kept.asked > 1 or not self._is_short():
            self._look_ahead(kept)
        if self._search_scopes.get(scope) is kept:
            before, kept.nbytes = kept.nbytes, kept.searched.nbytes
            self._taken += kept.nbytes - before
            self._make_room()

    def _look_ahead(self, kept: "_Kept") -> None:
        """Have the texts of a small scope looked at; in a large one a search takes its time anyway."""
        if kept.searched.behind and not kept.ahead.locked():
            trio.lowlevel.spawn_system_task(self._looking_ahead, kept)

    async def _looking_ahead(self, kept: "_Kept") -> None:
        """Look at texts between questions."""
        async with kept.ahead:
            more = True
            while more:
                await trio.sleep(_PAUSE_S)
                async with kept.turn:
                    try:
                        if self._elsewhere is None:
                            more = await self._reading(kept.searched.look_ahead)
                        else:
                            more = await to_thread.run_sync(kept.searched.look_ahead, limiter=self._aside)
                    except DaycareError:
                        return  # whoever asks next is told

    def _kept(self, scope: str) -> "_Kept":
        """Return what is kept of a scope. Who waits for the turn of one that is dropped still asks that one."""
        from daycare.features.memory.search.search_scope import SearchScope

        kept = self._search_scopes.get(scope)
        if kept is None:
            kept = self._search_scopes[scope] = _Kept(
                SearchScope(self._elsewhere or self._rows, scope, self._model, lean=self._is_short())
            )
        self._search_scopes.move_to_end(scope)
        kept.asked += 1
        return kept

    def _make_room(self) -> None:
        """Keep nothing of the scopes that were not asked for the longest, if all take too much."""
        while len(self._search_scopes) > 1 and (
            len(self._search_scopes) > SEARCH_SCOPES_MAX or self._taken > SEARCH_MAX_BYTES
        ):
            self._taken -= self._search_scopes.popitem(last=False)[1].nbytes

    def _is_short(self) -> bool:
        """Return whether room is short: what is made now lives longer if it is lean."""
        return self._taken > SEARCH_MAX_BYTES // 2

    def _model(self) -> str:
        return self._embedding.model if self._embedding is not None else ""


def _heard(query: MemoryQuery) -> "HeardQuestion":
    """Read a question once for all scopes it goes to."""
    from daycare.features.memory.search.question import hear

    return hear(query.text, query.now_ms, query.zone)


def _found_at_hand(
    searched: "SearchScope", query: MemoryQuery, live: Live, latest: tuple[int, int]
) -> Sequence["Scored"] | None:
    """Return what is found; None where that takes more than some milliseconds, and would hold others up."""
    if searched.catch_up(latest) or searched.size > SEARCH_INLINE_ROWS or not searched.at_hand(query):
        return None
    return searched.find(query, live.now.memory.retrieval, _count(query))


def _found(searched: "SearchScope", query: MemoryQuery, section: RetrievalSection) -> Sequence["Scored"]:
    if searched.catch_up():
        searched.catch_up_all()
    return searched.find(query, section, _count(query))


def _count(query: MemoryQuery) -> int:
    wanted = AGAIN_FOLD * query.limit if query.again else query.limit
    return 2 * wanted + _SPARE  # some will say the same, or only repeat others


class _Kept:
    """What is kept of a scope, whose turn it is to ask it, and who looks at what later questions may find."""

    def __init__(self, searched: "SearchScope") -> None:
        self.searched = searched
        self.turn = trio.Semaphore(1)
        self.ahead = trio.Lock()
        self.asked = 0
        self.nbytes = 0  # of the scope when it was last asked

    @property
    def is_free(self) -> bool:
        """Whether nobody asks it, in whatever thread: until the next checkpoint the loop may."""
        return self.turn.value > 0


class _Answer:
    """What was found, once it is `there`."""

    def __init__(self) -> None:
        self.there = trio.Event()
        self.found: outcome.Outcome[Sequence[Scored]] | None = None
