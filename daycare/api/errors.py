"""Every refusal as one document: `{"error": {code, message, hint, retry_after_s}}`; its status says what to do."""

import math
from http import HTTPStatus
from typing import Any, Final

import msgspec
import trio
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Receive, Scope, Send

from daycare.base.error_boundary import origin_of
from daycare.base.errors import DaycareError, InvalidError
from daycare.observe.log import logger

_encode = msgspec.json.Encoder().encode
_PATH_SHOWN_CHARS: Final = 500
_SERVERS_FAULT: Final = 500
_TAKEN: Final = ("ANSWER_LATE", "MESSAGE_DEAD")  # the message is here: sent again it would be another one
_OPENAI_KINDS: Final = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}

OPENAI: Final = "/openai/"  # below it OpenAI's protocol is spoken


class BodyTooLargeError(InvalidError):
    """More was sent than any route takes."""

    http_status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE


class UnauthorizedError(DaycareError):
    """No token, or one that opens nothing."""

    http_status = HTTPStatus.UNAUTHORIZED


class NotAllowedError(DaycareError):
    """Somebody who is known, or a page, asks for what is not theirs to ask for."""

    http_status = HTTPStatus.FORBIDDEN


def error_view(error: DaycareError) -> dict[str, Any]:
    """Return what a client is told of `error`."""
    return {
        "code": error.code,
        "message": error.message,
        "hint": error.hint,
        "retry_after_s": error.retry_after_s,
    }


def error_response(error: DaycareError, path: str, status: int = 0, headers: dict[str, str] | None = None) -> Response:
    """Return the answer that tells a client about `error`, with its class's status unless another is given.

    `path` is what was asked for: who speaks OpenAI's protocol is told in its words.
    """
    headers, status = dict(headers or {}), status or error.http_status
    if isinstance(error, UnauthorizedError):
        headers["WWW-Authenticate"] = "Bearer"
    if error.retry_after_s is not None:
        headers["Retry-After"] = str(math.ceil(error.retry_after_s))
    if error.code in _TAKEN and path.startswith(OPENAI):
        headers["x-should-retry"] = "false"  # else OpenAI's libraries do by themselves
    view = openai_error(error, status) if path.startswith(OPENAI) else error_view(error)
    return Response(_encode({"error": view}), status, headers, media_type="application/json")


def openai_error(error: DaycareError, status: int) -> dict[str, Any]:
    """Return what a client of OpenAI's protocol is told of `error`."""
    kind = _OPENAI_KINDS.get(status, "invalid_request_error" if status < _SERVERS_FAULT else "server_error")
    return {"message": str(error), "type": kind, "param": None, "code": error.code}


async def refuse(
    error: DaycareError, scope: Scope, receive: Receive, send: Send, headers: dict[str, str] | None = None
) -> None:
    """Answer while the rest of the body is read and forgotten: unread, it would hold up the answer."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_forget, receive)
        response = error_response(error, scope["path"], headers={"Connection": "close"} | (headers or {}))
        await response(scope, receive, send)
        nursery.cancel_scope.cancel()


async def _forget(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def refused(request: Request, error: Exception) -> Response:
    """Answer a `DaycareError`."""
    assert isinstance(error, DaycareError)
    return error_response(error, request.scope["path"])


async def unrouted(request: Request, error: Exception) -> Response:
    """Answer a request that no route takes."""
    assert isinstance(error, HTTPException)
    tried = f"{request.scope.get('method', 'WebSocket')} {request.url.path[:_PATH_SHOWN_CHARS]}"
    headers = dict(error.headers or {})
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = allowed = _allowed(request)
        wrong: DaycareError = InvalidError(
            "METHOD_UNKNOWN", f"{tried}: this route takes {allowed}", hint="doc/extend/api.md"
        )
    else:
        wrong = InvalidError(
            "ROUTE_UNKNOWN", f"{tried}: there is no such route", hint="doc/extend/api-reference.md lists them"
        )
    return error_response(wrong, request.scope["path"], error.status_code, headers)


def _allowed(request: Request) -> str:
    """Return the methods that a path takes: it may have a route for each."""
    first = next(route for route in request.app.routes if route.matches(request.scope)[0] is not Match.NONE)
    same = (route for route in request.app.routes if route.path == first.path)
    return ", ".join(sorted({method for route in same for method in route.methods}))


async def defect(request: Request, error: Exception) -> Response:
    """Answer an exception that nobody expected. Its text, which may hold anything, is neither sent nor logged."""
    log_defect(f"{request.method} {request.scope['path']}", error)
    return error_response(
        DaycareError("DEFECT", f"{request.method} {request.scope['path']}: a defect in daycare", hint="daycare logs"),
        request.scope["path"],
    )


def log_defect(what: str, error: BaseException) -> None:
    """Log where an exception came from and of which class it is."""
    name, where = origin_of(error)
    logger().error("api.defect", request=what, error=name, where=where)
