"""What ranking knows of all memories of a scope: who said each when, and what was said before and after.

Parallel arrays in order of number, some 50 bytes a memory. A place is where a memory stands in them; -1 is nowhere.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from daycare.base.memories import Tier
from daycare.features.memory.embed.arrays import Bools, NDArray, Numbers, np
from daycare.features.memory.search import traits
from daycare.features.memory.search.question import called
from daycare.features.memory.store.records import MemoryShape

NOWHERE: Final = -1
TIERS: Final = (Tier.LOG, Tier.FACT, Tier.ENTITY, Tier.CHUNK)  # a code is the place in here
_CODES: Final = {tier: code for code, tier in enumerate(TIERS)}
_ENDED_BYTES: Final = 100  # that an entry of a dictionary of numbers takes, about
_SPARE: Final = 64  # rows of room in a new one
_ROOM: Final = 8  # one more for so many when it is full: many people have some thousand each

Places = NDArray[np.int32]


class SearchLimits(NamedTuple):
    """Which memories may be found: of these tiers, said from `since_ms` until before `until_ms`.

    Facts that held only before `now_ms` are left out, with None they are not. Passages of documents are those that all
    share and those of `agent_id`. Of what was said in the agent's session `shown[0]` only turns up to `shown[1]` are
    found. `under` is the root of a subtree of agents. `among` says of each place whether it is one to choose from.
    """

    tiers: Sequence[Tier] = TIERS
    since_ms: int | None = None
    until_ms: int | None = None
    now_ms: int | None = None
    agent_id: str = ""
    shown: tuple[int, int] | None = None
    under: str = ""
    among: Bools | None = None


class Structure:
    """The structure of one scope. Not to be changed while it is read."""

    def __init__(self, shapes: Sequence[MemoryShape] = ()) -> None:
        self.size = 0
        self.removed = 0
        self.speakers: list[str] = []  # a code is the place in here
        self.called: dict[str, frozenset[int]] = {}
        self._speaker_codes: dict[str, int] = {}
        self._agents: dict[str, int] = {}
        self._paths: list[str] = []
        self._sessions: dict[tuple[int, int], int] = {}
        self._last: list[int] = []  # by session: the place of what was said last
        self._until_ms: dict[int, int] = {}  # by place, of a fact that holds no longer
        self._owner = np.empty(0, np.int32)  # by session: the code of its agent
        self._numbers = np.empty(_SPARE, np.int64)
        self._at_ms = np.empty(_SPARE, np.int64)
        self._turns = np.empty(_SPARE, np.int64)
        self._session = np.empty(_SPARE, np.int32)
        self._speaker = np.empty(_SPARE, np.int32)
        self._before = np.full(_SPARE, NOWHERE, np.int32)
        self._after = np.full(_SPARE, NOWHERE, np.int32)
        self._anchor = np.empty(_SPARE, np.int32)
        self._tier = np.empty(_SPARE, np.int8)
        self._living = np.empty(_SPARE, np.bool_)
        self._traits = np.empty(_SPARE, np.uint16)
        self._arrays_bytes = sum(array.nbytes for _, array in self._arrays())
        self.append(shapes)

    # -- what is there -----------------------------------------------------------------------------------------------

    @property
    def numbers(self) -> Numbers:
        """The memories' numbers, rising."""
        return self._numbers[: self.size]

    @property
    def at_ms(self) -> Numbers:
        """When each was said."""
        return self._at_ms[: self.size]

    @property
    def session(self) -> Places:
        """The code of the conversation of each."""
        return self._session[: self.size]

    @property
    def speaker(self) -> Places:
        """The code of who said each."""
        return self._speaker[: self.size]

    @property
    def before(self) -> Places:
        """Where what was said before each in the same conversation is; with one more row, for `NOWHERE`."""
        return self._before[: self.size + 1]

    @property
    def after(self) -> Places:
        """Where what was said after each in the same conversation is; with one more row, for `NOWHERE`."""
        return self._after[: self.size + 1]

    @property
    def anchor(self) -> Places:
        """Where the words that each comes from are: of a log entry itself, of what was learned its first source."""
        return self._anchor[: self.size]

    @property
    def tier(self) -> NDArray[np.int8]:
        """The code of each tier."""
        return self._tier[: self.size]

    @property
    def traits(self) -> NDArray[np.uint16]:
        """What the text of each is like, 0 where nobody has looked at it."""
        return self._traits[: self.size]

    @property
    def living(self) -> int:
        """How many memories there are."""
        return self.size - self.removed

    @property
    def nbytes(self) -> int:
        """How much memory the arrays take."""
        return len(self._until_ms) * _ENDED_BYTES + self._arrays_bytes + self._owner.nbytes

    @property
    def sessions(self) -> int:
        """How many conversations there are."""
        return len(self._last)

    def sought(self, numbers: Numbers) -> tuple[Numbers, Bools]:
        """Return where memories are, those that are not there left out, and of each number whether it is there."""
        if not self.size or not len(numbers):
            return np.empty(0, np.int64), np.zeros(len(numbers), np.bool_)
        first = self._numbers[0]
        if self._numbers[self.size - 1] - first == self.size - 1:  # no number is left out
            at = numbers - first
            there = (at >= 0) & (at < self.size)
        elif (begin := self.row(numbers)) is not None:
            at = np.arange(begin, begin + len(numbers))
            there = np.ones(len(numbers), np.bool_)
        else:
            at = np.searchsorted(self.numbers, numbers)
            there = self._numbers[np.minimum(at, self.size - 1)] == numbers
        if self.removed:
            there[there] = self._living[at[there]]
        return at if there.all() else at[there], there

    def row(self, numbers: Numbers) -> int | None:
        """Return where numbers begin that stand beside each other: those of a small block of vectors nearly always."""
        if not self.size or not len(numbers):
            return None
        begin = int(np.searchsorted(self.numbers, numbers[0]))
        end = begin + len(numbers)
        beside = end <= self.size and self._numbers[end - 1] == numbers[-1]
        return begin if beside and (self._numbers[begin:end] == numbers).all() else None

    def places(self, numbers: Numbers) -> Numbers:
        """Return where memories are; those that are not there are left out."""
        return self.sought(numbers)[0]

    def speaker_code(self, name: str) -> int | None:
        """Return the code of a speaker, None if nothing of them is there."""
        return self._speaker_codes.get(name)

    def among(self, numbers: Sequence[int]) -> Bools:
        """Return of each place whether the memory there is one of these."""
        found = np.zeros(self.size, np.bool_)
        found[self.places(np.array(numbers, np.int64))] = True
        return found

    def admits(self, places: Numbers | slice, limits: SearchLimits) -> Bools:
        """Return which of these memories may be found. (Slices copy nothing.)"""
        tier = self._tier[places]
        found: Bools = np.array([each in limits.tiers for each in TIERS])[tier]
        if self.removed:
            found &= self._living[places]
        own = self._agents.get(limits.agent_id, NOWHERE)
        if Tier.CHUNK in limits.tiers:
            agent = self._owner[self._session[places]]
            found &= (tier != _CODES[Tier.CHUNK]) | (agent == own) | (agent == self._agents.get("", NOWHERE))
        if limits.since_ms is not None:
            found &= self._at_ms[places] >= limits.since_ms
        if limits.until_ms is not None:
            found &= self._at_ms[places] < limits.until_ms
        if limits.now_ms is not None:
            ended = [place for place, until_ms in self._until_ms.items() if until_ms <= limits.now_ms]
            if ended:
                holds = np.ones(self.size, np.bool_)
                holds[ended] = False
                found &= holds[places]
        if limits.among is not None:
            found &= limits.among[places]
        if limits.under:
            inside = [f"{path}/".startswith(f"{limits.under}/") for path in self._paths]
            found &= np.array(inside, np.bool_)[self._owner[self._session[places]]]
        if limits.shown is not None:
            session = self._sessions.get((own, limits.shown[0]), NOWHERE)
            found &= (self._session[places] != session) | (tier > 0) | (self._turns[places] <= limits.shown[1])
        return found

    # -- changes -----------------------------------------------------------------------------------------------------

    def append(self, shapes: Sequence[MemoryShape]) -> None:
        """Add memories with higher numbers than those that are there, in order of number."""
        if not shapes:
            return
        assert not self.size or shapes[0].no > self._numbers[self.size - 1], "memories out of order"
        begin, end = self.size, self.size + len(shapes)
        self._reserve(end)
        new = slice(begin, end)
        self._numbers[new] = [shape.no for shape in shapes]
        self._at_ms[new] = [shape.at_ms for shape in shapes]
        self._turns[new] = [shape.turn for shape in shapes]
        self._until_ms |= {
            place: shape.until_ms for place, shape in enumerate(shapes, begin) if shape.until_ms is not None
        }
        self._tier[new] = [_CODES[shape.tier] for shape in shapes]
        agents = _codes(self._agents, [shape.agent_id for shape in shapes])
        self._speaker[new] = _codes(self._speaker_codes, [shape.speaker for shape in shapes])
        self._session[new] = _codes(self._sessions, zip(agents, [shape.session for shape in shapes], strict=True))
        self._know(shapes)
        self._living[new] = True
        self._traits[new] = 0
        self.size = end
        self._chain(begin)
        self._tie(begin, shapes)

    def look(self, texts: Mapping[int, str]) -> None:
        """Note what the texts of memories, by number, are like."""
        for no, text in texts.items():
            place = int(np.searchsorted(self.numbers, no))
            if place < self.size and self._numbers[place] == no and self._living[place]:
                self._traits[place] = traits.of(text)

    def renew(self, numbers: Sequence[int], shapes: Sequence[MemoryShape]) -> None:
        """Take in that memories were changed or deleted: `shapes` are of those of them that are still there."""
        places = self.places(np.sort(np.asarray(numbers, np.int64)))
        self._traits[places] = 0
        self._living[places] = False
        still = {shape.no: shape.until_ms for shape in shapes}
        there = places[np.isin(self._numbers[places], list(still))]
        self._living[there] = True
        self.removed += len(places) - len(there)
        for place in places.tolist():
            until_ms = still.get(int(self._numbers[place]))
            if until_ms is None:
                self._until_ms.pop(place, None)
            else:
                self._until_ms[place] = until_ms
        if len(there) < len(places):  # what was learned from words that are gone speaks for them
            tied = np.flatnonzero(self._anchor[: self.size] != NOWHERE)
            self._anchor[tied[~self._living[self._anchor[tied]]]] = NOWHERE

    # -- inside ------------------------------------------------------------------------------------------------------

    def _chain(self, begin: int) -> None:
        """Tie what was said from `begin` on to what was said before it in the same conversation."""
        self._before[begin : self.size + 1] = self._after[begin : self.size + 1] = NOWHERE
        self._anchor[begin : self.size] = NOWHERE
        last, log = self._last, _CODES[Tier.LOG]
        tiers, sessions = self._tier[begin : self.size].tolist(), self._session[begin : self.size].tolist()
        for place, (tier, session) in enumerate(zip(tiers, sessions, strict=True), begin):  # mostly one or two
            if tier == log:
                before, last[session] = last[session], place
                self._anchor[place] = place
                self._before[place] = before
                if before != NOWHERE:
                    self._after[before] = place

    def _tie(self, begin: int, shapes: Sequence[MemoryShape]) -> None:
        """Tie facts from `begin` on to the words that they come from. An entity comes from many."""
        facts = np.array([place for place, shape in enumerate(shapes, begin) if shape.tier is Tier.FACT], np.int64)
        if not len(facts):
            return
        logs = np.flatnonzero((self._tier[: self.size] == _CODES[Tier.LOG]) & self._living[: self.size])
        logs = logs[np.argsort(self._turns[logs], kind="stable")]
        turns = self._turns[logs]
        at = np.searchsorted(turns, self._turns[facts])
        known = at < len(logs)
        known[known] = turns[at[known]] == self._turns[facts[known]]
        self._anchor[facts[known]] = logs[at[known]]

    def _know(self, shapes: Sequence[MemoryShape]) -> None:
        """Take in what else is known of agents, speakers and conversations that have a code since now."""
        if len(self._paths) < len(self._agents):
            paths = {shape.agent_id: shape.path for shape in reversed(shapes)}
            self._paths += [paths[agent_id] for agent_id in [*self._agents][len(self._paths) :]]
        if len(self.speakers) < len(self._speaker_codes):
            self.speakers = [*self._speaker_codes]
            self.called = called(self.speakers)
        if len(self._last) < len(self._sessions):
            self._owner = np.array([agent for agent, _ in self._sessions], np.int32)
            self._last += [NOWHERE] * (len(self._sessions) - len(self._last))

    def _reserve(self, total: int) -> None:
        if total < len(self._numbers):  # neighbours have a row more
            return
        room = max(total + 1, len(self._numbers) + max(_SPARE, len(self._numbers) // _ROOM))
        for name, array in self._arrays():
            setattr(self, name, _grown(array, self.size, room))
        self._arrays_bytes = sum(array.nbytes for _, array in self._arrays())

    def _arrays(self) -> list[tuple[str, NDArray[Any]]]:
        """Return what has a row for each memory, by name."""
        found = [(name, it) for name, it in vars(self).items() if isinstance(it, np.ndarray)]
        return [(name, array) for name, array in found if array is not self._owner]


def _codes(known: dict[Any, int], keys: Iterable[Any]) -> list[int]:
    """Return the code of each key; a new one gets the next."""
    return [known.setdefault(key, len(known)) for key in keys]


def _grown(array: NDArray[Any], size: int, room: int) -> NDArray[Any]:
    larger = np.empty(room, array.dtype)
    larger[: size + 1] = array[: size + 1]
    return larger
