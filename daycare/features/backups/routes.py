"""Backups: made on demand and fetched once, and those that the schedule has made."""

from typing import Annotated

import msgspec
import trio
from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import Route

from daycare.api.callers import May, caller_of
from daycare.api.described import BYTES, MediaBody, described
from daycare.api.documents import RequestDocument, answer, body, segment
from daycare.api.errors import NotAllowedError
from daycare.api.working import LINES, Working
from daycare.base.limits import SECRET_MAX_CHARS
from daycare.base.secrecy import hide
from daycare.features.backups.archive import BackupManifest
from daycare.features.backups.backup_store import StoredBackup
from daycare.features.backups.engine import BackupReport, Backups
from daycare.features.backups.making import BackupProgress


class NewBackup(RequestDocument, frozen=True, kw_only=True):
    """`key`: with the key file, which opens the stored secrets."""

    key: bool = False


class VerifyBackup(RequestDocument, frozen=True, kw_only=True):
    """Which one; `passphrase` is for one that was encrypted with another than the schedule's."""

    name: str
    passphrase: Annotated[str, msgspec.Meta(max_length=SECRET_MAX_CHARS)] = ""


class BackupRoutes:
    """`/v1/backups`. `closing` ends what runs."""

    def __init__(self, backups: Backups, closing: trio.Event) -> None:
        self._backups = backups
        self._closing = closing

    def routes(self) -> list[Route]:
        """Return the routes of this file."""
        return [
            Route("/v1/backups", self.find),
            Route("/v1/backups", self.make, methods=["POST"]),
            Route("/v1/backups/verify", self.verify, methods=["POST"]),
            Route("/v1/backups/files/{name}", self.download),
            Route("/v1/backups/{id}", self.fetch),
        ]

    @described({200: {"backups": list[StoredBackup], "folder": str, "every": str, "late": bool, "told": str}})
    async def find(self, request: Request) -> Response:
        """List those in the schedule's folder, the newest first, and say whether one is late."""
        how = self._backups.finding()
        found = {"backups": await self._backups.stored(), "folder": str(self._backups.folder)}
        return answer({**found, "every": self._backups.section.every, "late": not how.ok, "told": how.text})

    @described({200: {"name": str, "manifest": BackupManifest}}, body=VerifyBackup)
    async def verify(self, request: Request) -> Response:
        """Read all of one again, and tell what is in it."""
        wish = await body(request, VerifyBackup)
        if wish.passphrase:
            hide(wish.passphrase)
        return answer({"name": wish.name, "manifest": await self._backups.verify(wish.name, wish.passphrase)})

    @described({200: BYTES})
    async def download(self, request: Request) -> Response:
        """Give one of them away, as often as it is asked for; not to who may only read: it is all there is."""
        if caller_of(request).may is not May.OPERATOR:
            raise NotAllowedError("CALLER_REFUSED", "downloading a backup: this token may only read")
        file = self._backups.file_of(segment(request, "name", str))
        headers = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}
        return FileResponse(file, media_type=BYTES.type, filename=file.name, headers=headers)

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
