"""Dispatch of turns that need no thinking of the agent itself: who takes each of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from daycare.agent.behaviours import Behaviours, has_behaviour
from daycare.agent.steps import Aside, Thought
from daycare.store.records import Agent, InboxRow, Step, Turn, User


class TurnHandler(Protocol):
    """Takes turns of agents of its own kind."""

    async def take(
        self, agent: Agent, user: User, turn: Turn, rows: Sequence[InboxRow], steps: Sequence[Step]
    ) -> Thought | Aside | None:
        """Take a turn; None: it is somebody else's."""


@dataclass(frozen=True)
class TurnDispatch:
    """Memory workers extract facts and searches look things up; apps and the daemon's own agents run code."""

    memory: TurnHandler
    behaviours: Behaviours

    async def take(
        self, agent: Agent, user: User, turn: Turn, rows: Sequence[InboxRow], steps: Sequence[Step]
    ) -> Thought | Aside | None:
        """Take a turn; None: it is an ordinary one."""
        taken = await self.memory.take(agent, user, turn, rows, steps)
        if taken is None and has_behaviour(agent):
            return await self.behaviours.take(agent, user, turn, rows)
        return taken
