"""What is asked of memory and what is found: the language between search and those who use it."""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import msgspec

from daycare.base.memories import Tier
from daycare.features.memory.store.records import StoredMemory

if TYPE_CHECKING:
    from daycare.features.memory.search.question import HeardQuestion


class MemoryQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A question to the memories of one scope.

    `agent_id` asks: passages of its own documents are found beside those that all of the scope's agents share. `recent`
    are the words before the question, the oldest first; `speaker` asks. `shown` (session, turn): of this session of the
    agent only entries up to that turn are found, the later ones stand in its prompt anyway. `vector` is the question's,
    of length 1, None to search by words alone. `under` is the root of a subtree of agents. `among` are the numbers of
    the only memories to choose from, None for all. `least` is the lowest score that is wanted, None for any. `again`:
    numbers of memories that are wanted beyond the `limit`, too, if they are among the first twice as many.
    `enough_chars`: no more are wanted once the lines of those found, but for passages, have so many characters as a
    prompt shows them; None: as many as the limit allows. `heard` is the text as it was read already, None: it was not.
    """

    scope: str
    text: str
    now_ms: int
    agent_id: str = ""
    recent: Sequence[str] = ()
    speaker: str = ""
    zone: str = "UTC"
    tiers: tuple[Tier, ...] = (Tier.LOG, Tier.FACT, Tier.ENTITY)
    since_ms: int | None = None
    until_ms: int | None = None
    under: str = ""
    among: Sequence[int] | None = None
    shown: tuple[int, int] | None = None
    superseded: bool = False
    limit: int = 10
    enough_chars: int | None = None
    again: Collection[int] = ()
    least: float | None = None
    vector: Any = None
    heard: "HeardQuestion | None" = None


class MemoryHit(msgspec.Struct, frozen=True, gc=False):
    """A memory that was found, and what each of the `signals` adds to its score.

    `lines` is for who shows it: what is kept there, by time zone, is there again as long as the memory stays as it is.
    """

    memory: StoredMemory
    score: float
    signals: Sequence[str] = ()
    added: Sequence[float] = ()
    lines: dict[ZoneInfo, tuple[str, int]] = {}

    @property
    def parts(self) -> Mapping[str, float]:
        """What the signals add, by their names, without those that add nothing. Few hits are asked for it."""
        return {signal: value for signal, value in zip(self.signals, self.added, strict=True) if value}
