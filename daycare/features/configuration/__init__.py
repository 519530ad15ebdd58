"""The configuration: shown as a form and as text, and changed without losing what somebody else wrote meanwhile."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from daycare.feature import Feature

if TYPE_CHECKING:
    import trio
    from starlette.routing import Route

    from daycare.store.home import Home


class ConfigurationFeature(Feature):
    """All of it. `reload` lets the daemon go by the file, and raises why it does not."""

    name = "configuration"

    def __init__(self, home: "Home", reload: Callable[[], Awaitable[object]]) -> None:
        self._home = home
        self._reload = reload

    def routes(self, closing: "trio.Event") -> "Sequence[Route]":
        """Return `/v1/config`."""
        from daycare.features.configuration.faces import ConfigRoutes
        from daycare.features.configuration.service import Configuration

        return ConfigRoutes(Configuration(self._home, self._reload)).routes()
