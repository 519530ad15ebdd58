"""Plugins: which there are, what each adds, how it is, and why one is left out."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daycare.api.documents import answer
from daycare.api.services import Services


class Plugins:
    """`/v1/plugins`."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def routes(self) -> list[Route]:
        """Return the route of plugins."""
        return [Route("/v1/plugins", self.find)]

    async def find(self, request: Request) -> Response:
        """List all plugins, those left out included; asks each for its health."""
        return answer({"plugins": await self._services.plugins()})
