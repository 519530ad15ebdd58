"""What memory brings back for a turn: the lines and passages that stand in its prompt, and what the journal keeps."""

from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

from daycare.agent.sections import Excerpts
from daycare.base.messages import Envelope, Origin
from daycare.store.records import Agent, InboxRow, Receipt, Step, Turn, User


class RecalledMemory(Protocol):
    """A memory, as far as a turn's journal tells of it."""

    @property
    def no(self) -> int:
        """Its number."""
        ...

    @property
    def scope(self) -> str:
        """Whose it is."""
        ...

    @property
    def origin(self) -> Origin:
        """Where its words came from."""
        ...


class Recollection(msgspec.Struct, frozen=True):
    """What was recalled for a turn: blocks of lines by tier, and the memories they show with their scores.

    `excerpts` are of documents that do not stand whole in the prompt.
    """

    blocks: tuple[tuple[str, str], ...] = ()
    excerpts: Excerpts = ()
    memories: tuple[RecalledMemory, ...] = ()
    scores: tuple[float, ...] = ()

    def step(self, turn: int, number: int, at_ms: int) -> Step:
        """Return what the turn's journal keeps of it."""
        found = {"origins": self.origins}
        name = f"{len(self.memories)} memories"
        return Step(turn=turn, step=number, kind="recall", name=name, state="done", at_ms=at_ms, arguments=found)

    @property
    def origins(self) -> tuple[Origin, ...]:
        """Where their words came from, each once."""
        return tuple(sorted({memory.origin for memory in self.memories}))


NOTHING: Final = Recollection()


class Recalls(Protocol):
    """Recalls for turns. No answer waits for it longer than its deadline, and none is lost by its failure."""

    def accepted(self, envelope: Envelope, receipt: Receipt) -> None:
        """Hear what was just said."""

    async def of(self, agent: Agent, user: User, turn: Turn, rows: Sequence[InboxRow]) -> Recollection:
        """Return what fits what a turn reads."""
        ...
