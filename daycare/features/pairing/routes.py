"""Letting people in: who wrote, and the codes that make a stranger somebody we know."""

from typing import Annotated, Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daycare.api.described import With, described
from daycare.api.documents import Limit, RequestDocument, answer, body, query
from daycare.base.clock import Clock
from daycare.base.errors import InvalidError
from daycare.base.limits import KEY_MAX_CHARS
from daycare.base.pairing import is_out
from daycare.features.pairing.newcomers import Newcomers
from daycare.store.records import Stranger, User
from daycare.store.sqlite.store import Store

_Text = Annotated[str, msgspec.Meta(max_length=KEY_MAX_CHARS)]

_STRANGER = With(Stranger, {"code_valid_s": int})


class PairingsQuery(RequestDocument, frozen=True, kw_only=True):
    """How many of them, the last first."""

    limit: Limit = 100


class PairingLook(RequestDocument, frozen=True, kw_only=True):
    """A code as somebody typed it."""

    code: _Text


class PairingApproval(RequestDocument, frozen=True, kw_only=True):
    """A code, and who it is: a user, created if there is none of that id, perhaps as a sub-user `under` another one.

    `name` is what to call a new one.
    """

    code: _Text
    user: str | None = None
    under: str | None = None
    name: _Text = ""


class Denial(RequestDocument, frozen=True, kw_only=True):
    """Who is to be shown no more codes: by the code, or by the address."""

    code: _Text = ""
    key: _Text = ""


class Pairings:
    """`/v1/pairings`."""

    def __init__(self, newcomers: Newcomers, store: Store, clock: Clock) -> None:
        self._newcomers = newcomers
        self._store = store
        self._clock = clock

    def routes(self) -> list[Route]:
        """Return the routes of this file."""
        return [
            Route("/v1/pairings", self.find),
            Route("/v1/pairings/look", self.look, methods=["POST"]),
            Route("/v1/pairings/approve", self.approve, methods=["POST"]),
            Route("/v1/pairings/deny", self.deny, methods=["POST"]),
        ]

    @described({200: {"pairings": [_STRANGER]}}, query=PairingsQuery)
    async def find(self, request: Request) -> Response:
        """List strangers who wrote, the last first; never a code."""
        wish = query(request, PairingsQuery)
        found = await self._store.strangers.find(wish.limit)
        strangers = [each for each in found if await self._store.people.by_key(each.key) is None]  # linked meanwhile
        return answer({"pairings": [self._view(each) for each in strangers]})

    @described({200: With(Stranger, {"code_valid_s": int, "suggested": str})}, body=PairingLook)
    async def look(self, request: Request) -> Response:
        """Tell who was shown a code, and which id they could have; the code stays valid."""
        stranger = await self._newcomers.by_code((await body(request, PairingLook)).code)
        return answer(self._view(stranger) | {"suggested": await self._newcomers.free_id(stranger)})

    @described(
        {200: {"user": User, "key": str, "path": str, "created": bool, "welcomed": bool}},
        body=PairingApproval,
        refuses=(409,),
    )
    async def approve(self, request: Request) -> Response:
        """Let somebody in, and tell them. The code is used up."""
        wish = await body(request, PairingApproval)
        done = await self._newcomers.approve_code(wish.code, wish.user, wish.under, wish.name)
        return answer(done._asdict())

    @described({200: _STRANGER}, body=Denial)
    async def deny(self, request: Request) -> Response:
        """Show somebody no more codes; they are counted on."""
        wish = await body(request, Denial)
        if bool(wish.code) == bool(wish.key):
            raise InvalidError("BODY_INVALID", "denying: expected either a code or a key", hint="doc/extend/api.md")
        key = wish.key or (await self._newcomers.by_code(wish.code)).key
        return answer(self._view(await self._newcomers.deny(key)))

    def _view(self, stranger: Stranger) -> dict[str, Any]:
        now_ms = self._clock.now_ms()
        view: dict[str, Any] = msgspec.to_builtins(stranger)
        is_valid = not stranger.denied and is_out(stranger.code_until, stranger.tries, now_ms)
        view["code_valid_s"] = max((stranger.code_until - now_ms) // 1000, 1) if is_valid else 0
        return view
