"""Pairing: strangers are let in, or turned away."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from daycare.feature import Feature

if TYPE_CHECKING:
    import trio
    from starlette.routing import Route

    from daycare.actors.directory import Directory
    from daycare.agent.commands import Commands
    from daycare.base.clock import Clock
    from daycare.features.pairing.commands import NewcomerCommands as NewcomerCommands
    from daycare.features.pairing.newcomers import Newcomers as Newcomers
    from daycare.store.sqlite.store import Store


class PairingFeature(Feature):
    """All of it."""

    name = "pairing"

    def __init__(self, store: "Store", directory: "Directory", clock: "Clock", owner: str) -> None:
        from daycare.features.pairing.newcomers import Newcomers

        self._store = store
        self._clock = clock
        self.newcomers = Newcomers(store, directory, owner)

    def add_to(self, commands: "Commands") -> None:
        """Register the chat command."""
        from daycare.features.pairing.commands import NewcomerCommands

        NewcomerCommands(self.newcomers, self._store.people).add_to(commands)

    def routes(self, closing: "trio.Event") -> "Sequence[Route]":
        """Return `/v1/pairings`."""
        from daycare.features.pairing.routes import Pairings

        return Pairings(self.newcomers, self._store, self._clock).routes()
