"""The tree of agents as routes, which of them work on what; and what an agent may use and can be made of."""

from collections.abc import Iterable
from typing import Annotated, Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daycare.actors.directory import Directory
from daycare.actors.elsewhere import WorkingTurn
from daycare.actors.lifecycle import Life
from daycare.actors.permission_checks import PermissionChecks
from daycare.actors.supervisor import Supervisor
from daycare.agent.behaviours import Behaviours
from daycare.agent.blocks import one_line
from daycare.agent.personality import Personalities
from daycare.api.callers import Caller, caller_of, persons
from daycare.api.described import With, described
from daycare.api.documents import Limit, PathQuery, RequestDocument, answer, query
from daycare.base.errors import DaycareError
from daycare.base.limits import PATH_MAX_CHARS
from daycare.base.permission import TOOL
from daycare.base.scope import is_subusers
from daycare.base.tool import ready
from daycare.features.roster.records import Branch, NamedChoice, RunningTurn, ToolRight
from daycare.features.roster.rows import RosterRows
from daycare.store.records import Agent
from daycare.store.sqlite.store import Store
from daycare.tools.catalogue import Catalogue

_BUSY_MAX: Final = 20  # agents that work, and that are parked, beside a tree
_TEXT_MAX_CHARS: Final = 160  # of a message that is worked on
_DESCRIPTION_MAX_CHARS: Final = 200

_LIVING: Final = With(Agent, {"live": str})
_BUSY: Final = With(Agent, {"live": str, "works?": RunningTurn})


class TreeQuery(RequestDocument, frozen=True, kw_only=True):
    """What grows below a path ("": users), behind the path `after`; or agents by what they are called."""

    under: Annotated[str, msgspec.Meta(max_length=PATH_MAX_CHARS)] = ""
    find: Annotated[str, msgspec.Meta(max_length=200)] = ""
    after: Annotated[str, msgspec.Meta(max_length=PATH_MAX_CHARS)] = ""
    limit: Limit = 100


class TreeRoutes:
    """`/v1/agents/tree`."""

    def __init__(self, store: Store, directory: Directory, supervisor: Supervisor, behaviours: Behaviours) -> None:
        self._store, self._rows = store, store.of(RosterRows)
        self._directory, self._supervisor, self._behaviours = directory, supervisor, behaviours

    def routes(self) -> list[Route]:
        """Return the routes of this class."""
        return [Route("/v1/agents/tree", self.tree)]

    @persons
    @described(
        {200: {"nodes": [{"path": str, "below": int, "agent?": _LIVING}], "next": str, "busy": [_BUSY]}},
        query=TreeQuery,
    )
    async def tree(self, request: Request) -> Response:
        """Show a branch of the tree of agents: each agent where they fit the limit, else what grows next, counted.

        `below` counts agents that do not stand there themselves, 1,000 at most. `busy` are those that are in a turn,
        with what they work on, and those that are parked.
        """
        wish, caller = query(request, TreeQuery), caller_of(request)
        under = wish.under.rstrip("/") or (f"/{caller.user}" if caller.own_only else "")
        if caller.own_only and not f"{under}/".startswith(f"/{caller.user}/"):
            branches, more = [], ""
        elif wish.find:
            paths = await self._rows.named(wish.find, under, wish.after, wish.limit, caller.paths or "/**")
            branches, more = [Branch(path) for path in paths], paths[-1] if len(paths) == wish.limit else ""
        else:
            branches, more = await self._rows.branches(under, wish.after, wish.limit)
        seen = [each for each in branches if caller.sees(each.path)]
        if more and not caller.sees(more):
            more = ""  # a cursor is a path, too
        nodes = [await self._node(each, counted=caller.sees(f"{each.path}/**")) for each in seen]
        return answer({"nodes": nodes, "next": more, "busy": await self._busy(under, caller)})

    async def _node(self, branch: Branch, *, counted: bool) -> dict[str, Any]:
        node: dict[str, Any] = {"path": branch.path, "below": branch.below if counted else 0}
        if (agent := await self._store.agents.at(branch.path)) is not None:
            node["agent"] = self._view(agent)
        return node

    async def _busy(self, under: str, caller: Caller) -> list[dict[str, Any]]:
        inside = f"{under}/"
        found = []
        for path in await self._rows.parked(under, _BUSY_MAX):
            if caller.sees(path) and (agent := await self._store.agents.at(path)) is not None:
                found.append(self._view(agent))
        here = [
            WorkingTurn(lane.agent_id, lane.turn.turn, lane.turn.started_at, lane.turn.seqs)
            for lane in self._supervisor.awake.values()
            if lane.life is Life.IN_TURN and lane.turn is not None
        ]
        for turn in (*here, *self._supervisor.elsewhere.turns()):
            if len(found) >= 2 * _BUSY_MAX:
                break
            agent = await self._directory.get(turn.agent_id)
            if not agent.path.startswith(inside) or not caller.sees(agent.path):
                continue
            view = self._view(agent)
            text = ""
            if not (caller.own_only and is_subusers(agent.path)):  # whose conversation is theirs alone
                rows = await self._store.inbox.rows(turn.seqs)
                text = one_line(rows[0].envelope.text, _TEXT_MAX_CHARS) if rows else ""
            view["works"] = RunningTurn(turn=turn.turn, since=turn.since, text=text)
            found.append(view)
        return found

    def _view(self, agent: Agent) -> dict[str, Any]:
        view: dict[str, Any] = msgspec.to_builtins(agent)
        view["live"] = self._supervisor.life_of(agent)
        if (standing := self._behaviours.standing(agent)) is not None:
            view["behaviour"] = msgspec.to_builtins(standing)
        if (trouble := self._supervisor.failures.trouble_of(agent.id)) is not None:
            view["trouble"] = msgspec.to_builtins(trouble)
        return view


class ChoiceRoutes:
    """`/v1/agents/choices` and `/v1/agent/tools`."""

    def __init__(
        self,
        directory: Directory,
        catalogue: Catalogue,
        permissions: PermissionChecks,
        behaviours: Behaviours,
        personalities: Personalities,
    ) -> None:
        self._directory, self._catalogue, self._permissions = directory, catalogue, permissions
        self._behaviours, self._personalities = behaviours, personalities

    def routes(self) -> list[Route]:
        """Return the routes of this class."""
        return [Route("/v1/agents/choices", self.choices), Route("/v1/agent/tools", self.tools)]

    @described({200: {"personalities": list[NamedChoice], "behaviours": list[NamedChoice]}})
    async def choices(self, request: Request) -> Response:
        """List what an agent can be made of: personalities that can be read, and behaviours of apps."""
        behaviours = [
            NamedChoice(name=key, description=part.description)
            for key, part in sorted(self._behaviours.parts.items())
            if not key.startswith("/")  # the daemon's own
        ]
        return answer({"personalities": [*self._readable()], "behaviours": behaviours})

    def _readable(self) -> Iterable[NamedChoice]:
        for name in self._personalities.names():
            try:
                yield NamedChoice(name=name, description=self._personalities.get(name).description)
            except DaycareError:
                continue  # `daycare personalities` and `daycare doctor` tell

    @described({200: {"tools": list[ToolRight]}}, query=PathQuery)
    async def tools(self, request: Request) -> Response:
        """List all tools with whether an agent may use each, and why, by name."""
        agent = await self._directory.at(query(request, PathQuery).path)
        offered = {spec.name for spec in self._catalogue.specs(agent)}
        found = []
        for spec in sorted(self._catalogue.known(), key=lambda each: each.name):
            verdict = await self._permissions.may(agent.path, f"{TOOL}{spec.name}", agent.path)
            decision, reason = str(verdict.decision), verdict.reason
            if decision != "deny" and spec.name not in offered:
                decision, reason = "deny", self._why_not(spec.name, agent)
            about = one_line(spec.description, _DESCRIPTION_MAX_CHARS)
            found.append(ToolRight(name=spec.name, description=about, decision=decision, reason=reason))
        return answer({"tools": found})

    def _why_not(self, name: str, agent: Agent) -> str:
        """Return why an agent that may use a tool does not have it."""
        tool = self._catalogue.get(name)
        if tool is not None and not ready(tool):
            return "it lacks what it works with, such as a token: daycare credentials"
        return f"it is not for agents of the kind {agent.kind}, or not of use where it talks"
