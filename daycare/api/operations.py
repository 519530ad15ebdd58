"""Operations: what can be asked of the daemon, each declared once, as a struct in the room of its capability.

A route, a command of `daycare` (`cli/operations.py`) and a section of the API's reference are made from it. Tools and
chat commands use the types of its fields and call what it calls: a model and a chat need other words.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

import msgspec
from msgspec.structs import FieldInfo

from daycare.api.callers import caller_of
from daycare.api.described import description_of
from daycare.api.documents import RequestDocument, answer, body, query

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

W = TypeVar("W", bound="Operation")


class ApiCall(NamedTuple):
    """An operation as one call of the API. `body` is None where it has none."""

    method: str
    route: str
    query: dict[str, Any]
    body: Any


class Operation(RequestDocument, frozen=True, kw_only=True, omit_defaults=True):
    """Base of them. The docstring of one says what it does, its fields what it takes.

    `ROUTE` is its method and path. What it takes stands in the query of a GET or DELETE, else in the body; `QUERY`
    names fields that stand in the query all the same, `BODY` the one that is the whole body. Those with GET
    change nothing. Operators may ask for any; what does one for `persons` is told who asks.
    """

    ROUTE: ClassVar[str]
    STATUS: ClassVar[int] = 200
    QUERY: ClassVar[tuple[str, ...]] = ()
    BODY: ClassVar[str] = ""

    def call(self) -> ApiCall:
        """Return how it is asked for over the API; what has its default is left out."""
        method, _, route = self.ROUTE.partition(" ")
        given: dict[str, Any] = msgspec.to_builtins(self)
        inner = _in_body(type(self))
        if not inner:
            return ApiCall(method, route, given, None)
        asked = {name: value for name, value in given.items() if name not in inner}
        told = given.get(self.BODY, {}) if self.BODY else {name: given[name] for name in inner if name in given}
        return ApiCall(method, route, asked, told)


def route(kind: type[W], do: Callable[..., Awaitable[Any]]) -> "Route":
    """Return the route of an operation, which answers what `do` returns of it: for `persons`, and of who asks.

    What cannot be read is refused with QUERY_INVALID or BODY_INVALID and the name of the field.
    """
    from starlette.routing import Route

    method, _, path = kind.ROUTE.partition(" ")

    async def endpoint(request: "Request") -> "Response":
        it = await _read(request, kind)
        return answer(await (do(it, caller_of(request)) if callers else do(it)), kind.STATUS)

    if callers := getattr(do, "callers", ()):
        endpoint.callers = callers  # type: ignore[attr-defined]
    endpoint.operation = kind  # type: ignore[attr-defined]  # for the API's description of itself
    endpoint.description = description_of(do)  # type: ignore[attr-defined]
    return Route(path, endpoint, methods=[method], name=kind.__name__)


def parts(kind: type[Operation]) -> list[tuple[str, Any]]:
    """Return what is read of a request, as `query` and `body`, each with the type that it is."""
    inner = _in_body(kind)
    if kind.BODY:
        read = [("body", next(each.type for each in msgspec.structs.fields(kind) if each.name == kind.BODY))]
    else:
        read = [("body", _part(kind, inner))] if inner else []
    outer = [each.name for each in msgspec.structs.fields(kind) if each.name not in inner]
    return ([("query", _part(kind, outer))] if outer else []) + read


async def _read(request: "Request", kind: type[W]) -> W:
    found: dict[str, Any] = {}
    for place, type_ in _parts(kind):
        if place == "query":
            found |= msgspec.structs.asdict(query(request, type_))
        else:
            told = await body(request, type_)
            found |= {kind.BODY: told} if kind.BODY else msgspec.structs.asdict(told)
    return kind(**found)


_parts = cache(parts)


def _in_body(kind: type[Operation]) -> list[str]:
    """Return the names of the fields that stand in the body."""
    if kind.ROUTE.startswith(("GET ", "DELETE ")):
        return []
    return [each.name for each in msgspec.structs.fields(kind) if each.name not in kind.QUERY]


def _part(kind: type[Operation], names: Sequence[str]) -> type[msgspec.Struct]:
    """Return a struct of some fields of an operation."""
    fields = [_field(each) for each in msgspec.structs.fields(kind) if each.name in names]
    return msgspec.defstruct(kind.__name__, fields, frozen=True, kw_only=True, forbid_unknown_fields=True)


def _field(it: FieldInfo) -> Any:
    if it.default_factory is not msgspec.NODEFAULT:
        return it.name, it.type, msgspec.field(default_factory=it.default_factory)
    return (it.name, it.type) if it.required else (it.name, it.type, it.default)
