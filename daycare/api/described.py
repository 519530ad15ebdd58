"""What a route takes and answers, said beside its handler: the API's description of itself is made from that.

    @described({200: {"agents": list[Agent]}}, query=AgentsQuery)
    async def find(self, request: Request) -> Response:

A shape is a type; `{"name": shape, "other?": shape}`, an object, of which those with `?` may be missing; `[shape]`, a
list; a tuple of alternatives; `With`, a struct with more fields; `MediaBody`, what is no JSON document; or None, an
answer without a body. Any answer may have more fields than are named. Nothing is made of this before somebody asks for
the description.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

E = TypeVar("E", bound=Callable[..., Any])
Shape = Any

_NONE: Final[Mapping[str, Any]] = MappingProxyType({})


class MediaBody(NamedTuple):
    """A body that is no JSON document; `each` is the shape of one of its lines or events, None where it has none."""

    type: str
    each: Shape = None


class With(NamedTuple):
    """A struct, and fields that its answer has besides."""

    kind: Any
    more: Mapping[str, Shape]


BYTES: Final = MediaBody("application/octet-stream")


class Description(NamedTuple):
    """What a route takes and answers.

    `segments` are types of segments of the path that are no plain text, `headers` says what optional ones mean.
    `answers` are shapes by status; `refuses` are statuses of errors beyond those that every route may have.
    """

    answers: Mapping[int, Shape]
    query: Any = None
    body: Shape = None
    segments: Mapping[str, Any] = _NONE
    headers: Mapping[str, str] = _NONE
    refuses: tuple[int, ...] = ()


def described(
    answers: Mapping[int, Shape],
    *,
    query: Any = None,
    body: Shape = None,
    segments: Mapping[str, Any] = _NONE,
    headers: Mapping[str, str] = _NONE,
    refuses: tuple[int, ...] = (),
) -> Callable[[E], E]:
    """Describe a handler. One of an operation leaves out what it takes: its struct says it."""

    def note(endpoint: E) -> E:
        endpoint.description = Description(answers, query, body, segments, headers, refuses)  # type: ignore[attr-defined]
        return endpoint

    return note


def description_of(endpoint: Callable[..., Any]) -> Description | None:
    """Return what was said of an endpoint, None if nothing was."""
    found: Description | None = getattr(endpoint, "description", None)
    return found
