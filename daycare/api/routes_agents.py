"""Agents: which there are, what each has before it, how they are set up and ended."""

from typing import Annotated, Any, Final, Literal, Protocol

import msgspec
import trio
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daycare.actors.directory import Directory
from daycare.actors.failures import Trouble
from daycare.agent.behaviours import BehaviourStanding
from daycare.api.callers import caller_of, persons
from daycare.api.described import With, described
from daycare.api.documents import Limit, PathQuery, RequestDocument, answer, body, query
from daycare.api.services import Services
from daycare.base.errors import ConflictError, InvalidError, NotFoundError
from daycare.base.ids import new_trace_id
from daycare.base.messages import Message, dismissal
from daycare.base.path import Kind
from daycare.store.records import Agent, AgentConfig, InboxRow, Timer

API_DISMISS_S: Final = 5.0  # for an agent to end its turn and die

_SHOWN_ROWS = 20  # of each list that an agent's page shows

_AGENT: Final = With(Agent, {"live": str, "trouble?": Trouble, "behaviour?": BehaviourStanding})


class AgentsQuery(RequestDocument, frozen=True, kw_only=True):
    """Which agents, in the order of their paths."""

    user: str | None = None
    kind: Kind | None = None
    include_dead: bool = False
    after: str = ""
    limit: Limit = 100


FirstText = Annotated[str, msgspec.Meta(min_length=1)]


class NewAgentBody(RequestDocument, frozen=True, kw_only=True):
    """An agent to create. `documents` are texts to begin with, in place of those it would have; an app has none."""

    path: str
    config: AgentConfig = AgentConfig()
    documents: dict[Literal["SOUL.md", "STYLE.md"], FirstText] = msgspec.field(default_factory=dict)


class OneAgent(PathQuery, frozen=True, kw_only=True):
    """An agent; with `ended` also the last that has ended at this path, where nobody lives."""

    ended: bool = False


class Addressed(Protocol):
    """What knows where agents are."""

    @property
    def directory(self) -> Directory:
        """The directory."""
        ...


async def agent_at(services: Addressed, path: str) -> Agent:
    """Return the living or parked agent at a path. Raises `InvalidError` for what is no path, `NotFoundError`."""
    agent = await services.directory.find(path)  # before parsing: it may be a connector's that is gone
    if agent is None:
        services.directory.parse(path)
        agent = await services.directory.at(path)
    return agent


def agent_view(services: Services, agent: Agent) -> dict[str, Any]:
    """Return an agent with where it is in its life, and why its turn is not done yet if a try of it has failed."""
    view: dict[str, Any] = msgspec.to_builtins(agent)
    view["live"] = services.supervisor.life_of(agent)
    if (trouble := services.supervisor.failures.trouble_of(agent.id)) is not None:
        view["trouble"] = msgspec.to_builtins(trouble)
    if (standing := services.behaviours.standing(agent)) is not None:
        view["behaviour"] = msgspec.to_builtins(standing)
    return view


class AgentRoutes:
    """`/v1/agents` and `/v1/agent`."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._store = services.store
        self._configuring = trio.Lock()  # a change reads the settings before it writes them

    def routes(self) -> list[Route]:
        """Return the routes of this file."""
        return [
            Route("/v1/agents", self.find),
            Route("/v1/agents", self.create, methods=["POST"]),
            Route("/v1/agent", self.show),
            Route("/v1/agent", self.configure, methods=["PATCH"]),
            Route("/v1/agent", self.end, methods=["DELETE"]),
            Route("/v1/agent/unpark", self.unpark, methods=["POST"]),
            Route("/v1/agent/restore", self.restore, methods=["POST"]),
        ]

    @persons
    @described({200: {"agents": [_AGENT]}}, query=AgentsQuery)
    async def find(self, request: Request) -> Response:
        """List agents."""
        wish, caller = query(request, AgentsQuery), caller_of(request)
        found = await self._store.agents.find(
            user=caller.whose(wish.user),
            within=caller.paths,
            kinds=[wish.kind] if wish.kind else [],
            include_dead=wish.include_dead,
            after=wish.after,
            limit=wish.limit,
        )
        return answer({"agents": [agent_view(self._services, agent) for agent in found]})

    @described({201: _AGENT}, body=NewAgentBody, refuses=(409,))
    async def create(self, request: Request) -> Response:
        """Create a permanent agent of a user, or an app."""
        wish = await body(request, NewAgentBody)
        directory = self._services.directory
        path = directory.parse(wish.path)
        if path.kind not in (Kind.AGENT, Kind.APP):
            hint = "/USER/agent/NAME or /USER/app/NAME"
            raise InvalidError("AGENT_KIND", f"creating {path}: a {path.kind} comes into being by itself", hint=hint)
        if wish.documents and path.kind is not Kind.AGENT:
            raise InvalidError(
                "AGENT_DOCUMENTS", f"creating {path}: an app has no such documents", hint="leave them out"
            )
        config = self._services.behaviours.settings(path, wish.config)
        if await self._store.people.get(path.user) is None:
            raise NotFoundError("USER_UNKNOWN", f"creating {path}: no user {path.user}", hint="daycare users list")
        if await directory.find(str(path)) is not None:
            raise ConflictError("AGENT_EXISTS", f"creating {path}: there is one", hint=f"daycare agents show {path}")
        self._services.check(config)
        await self._services.heartbeats.check(str(path), path.kind, path.user, config)
        agent = await self._services.create(
            path, config, {str(name): text for name, text in wish.documents.items()}, by=self._services.owner
        )
        return answer(agent_view(self._services, agent), 201)

    @persons
    @described(
        {
            200: {
                "agent": _AGENT,
                "session": int,
                "waiting": list[InboxRow],
                "history": list[Message],
                "heartbeat": dict[str, Any] | None,
                "timers": list[Timer],
            }
        },
        query=OneAgent,
    )
    async def show(self, request: Request) -> Response:
        """Show one agent with what waits, what was said last, and its timers."""
        wish = query(request, OneAgent)
        caller_of(request).check_path(wish.path)
        directory = self._services.directory
        agent = await (directory.last(wish.path) if wish.ended else agent_at(self._services, wish.path))
        return answer(
            {
                "agent": agent_view(self._services, agent),
                "session": agent.session,
                "waiting": await self._store.inbox.waiting(agent.id, limit=_SHOWN_ROWS),
                "history": (await self._store.turns.history(agent.id, agent.session, _SHOWN_ROWS))[-_SHOWN_ROWS:],
                "heartbeat": await self._services.heartbeats.told(agent),
                "timers": await self._store.timers.find(agent.id, _SHOWN_ROWS),
            }
        )

    @described({200: _AGENT}, query=PathQuery, body=dict[str, Any], refuses=(409,))
    async def configure(self, request: Request) -> Response:
        """Change the settings that are given; null sets one back to its default."""
        path = query(request, PathQuery).path
        changes = await body(request, dict[str, Any])
        async with self._configuring:
            agent = await agent_at(self._services, path)
            merged = msgspec.to_builtins(agent.config) | changes
            if merged.get("behaviour", "") != agent.config.behaviour:
                raise InvalidError(
                    "AGENT_BEHAVIOUR", f"configuring {path}: what an app is made of stays", hint="create another app"
                )
            config = _config(path, {name: value for name, value in merged.items() if value is not None}, changes)
            if changes.keys() & {"personality", "permissions", "workspace"}:
                self._services.check(config)
            if "heartbeat_s" in changes:
                await self._services.heartbeats.check(agent.path, agent.kind, agent.user, config)
            agent = await self._store.agents.configure(agent.id, config)
        return answer(agent_view(self._services, agent))

    @described({200: _AGENT}, query=PathQuery)
    async def unpark(self, request: Request) -> Response:
        """Let a parked agent work again; one that is not parked stays as it is."""
        agent = await agent_at(self._services, query(request, PathQuery).path)
        if agent.state == "parked":
            agent = await self._store.agents.set_state(agent.id, "living")
            waiting = await self._store.inbox.waiting(agent.id, limit=1)
            self._services.supervisor.posted(waiting)  # wakes it, unless this process takes no turns
        return answer(agent_view(self._services, agent))

    @described({200: _AGENT}, query=PathQuery, refuses=(409,))
    async def restore(self, request: Request) -> Response:
        """Let an agent that has ended live again, as long as it is kept."""
        path = query(request, PathQuery).path
        since_ms = self._services.clock.now_ms() - self._services.live.now.store.keep_ms
        return answer(agent_view(self._services, await self._store.agents.revive(path, since_ms)))

    @described({200: _AGENT, 202: _AGENT}, query=PathQuery, refuses=(409,))
    async def end(self, request: Request) -> Response:
        """End an agent: at once, or after what it is doing was stopped. 202: it does not stop, and dies later."""
        agent = await agent_at(self._services, query(request, PathQuery).path)
        if agent.kind == Kind.SYSTEM:
            raise ConflictError("AGENT_SYSTEM", f"ending {agent.path}: the daemon needs it")
        if self._services.supervisor.may_work(agent):
            await self._dismiss(agent)
        else:
            await self._store.agents.set_state(agent.id, "dead", "ended by the operator")
        agent = await self._services.directory.get(agent.id)
        return answer(agent_view(self._services, agent), 200 if agent.state == "dead" else 202)

    async def _dismiss(self, agent: Agent) -> None:
        """Ask an awake agent to die, as nothing happens to one outside of its lane, and wait for that."""
        ends = frozenset({"agent.died", "agent.slept"})  # it is dead first, and out of its lane after that
        async with self._services.bus.subscribe(path=agent.path, types=ends) as ended:
            await self._services.router.post(
                dismissal(
                    agent.path,
                    agent.id,
                    agent.user,
                    key=f"dismiss:{agent.id}",
                    reason="ended by the operator",
                    trace=new_trace_id(),
                )
            )
            with trio.move_on_after(API_DISMISS_S):
                async for _ in ended:
                    is_dead = (await self._services.directory.get(agent.id)).state == "dead"
                    if is_dead and agent.id not in self._services.supervisor.awake:
                        return


def _config(path: str, merged: dict[str, Any], changes: dict[str, Any]) -> AgentConfig:
    unknown = changes.keys() - set(AgentConfig.__struct_fields__)
    if "budget" in unknown:
        raise InvalidError(
            "BODY_INVALID", f"configuring {path}: budget is no setting", hint=f"daycare budget set {path} --day 5usd"
        )
    try:
        if unknown:  # also one that is set to null
            raise msgspec.ValidationError(f"Object contains unknown field `{sorted(unknown)[0]}`")
        return msgspec.convert(merged, AgentConfig)
    except msgspec.ValidationError as error:
        raise InvalidError("BODY_INVALID", f"configuring {path}: {error}", hint="doc/extend/api.md") from None
