"""Dead letters: what was given up on, and a second chance for it."""

from typing import Annotated, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daycare.api.callers import caller_of, persons
from daycare.api.described import described
from daycare.api.documents import Limit, Number, RequestDocument, answer, body, query, segment
from daycare.api.services import Services
from daycare.base.errors import DaycareError, InvalidError, NotFoundError
from daycare.base.limits import API_PAGE_MAX_ROWS
from daycare.store.records import DeadLetter
from daycare.store.records_upkeep import DeadFilter, DroppedLetters

REPLAY_MAX: Final = 100  # letters of one call: each is a commit
_CENTURY_S: Final = 100 * 366 * 86_400


class DeadQuery(RequestDocument, frozen=True, kw_only=True):
    """Which dead letters, newest first. `waiting`: only those that nobody has replayed."""

    path: str | None = None
    user: str | None = None
    code: str | None = None
    source: str | None = None
    waiting: bool = False
    before: Number | None = None
    limit: Limit = 100


class Chosen(RequestDocument, frozen=True, kw_only=True):
    """Which dead letters are meant: of these `numbers`, if there are any, those that fit the rest.

    `waiting`: only those that nobody has replayed.
    """

    numbers: Annotated[tuple[Number, ...], msgspec.Meta(max_length=API_PAGE_MAX_ROWS)] = ()
    path: str | None = None
    user: str | None = None
    code: str | None = None
    source: str | None = None
    waiting: bool = False

    @property
    def filter(self) -> DeadFilter:
        """Return it as the store takes it."""
        return DeadFilter(**{name: getattr(self, name) for name in Chosen.__struct_fields__})


class ReplayMany(Chosen, frozen=True, kw_only=True):
    """Those that are queued again: up to `limit` that wait for it, the oldest first, from behind number `after` on."""

    after: Number = 0
    limit: Annotated[int, msgspec.Meta(ge=1, le=REPLAY_MAX)] = REPLAY_MAX


class Prune(Chosen, frozen=True, kw_only=True):
    """Those that are deleted, of them only what is older than `older_than_s`. Something has to be said."""

    older_than_s: Annotated[float, msgspec.Meta(ge=0, le=_CENTURY_S)] | None = None


class DeadRefusal(msgspec.Struct, frozen=True):
    """Why a dead letter could not be queued again."""

    no: int
    code: str
    reason: str
    hint: str


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
            Route("/v1/dead/replay", self.replay_many, methods=["POST"]),
            Route("/v1/dead/{no}", self.show),
            Route("/v1/dead/{no}/replay", self.replay, methods=["POST"]),
        ]

    @persons
    @described({200: {"dead": list[DeadLetter], "dropped": list[DroppedLetters]}}, query=DeadQuery)
    async def find(self, request: Request) -> Response:
        """List dead letters, newest first, and whose older ones made room for others."""
        wish, caller = query(request, DeadQuery), caller_of(request)
        user = caller.whose(wish.user)
        which = DeadFilter(path=wish.path, user=user, code=wish.code, source=wish.source, waiting=wish.waiting)
        found = await self._dead.find(which, before=wish.before, limit=wish.limit)
        dropped = [each for each in await self._dead.dropped() if not caller.own_only or each.user == caller.user]
        return answer({"dead": [each for each in found if caller.sees(each.path)], "dropped": dropped})

    @persons
    @described({200: DeadLetter}, segments={"no": Number})
    async def show(self, request: Request) -> Response:
        """Show one dead letter."""
        no = segment(request, "no", Number)
        letter = await self._dead.get(no)
        if letter is None or not caller_of(request).sees(letter.path):
            raise NotFoundError("DEAD_UNKNOWN", f"showing dead letter {no}: there is none", hint="daycare dead list")
        return answer(letter)

    @described({200: {"seq": int}}, segments={"no": Number}, refuses=(409,))
    async def replay(self, request: Request) -> Response:
        """Queue one again."""
        return answer({"seq": await self._dead.replay(segment(request, "no", Number))})

    @described({200: {"queued": list[int], "refused": list[DeadRefusal], "next": int | None}}, body=ReplayMany)
    async def replay_many(self, request: Request) -> Response:
        """Queue many again, the oldest first. `next` is the `after` to go on with, null once there are no more."""
        wish = await body(request, ReplayMany)
        numbers = await self._dead.waiting(wish.filter, after=wish.after, limit=wish.limit)
        queued: list[int] = []
        refused: list[DeadRefusal] = []
        for no in numbers:
            try:
                await self._dead.replay(no)
            except DaycareError as error:  # one that cannot keeps no other back
                refused.append(DeadRefusal(no, error.code, error.message, error.hint))
            else:
                queued.append(no)
        more = numbers[-1] if len(numbers) == wish.limit else None
        return answer({"queued": queued, "refused": refused, "next": more})

    @described({200: {"deleted": int}}, body=Prune)
    async def prune(self, request: Request) -> Response:
        """Delete old ones, chosen ones, or all that fit."""
        wish = await body(request, Prune)
        if wish == Prune():
            raise InvalidError(
                "BODY_INVALID",
                "POST /v1/dead/prune: which? Its body names no numbers, path, user, code, source or older_than_s",
                hint='{"older_than_s": 0} means all',
            )
        before_ms = None if wish.older_than_s is None else self._clock.now_ms() - int(wish.older_than_s * 1000)
        return answer({"deleted": await self._dead.prune(wish.filter, before_ms=before_ms)})
