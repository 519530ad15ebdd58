"""Setting a home up while its daemon runs: what `daycare init` does, for who has a browser instead of a terminal."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from daycare.feature import Feature

if TYPE_CHECKING:
    import trio
    from starlette.routing import Route


class FirstSteps(Feature):
    """All of it."""

    name = "setup"

    def __init__(self, home: Path) -> None:
        self._home = home

    def routes(self, closing: "trio.Event") -> "Sequence[Route]":
        """Return `/v1/setup`."""
        from daycare.ops.first_steps.faces import SetupRoutes

        return SetupRoutes(self._home).routes()
