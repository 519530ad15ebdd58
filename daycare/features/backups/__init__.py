"""Backups: made when they are due or asked for, and shown."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from daycare.feature import Feature

if TYPE_CHECKING:
    import trio
    from starlette.routing import Route

    from daycare.base.health import Finding
    from daycare.features.backups.engine import Backups


class BackingUp(Feature):
    """All of it."""

    name = "backup"

    def __init__(self, backups: "Backups") -> None:
        self.backups = backups

    def routes(self, closing: "trio.Event") -> "Sequence[Route]":
        """Return `/v1/backups`."""
        from daycare.features.backups.routes import BackupRoutes

        return BackupRoutes(self.backups, closing).routes()

    def background(self) -> Mapping[str, Callable[[], Awaitable[None]]]:
        """Return what makes those that are due."""
        return {"backups": self.backups.run}

    async def status(self) -> Mapping[str, Any]:
        """Return what `GET /v1/status` shows of it."""
        return await self.backups.status()

    async def findings(self) -> "Sequence[Finding]":
        """Return whether one is late."""
        return (self.backups.finding(),)
