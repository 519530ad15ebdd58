"""Who calls the API, and what they may: the operator on the socket, and over the network whoever sends a token.

A route is for operators unless it says that it is for `persons` or `deciders`, too: then it looks at whose things are
meant. What is not somebody's is answered as if there were none. One for `anybody` asks for no token: it checks who
calls by itself.
"""

from collections.abc import Callable
from enum import StrEnum
from math import inf
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import msgspec

from daycare.base.errors import DaycareError, NotFoundError

if TYPE_CHECKING:  # the command line reads what tokens are good for, and needs neither
    import trio
    from starlette.requests import HTTPConnection

E = TypeVar("E", bound=Callable[..., Any])

READS: Final = ("GET", "HEAD")


class May(StrEnum):
    """What a token is good for."""

    OPERATOR = "operator"  # everything that the socket is good for
    READ = "read"  # the same without changing anything
    PERSON = "person"  # what a person may, with their own agents
    APPROVE = "approve"  # to decide what that person's agents ask for, and nothing else
    SPEAK = "speak"  # to speak OpenAI's protocol for people whom a program names, and nothing else


def _as_it_is(error: DaycareError) -> DaycareError:
    return error


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """Who calls. `name` is the token's, empty on the socket.

    `paths`, such as "/ann/agent/scribe/**", narrows what may be seen. `session` is what the cookie of a browser says,
    `ended` is set once the token is revoked, None on the socket; `left_s` is until it expires. A route for
    `anybody` that finds that a caller does not know its secret raises what `wrong` makes of its error: it is counted
    like a wrong token.
    """

    name: str = ""
    may: May = May.OPERATOR
    user: str = ""
    paths: str = ""
    session: str = ""
    ended: "trio.Event | None" = None
    left_s: float = inf
    wrong: Callable[[DaycareError], DaycareError] = _as_it_is

    @property
    def own_only(self) -> bool:
        """Whether only what is the user's may be seen."""
        return self.may in (May.PERSON, May.APPROVE, May.SPEAK) or bool(self.paths)

    def actor(self, key: str) -> str:
        """Return who did something under a connector key, as it is told later: with the token, if there is one."""
        return f"{key} (token {self.name})" if self.name else key

    def within(self, path: str) -> bool:
        """Whether the token is for a path, or for all paths of a pattern."""
        base = self.paths.removesuffix("/**")
        return f"{path}/".startswith(f"{base}/") if base != self.paths else path == base or not base

    def sees(self, path: str) -> bool:
        """Whether what is at a path, or at all paths of a pattern, may be seen."""
        return self.within(path) and (not self.own_only or f"{path}/".startswith(f"/{self.user}/"))

    def check_user(self, user: str) -> None:
        """Raise `NotFoundError` for what is another person's."""
        if self.own_only and user != self.user:
            raise NotFoundError("USER_UNKNOWN", f"looking at {user}: there is nobody of that id", hint="leave it out")

    def whose(self, user: str | None) -> str | None:
        """Return whose things are asked for, None for everybody's: of who sees only their own it is these.

        Raises `NotFoundError` for what is another person's.
        """
        if self.own_only and user is None:
            return self.user
        if user is not None:
            self.check_user(user)
        return user

    def check_path(self, path: str) -> None:
        """Raise `NotFoundError` for the path of another person's agent, and for one that the token is not for."""
        if not self.sees(path):
            raise NotFoundError("AGENT_UNKNOWN", f"looking up {path}: no such agent", hint="daycare agents")


SOCKET: Final = Caller()


class Callers(Protocol):
    """Knows who sends a token, a cookie or a ticket from an address; None for what opens nothing."""

    async def caller(self, text: str, address: str) -> Caller | None:
        """Return who sends a token."""
        ...

    async def browser(self, session: str, address: str) -> Caller | None:
        """Return who has logged a browser in."""
        ...

    async def ticket_holder(self, ticket: str, path: str, address: str) -> Caller | None:
        """Return who was given a ticket for a path, which is used up by that."""
        ...

    async def wait_for_one(self, missing: Callable[[], None]) -> None:
        """Wait until somebody has a token; `missing` is called if nobody has one yet."""
        ...


def caller_of(request: "HTTPConnection") -> Caller:
    """Return who has sent a request, or opened a WebSocket."""
    found = request.scope.get("state", {}).get("caller", SOCKET)
    assert isinstance(found, Caller)
    return found


def persons(endpoint: E) -> E:
    """Mark an endpoint as one that persons may call: it checks whose things are meant."""
    endpoint.callers = (May.PERSON,)  # type: ignore[attr-defined]
    return endpoint


def deciders(endpoint: E) -> E:
    """Mark an endpoint as one for persons, and for those who only decide in their place."""
    endpoint.callers = (May.PERSON, May.APPROVE)  # type: ignore[attr-defined]
    return endpoint


def everybody(endpoint: E) -> E:
    """Mark an endpoint as one for everybody with a token: it is about that token."""
    endpoint.callers = tuple(May)  # type: ignore[attr-defined]
    return endpoint


def anybody(endpoint: E) -> E:
    """Mark an endpoint that needs no token, for it checks who calls: by a secret of its own."""
    endpoint.callers = tuple(May)  # type: ignore[attr-defined]
    endpoint.anybody = True  # type: ignore[attr-defined]
    return endpoint


def is_anybodys(endpoint: Callable[..., Any]) -> bool:
    """Return whether an endpoint needs no token."""
    return getattr(endpoint, "anybody", False)


def admits(caller: Caller, method: str, endpoint: Callable[..., Any]) -> bool:
    """Return whether somebody may call an endpoint by a method. One for `persons` heeds the paths of a token."""
    named = getattr(endpoint, "callers", ())
    match caller.may:
        case May.OPERATOR:
            return True
        case May.READ:
            return caller.may in named or (method in READS and (not caller.paths or May.PERSON in named))
        case _:
            return caller.may in named
