"""What stands between the network and the API: who calls, from which page, under which name, and how often.

On the socket nobody is asked: only its owner can open it. Over the network each request needs a token, in its header:
in a URL it would end up in logs and histories. A page in a browser reaches loopback, too, so a request has to name a
host that is ours (else a name that suddenly means 127.0.0.1 would do), and may come from no page but those in
`[api] origins`.
"""

import time
from typing import Final

import trio
from starlette.types import ASGIApp, Receive, Scope, Send

from daycare.api.callers import Caller, Callers
from daycare.api.errors import NotAllowedError, UnauthorizedError, refuse
from daycare.base.bounded import Bounded
from daycare.base.errors import BusyError, DaycareError
from daycare.settings import Live

API_WRONG_TOKENS_MAX: Final = 10  # of an address within API_WRONG_S; then wrong ones are not looked at any more
API_WRONG_S: Final = 60.0
API_CALLS_BURST: Final = 200  # of a token at once ...
API_CALLS_PER_S: Final = 50.0  # ... and for long
_ADDRESSES_MAX: Final = 10_000
_TOKENS_MAX: Final = 1_000

_LOCAL: Final = ("localhost", "127.0.0.1", "[::1]")
_BEARER: Final = "bearer "
_PREFLIGHT: Final = (
    (b"access-control-allow-methods", b"GET, POST, PUT, PATCH, DELETE"),
    (b"access-control-allow-headers", b"authorization, content-type, idempotency-key, last-event-id, traceparent"),
    (b"access-control-max-age", b"600"),
)


class NetworkGuard:
    """Lets requests of the network through to `app` for those who may call, and ends them when a token is revoked."""

    def __init__(self, app: ASGIApp, callers: Callers, live: Live) -> None:
        self._app = app
        self._callers = callers
        self._live = live
        self._wrong: Bounded[str, tuple[int, float]] = Bounded(_ADDRESSES_MAX)  # how many, and when the first
        self._calls: Bounded[str, tuple[float, float]] = Bounded(_TOKENS_MAX)  # how many are left, and when it was

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        address = (scope.get("client") or ("", 0))[0]
        origin = headers.get("origin", "")
        try:
            self._check_host(headers.get("host", ""))
            self._check_origin(origin)
            if scope["method"] == "OPTIONS" and origin:
                await _allow(origin, send)
                return
            caller = await self._caller(headers.get("authorization", ""), address)
            self._count(caller)
        except DaycareError as error:
            more = {"WWW-Authenticate": "Bearer"} if isinstance(error, UnauthorizedError) else {}
            await refuse(error, scope, receive, send, headers=more)
            return
        scope.setdefault("state", {})["caller"] = caller
        async with trio.open_nursery() as nursery:
            nursery.cancel_scope.deadline = trio.current_time() + caller.left_s
            if caller.ended is not None:
                nursery.start_soon(_cancel_when, caller.ended, nursery.cancel_scope)
            await self._app(scope, receive, _shared(origin, send) if origin else send)
            nursery.cancel_scope.cancel()

    def _check_host(self, host: str) -> None:
        name, _, port = host.rpartition(":") if not host.endswith("]") else (host, "", "")
        name = (name or port).lower()
        section = self._live.now.api
        if name not in (*_LOCAL, *(each.lower() for each in section.hosts)):
            raise NotAllowedError(
                "HOST_UNKNOWN",
                "call the API: under this host name it does not answer",
                hint='add the name to [api] hosts = ["..."] in config.toml',
            )

    def _check_origin(self, origin: str) -> None:
        if origin and origin not in self._live.now.api.origins:
            raise NotAllowedError(
                "ORIGIN_REFUSED",
                "call the API: not from a page of this origin",
                hint='add it to [api] origins = ["https://..."] in config.toml',
            )

    async def _caller(self, header: str, address: str) -> Caller:
        if not header:
            raise UnauthorizedError(
                "TOKEN_NEEDED", "call the API: without a token", hint="send one of `daycare tokens add` as bearer token"
            )
        text = header[len(_BEARER) :].strip() if header.lower().startswith(_BEARER) else ""
        caller = await self._callers.caller(text, address) if text else None
        if caller is None:
            raise self._wrong_token(address)
        return caller

    def _wrong_token(self, address: str) -> DaycareError:
        """Return what somebody is told; others at the same address, such as a proxy's, pay for nothing."""
        now = time.monotonic()
        wrong, since = self._wrong.get(address, (0, now))
        left_s = since + API_WRONG_S - now
        if left_s <= 0:
            wrong, since = 0, now
        if wrong >= API_WRONG_TOKENS_MAX:
            return BusyError(
                "TOKENS_WRONG", "call the API: too many wrong tokens came from this address", retry_after_s=left_s
            )
        self._wrong[address] = (wrong + 1, since)
        return UnauthorizedError(
            "TOKEN_WRONG", "call the API: this token opens nothing", hint="daycare tokens list; daycare tokens add"
        )

    def _count(self, caller: Caller) -> None:
        """Take one call of those that a token has; they come back with time."""
        now = time.monotonic()
        left, at = self._calls.get(caller.name, (float(API_CALLS_BURST), now))
        left = min(float(API_CALLS_BURST), left + (now - at) * API_CALLS_PER_S)
        if left < 1:
            raise BusyError(
                "API_CALLS", "call the API: too many calls with this token", retry_after_s=1 / API_CALLS_PER_S
            )
        self._calls[caller.name] = (left - 1, now)


async def _cancel_when(ended: trio.Event, scope: trio.CancelScope) -> None:
    await ended.wait()
    scope.cancel()


async def _allow(origin: str, send: Send) -> None:
    """Tell a browser that a page of this origin may call."""
    headers = [*_PREFLIGHT, (b"access-control-allow-origin", origin.encode("latin-1")), (b"vary", b"origin")]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def _shared(origin: str, send: Send) -> Send:
    """Return a `send` that lets a page of this origin read the answer."""

    async def told(message: dict[str, object]) -> None:
        if message["type"] == "http.response.start":
            headers = [*message["headers"], (b"access-control-allow-origin", origin.encode("latin-1"))]  # type: ignore[misc]
            message = {**message, "headers": [*headers, (b"vary", b"origin")]}
        await send(message)

    return told  # type: ignore[return-value]
