"""Health: how everything is, for anyone who asks, and a word to the operator when something turns bad for long."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from daycare.feature import Feature

if TYPE_CHECKING:
    import trio
    from starlette.routing import Route

    from daycare.actors.router import Router
    from daycare.agent.behaviours import BehaviourPart
    from daycare.features.health.service import HEALTH as HEALTH
    from daycare.features.health.service import HealthService
    from daycare.observe.metrics import Family
    from daycare.observe.metrics import Gauge as Gauge
    from daycare.plugin import Inbound
    from daycare.store.records import Receipt
    from daycare.store.sqlite.store import Store

    Accept = Callable[[Inbound], Awaitable[Receipt]]


class Watching(Feature):
    """All of it. `accept` takes a message in."""

    name = "health"
    roles: ClassVar = {"health": ""}

    def __init__(self, store: "Store", router: "Router", accept: "Accept", health: "HealthService", owner: str) -> None:
        self._parts = (store, router, accept, owner)
        self.health = health

    def routes(self, closing: "trio.Event") -> "Sequence[Route]":
        """Return `/v1/health` and `/v1/gc`."""
        from daycare.features.health.routes import HealthRoutes

        return HealthRoutes(self.health.report, *self._parts, closing).routes()

    def background(self) -> Mapping[str, Callable[[], Awaitable[None]]]:
        """Return what watches."""
        return {"health": self.health.run}

    async def metric_families(self) -> "Sequence[Family]":
        """Return what is measured of the loop."""
        from daycare.observe.metrics import Gauge

        what = "How late the loop was at most, lately"
        return (Gauge("daycare_loop_lag_seconds", what).set(value=self.health.lag_s),)

    def behaviours(self) -> "Mapping[str, BehaviourPart]":
        """Return the agent that reports."""
        from daycare.features.health.service import HEALTH

        return {HEALTH: self.health}
