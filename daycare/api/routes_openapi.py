"""`/v1/openapi.json`: what the API has, for programs."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec
import trio
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from daycare.api.callers import deciders
from daycare.api.described import described

_JSON: Final = "application/json"


class OpenApiRoutes:
    """The document about `routes`, made when it is asked for first: it is large, and most daemons are never asked.

    It says nothing of what an installation holds, so whoever has a token may read all of it.
    """

    def __init__(self, routes: Iterable[BaseRoute]) -> None:
        self._routes = routes
        self._made = b""
        self._making = trio.Lock()

    def routes(self) -> list[Route]:
        """Return the route of this file."""
        return [Route("/v1/openapi.json", self.show)]

    @deciders
    @described({200: {"openapi": str, "paths": dict[str, Any]}})
    async def show(self, request: Request) -> Response:
        """Return this description of all routes, as OpenAPI 3.1."""
        async with self._making:
            if not self._made:
                self._made = await trio.to_thread.run_sync(self._make)
        return Response(self._made, media_type=_JSON)

    def _make(self) -> bytes:
        from daycare.api.openapi import document  # a daemon that nobody asks never reads it

        return msgspec.json.encode(document(self._routes))
