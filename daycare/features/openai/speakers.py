"""In whose name a program speaks: that of its token, or somebody else's whom it names, if it may."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

from msgspec.structs import replace
from starlette.requests import Request

from daycare.api.callers import Caller, May, caller_of
from daycare.api.errors import NotAllowedError
from daycare.store.sqlite.people import PeopleStore

E = TypeVar("E", bound=Callable[..., Any])

OPENWEBUI: Final = "openwebui"  # as the connector of the addresses by which people are known there
_HEADERS: Final = ("x-openwebui-user-id", "x-openwebui-user-email")


def talkers(endpoint: E) -> E:
    """Mark an endpoint as one for persons, and for programs that speak for them: it asks `Speakers` who is meant."""
    endpoint.callers = (May.PERSON, May.SPEAK)  # type: ignore[attr-defined]
    return endpoint


class Speakers:
    """Knows whom programs name. Headers count only with a token made for that; with any other they say nothing."""

    def __init__(self, people: PeopleStore) -> None:
        self._people = people

    async def of(self, request: Request) -> Caller:
        """Return in whose name a request comes: a person named by a header may what that person's own token may.

        Raises `NotAllowedError` where a token that speaks for others names nobody, or somebody unknown here.
        """
        caller = caller_of(request)
        if caller.may is not May.SPEAK:
            return caller
        named = [value for name in _HEADERS if (value := request.headers.get(name, "").strip())]
        for each in named:
            user = await self._people.by_key(f"{OPENWEBUI}:{each}")
            if user is not None:
                return replace(caller, may=May.PERSON, user=user.id)
        if not named:
            raise NotAllowedError(
                "SPEAKER_UNNAMED",
                "speak to an agent: this token speaks for people, and the request names nobody",
                hint="let the program send X-OpenWebUI-User-Id or X-OpenWebUI-User-Email, or use a person's token",
            )
        raise NotAllowedError(
            "SPEAKER_UNKNOWN",
            f"speak to an agent: nobody here is known as {' or '.join(named)[:200]}",
            hint=f"daycare users link USER {OPENWEBUI}:EMAIL",
        )
