"""Models: which there are, and whether each answers. They are asked by the kernel."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from daycare.feature import Feature

if TYPE_CHECKING:
    import trio
    from starlette.routing import Route

    from daycare.inference.pool import Pool


class Models(Feature):
    """All of it. `owner` pays for trying one."""

    name = "models to choose from"

    def __init__(self, pool: "Pool", owner: str) -> None:
        self._pool = pool
        self._owner = owner

    def routes(self, closing: "trio.Event") -> "Sequence[Route]":
        """Return `/v1/models`."""
        from daycare.features.models import routes

        return routes.ModelRoutes(self._pool, self._owner).routes()
