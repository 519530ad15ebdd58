"""The dashboard: pages in a browser that show what the daemon does, and steer it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from daycare.feature import Feature

if TYPE_CHECKING:
    import trio
    from starlette.routing import Route


class Dashboard(Feature):
    """All of it. What it takes is loaded when somebody looks."""

    name = "dashboard"

    def routes(self, closing: "trio.Event") -> "Sequence[Route]":
        """Return the pages, and what they are drawn with."""
        from daycare.features.dashboard.routes import DashboardRoutes

        return DashboardRoutes().routes()
