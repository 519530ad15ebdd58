"""Plugins: which there are, what each adds, how it is, and why one is left out."""

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daycare.api.described import described
from daycare.api.documents import answer


class Plugins:
    """`/v1/plugins`."""

    def __init__(self, report: Callable[[], Awaitable[list[dict[str, Any]]]]) -> None:
        self._report = report

    def routes(self) -> list[Route]:
        """Return the route of plugins."""
        return [Route("/v1/plugins", self.find)]

    @described({200: {"plugins": list[dict[str, Any]]}})
    async def find(self, request: Request) -> Response:
        """List all plugins, those left out included; asks each for its health."""
        return answer({"plugins": await self._report()})
