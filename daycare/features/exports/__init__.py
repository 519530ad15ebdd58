"""Exports: agents with all that is theirs, to be taken elsewhere and brought in."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from daycare.feature import Feature

if TYPE_CHECKING:
    import trio
    from starlette.routing import Route

    from daycare.features.exports.engine import ExportEngine


class Exporting(Feature):
    """All of it."""

    name = "exports"
    uploads = ("/v1/imports",)

    def __init__(self, exports: "Callable[[], ExportEngine]") -> None:
        self._exports = exports

    def routes(self, closing: "trio.Event") -> "Sequence[Route]":
        """Return `/v1/exports`, `/v1/imports` and `/v1/clones`."""
        from daycare.features.exports.routes import ExportRoutes

        return ExportRoutes(self._exports(), closing).routes()
