"""Signals and heartbeats: what sends each signal to all agents of its user that want it, and what lets hearts beat."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from daycare.feature import Core, Feature

if TYPE_CHECKING:
    import trio
    from starlette.routing import Route

    from daycare.features.budgets.service import Budgets
    from daycare.features.memory.documents.service import Documents
    from daycare.plugin import StructTool
    from daycare.store.records import Commit


class Signals(Feature):
    """All of it. What a heart is to look at is among `documents`, and what it may cost in `budgets`."""

    name = "signals"
    roles: ClassVar = {"signals": ""}  # each node sees to its own users

    def __init__(self, core: Core, budgets: "Budgets", documents: "Documents") -> None:
        from daycare.features.signals.heartbeats import HeartbeatControls, Heartbeats
        from daycare.features.signals.service import Firing, SignalControls

        store, directory, router, bus, clock, live, may, owner = core
        self.controls = SignalControls(store, directory, clock, router.count)
        self.heartbeats = HeartbeatControls(store, budgets, clock)
        self.firing = Firing(store, directory, router, may, bus, clock, live)
        self._hearts = Heartbeats(store, router, self.heartbeats, documents, clock)
        self._owner = owner

    def tools(self) -> "Sequence[StructTool[Any]]":
        """Return the tools by which agents send and get signals."""
        from daycare.features.signals.faces import SignalTools

        return SignalTools(self.controls).tools()

    def routes(self, closing: "trio.Event") -> "Sequence[Route]":
        """Return `/v1/signals`."""
        from daycare.features.signals.faces import SignalRoutes

        return SignalRoutes(self.controls, self._owner).routes()

    def background(self) -> Mapping[str, Callable[[], Awaitable[None]]]:
        """Return what fires signals, and what lets hearts beat, until cancelled, by name."""
        return {"signals": self.firing.worker.run, "heartbeats": self._hearts.worker.run}

    def sweeps(self) -> Mapping[str, Callable[[int], Awaitable[int]]]:
        """Return what ends old signals."""
        return {"signals": self.firing.expire}

    def committed(self, commit: "Commit") -> None:
        """Something was committed that may concern signals."""
        self.firing.committed(commit)
