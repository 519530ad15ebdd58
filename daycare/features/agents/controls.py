"""Permanent agents `/USER/agent/NAME`: what agents and people do with them: create, change, list, end, take back.

An agent that another one creates may do no more than its maker, and what its maker wants of it stands in its prompt as
a model's words. Ending one is for people: an agent can only hand them the button.
"""

from collections.abc import Container

import trio
from msgspec.structs import replace

from daycare.actors.directory import Directory
from daycare.actors.router import Router
from daycare.agent.bounds import is_as_bound
from daycare.base.clock import Clock
from daycare.base.errors import ForbiddenError, InvalidError
from daycare.base.ids import new_trace_id
from daycare.base.limits import LASTING_AGENTS_MAX
from daycare.base.messages import Origin, dismissal
from daycare.base.path import Kind, Path
from daycare.base.permission import KILL, SPAWN
from daycare.features.agents.rights import AgentGranting, WantedSettings, bound
from daycare.plugin import ToolContext
from daycare.settings import Live
from daycare.store.records import Agent
from daycare.store.sqlite.store import Store


class PermanentAgents:
    """Does it. One that has ended can be taken back for `[store] keep_days`; `awake` has the ids of agents at work."""

    def __init__(
        self,
        store: Store,
        directory: Directory,
        router: Router,
        granting: AgentGranting,
        awake: Container[str],
        clock: Clock,
        live: Live,
    ) -> None:
        self.directory = directory
        self.store = store
        self._router = router
        self._granting = granting
        self._permissions = granting.permissions
        self._awake = awake
        self._clock = clock
        self._live = live
        self._changing = trio.Lock()  # a change reads the settings before it writes them

    # -- for agents ----------------------------------------------------------------------------------------------------

    async def create_for(self, context: ToolContext, name: str, wanted: WantedSettings) -> Agent:
        """Create an agent for another one, once for each call.

        Raises `ForbiddenError` where it would not be as bound as its maker, `ConflictError`, `BusyError`.
        """
        maker = await self.directory.at(context.path)
        path = Path.agent(maker.user, name)
        await self._permissions.check(maker.path, SPAWN, str(path))
        bounds = await self._granting.bounds(maker, path, context.allowed)
        config = await self._granting.settings(bounds, wanted, maker.user)
        born = f"{maker.id}:{context.turn}:{context.step}:{context.call_id}:agent"
        new = self.directory.new(path, origin=Origin.AGENT, config=config)
        new = replace(new, born=born, by=maker.path, trace=context.trace)
        return await self.store.agents.create_permanent(new, LASTING_AGENTS_MAX)

    async def change_for(self, context: ToolContext, name: str, wanted: WantedSettings) -> Agent:
        """Change an agent that an agent has made; what a person has set up is theirs to change."""
        editor = await self.directory.at(context.path)
        async with self._changing:
            agent = await self.at(editor.user, name)
            await self._permissions.check(editor.path, SPAWN, agent.path)
            if agent.origin is not Origin.AGENT or agent.id == editor.id:
                whose = "it is yourself" if agent.id == editor.id else "a person has set it up"
                raise ForbiddenError(
                    "AGENT_OF_PERSON", f"changing {agent.path}: {whose}", hint=f"daycare agents set {agent.path}"
                )
            bounds = await self._granting.bounds(editor, Path.stored(agent.path, Kind.AGENT), context.allowed)
            if not is_as_bound(agent.config, bounds):
                raise bound(agent.path, f"{editor.path} is bound by what does not bind it")
            config = await self._granting.settings(agent.config, wanted, editor.user)
            return await self.store.agents.configure(agent.id, config, by=editor.path, trace=context.trace)

    async def to_end_for(self, context: ToolContext, name: str) -> Agent:
        """Return the agent that another one wants ended: that is for its person to do."""
        agent = await self.at(context.user, name)
        await self._permissions.check(context.path, KILL, agent.path)
        return agent

    # -- for people ----------------------------------------------------------------------------------------------------

    async def find(self, user: str) -> list[Agent]:
        """Return a user's permanent agents, in order of path."""
        return await self.store.agents.find(user=user, kinds=[Kind.AGENT], limit=LASTING_AGENTS_MAX)

    async def at(self, user: str, name: str) -> Agent:
        """Return a user's permanent agent by its name. Raises `NotFoundError`, `InvalidError`."""
        if name.startswith("/"):
            bare = name.rsplit("/", 1)[-1]
            raise InvalidError("AGENT_NAME", f"looking for {name}: give the agent's name alone", hint=bare)
        return await self.directory.at(str(Path.agent(user, name)))

    async def end(self, agent: Agent, reason: str) -> None:
        """End an agent: at once, or after what it is doing was stopped."""
        if agent.id not in self._awake:
            await self.store.agents.set_state(agent.id, "dead", reason)
            return
        await self._router.post(
            dismissal(agent.path, agent.id, agent.user, key=f"dismiss:{agent.id}", reason=reason, trace=new_trace_id())
        )

    async def restore(self, path: str) -> Agent:
        """Let an agent that has ended live again, as long as it is kept."""
        return await self.store.agents.revive(path, self._clock.now_ms() - self._live.now.store.keep_ms)
