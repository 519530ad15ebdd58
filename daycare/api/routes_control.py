"""The daemon itself: how it is, what happens in it, and how it ends."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any

import msgspec
import trio
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daycare.api.callers import caller_of, persons
from daycare.api.described import MediaBody, described
from daycare.api.documents import RequestDocument, answer, body
from daycare.api.events import EventsQuery, event_stream
from daycare.base.errors import ConflictError, NotFoundError
from daycare.observe.bus import Bus
from daycare.observe.spans import ours
from daycare.store.records import TraceEntry
from daycare.store.sqlite.store import Store

_SEQ_MAX_DIGITS = 18  # more do not fit a row's number


class Shutdown(RequestDocument, frozen=True, kw_only=True):
    """How and why the daemon is to end."""

    restart: bool = False
    reason: Annotated[str, msgspec.Meta(max_length=200)] = ""


class ControlRoutes:
    """`/v1/status`, `/v1/trace`, `/v1/events`, `/v1/shutdown`, `/v1/handover`, `/v1/config/reload`."""

    def __init__(
        self,
        store: Store,
        bus: Bus,
        closing: trio.Event,
        status: Callable[[], Awaitable[Mapping[str, Any]]],
        reload: Callable[[], Awaitable[object]],
        stop: Callable[[bool, str], None],
        mode: str,
    ) -> None:
        self._store = store
        self._bus = bus
        self._closing = closing
        self._status = status
        self._reload = reload
        self._stop = stop
        self._mode = mode
        self._tracing = trio.CapacityLimiter(1)  # it reads whole tables

    def routes(self) -> list[Route]:
        """Return the routes of this file."""
        return [
            Route("/v1/status", self.status),
            Route("/v1/trace/{id}", self.trace),
            Route("/v1/events", self.events),
            Route("/v1/shutdown", self.shutdown, methods=["POST"]),
            Route("/v1/handover", self.handover, methods=["POST"]),
            Route("/v1/config/reload", self.reload, methods=["POST"]),
        ]

    @described({200: {"version": str}})
    async def status(self, request: Request) -> Response:
        """Show how the daemon is."""
        return answer(await self._status())

    @persons
    @described({200: {"entries": list[TraceEntry]}})
    async def trace(self, request: Request) -> Response:
        """Show what happened to a message, by its trace id or its number; to a person what their own agents did."""
        wanted = request.path_params["id"]
        store = self._store
        trace = ours(wanted)
        if wanted.isdecimal() and len(wanted) <= _SEQ_MAX_DIGITS:
            receipt = await store.inbox.receipt(int(wanted))
            trace = receipt.trace if receipt else trace  # a trace id, too, may happen to be all digits
        entries = await trio.to_thread.run_sync(store.ledger.trace, trace, limiter=self._tracing)
        caller = caller_of(request)
        entries = [entry for entry in entries if caller.sees(entry.path)]
        if not entries:
            raise NotFoundError(
                "TRACE_UNKNOWN",
                f"tracing {wanted}: no message has this number or trace id, or it has expired",
                hint="daycare tail shows numbers and trace ids",
            )
        return answer({"entries": entries})

    @persons
    @described(
        {200: MediaBody("text/event-stream", dict[str, Any])},
        query=EventsQuery,
        headers={"last-event-id": "Serves as `after`"},
    )
    async def events(self, request: Request) -> Response:
        """Stream what happens."""
        return event_stream(request, self._bus, self._closing)

    @described({202: {"stopping": bool, "restart": bool}}, body=Shutdown)
    async def shutdown(self, request: Request) -> Response:
        """Ask for an orderly end."""
        wish = await body(request, Shutdown)
        self._stop(wish.restart, wish.reason or "asked by the API")
        return answer({"stopping": True, "restart": wish.restart}, 202)

    @described({200: {"changed": list[str], "restarted": list[str], "pending": list[str]}}, refuses=(409,))
    async def reload(self, request: Request) -> Response:
        """Reload config.toml."""
        return answer(await self._reload())

    @described({202: {"granted": bool}}, refuses=(409,))
    async def handover(self, request: Request) -> Response:
        """Give way to a `daycare run`, if this is the daemon inside of a chat."""
        if self._mode != "chat":
            raise ConflictError(
                "HANDOVER_REFUSED",
                f"handing over: this is a daycare {self._mode}, only a chat gives way",
                hint="daycare stop",
            )
        self._stop(False, "a daycare run takes over")
        return answer({"granted": True}, 202)
