"""Agents as models: `daycare` is the caller's own, `daycare/ann/agent/scribe` the one at that path."""

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daycare.api.callers import Caller
from daycare.api.described import described
from daycare.api.documents import answer
from daycare.base.errors import NotFoundError
from daycare.base.limits import API_PAGE_MAX_ROWS
from daycare.base.wellformed import well_formed
from daycare.features.openai.speakers import Speakers, talkers
from daycare.store.sqlite.agents import Agents

MODEL: Final = "daycare"

_SHAPE: Final = {"id": str, "object": str, "created": int, "owned_by": str}


class OpenAIModelRoutes:
    """`/openai/v1/models`."""

    def __init__(self, agents: Agents, speakers: Speakers) -> None:
        self._agents = agents
        self._speakers = speakers

    def routes(self) -> list[Route]:
        """Return the routes of models."""
        return [Route("/openai/v1/models", self.find), Route("/openai/v1/models/{model:path}", self.get)]

    @talkers
    @described({200: {"object": str, "data": [_SHAPE]}})
    async def find(self, request: Request) -> Response:
        """List the agents that can be talked to, as models."""
        caller = await self._speakers.of(request)
        user = caller.user if caller.own_only else None
        agents = await self._agents.find(user=user, within=caller.paths, limit=API_PAGE_MAX_ROWS)
        models = [] if caller.paths else [_model(MODEL, 0)]
        models += [_model(f"{MODEL}{it.path}", it.created_at) for it in agents]
        return answer({"object": "list", "data": models})

    @talkers
    @described({200: _SHAPE})
    async def get(self, request: Request) -> Response:
        """Show one agent as a model."""
        caller, name = await self._speakers.of(request), request.path_params["model"]
        path = path_of(name)
        check_model(caller, path)
        if not path:
            return answer(_model(MODEL, 0))
        agent = await self._agents.at(path)
        if agent is None:
            raise _unknown(name)
        return answer(_model(name, agent.created_at))


def path_of(model: str) -> str:
    """Return the path of the agent that a model stands for, "" for the caller's own. Raises `NotFoundError`."""
    name, slash, path = model.partition("/")
    if name != MODEL or (slash and not path):
        raise _unknown(model)
    return f"/{path}" if path else ""


def check_model(caller: Caller, path: str) -> None:
    """Raise `NotFoundError` where the agent at a path, or the caller's own for "", is not for the one who calls."""
    if path or caller.paths:
        caller.check_path(path or f"/{caller.user}/**")


def _unknown(model: str) -> NotFoundError:
    what = f"looking up a model: none is called {well_formed(model[:200])}"
    return NotFoundError("MODEL_UNKNOWN", what, hint=f"{MODEL}, or {MODEL}/PATH; GET /openai/v1/models lists them")


def _model(name: str, created_ms: int) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": created_ms // 1_000, "owned_by": MODEL}
