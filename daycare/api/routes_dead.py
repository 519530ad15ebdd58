"""Dead letters: what was given up on, and a second chance for it."""

from typing import Annotated

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daycare.api.described import described
from daycare.api.documents import Limit, Number, RequestDocument, answer, body, query, segment
from daycare.api.services import Services
from daycare.base.errors import NotFoundError
from daycare.store.records import DeadLetter
from daycare.store.records_upkeep import DroppedLetters

_CENTURY_S = 100 * 366 * 86_400


class DeadQuery(RequestDocument, frozen=True, kw_only=True):
    """Which dead letters, newest first."""

    path: str | None = None
    before: Number | None = None
    limit: Limit = 100


class Prune(RequestDocument, frozen=True, kw_only=True):
    """The age from which dead letters are deleted."""

    older_than_s: Annotated[float, msgspec.Meta(ge=0, le=_CENTURY_S)]


class DeadLetterRoutes:
    """`/v1/dead`."""

    def __init__(self, services: Services) -> None:
        self._dead = services.store.dead
        self._clock = services.clock

    def routes(self) -> list[Route]:
        """Return the routes of this file."""
        return [
            Route("/v1/dead", self.find),
            Route("/v1/dead/prune", self.prune, methods=["POST"]),
            Route("/v1/dead/{no}", self.show),
            Route("/v1/dead/{no}/replay", self.replay, methods=["POST"]),
        ]

    @described({200: {"dead": list[DeadLetter], "dropped": list[DroppedLetters]}}, query=DeadQuery)
    async def find(self, request: Request) -> Response:
        """List dead letters, newest first, and whose older ones made room for others."""
        wish = query(request, DeadQuery)
        found = await self._dead.find(path=wish.path, before=wish.before, limit=wish.limit)
        return answer({"dead": found, "dropped": await self._dead.dropped()})

    @described({200: DeadLetter}, segments={"no": Number})
    async def show(self, request: Request) -> Response:
        """Show one dead letter."""
        no = segment(request, "no", Number)
        letter = await self._dead.get(no)
        if letter is None:
            raise NotFoundError("DEAD_UNKNOWN", f"showing dead letter {no}: there is none", hint="daycare dead list")
        return answer(letter)

    @described({200: {"seq": int}}, segments={"no": Number}, refuses=(409,))
    async def replay(self, request: Request) -> Response:
        """Queue one again."""
        return answer({"seq": await self._dead.replay(segment(request, "no", Number))})

    @described({200: {"deleted": int}}, body=Prune)
    async def prune(self, request: Request) -> Response:
        """Delete old ones."""
        age_s = (await body(request, Prune)).older_than_s
        return answer({"deleted": await self._dead.prune(before_ms=self._clock.now_ms() - int(age_s * 1000))})
