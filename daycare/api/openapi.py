"""The API's description of itself, as OpenAPI 3.1: made from the table of routes and what is said beside handlers."""

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec
from starlette.routing import BaseRoute, Route

from daycare import __version__
from daycare.api.callers import Caller, May, admits, is_anybodys
from daycare.api.described import Description, MediaBody, Shape, With, description_of
from daycare.api.errors import OPENAI
from daycare.api.operations import parts

Json = dict[str, Any]

# Every route may answer with these: the guard, bounds of heads and bodies, the store, and `Caller.own_only` come first.
REFUSALS: Final = (400, 401, 403, 404, 413, 429, 431, 500, 503)

_WAIT: Final = {"Retry-After": {"description": "Seconds to wait, where known.", "schema": {"type": "integer"}}}
_HEADERS: Final[Mapping[int, Json]] = {
    401: {"WWW-Authenticate": {"description": "`Bearer`", "schema": {"type": "string"}}},
    429: _WAIT,
    503: _WAIT,
}
_ERROR: Final = {"error": {"code": str, "message": str, "hint": str, "retry_after_s": float | None}}
_OPENAI_ERROR: Final = {"error": {"message": str, "type": str, "param": str | None, "code": str}}
_SEGMENT: Final = re.compile(r"{(\w+)(?::\w+)?}")
_REF: Final = "#/components/schemas/"


class Endpoint:
    """One method of one route with what is said of it."""

    def __init__(self, method: str, route: Route) -> None:
        self.method = method
        self.path = _SEGMENT.sub(r"{\1}", route.path)
        self.endpoint = route.endpoint
        self.operation = getattr(route.endpoint, "operation", None)

    @property
    def name(self) -> str:
        """Method and path, as the reference and a person have it."""
        return f"{self.method} {self.path}"

    @property
    def words(self) -> tuple[str, str]:
        """What it does, in a sentence and in more."""
        said = inspect.getdoc(self.operation or self.endpoint) or ""
        brief, _, more = said.partition("\n\n")
        return " ".join(brief.split()), " ".join(more.split())

    @property
    def description(self) -> Description:
        """What it takes and answers. Raises `LookupError`, which says what to write, for one that nobody described."""
        found = description_of(self.endpoint)
        if found is None:
            raise LookupError(
                f"{self.name} is not described: write `@described({{200: ...}}, query=..., body=...)` above its handler"
                " (daycare/api/described.py says how)"
            )
        return found._replace(**dict(parts(self.operation))) if self.operation else found


def endpoints(routes: Iterable[BaseRoute]) -> list[Endpoint]:
    """Return all methods of all routes for programs, in the order of paths. HEAD is answered wherever GET is."""
    found = [
        Endpoint(method, route)
        for route in routes
        if isinstance(route, Route) and route.include_in_schema
        for method in (route.methods or set()) - {"HEAD"}
    ]
    return sorted(found, key=lambda each: (each.path, each.method))


def document(routes: Iterable[BaseRoute]) -> Json:
    """Return the description of these routes."""
    schemas = _Schemas()
    paths: dict[str, Json] = {}
    for each in endpoints(routes):
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "daycare",
            "version": __version__,
            "description": "Talk to the agents of a daycare daemon, and run it. Answers may have more fields than are"
            " named here.",
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(schemas.components.items())),
            "responses": dict(_refusals(schemas)),
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token of `daycare tokens add`, of the kind that an operation names. On the Unix"
                    " socket none is needed.",
                }
            },
        },
    }


def _tag(path: str) -> str:
    """Return what a route is about: the first segment of its path, behind the version if it has one."""
    segments = path.split("/")
    return segments[3 if path.startswith(OPENAI) else 2 if len(segments) > 2 else 1] or "browsers"


def _operation(each: Endpoint, schemas: "_Schemas") -> Json:
    it, (summary, more) = each.description, each.words
    made: Json = {
        "operationId": re.sub(r"\W+", "_", f"{each.method.lower()}{each.path}").strip("_"),
        "summary": summary,
        "tags": [_tag(each.path)],
        "security": []
        if is_anybodys(each.endpoint)
        else [{"token": [may]} for may in May if admits(Caller(may=may), each.method, each.endpoint)],
        "parameters": [*_parameters(each.path, it, schemas)],
        "responses": {str(status): _answer(status, shape, schemas) for status, shape in it.answers.items()},
    }
    if more:
        made["description"] = more
    if it.body is not None:
        schema = {} if isinstance(it.body, MediaBody) else schemas.whole(it.body)
        # An absent body counts as `{}`.
        made["requestBody"] = {"required": bool(schema.get("required")), "content": _content(it.body, schemas)}
    for status in sorted({*REFUSALS, *it.refuses}):
        ref = f"#/components/responses/{_refusal(status, each.path)}"
        made["responses"].setdefault(str(status), {"$ref": ref})
    return made


def _parameters(path: str, it: Description, schemas: "_Schemas") -> Iterator[Json]:
    for name in _SEGMENT.findall(path):
        yield {"name": name, "in": "path", "required": True, "schema": schemas.of(it.segments.get(name, str))}
    if it.query is not None:
        schema = schemas.whole(it.query)
        for name, inner in schema["properties"].items():
            yield {
                "name": name,
                "in": "query",
                "required": name in schema.get("required", ()),
                "schema": _present(inner),
            }
    for name, meaning in it.headers.items():
        yield {"name": name, "in": "header", "description": meaning, "schema": {"type": "string"}}


def _present(schema: Json) -> Json:
    """Return the schema of an argument that was given: what may be null is left out instead."""
    inner = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    if not inner:
        return schema
    kept = {key: value for key, value in schema.items() if key != "anyOf" and (key, value) != ("default", None)}
    return kept | (inner[0] if len(inner) == 1 else {"anyOf": inner})


def _answer(status: int, shape: Shape, schemas: "_Schemas") -> Json:
    said: Json = {"description": HTTPStatus(status).phrase}
    return said if shape is None else said | {"content": _content(shape, schemas)}


def _content(shape: Shape, schemas: "_Schemas") -> Json:
    """Return a shape by media type: alternatives may be of several."""
    each_way = shape if type(shape) is tuple else (shape,)
    documents = tuple(each for each in each_way if not isinstance(each, MediaBody))
    made: Json = {}
    if documents:
        made["application/json"] = {"schema": schemas.of(documents if len(documents) > 1 else documents[0])}
    for each in each_way:
        if isinstance(each, MediaBody):
            made[each.type] = (
                {} if each.each is None else {"schema": {"type": "string"}, "x-each": schemas.of(each.each)}
            )
    return made


def _refusals(schemas: "_Schemas") -> Iterator[tuple[str, Json]]:
    for path, error in (("/", _ERROR), (OPENAI, _OPENAI_ERROR)):
        for status in (*REFUSALS, 409):
            made = _answer(status, error, schemas)
            if status in _HEADERS:
                made["headers"] = _HEADERS[status]
            yield _refusal(status, path), made


def _refusal(status: int, path: str) -> str:
    return f"{'openai_' if path.startswith(OPENAI) else ''}{HTTPStatus(status).name.lower()}"


class _Schemas:
    """Turns shapes into schemas, and keeps those of structs that these refer to."""

    def __init__(self) -> None:
        self.components: dict[str, Json] = {}

    def of(self, shape: Shape) -> Json:
        """Return the schema of a shape."""
        if isinstance(shape, With):
            return {"allOf": [self.of(shape.kind), self.of(shape.more)]}
        if isinstance(shape, list):
            [each] = shape
            return {"type": "array", "items": self.of(each)}
        if isinstance(shape, tuple):
            return {"anyOf": [self.of(each) for each in shape]}
        if isinstance(shape, Mapping):
            needed = [name for name in shape if not name.endswith("?")]
            fields = {name.rstrip("?"): self.of(each) for name, each in shape.items()}
            return {"type": "object", "properties": fields} | ({"required": needed} if needed else {})
        schema, inner = _made(shape)
        self.components |= inner
        return schema

    def whole(self, kind: Any) -> Json:
        """Return the schema of a struct without a reference to it. What it has inside is kept."""
        schema, inner = _made(kind)
        if "$ref" in schema:
            schema = inner.pop(schema["$ref"].removeprefix(_REF))
        self.components |= inner
        return schema


def _made(kind: Any) -> tuple[Json, dict[str, Json]]:
    [schema], inner = msgspec.json.schema_components([kind], ref_template=f"{_REF}{{name}}")
    return _whole(schema), _whole(inner)


def _whole(found: Any) -> Any:
    """Return a schema with whole numbers as such.

    600 and 600.0 are one bound to `typing`, which hands out whichever was written first in this process.
    """
    if isinstance(found, dict):
        return {name: _whole(value) for name, value in found.items()}
    if isinstance(found, list | tuple):
        return [_whole(value) for value in found]
    return int(found) if isinstance(found, float) and found.is_integer() else found
