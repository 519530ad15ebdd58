"""The log, as people read it: its end, by level and words, and what is written meanwhile."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from daycare.feature import Feature

if TYPE_CHECKING:
    import trio
    from starlette.routing import Route


class LogsFeature(Feature):
    """All of it. `file` is where the log is written."""

    name = "log"

    def __init__(self, file: Path) -> None:
        self._file = file

    def routes(self, closing: "trio.Event") -> "Sequence[Route]":
        """Return `/v1/log`."""
        from daycare.features.logs.faces import LogRoutes

        return LogRoutes(self._file, closing).routes()
