"""Routes that are loaded when somebody asks for one of them: a daemon that only talks never needs most of them."""

from collections.abc import Callable, Sequence

import trio
from starlette.routing import BaseRoute, Router
from starlette.types import Receive, Scope, Send


class LateRoutes:
    """Adds what `load` returns to `router` once a request comes that fits none of its routes."""

    def __init__(self, router: Router, load: Callable[[], Sequence[BaseRoute]]) -> None:
        self._router = router
        self._load: Callable[[], Sequence[BaseRoute]] | None = load
        self._loading = trio.Lock()
        self._unknown = router.default
        router.default = self._asked

    async def complete(self) -> None:
        """Load them, unless they are there."""
        async with self._loading:
            if self._load is not None:
                self._router.routes.extend(await trio.to_thread.run_sync(self._load))  # imports hold the loop up
                self._load, self._router.default = None, self._unknown

    async def _asked(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.complete()
        await self._router.app(scope, receive, send)
