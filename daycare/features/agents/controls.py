"""Permanent agents `/USER/agent/NAME`: what agents and people do with them: create, change, list, end, take back.

An agent that another one creates may do no more than its maker, and what its maker wants of it stands in its prompt as
a model's words. Ending one is for people: an agent can only hand them the button.
"""

from collections.abc import Callable, Container, Mapping
from typing import Final

import trio
from msgspec.structs import replace

from daycare.agent.bounds import is_as_bound
from daycare.base.connector import DIRECT
from daycare.base.documents import Attribution, Layer, Place
from daycare.base.errors import ForbiddenError, InvalidError, NotFoundError
from daycare.base.ids import new_trace_id
from daycare.base.limits import LASTING_AGENTS_MAX
from daycare.base.messages import Origin, dismissal
from daycare.base.path import Kind, Path
from daycare.base.permission import KILL, SPAWN
from daycare.feature import Core
from daycare.features.agents.rights import AgentGranting, WantedSettings, bound
from daycare.features.agents.rows import FurnishedAgents
from daycare.features.agents.templates import EMPTY, AgentTemplate, template
from daycare.features.memory.documents.rows import DocumentRows
from daycare.plugin import ToolContext
from daycare.store.records import Agent, AgentConfig

_NO_BOUND: Final = 2**62  # a person may have as many agents as they like


class PermanentAgents:
    """Does it. One that has ended can be taken back for `[store] keep_days`; `may_work` says which may be at work.

    `tools` returns the names of those that an agent has.
    """

    def __init__(
        self,
        core: Core,
        granting: AgentGranting,
        may_work: Callable[[Agent], bool],
        tools: Callable[[Agent], Container[str]],
    ) -> None:
        self.directory = core.directory
        self.store = core.store
        self._router = core.router
        self._granting = granting
        self._permissions = granting.permissions
        self._may_work = may_work
        self._clock = core.clock
        self._live = core.live
        self._tools = tools
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
        if wanted.template:
            wanted = _filled(wanted, template(wanted.template))
        without = replace(bounds, workspace="", access=None)  # files are for a person to give
        config = await self._granting.settings(without, wanted, maker.user)
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

    async def make(self, path: str, of: AgentTemplate, wanted: WantedSettings, *, by: str) -> Agent:
        """Make a permanent agent of a template, with its documents, for the person `by` who stands behind them.

        Raises `InvalidError`, `NotFoundError` USER_UNKNOWN, `ConflictError` AGENT_EXISTS, `BusyError` where there are
        `LASTING_AGENTS_MAX`.
        """
        at = self.directory.parse(path)
        if at.kind is not Kind.AGENT:
            raise InvalidError("AGENT_KIND", f"creating {at}: templates are for agents", hint="/USER/agent/NAME")
        if await self.store.people.get(at.user) is None:
            raise NotFoundError("USER_UNKNOWN", f"creating {at}: no user {at.user}", hint="daycare users list")
        usual = AgentConfig(description=of.description, personality=of.personality)
        config = await self._granting.settings(usual, wanted, by)
        author = f"{DIRECT}:{by}"
        reason = f"from the template {of.name}"
        stands_behind = Attribution(origin=Origin.PERSON, author=author, approver=author, reason=reason)
        new = self.directory.new(at, origin=Origin.PERSON, config=config)
        return await self.store.of(FurnishedAgents).create(new, LASTING_AGENTS_MAX, of.documents, stands_behind)

    async def create(self, path: Path, config: AgentConfig, documents: Mapping[str, str], *, by: str) -> Agent:
        """Create an agent or an app as the person `by` has set it up. Raises `ConflictError` AGENT_EXISTS.

        An agent begins with short documents where it gets none of its own, and nobody has written any for all agents.
        """
        new = self.directory.new(path, origin=Origin.PERSON, config=config)
        first = await self._first(path.user) if path.kind is Kind.AGENT else {}
        author = f"{DIRECT}:{by}"
        who = Attribution(origin=Origin.PERSON, author=author, approver=author, reason="to begin with")
        return await self.store.of(FurnishedAgents).create(new, _NO_BOUND, first | dict(documents), who)

    async def _first(self, user: str) -> dict[str, str]:
        rows = self.store.of(DocumentRows)
        found = {}
        for name, text in template(EMPTY).documents.items():
            shared = await rows.get(Place(Layer.USER, user, name))
            everybodys = await rows.get(Place(Layer.GLOBAL, "", name))
            if shared is None and (everybodys is None or (everybodys.text or "").strip() == text.strip()):
                found[name] = text
        return found

    def lacks(self, agent: Agent, of: AgentTemplate) -> list[str]:
        """Return the tools that a template counts on and an agent does not have."""
        has = self._tools(agent)
        return [name for name in of.needs if name not in has]

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
        if not self._may_work(agent):
            await self.store.agents.set_state(agent.id, "dead", reason)
            return
        await self._router.post(
            dismissal(agent.path, agent.id, agent.user, key=f"dismiss:{agent.id}", reason=reason, trace=new_trace_id())
        )

    async def restore(self, path: str) -> Agent:
        """Let an agent that has ended live again, as long as it is kept."""
        return await self.store.agents.revive(path, self._clock.now_ms() - self._live.now.store.keep_ms)


def _filled(wanted: WantedSettings, of: AgentTemplate) -> WantedSettings:
    """Return what a maker wishes with what a template says, which are the maker's words from then on."""
    words = f"{of.words}\n\n{wanted.prompt or ''}".strip()
    description = wanted.description or of.description
    return replace(wanted, prompt=words, description=description, personality=wanted.personality or of.personality)
