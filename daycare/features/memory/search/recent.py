"""Memories that searches have found lately, as long as the store says that they are as they were.

The same few hundred are found again and again, and a prompt shows dozens of them: reading their rows and looking at
their texts each time took a third of a search.
"""

from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from math import ceil
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from daycare.agent.blocks import one_line
from daycare.base.bounded import Bounded
from daycare.base.limits import RECALL_LINE_MAX_CHARS
from daycare.features.memory.language.word_runs import words_in
from daycare.features.memory.store.records import StoredMemory
from daycare.features.memory.store.rows import MemoryRows
from daycare.store.sqlite.store import Store

RECENT_MAX_BYTES: Final = 24 * 1024 * 1024  # of memories: what a dozen people talk about in a day
ALIKE: Final = 0.9  # of the words of two memories: then one of them is enough

_SCOPES_MAX: Final = 4_096
_ROW_BYTES: Final = 1_400  # that a memory takes without its text, about
_COPIES: Final = 3  # of a text: itself, as a line of a prompt, in the hashes of its signature


class Signature(NamedTuple):
    """Of a text how many words it has, the hashes of the first ones, and its characters as a line of a prompt.

    Two texts that share so many words share one of the first few, in whatever order all words are put. See prefix
    filtering in Bayardo, Ma and Srikant: Scaling up all pairs similarity search, WWW 2007. The order here is that of
    length, the longest first, as these are rare.
    """

    size: int
    first: tuple[int, ...]
    chars: int


class FoundMemory:
    """A memory, with what its text is compared by, and the `lines` of its hits."""

    __slots__ = ("_signature", "lines", "memory")

    def __init__(self, memory: StoredMemory) -> None:
        self.memory = memory
        self.lines: dict[ZoneInfo, tuple[str, int]] = {}
        self._signature: Signature | None = None

    @property
    def signature(self) -> Signature:
        """The signature of its text."""
        if self._signature is None:
            self._signature = _signature_of(self.memory.text)
        return self._signature

    @property
    def nbytes(self) -> int:
        """How much memory it takes, about."""
        return _ROW_BYTES + _COPIES * len(self.memory.text)


class RecentMemories:
    """Reads memories by number. What was found before is not read again unless it was changed or its scope was."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._found: OrderedDict[int, FoundMemory] = OrderedDict()  # by number, what was read last at the end
        self._taken = 0
        # Of the scopes: what the store said when they were last looked at. Nothing is found of those that are not here.
        self._states: Bounded[str, tuple[int, int]] = Bounded(_SCOPES_MAX)

    async def look(self, scopes: Sequence[str]) -> None:
        """Let go of what was changed in these scopes, or deleted, until now."""
        rows = self._store.of(MemoryRows)
        states = await rows.states(scopes)
        for scope in scopes:
            before, now = self._states.get(scope), states[scope].life
            if before == now:
                continue
            changed = None
            if before is not None and before[0] == now[0]:
                changed = await rows.reading(partial(rows.gone_since, scope, before[1]))
            for no in self._of(scope) if changed is None else changed:
                self._let_go(no)
            if self._states.get(scope) != before:
                continue  # somebody else has looked meanwhile, and perhaps at more
            self._states[scope] = now

    async def get(self, scopes: Sequence[str], numbers: Sequence[int]) -> dict[int, FoundMemory]:
        """Return those of the memories that are in these scopes, which were just looked at."""
        recent = self._found
        found: dict[int, FoundMemory] = {}
        unknown = []
        for no in numbers:
            it = recent.get(no)
            if it is None or it.memory.scope not in scopes:
                unknown.append(no)
            else:
                found[no] = it
                recent.move_to_end(no)
        if unknown:
            states = {scope: self._states.get(scope) for scope in scopes}
            for memory in await self._store.of(MemoryRows).get(scopes, unknown):
                it = found[memory.no] = FoundMemory(memory)
                state = states[memory.scope]
                if state is not None and state == self._states.get(memory.scope):  # nobody has seen a change meanwhile
                    self._let_go(memory.no)
                    recent[memory.no] = it
                    self._taken += it.nbytes
            while self._taken > RECENT_MAX_BYTES:
                self._taken -= recent.popitem(last=False)[1].nbytes
        return found

    def drop(self, scope: str) -> None:
        """Keep nothing of a scope."""
        self._states.pop(scope, None)
        for no in self._of(scope):
            self._let_go(no)

    def _of(self, scope: str) -> list[int]:
        return [no for no, it in self._found.items() if it.memory.scope == scope]

    def _let_go(self, no: int) -> None:
        if (it := self._found.pop(no, None)) is not None:
            self._taken -= it.nbytes


def _signature_of(text: str) -> Signature:
    words = words_in(text.casefold())
    size = len(words)
    shared = ceil(ALIKE * ceil(ALIKE * size))  # with the shortest text that may be alike
    first = sorted(sorted(words), key=len, reverse=True)[: size - shared + 1]
    return Signature(size, tuple(map(hash, first)), len(one_line(text, RECALL_LINE_MAX_CHARS)))
