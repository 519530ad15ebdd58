"""Upkeep: how the installation is, and having what is kept no longer deleted."""

import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, Final

import msgspec
import trio
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daycare.actors.router import Router
from daycare.api.described import described
from daycare.api.documents import RequestDocument, answer, body
from daycare.api.wanted import outcome
from daycare.base.connector import DIRECT
from daycare.base.errors import UnavailableError
from daycare.base.health import Finding
from daycare.base.limits import API_WAIT_MAX_S, KEY_MAX_CHARS
from daycare.plugin import Inbound
from daycare.store.records import Receipt
from daycare.store.sqlite.store import Store

_GC: Final = "/system/gc"
_NO_ROOM: Final = "VACUUM_NO_ROOM"


class GcBody(RequestDocument, frozen=True, kw_only=True):
    """A round of `/system/gc`; with `vacuum` the database is written anew. A repeat with its key asks for it once."""

    vacuum: bool = False
    key: Annotated[str, msgspec.Meta(max_length=KEY_MAX_CHARS - 10)] = ""
    wait_s: Annotated[float, msgspec.Meta(ge=0, le=API_WAIT_MAX_S)] = 0.0


class HealthRoutes:
    """`/v1/health` and `/v1/gc`."""

    def __init__(
        self,
        health: Callable[[], Awaitable[Sequence[Finding]]],
        store: Store,
        router: Router,
        accept: Callable[[Inbound], Awaitable[Receipt]],
        owner: str,
        closing: trio.Event,
    ) -> None:
        self._health = health
        self._store = store
        self._router = router
        self._accept = accept
        self._owner = owner
        self._closing = closing

    def routes(self) -> list[Route]:
        """Return the routes of this file."""
        return [Route("/v1/health", self.health), Route("/v1/gc", self.gc, methods=["POST"])]

    @described({200: {"ok": bool, "findings": list[Finding]}})
    async def health(self, request: Request) -> Response:
        """Show how everything is."""
        found = await self._health()
        return answer({"ok": all(each.ok for each in found), "findings": found})

    @described(
        {200: {"receipt": Receipt, "text": str, "round": dict[str, Any]}, 202: {"receipt": Receipt}}, body=GcBody
    )
    async def gc(self, request: Request) -> Response:
        """Ask for a round, and wait for its result."""
        wish = await body(request, GcBody)
        receipt = await self._accept(
            Inbound(
                connector=DIRECT,
                sender=f"{DIRECT}:{self._owner}",
                key=f"gc:{wish.key or secrets.token_hex(8)}",
                text="vacuum" if wish.vacuum else "now",
                path=_GC,
            )
        )
        if wish.wait_s:
            receipt = await outcome(request, self._closing, self._router, receipt, wish.wait_s)
        if receipt.state not in ("done", "stopped"):
            return answer({"receipt": receipt}, 202)
        for row in await self._store.outbox.unread(_GC):
            if row.trace == receipt.trace or row.turn == receipt.turn:  # it is told here
                await self._store.outbox.sent([row.seq], "shown")
        kept = await self._store.behaviours.kept(receipt.agent_id)
        last = kept.value() if kept is not None else {}
        for problem in last.get("problems", ()):
            if wish.vacuum and problem["code"] == _NO_ROOM:
                raise UnavailableError(_NO_ROOM, problem["message"], hint=problem["hint"])
        return answer({"receipt": receipt, "text": receipt.result, "round": last})
