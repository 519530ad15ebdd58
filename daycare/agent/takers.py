"""Turns that are not those of an agent who thinks for itself about what it was told, and who takes them."""

from collections.abc import Sequence
from dataclasses import dataclass

from daycare.agent.behaviours import Behaviours, has_behaviour
from daycare.agent.curator import Curator
from daycare.agent.searcher import Searcher, is_search
from daycare.agent.steps import Aside, Thought
from daycare.base.path import Kind
from daycare.store.records import Agent, InboxRow, Step, Turn, User


@dataclass(frozen=True)
class Takers:
    """Memory workers curate, searches look things up, apps and the daemon's own agents run code."""

    curator: Curator
    searcher: Searcher
    behaviours: Behaviours

    async def take(
        self, agent: Agent, user: User, turn: Turn, rows: Sequence[InboxRow], steps: Sequence[Step]
    ) -> Thought | Aside | None:
        """Take a turn; None: it is an ordinary one."""
        if agent.kind == Kind.MEMORY:
            return await self.curator.work(agent, turn, rows)
        if is_search(agent, rows):
            return await self.searcher.take(agent, user, turn, rows, steps)
        if has_behaviour(agent):
            return await self.behaviours.take(agent, user, turn, rows)
        return None
