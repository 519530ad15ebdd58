"""The directory: which agent lives at a path, and how one comes into being."""

from collections.abc import Collection
from typing import Final

from msgspec.structs import replace

from daycare.base.errors import ConflictError, ForbiddenError, NotFoundError
from daycare.base.ids import new_agent_id
from daycare.base.limits import HELPER_LEVELS_MAX
from daycare.base.messages import Envelope, Origin
from daycare.base.path import FOREGROUND, PEOPLES, FetchPolicy, Kind, Path, fetch
from daycare.store.records import Agent, AgentConfig, Commit, NewAgent
from daycare.store.sqlite.store import Store

DIRECTORY_MAX_AGENTS: Final = 4_096  # agents kept decoded in memory, about 4 MB
AGENTS_LISTED_MAX: Final = 200  # of one user, for a model to read: some 4,000 tokens


class Directory:
    """Resolves paths and ids to agents, remembering the recent ones; `forget` is called for every changed row.

    `connectors` are the names registered now: only text from outside is parsed against them, stored rows are not.
    What an agent may do is asked elsewhere: in `Router` and `Helpers`.
    """

    def __init__(self, store: Store, connectors: Collection[str]) -> None:
        self._store = store
        self._connectors = connectors
        self._by_id: dict[str, Agent] = {}
        self._by_path: dict[str, str] = {}
        self._changes = 0  # of rows

    def parse(self, text: str) -> Path:
        """Read an address from outside; raises `InvalidError` saying what was expected."""
        return Path.parse(text, self._connectors)

    async def find(self, path: str) -> Agent | None:
        """Return the living or parked agent at a path."""
        known = self._by_path.get(path)
        if known is not None:
            return self._by_id[known]
        before = self._changes
        agent = await self._store.agents.at(path)
        return self._remember(agent, before) if agent else None

    async def at(self, path: str) -> Agent:
        """Return the agent at a path; raises `NotFoundError`."""
        agent = await self.find(path)
        if agent is None:
            raise NotFoundError("AGENT_UNKNOWN", f"looking up {path}: no such agent", hint="daycare agents")
        return agent

    async def last(self, path: str) -> Agent:
        """Return the agent at a path, else the one that has ended there last; raises `NotFoundError`."""
        agent = await self._store.agents.last(path)
        return agent if agent is not None and agent.state == "dead" else await self.at(path)

    async def of_user(self, path: str, user: str) -> Agent:
        """Return the agent at a path if it is of `user`: until there are rules, others' are out of reach."""
        agent = await self.at(path)
        if agent.user != user:
            raise ForbiddenError(
                "OTHER_USER", f"reaching {path}: it belongs to another user", hint="only agents of one's own answer"
            )
        return agent

    def known(self, agent_id: str) -> Agent | None:
        """Return an incarnation that is remembered: as it is now, without asking the store."""
        return self._by_id.get(agent_id)

    async def get(self, agent_id: str) -> Agent:
        """Return one incarnation by id, dead or not; raises `NotFoundError`."""
        if (known := self.known(agent_id)) is not None:
            return known
        before = self._changes
        agent = await self._store.agents.get(agent_id)
        if agent is None:
            raise NotFoundError("AGENT_UNKNOWN", f"no agent has the id {agent_id}", hint="daycare agents")
        return self._remember(agent, before)

    async def create(self, path: Path, *, origin: Origin, config: AgentConfig | None = None) -> Agent:
        """Create the agent of a root path, or return the one that lives there."""
        # Not remembered: the row may have changed again in the same commit, which was announced before this returns.
        return await self._store.agents.create(self.new(path, origin=origin, config=config))

    async def spawn(self, parent: Agent, kind: Kind, *, origin: Origin, config: AgentConfig | None = None) -> Agent:
        """Create `<parent>/sub/<n>` or `<parent>/search/<n>` under the parent's next index, or `<parent>/memory`."""
        if kind is Kind.MEMORY:
            path = Path.stored(parent.path, Kind(parent.kind)).memory()
            return await self._store.agents.create(self.new(path, origin=origin, config=config, parent=parent.id))
        new = self._child(parent, kind, origin=origin, config=config)
        return await self._store.agents.create_child(parent.id, "sub" if kind is Kind.SUB else "search", new)

    async def help(self, parent: Agent, config: AgentConfig, born: str, task: Envelope, kind: Kind = Kind.SUB) -> Agent:
        """Create a helper, or a search, with its task, once for each `born`; `task.to` becomes its path."""
        new = replace(self._child(parent, kind, origin=Origin.AGENT, config=config), born=born)
        return await self._store.agents.spawn(parent, "sub" if kind is Kind.SUB else "search", new, task)

    def _child(self, parent: Agent, kind: Kind, *, origin: Origin, config: AgentConfig | None) -> NewAgent:
        path = Path.stored(parent.path, Kind(parent.kind))
        if kind is Kind.SUB and path.sub_levels >= HELPER_LEVELS_MAX:
            raise ConflictError(
                "HELPER_LEVELS_MAX",
                f"making a helper of {parent.path}: helpers of helpers go {HELPER_LEVELS_MAX} levels deep",
                hint="do it without one",
            )
        child = path.sub(0) if kind is Kind.SUB else path.search(0)  # refuses what may have no children
        return NewAgent(
            id=new_agent_id(),
            path=parent.path,
            kind=child.kind,
            role=child.role,
            user=parent.user,
            origin=origin,
            config=config or AgentConfig(),
        )

    async def all_of(self, user: str) -> list[Agent]:
        """Return a user's living agents, in order of path, so many that a model can read of them."""
        return await self._store.agents.find(user=user, limit=AGENTS_LISTED_MAX)

    async def fetch(self, strategy: FetchPolicy, user: str) -> list[Agent]:
        """Return those of a user's agents that people talk with and a fetch strategy names, the most recent first."""
        kinds = FOREGROUND if strategy is FetchPolicy.MOST_RECENT_FOREGROUND else PEOPLES
        found = [pair for kind in kinds for pair in await self._store.agents.recency(user, kind)]
        agents = {agent.path: agent for agent, _ in found}
        candidates = [(Path.stored(agent.path, Kind(agent.kind)), recency) for agent, recency in found]
        return [agents[str(path)] for path in fetch(strategy, user, candidates)]

    def committed(self, commit: Commit) -> None:
        """Drop what is remembered of agents whose rows a commit changed."""
        self.forget(commit.agents)

    def forget(self, agent_ids: Collection[str]) -> None:
        """Drop what is remembered of agents."""
        for agent_id in agent_ids:
            self._changes += 1
            agent = self._by_id.pop(agent_id, None)
            if agent is not None:
                self._by_path.pop(agent.path, None)

    def new(
        self, path: Path, *, origin: Origin, config: AgentConfig | None = None, parent: str | None = None
    ) -> NewAgent:
        """Describe the agent that a path calls for. A sub-user's is their own, though its path is their owner's."""
        return NewAgent(
            path=str(path),
            kind=path.kind,
            role=path.role,
            user=path.name if path.kind is Kind.SUBUSER else path.user,
            origin=origin,
            parent=parent,
            config=config or AgentConfig(),
        )

    def _remember(self, agent: Agent, before: int) -> Agent:
        if before != self._changes:  # while it was read: it may be another by now
            return agent
        if len(self._by_id) >= DIRECTORY_MAX_AGENTS:
            self._by_id.clear()
            self._by_path.clear()
        self._by_id[agent.id] = agent
        if agent.state != "dead":
            self._by_path[agent.path] = agent.id
        return agent
