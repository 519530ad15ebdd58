"""Traffic as routes; persons see what their own agents got and sent."""

from typing import Annotated

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daycare.api.callers import Caller, caller_of, persons
from daycare.api.described import described
from daycare.api.documents import Limit, Number, RequestDocument, answer, query
from daycare.api.events import check_watched
from daycare.features.traffic.records import EVERYWHERE, FoundTrace, PathScope, TraceStory, TrafficPage
from daycare.features.traffic.service import Traffic


class TrafficQuery(RequestDocument, frozen=True, kw_only=True):
    """What moved in the last seconds until a time (wall ms; now), to or from a path or `<path>/**`, below a place."""

    path: str | None = None
    last_s: Annotated[int, msgspec.Meta(ge=1, le=30 * 86_400)] = 3_600
    until_ms: Number | None = None
    before: Annotated[str, msgspec.Meta(max_length=40)] = ""
    limit: Limit = 100


class TracesQuery(RequestDocument, frozen=True, kw_only=True):
    """A message's number or key, a trace id, an agent's path, or words of an error."""

    query: Annotated[str, msgspec.Meta(min_length=1, max_length=300)]
    limit: Annotated[int, msgspec.Meta(ge=1, le=100)] = 20


class TrafficRoutes:
    """`/v1/traffic`, `/v1/traces` and `/v1/trace/{id}/spans`."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic

    def routes(self) -> list[Route]:
        """Return the routes of this file."""
        return [
            Route("/v1/traffic", self.moved),
            Route("/v1/traces", self.search),
            Route("/v1/trace/{id}/spans", self.story),
        ]

    @persons
    @described({200: TrafficPage}, query=TrafficQuery)
    async def moved(self, request: Request) -> Response:
        """Show which messages moved between agents and the outside, the newest first."""
        wish, caller = query(request, TrafficQuery), caller_of(request)
        if wish.path is not None:
            check_watched(caller, wish.path)
        page = await self._traffic.moved(
            _own(caller),
            EVERYWHERE if wish.path is None else PathScope.of(wish.path),
            last_s=wish.last_s,
            until_ms=wish.until_ms,
            before=wish.before,
            limit=wish.limit,
        )
        return answer(page)

    @persons
    @described({200: {"traces": list[FoundTrace]}}, query=TracesQuery)
    async def search(self, request: Request) -> Response:
        """Find traces by a message's number or key, a trace id, an agent's path, or words of an error."""
        wish = query(request, TracesQuery)
        return answer({"traces": await self._traffic.search(wish.query, _own(caller_of(request)), wish.limit)})

    @persons
    @described({200: TraceStory})
    async def story(self, request: Request) -> Response:
        """Show what happened to a message as stretches of time, with tokens, cost and errors."""
        return answer(await self._traffic.story(request.path_params["id"], _own(caller_of(request))))


def _own(caller: Caller) -> PathScope:
    """Return the paths that somebody sees."""
    return PathScope.of(caller.paths or f"/{caller.user}/**") if caller.own_only else EVERYWHERE
