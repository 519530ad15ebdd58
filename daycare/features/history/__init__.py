"""History: what was said with an agent, and what its models were shown, for people to read."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from daycare.feature import Feature

if TYPE_CHECKING:
    import trio
    from starlette.routing import Route

    from daycare.actors.directory import Directory
    from daycare.features.history.prompts import PromptHistory
    from daycare.store.sqlite.store import Store


class HistoryFeature(Feature):
    """All of it; `prompts` shows what models were shown."""

    name = "history"

    def __init__(self, store: "Store", directory: "Directory", prompts: "PromptHistory") -> None:
        self._store, self._directory, self._prompts = store, directory, prompts

    def routes(self, closing: "trio.Event") -> "Sequence[Route]":
        """Return `/v1/history` and `/v1/turns`."""
        from daycare.features.history.routes import HistoryRoutes

        return HistoryRoutes(self._store, self._directory, self._prompts).routes()
