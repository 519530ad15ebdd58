"""Helpers as agents make and end them: permitted, and not too many."""

from daycare.actors.directory import Directory
from daycare.actors.permits import Permits
from daycare.actors.storms import DAILY, Storms
from daycare.base.errors import BusyError
from daycare.base.messages import Envelope
from daycare.base.path import Kind
from daycare.base.permission import KILL, SPAWN
from daycare.store.records import Agent, AgentConfig


class Helpers:
    """Makes and ends them."""

    def __init__(self, directory: Directory, permits: Permits, storms: Storms) -> None:
        self._directory = directory
        self._permits = permits
        self._storms = storms

    async def help(self, parent: Agent, config: AgentConfig, born: str, task: Envelope, kind: Kind = Kind.SUB) -> Agent:
        """Create a helper, or a search, with its task, once for each `born`; `task.to` becomes its path.

        Raises `ForbiddenError` where the sender of the task may make no helpers below `parent`, and what
        `Storms.admit` raises. A root that has made too many of them today is a storm.
        """
        await self._storms.admit(task)
        try:
            if kind is Kind.SUB:
                await self._permits.check(task.sender, SPAWN, parent.path)
            return await self._directory.help(parent, config, born, task, kind)
        except BusyError as error:
            if error.code == DAILY:
                await self._storms.stop(task, error.message)
            raise

    async def to_end(self, by: str, path: str) -> Agent:
        """Return the agent at `path` that the one at `by` wants to end; raises where it may not."""
        await self._permits.check(by, KILL, path)
        return await self._directory.at(path)
