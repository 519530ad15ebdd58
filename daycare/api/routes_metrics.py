"""`/v1/metrics`: the numbers that `[metrics]` serves to Prometheus, for whoever may use the API."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daycare.api.services import Services
from daycare.observe.metrics import CONTENT_TYPE


class Metrics:
    """`/v1/metrics`."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def routes(self) -> list[Route]:
        """Return the routes of this file."""
        return [Route("/v1/metrics", self.metrics)]

    async def metrics(self, request: Request) -> Response:
        """Return everything that is counted and measured as Prometheus's text."""
        return Response(await self._services.metrics(), headers={"Content-Type": CONTENT_TYPE})
