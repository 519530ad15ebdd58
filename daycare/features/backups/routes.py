"""Backups: made on demand, and fetched once."""

import trio
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from daycare.api.described import MediaBody, described
from daycare.api.documents import RequestDocument, body, segment
from daycare.api.working import LINES, Working
from daycare.features.backups.engine import BackupReport, Backups
from daycare.features.backups.making import BackupProgress


class NewBackup(RequestDocument, frozen=True, kw_only=True):
    """`key`: with the key file, which opens the stored secrets."""

    key: bool = False


class BackupRoutes:
    """`/v1/backups`. `closing` ends what runs."""

    def __init__(self, backups: Backups, closing: trio.Event) -> None:
        self._backups = backups
        self._closing = closing

    def routes(self) -> list[Route]:
        """Return the routes of this file."""
        return [
            Route("/v1/backups", self.make, methods=["POST"]),
            Route("/v1/backups/{id}", self.fetch),
        ]

    @described(
        {200: MediaBody(LINES, {"progress?": BackupProgress, "report?": BackupReport})}, body=NewBackup, refuses=(409,)
    )
    async def make(self, request: Request) -> Response:
        """Make one, which can be fetched for an hour."""
        wish = await body(request, NewBackup)
        return Working(
            lambda progress: self._backups.make(with_key=wish.key, progress=progress), BackupProgress(), self._closing
        )

    @described({200: MediaBody("application/gzip")})
    async def fetch(self, request: Request) -> Response:
        """Give one away."""
        backup_id = segment(request, "id", str)
        headers = {"Content-Length": str(self._backups.size_of(backup_id)), "X-Content-Type-Options": "nosniff"}
        return StreamingResponse(self._backups.fetch(backup_id), media_type="application/gzip", headers=headers)
