"""Pairing: strangers who knocked are let in, or turned away."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from daycare.actors.directory import Directory
from daycare.agent.commands import Commands
from daycare.agent.newcomer_commands import NewcomerCommands
from daycare.agent.newcomers import Newcomers
from daycare.base.clock import Clock
from daycare.feature import Feature
from daycare.store.contract import Store

if TYPE_CHECKING:
    import trio
    from starlette.routing import Route


class Pairing(Feature):
    """All of it."""

    name = "pairing"

    def __init__(self, store: Store, directory: Directory, clock: Clock, owner: str) -> None:
        self._store = store
        self._clock = clock
        self.newcomers = Newcomers(store, directory, owner)

    def add_to(self, commands: Commands) -> None:
        """Register the chat command."""
        NewcomerCommands(self.newcomers, self._store.people).add_to(commands)

    def routes(self, closing: "trio.Event") -> "Sequence[Route]":
        """Return `/v1/pairings`."""
        from daycare.api.routes_pairings import Pairings

        return Pairings(self.newcomers, self._store, self._clock).routes()
