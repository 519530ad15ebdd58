"""Plugins: which there are, what each adds, how it is, and why one is left out."""

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daycare.api.described import described
from daycare.api.documents import answer, segment


class Plugins:
    """`/v1/plugins`."""

    def __init__(
        self, report: Callable[[], Awaitable[list[dict[str, Any]]]], restart: Callable[[str], Awaitable[object]]
    ) -> None:
        self._report = report
        self._restart = restart

    def routes(self) -> list[Route]:
        """Return the routes of plugins."""
        return [
            Route("/v1/plugins", self.find),
            Route("/v1/plugins/{name}/restart", self.restart, methods=["POST"]),
        ]

    @described({200: {"plugins": list[dict[str, Any]]}})
    async def find(self, request: Request) -> Response:
        """List all plugins, those left out included; asks each for its health."""
        return answer({"plugins": await self._report()})

    @described(
        {200: {"changed": list[str], "restarted": list[str], "pending": list[str]}},
        segments={"name": str},
        refuses=(409,),
    )
    async def restart(self, request: Request) -> Response:
        """Set a plugin up again with the settings it has, and start it; no turn that runs is ended for that."""
        return answer(await self._restart(segment(request, "name", str)))
