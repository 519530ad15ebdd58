"""JSON in and out: bodies, queries and path segments become values of declared types, and errors name the field."""

from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec

from daycare.base.errors import InvalidError
from daycare.base.limits import API_PAGE_MAX_ROWS

if TYPE_CHECKING:  # the faces of capabilities import this file, also where no API is served
    from starlette.requests import Request
    from starlette.responses import Response

T = TypeVar("T")

Number = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]  # of a row
Limit = Annotated[int, msgspec.Meta(ge=1, le=API_PAGE_MAX_ROWS)]

_encode = msgspec.json.Encoder().encode


class RequestDocument(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of what a route takes, as body or as query."""


class PathQuery(RequestDocument, frozen=True, kw_only=True):
    """`?path=`, of the one agent that is meant."""

    path: str


def answer(document: Any, status: int = 200) -> "Response":
    """Return a JSON answer."""
    from starlette.responses import Response

    return Response(_encode(document), status, media_type="application/json")


async def body(request: "Request", kind: type[T]) -> T:
    """Read the body; an absent one counts as `{}`. Raises `InvalidError` BODY_INVALID."""
    try:
        return msgspec.json.decode(await request.body() or b"{}", type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidError("BODY_INVALID", f"{_name(request)}: its body: {error}", hint="doc/extend/api.md") from None


def query(request: "Request", kind: type[T]) -> T:
    """Read the query; an argument that is given twice counts once, the last. Raises `InvalidError` QUERY_INVALID."""
    given = dict(request.query_params)
    found = _convert(request, given, kind, "QUERY_INVALID", "query")
    for name in given:
        if getattr(found, name) is None:  # `?before=null` would list more than was asked for
            wrong = f"{_name(request)}: its query: {given[name]} is no value - at `$.{name}`"
            raise InvalidError("QUERY_INVALID", wrong, hint=f"leave {name} out")
    return found


def segment(request: "Request", name: str, kind: type[T]) -> T:
    """Read the named segment of the route. Raises `InvalidError` ROUTE_INVALID."""
    return _convert(request, request.path_params[name], kind, "ROUTE_INVALID", f"segment {name}")


def _convert(request: "Request", found: Any, kind: type[T], code: str, what: str) -> T:
    try:
        return msgspec.convert(found, kind, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidError(code, f"{_name(request)}: its {what}: {error}", hint="doc/extend/api.md") from None


def _name(request: "Request") -> str:
    return f"{request.method} {request.scope['path']}"
