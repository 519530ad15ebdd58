"""The application: all routes, one way to refuse, one bound for bodies."""

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import nullcontext
from typing import Any, Final

import trio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from daycare.api import (
    errors,
    routes_agents,
    routes_dead,
    routes_files,
    routes_messages,
    routes_socket,
    routes_timers,
)
from daycare.api.callers import SOCKET, admits
from daycare.api.late_routes import LateRoutes
from daycare.api.routes_openapi import OpenApiRoutes
from daycare.api.services import Services
from daycare.base.errors import DaycareError, InvalidError
from daycare.base.limits import FILE_MAX_BYTES

API_BODY_MAX_BYTES: Final = 256 * 1024  # a message of 64 KiB escaped as JSON fits
API_STRANGERS_BODIES: Final = 2  # long bodies of senders who show only then that they know a secret, at once
API_BODY_READ_MAX_BYTES: Final = 4 * 1024 * 1024  # of a refused body, so that its sender sees the refusal
API_BODY_DEADLINE_S: Final = 30.0  # a body on a Unix socket arrives at once


def build(services: Services, *, late: bool = False) -> Starlette:
    """Return the API over a daemon's parts. Whoever stops it sets `app.state.closing`: what waits and streams ends.

    With `late` the routes of most features are loaded when one of them is asked for, or by `app.state.late.complete()`.
    """
    closing = trio.Event()
    first = [feature for feature in services.features if feature.first or not late]
    app = Starlette(
        routes=_admitted(
            [
                *routes_messages.Messages(services, closing).routes(),
                *routes_files.FileRoutes(services).routes(),
                *routes_agents.AgentRoutes(services).routes(),
                *routes_dead.DeadLetterRoutes(services).routes(),
                *routes_timers.TimerRoutes(services).routes(),
                *routes_socket.SocketRoutes(services, closing).routes(),
                *(route for feature in first for route in feature.routes(closing)),
            ]
        ),
        middleware=[
            Middleware(ApiPrefix),
            Middleware(
                BodyBound,
                uploads={path for feature in services.features for path in feature.uploads},
                bodies={path: most for feature in services.features for path, most in feature.bodies.items()},
            ),
        ],
        exception_handlers={
            DaycareError: errors.refused,
            HTTPException: errors.unrouted,
            Exception: errors.defect,
        },
    )
    router = app.router

    def load() -> list[Route | WebSocketRoute]:
        others = [feature for feature in services.features if feature not in first]
        found = [route for feature in others for route in feature.routes(closing)]
        return _admitted([*found, *OpenApiRoutes(router.routes).routes()])  # which is about itself, too

    if late:
        app.state.late = LateRoutes(router, load)
    else:
        router.routes.extend(load())
    router.redirect_slashes = False
    app.state.closing = closing
    return app


def _admitted(routes: "Iterable[Route | WebSocketRoute]") -> "list[Route | WebSocketRoute]":
    found = list(routes)
    for route in found:
        route.app = CallerAdmission(route.app, route.endpoint)
    return found


class CallerAdmission:
    """Lets those call a route who may; for all others there is none, or nothing that they may change.

    Opening a WebSocket counts as reading: each message on it is looked at by itself.
    """

    def __init__(self, app: ASGIApp, endpoint: Callable[..., Any]) -> None:
        self._app = app
        self._endpoint = endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        caller = scope.get("state", {}).get("caller", SOCKET)
        method = scope.get("method", "GET")
        if not admits(caller, method, self._endpoint):
            if caller.own_only:
                raise HTTPException(404)
            raise errors.NotAllowedError(
                "TOKEN_READS",
                f"{method} {scope['path']}: this token may read, and change nothing",
                hint="daycare tokens add NAME --may operator",
            )
        await self._app(scope, receive, send)


class ApiPrefix:
    """Answers `/api/v1/...` as `/v1/...`, which some programs write that way. It never means another route."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope.get("path", "").startswith("/api/v1/"):
            scope = {**scope, "path": scope["path"].removeprefix("/api")}
        await self._app(scope, receive, send)


class BodyBound:
    """Reads every request's body before its route runs, and refuses what is too large or too slow.

    Also for routes that take no body: the server's connection waits until somebody has read it. What is posted to
    `uploads` is read by its route; `bodies` are routes that take larger ones, in bytes. One that ends with a slash is
    all below it, where anybody may call: there a larger body says how long it is, and few are read at once.
    """

    def __init__(self, app: ASGIApp, uploads: Collection[str], bodies: Mapping[str, int]) -> None:
        self._app = app
        self._uploads = uploads
        self._most = {routes_files.FILES: FILE_MAX_BYTES, **bodies}
        self._strangers = trio.Semaphore(API_STRANGERS_BODIES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or (scope["method"] == "POST" and scope["path"] in self._uploads):
            await self._app(scope, receive, send)
            return
        try:
            most, announced = self._most.get(scope["path"], API_BODY_MAX_BYTES), _announced(scope)
            if is_strangers := announced > most and (below := scope["path"].rpartition("/")[0] + "/") in self._most:
                most = self._most[below]
            if announced > max(API_BODY_READ_MAX_BYTES, most):
                raise _too_large(most)
            with trio.fail_after(API_BODY_DEADLINE_S):
                async with self._strangers if is_strangers else nullcontext():
                    body = await _read(receive, most)
        except trio.TooSlowError:
            late = InvalidError("BODY_LATE", f"reading a body: it was not complete after {API_BODY_DEADLINE_S:g} s")
            await errors.refuse(late, scope, receive, send)
            return
        except errors.BodyTooLargeError as error:
            await errors.refuse(error, scope, receive, send)
            return
        if body is not None:
            await self._app(scope, _again(body, receive), send)


async def _read(receive: Receive, max_bytes: int) -> bytes | None:
    """Return the whole body, None if the client went away. A little too much is read to its end and then refused."""
    body = bytearray()
    size, more = 0, True
    while more and size <= max(API_BODY_READ_MAX_BYTES, max_bytes):
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        part = message.get("body", b"")
        size += len(part)
        if size <= max_bytes:
            body += part
        more = message.get("more_body", False)
    if size > max_bytes:
        raise _too_large(max_bytes)
    return bytes(body)


def _announced(scope: Scope) -> int:
    """Return how long a body is said to be; the server has refused what is no number."""
    return next((int(value) for name, value in scope["headers"] if name == b"content-length"), 0)


def _too_large(max_bytes: int) -> errors.BodyTooLargeError:
    return errors.BodyTooLargeError(
        "BODY_TOO_LARGE",
        f"reading a body: it has over {max_bytes} bytes",
        hint="send less at once, or put it into a file",
    )


def _again(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that hands out the body once more, then what follows it."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return first.pop() if first else await receive()

    return replay
