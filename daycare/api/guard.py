"""What stands between the network and the API: who calls, from which page, under which name, and how often.

On the socket nobody is asked: only its owner can open it. Over the network each request needs a token in its header (in
a URL it would end up in logs and histories), the cookie of a browser that was logged in, or a ticket. A page in a
browser reaches loopback, too, so a request has to name a host that is ours (else a name that suddenly means 127.0.0.1
would do), and may come from no page but our own and those in `[api] origins`.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from hmac import compare_digest
from typing import Any, Final

import trio
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Receive, Scope, Send

from daycare.api import tickets
from daycare.api.browsers import CSRF_HEADER, csrf_of, session_in
from daycare.api.callers import READS, Caller, Callers, May
from daycare.api.connection import API_SAID_S
from daycare.api.errors import NotAllowedError, UnauthorizedError, refuse
from daycare.api.peers import Peer, Peers
from daycare.api.rates import Rates
from daycare.api.sockets import CloseCode, taken_within
from daycare.base.errors import DaycareError
from daycare.observe import log
from daycare.settings import Live

_LOCAL: Final = ("localhost", "127.0.0.1", "[::1]")
_BEARER: Final = "bearer "
_SHOWN_CHARS: Final = 200
_PREFLIGHT: Final = (
    (b"access-control-allow-methods", b"GET, POST, PUT, PATCH, DELETE"),
    (
        b"access-control-allow-headers",
        b"authorization, content-type, idempotency-key, if-match, last-event-id, traceparent,"
        b" x-daycare-conversation, x-daycare-task",
    ),
    (b"access-control-max-age", b"600"),
)
_EXPOSED: Final = ((b"access-control-expose-headers", b"etag, retry-after, traceparent"), (b"vary", b"origin"))


class NetworkGuard:
    """Lets requests of the network through to `app` for those who may call, and ends them when a token is revoked.

    The log names the token with each request that changes something. Routes that are `anybodys` need no token; all else
    that is asked of a request is asked of theirs, too.
    """

    def __init__(
        self, app: ASGIApp, callers: Callers, live: Live, peers: Peers, anybodys: Sequence[BaseRoute] = ()
    ) -> None:
        self._app = app
        self._anybodys = anybodys
        self._callers = callers
        self._live = live
        self._peers = peers
        self._rates = Rates()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or one WebSocket."""
        headers = _headers(scope)
        origin = headers.get("origin", "")
        peer = self._peers.of(scope, headers)
        try:
            self._check_peer(peer)
            self._check_host(headers.get("host", ""), scope)
            ours = self._check_origin(origin, headers.get("host", ""), peer)
            if scope.get("method") == "OPTIONS" and origin:
                await _allow(origin, send)
                return
            caller = self._stranger(scope, peer) or await self._caller(scope, headers, peer, from_us=ours)
            release = self._rates.take(caller.name)
        except DaycareError as error:
            await _refuse(error, scope, receive, send)
            return
        scope.setdefault("state", {}).update(caller=caller, peer=peer)
        told: list[int] = []
        served = False
        try:
            async with trio.open_nursery() as nursery:
                nursery.cancel_scope.deadline = trio.current_time() + caller.left_s
                if caller.ended is not None:
                    nursery.start_soon(_cancel_when, caller.ended, nursery.cancel_scope)
                await self._app(scope, receive, _noted(_shared(origin, send) if origin and not ours else send, told))
                served = True
                nursery.cancel_scope.cancel()
            if not served and scope["type"] == "websocket":
                why = {"code": CloseCode.TOKEN_ENDED, "reason": "the token has ended"}
                async with taken_within(API_SAID_S, scope["state"]["link"]):
                    await send({"type": "websocket.close", **why})
        finally:
            release()
            if scope.get("method", "GET") not in READS:
                _tell(scope, caller, peer, told)

    def _check_peer(self, peer: Peer) -> None:
        if self._peers.past_proxy(peer):
            raise NotAllowedError(
                "PROXY_PASSED",
                "call the API: not past the proxy that encrypts",
                hint='add its address to [api] trusted_proxies = ["..."] in config.toml',
            )

    def _check_host(self, host: str, scope: Scope) -> None:
        name, _, port = host.rpartition(":") if not host.endswith("]") else (host, "", "")
        name = (name or port).lower()
        here = str((scope.get("server") or ("", 0))[0])  # an address has no other owner than us
        known = (*_LOCAL, *(each.lower() for each in self._live.now.api.hosts))
        if not name or (name not in known and name.strip("[]") != here):
            raise NotAllowedError(
                "HOST_UNKNOWN",
                "call the API: under this host name it does not answer",
                hint='add the name to [api] hosts = ["..."] in config.toml',
            )

    def _check_origin(self, origin: str, host: str, peer: Peer) -> bool:
        """Return whether a page of our own asks."""
        ours = origin.lower() == f"{'https' if peer.secure else 'http'}://{host}".lower()
        if origin and not ours and origin not in self._live.now.api.origins:
            raise NotAllowedError(
                "ORIGIN_REFUSED",
                "call the API: not from a page of this origin",
                hint='add it to [api] origins = ["https://..."] in config.toml',
            )
        return ours

    def _stranger(self, scope: Scope, peer: Peer) -> Caller | None:
        """Return who calls a route that is anybody's, None for another route: somebody, with no rights."""
        if not any(route.matches(scope)[0] is Match.FULL for route in self._anybodys):
            return None
        wrong = partial(self._rates.wrong, peer.address)
        return Caller(name=f"somebody at {peer.address}", may=May.APPROVE, wrong=wrong)

    async def _caller(self, scope: Scope, headers: Mapping[str, str], peer: Peer, *, from_us: bool) -> Caller:
        """Return who calls. A token in the header counts before a ticket, and that before a cookie."""
        if header := headers.get("authorization", ""):
            text = header[len(_BEARER) :].strip() if header.lower().startswith(_BEARER) else ""
            return self._known(await self._callers.caller(text, peer.address) if text else None, peer)
        if ticket := tickets.taken(scope):
            return self._known(await self._callers.ticket_holder(ticket, scope["path"], peer.address), peer)
        if session := session_in(headers.get("cookie", "")):
            caller = self._known(await self._callers.browser(session, peer.address), peer)
            if scope["type"] == "websocket" or scope["method"] not in READS:
                _check_page(scope, headers, session, from_us=from_us)
            return caller
        raise UnauthorizedError(
            "TOKEN_NEEDED",
            "call the API: without a token",
            hint="send one of `daycare tokens add` as bearer token; `daycare web` logs a browser in",
        )

    def _known(self, caller: Caller | None, peer: Peer) -> Caller:
        if caller is None:
            wrong = UnauthorizedError(
                "TOKEN_WRONG", "call the API: this token opens nothing", hint="daycare tokens list; daycare tokens add"
            )
            raise self._rates.wrong(peer.address, wrong)
        return caller


def _check_page(scope: Scope, headers: Mapping[str, str], session: str, *, from_us: bool) -> None:
    """Refuse what a page of somebody else has made a browser send."""
    if not from_us:
        raise NotAllowedError(
            "ORIGIN_REFUSED", "call the API from a browser: this is no page of ours", hint="use a token"
        )
    sent = headers.get(CSRF_HEADER, "").encode()
    if scope["type"] == "http" and not compare_digest(sent, csrf_of(session).encode()):
        raise NotAllowedError(
            "CSRF_NEEDED",
            f"call the API from a browser: the header {CSRF_HEADER} is not right",
            hint="it is `csrf` of GET /v1/session",
        )


def _headers(scope: Scope) -> dict[str, str]:
    found: dict[str, str] = {}
    for raw, value in scope["headers"]:
        name, text = raw.decode("latin-1"), value.decode("latin-1")
        found[name] = f"{found[name]}{';' if name == 'cookie' else ','}{text}" if name in found else text
    return found


async def _refuse(error: DaycareError, scope: Scope, receive: Receive, send: Send) -> None:
    more = {"WWW-Authenticate": "Bearer"} if isinstance(error, UnauthorizedError) else {}
    await refuse(error, scope, receive, send, headers=more)


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
            headers = [*message["headers"], (b"access-control-allow-origin", origin.encode("latin-1")), *_EXPOSED]  # type: ignore[misc]
            message = {**message, "headers": headers}
        await send(message)

    return told  # type: ignore[return-value]


def _noted(send: Send, statuses: list[int]) -> Send:
    """Return a `send` that notes the status of the answer."""

    async def noted(message: Any) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])
        await send(message)

    return noted


def _tell(scope: Scope, caller: Caller, peer: Peer, statuses: list[int]) -> None:
    """Log what was done with which token."""
    path = scope["raw_path"].decode("ascii")[:_SHOWN_CHARS]
    status = statuses[0] if statuses else 0
    log.logger().info(
        *("api.called",),
        by=caller.name,  # a field called token would be hidden
        user=caller.user,
        address=peer.address,
        method=scope["method"],
        path=path,
        status=status,
    )
