"""What people see and move of the daemon as a whole: its state, its events, its end, and config.toml read again."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from daycare.feature import Feature
from daycare.observe.bus import Bus
from daycare.ops.run import Run
from daycare.store.sqlite.store import Store

if TYPE_CHECKING:
    import trio
    from starlette.routing import Route


class Steering(Feature):
    """`overview` returns the whole answer of `GET /v1/status`, `reload` what came of a reading of config.toml."""

    name = "control"
    first = True

    def __init__(
        self,
        store: Store,
        bus: Bus,
        run: Run,
        overview: Callable[[], Awaitable[Mapping[str, Any]]],
        reload: Callable[[], Awaitable[object]],
    ) -> None:
        self._store = store
        self._bus = bus
        self._run = run
        self._overview = overview
        self._reload = reload

    def routes(self, closing: "trio.Event") -> "Sequence[Route]":
        """Return `/v1/status`, `/v1/events` and the like."""
        from daycare.api.routes_control import ControlRoutes

        run = self._run
        return ControlRoutes(
            self._store, self._bus, closing, self._overview, self._reload, run.stop.ask, run.mode
        ).routes()
