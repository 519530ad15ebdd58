"""Exports and imports of agents: made, fetched, uploaded, taken in, and cloned, with a line now and then of how far."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

import trio
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from daycare.api.described import BYTES, MediaBody, described
from daycare.api.documents import RequestDocument, answer, body, segment
from daycare.api.working import LINES, Working
from daycare.base.errors import DaycareError, UnavailableError
from daycare.base.limits import EXPORT_MAX_BYTES
from daycare.features.exports.engine import ExportEngine, ExportProgress, ExportReport

EXPORT_SILENCE_S: Final = 60.0  # of a client that sends or fetches one

_REPORT: Final = {"progress?": ExportProgress, "report?": ExportReport, "error?": dict[str, Any], "status?": int}
_WORKING: Final = {200: MediaBody(LINES, _REPORT)}

_Work = Callable[[ExportProgress], Awaitable[ExportReport]]


class Export(RequestDocument, frozen=True, kw_only=True):
    """Which agent; `shared`: with what its person's agents have in common."""

    path: str
    shared: bool = False


class Import(RequestDocument, frozen=True, kw_only=True):
    """As which agent. `approve`: the operator stands behind what it says of who it is."""

    path: str
    approve: bool = False
    dry_run: bool = False


class Clone(RequestDocument, frozen=True, kw_only=True):
    """Which agent, as which other."""

    path: str
    to: str


class ExportRoutes:
    """`/v1/exports`, `/v1/imports`, `/v1/clones`. `closing` ends what runs."""

    def __init__(self, exports: ExportEngine, closing: trio.Event) -> None:
        self._exports = exports
        self._closing = closing

    def routes(self) -> list[Route]:
        """Return the routes of this file."""
        return [
            Route("/v1/exports", self.export, methods=["POST"]),
            Route("/v1/exports/{id}", self.fetch),
            Route("/v1/imports", self.upload, methods=["POST"]),
            Route("/v1/imports/{id}", self.bring, methods=["POST"]),
            Route("/v1/clones", self.clone, methods=["POST"]),
        ]

    @described(_WORKING, body=Export, refuses=(409,))
    async def export(self, request: Request) -> Response:
        """Make an export, to be fetched by the id in its report."""
        wish = await body(request, Export)
        return self._working(lambda progress: self._exports.export(wish.path, shared=wish.shared, progress=progress))

    @described({200: MediaBody("application/gzip")})
    async def fetch(self, request: Request) -> Response:
        """Give the bytes of an export, once."""
        export_id = segment(request, "id", str)
        size = self._exports.size_of(export_id)
        headers = {"Content-Length": str(size), "X-Content-Type-Options": "nosniff"}
        return StreamingResponse(self._exports.fetch(export_id), media_type="application/gzip", headers=headers)

    @described({201: {"id": str, "bytes": int}}, body=BYTES)
    async def upload(self, request: Request) -> Response:
        """Keep the body, an export, to be imported by its id."""
        pieces = _pieces(request)
        try:
            upload_id, size = await self._exports.receive(pieces)
        except DaycareError:
            left = EXPORT_MAX_BYTES  # unread, the rest would hold up the answer
            async for piece in pieces:
                left -= len(piece)
                if left < 0:
                    break
            raise
        return answer({"id": upload_id, "bytes": size}, 201)

    @described(_WORKING, body=Import, refuses=(409,))
    async def bring(self, request: Request) -> Response:
        """Import what was uploaded, or only check it."""
        upload_id = segment(request, "id", str)
        wish = await body(request, Import)
        return self._working(
            lambda progress: self._exports.bring(
                upload_id, wish.path, approve=wish.approve, dry_run=wish.dry_run, progress=progress
            )
        )

    @described(_WORKING, body=Clone, refuses=(409,))
    async def clone(self, request: Request) -> Response:
        """Make an agent like another one."""
        wish = await body(request, Clone)
        return self._working(lambda progress: self._exports.clone(wish.path, wish.to, progress=progress))

    def _working(self, work: _Work) -> Response:
        return Working(work, ExportProgress(), self._closing)


async def _pieces(request: Request) -> AsyncIterator[bytes]:
    stream = request.stream()
    while True:
        try:
            with trio.fail_after(EXPORT_SILENCE_S):
                piece = await anext(stream)
        except StopAsyncIteration:
            return
        except trio.TooSlowError:
            raise UnavailableError("BODY_LATE", f"reading an upload: nothing came for {EXPORT_SILENCE_S:g} s") from None
        if piece:
            yield piece
