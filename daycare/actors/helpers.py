"""Helpers as agents make and end them: permitted, and not too many."""

from daycare.actors.directory import Directory
from daycare.actors.loop_guard import DAILY, LoopGuard
from daycare.actors.permission_checks import PermissionChecks
from daycare.base.errors import BusyError
from daycare.base.messages import Envelope
from daycare.base.path import Kind
from daycare.base.permission import KILL, SPAWN
from daycare.store.records import Agent, AgentConfig


class Helpers:
    """Makes and ends them."""

    def __init__(self, directory: Directory, permissions: PermissionChecks, loop_guard: LoopGuard) -> None:
        self._directory = directory
        self._permissions = permissions
        self._loop_guard = loop_guard

    async def help(self, parent: Agent, config: AgentConfig, born: str, task: Envelope, kind: Kind = Kind.SUB) -> Agent:
        """Create a helper, or a search, with its task, once for each `born`; `task.to` becomes its path.

        Raises `ForbiddenError` where the sender of the task may make no helpers below `parent`, and what
        `LoopGuard.admit` raises. A root that has made too many of them today is a storm.
        """
        await self._loop_guard.admit(task)
        try:
            if kind is Kind.SUB:
                await self._permissions.check(task.sender, SPAWN, parent.path)
            return await self._directory.help(parent, config, born, task, kind)
        except BusyError as error:
            if error.code == DAILY:
                await self._loop_guard.stop(task, error.message)
            raise

    async def to_end(self, by: str, path: str) -> Agent:
        """Return the agent at `path` that the one at `by` wants to end; raises where it may not."""
        await self._permissions.check(by, KILL, path)
        return await self._directory.at(path)
