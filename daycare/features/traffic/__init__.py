"""Traffic: which messages moved between addresses, and what happened to each: "where is my message?"."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from daycare.feature import Feature

if TYPE_CHECKING:
    import trio
    from starlette.routing import Route

    from daycare.actors.failures import Trouble
    from daycare.base.clock import Clock
    from daycare.store.sqlite.store import Store


class TrafficFeature(Feature):
    """All of it. `trouble_of` says why the open turn of an agent is not done yet."""

    name = "traffic"

    def __init__(self, store: "Store", clock: "Clock", trouble_of: "Callable[[str], Trouble | None]") -> None:
        self._store, self._clock, self._trouble_of = store, clock, trouble_of

    def routes(self, closing: "trio.Event") -> "Sequence[Route]":
        """Return `/v1/traffic`, `/v1/traces` and `/v1/trace/{id}/spans`."""
        from daycare.features.traffic.routes import TrafficRoutes
        from daycare.features.traffic.service import Traffic

        return TrafficRoutes(Traffic(self._store, self._clock, self._trouble_of)).routes()
