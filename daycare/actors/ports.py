"""What the supervisor needs of the floor above, handed in from the composition root."""

from typing import NamedTuple, Protocol

from daycare.actors.lifecycle import Activation
from daycare.base.errors import BudgetError, DaycareError
from daycare.store.records import Agent, InboxRow, Turn


class TurnPort(Protocol):
    """Takes turns."""

    async def take_turn(self, agent: Agent, lane: Activation) -> None:
        """Run the lane's next turn, or go on with `lane.turn`, which is set once the turn is journaled.

        It may raise anything: the turn is then tried again.
        """
        ...


class EndingsPort(Protocol):
    """Ends turns that do not end by themselves."""

    async def stopped(self, agent: Agent, lane: Activation, reason: str) -> None:
        """Commit what a cancelled turn has done so far."""
        ...

    async def postponed(self, agent: Agent, turn: Turn, error: DaycareError) -> None:
        """Tell the person that a turn waits for a service that is away, or for what somebody has to set right."""
        ...

    async def unaffordable(self, agent: Agent, lane: Activation, error: BudgetError) -> None:
        """End a turn whose next call of a model no budget allows, and tell its senders."""
        ...

    async def give_up(self, agent: Agent, lane: Activation, error: DaycareError) -> None:
        """Park a turn whose tries are used up."""
        ...

    async def parked(self, agent: Agent, reason: str) -> None:
        """Tell whoever is responsible that an agent was parked."""
        ...


class ControlPort(Protocol):
    """Carries out control messages."""

    async def obey(self, agent: Agent, lane: Activation, row: InboxRow) -> bool:
        """Carry out one; False when the agent has died of it."""
        ...

    def may_overtake(self, row: InboxRow) -> bool:
        """Return whether one can be obeyed beside a running turn: neither knows of the other."""
        ...


class LanePorts(NamedTuple):
    """What a lane does: it takes turns, ends those that do not end by themselves, and obeys."""

    turns: TurnPort
    endings: EndingsPort
    control: ControlPort
