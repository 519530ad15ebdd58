"""Templates of agents as routes: which there are, and making an agent of one."""

from typing import Annotated, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daycare.api.callers import caller_of, persons
from daycare.api.described import With, described
from daycare.api.documents import RequestDocument, answer, body
from daycare.base.limits import PATH_MAX_CHARS
from daycare.features.agents.controls import PermanentAgents
from daycare.features.agents.rights import WantedSettings
from daycare.features.agents.templates import AgentTemplate, names, template
from daycare.store.records import Agent

_TEMPLATE: Final = With(AgentTemplate, {"missing": list[str]})


class FurnishedAgentBody(RequestDocument, frozen=True, kw_only=True):
    """An agent to make of a template: /USER/agent/NAME; what is left out is as the template has it."""

    path: Annotated[str, msgspec.Meta(max_length=PATH_MAX_CHARS)]
    description: Annotated[str, msgspec.Meta(max_length=200)] | None = None
    model: Annotated[str, msgspec.Meta(max_length=200)] | None = None
    personality: Annotated[str, msgspec.Meta(max_length=64)] | None = None


class TemplateRoutes:
    """`/v1/templates`."""

    def __init__(self, agents: PermanentAgents, owner: str) -> None:
        self._agents = agents
        self._owner = owner

    def routes(self) -> list[Route]:
        """Return the routes of this class."""
        return [
            Route("/v1/templates", self.find),
            Route("/v1/templates/{name}", self.show),
            Route("/v1/templates/{name}", self.make, methods=["POST"]),
        ]

    @persons
    @described({200: {"templates": list[AgentTemplate]}})
    async def find(self, request: Request) -> Response:
        """List the templates that agents can be made of."""
        return answer({"templates": [template(name) for name in names()]})

    @persons
    @described({200: AgentTemplate})
    async def show(self, request: Request) -> Response:
        """Show a template with its documents."""
        return answer(template(request.path_params["name"]))

    @described({201: {"agent": Agent, "template": _TEMPLATE}}, body=FurnishedAgentBody, refuses=(409,))
    async def make(self, request: Request) -> Response:
        """Make an agent of a template, with its first documents; `missing` are tools it counts on and will not have."""
        wish = await body(request, FurnishedAgentBody)
        found = template(request.path_params["name"])
        caller = caller_of(request)
        wanted = WantedSettings(description=wish.description, model=wish.model, personality=wish.personality)
        by = caller.user if caller.own_only else self._owner
        agent = await self._agents.make(wish.path, found, wanted, by=by)
        missing = self._agents.lacks(agent, found)
        return answer({"agent": agent, "template": {**msgspec.to_builtins(found), "missing": missing}}, 201)
