"""Who calls the API, and what they may: the operator on the socket, and over the network whoever sends a token.

A route is for operators unless it says that it is for `persons` or `deciders`, too: then it looks at whose things are
meant. What is not somebody's is answered as if there were none.
"""

from collections.abc import Callable
from enum import StrEnum
from math import inf
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import msgspec

from daycare.base.errors import NotFoundError

if TYPE_CHECKING:  # the command line reads what tokens are good for, and needs neither
    import trio
    from starlette.requests import Request

E = TypeVar("E", bound=Callable[..., Any])

_READS: Final = ("GET", "HEAD")


class May(StrEnum):
    """What a token is good for."""

    OPERATOR = "operator"  # everything that the socket is good for
    READ = "read"  # the same without changing anything
    PERSON = "person"  # what a person may, with their own agents
    APPROVE = "approve"  # to decide what that person's agents ask for, and nothing else


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """Who calls. `name` is the token's, empty on the socket.

    `ended` is set once it is revoked, None on the socket; `left_s` is until it expires.
    """

    name: str = ""
    may: May = May.OPERATOR
    user: str = ""
    ended: "trio.Event | None" = None
    left_s: float = inf

    @property
    def own_only(self) -> bool:
        """Whether only what is the user's may be seen."""
        return self.may in (May.PERSON, May.APPROVE)

    def check_user(self, user: str) -> None:
        """Raise `NotFoundError` for what is another person's."""
        if self.own_only and user != self.user:
            raise NotFoundError("USER_UNKNOWN", f"looking at {user}: there is nobody of that id", hint="leave it out")

    def check_path(self, path: str) -> None:
        """Raise `NotFoundError` for the path of another person's agent."""
        if self.own_only and not f"{path}/".startswith(f"/{self.user}/"):
            raise NotFoundError("AGENT_UNKNOWN", f"looking up {path}: no such agent", hint="daycare agents")


SOCKET: Final = Caller()


class Callers(Protocol):
    """Knows who sends a token."""

    async def caller(self, text: str, address: str) -> Caller | None:
        """Return who sends a token from an address, None if it opens nothing."""
        ...


def caller_of(request: "Request") -> Caller:
    """Return who has sent a request."""
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


def admits(caller: Caller, method: str, endpoint: Callable[..., Any]) -> bool:
    """Return whether somebody may call an endpoint by a method."""
    match caller.may:
        case May.OPERATOR:
            return True
        case May.READ:
            return method in _READS
        case May.PERSON | May.APPROVE:
            return caller.may in getattr(endpoint, "callers", ())
