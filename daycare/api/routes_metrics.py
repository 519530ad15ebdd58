"""`/v1/metrics`: the numbers that `[metrics]` serves to Prometheus, for whoever may use the API."""

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daycare.api.described import MediaBody, described
from daycare.observe.metrics import CONTENT_TYPE


class Metrics:
    """`/v1/metrics`."""

    def __init__(self, metrics: Callable[[], Awaitable[str]]) -> None:
        self._metrics = metrics

    def routes(self) -> list[Route]:
        """Return the routes of this file."""
        return [Route("/v1/metrics", self.metrics)]

    @described({200: MediaBody("text/plain")})
    async def metrics(self, request: Request) -> Response:
        """Return everything that is counted and measured as Prometheus's text."""
        return Response(await self._metrics(), headers={"Content-Type": CONTENT_TYPE})
