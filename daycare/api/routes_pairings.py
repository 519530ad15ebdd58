"""Letting people in: who knocked, and the codes that make a stranger somebody we know."""

from typing import Annotated, Any

import msgspec
import trio
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daycare.agent.kinds import conversation
from daycare.api.documents import Document, Limit, answer, body, query
from daycare.api.routes_people import check_owner
from daycare.api.services import Services
from daycare.base.errors import ConflictError, DaycareError, InvalidError
from daycare.base.ids import new_trace_id
from daycare.base.limits import KEY_MAX_CHARS
from daycare.base.messages import Origin
from daycare.base.pairing import code_hash, is_out, suggested_ids
from daycare.base.path import check_user_id
from daycare.store.records import Reply, Stranger, User

_Text = Annotated[str, msgspec.Meta(max_length=KEY_MAX_CHARS)]


class PairingsQuery(Document, frozen=True, kw_only=True):
    """How many of them, the last first."""

    limit: Limit = 100


class Look(Document, frozen=True, kw_only=True):
    """A code as somebody typed it."""

    code: _Text


class Approval(Document, frozen=True, kw_only=True):
    """A code, and who it is: a user, created if there is none of that id, perhaps as a sub-user `under` another one.

    `name` is what to call a new one.
    """

    code: _Text
    user: str | None = None
    under: str | None = None
    name: _Text = ""


class Denial(Document, frozen=True, kw_only=True):
    """Who is to be shown no more codes: by the code, or by the address."""

    code: _Text = ""
    key: _Text = ""


class Pairings:
    """`/v1/pairings`."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._store = services.store
        self._approving = trio.Lock()  # a free id is found before it is taken

    def routes(self) -> list[Route]:
        """Return the routes of this file."""
        return [
            Route("/v1/pairings", self.find),
            Route("/v1/pairings/look", self.look, methods=["POST"]),
            Route("/v1/pairings/approve", self.approve, methods=["POST"]),
            Route("/v1/pairings/deny", self.deny, methods=["POST"]),
        ]

    async def find(self, request: Request) -> Response:
        """List who knocked, the last first; never a code."""
        wish = query(request, PairingsQuery)
        found = await self._store.strangers.find(wish.limit)
        strangers = [each for each in found if await self._store.people.by_key(each.key) is None]  # linked meanwhile
        return answer({"pairings": [self._view(each) for each in strangers]})

    async def look(self, request: Request) -> Response:
        """Tell who was shown a code, and which id they could have; the code stays valid."""
        stranger = await self._by_code((await body(request, Look)).code)
        return answer(self._view(stranger) | {"suggested": await self._free_id(stranger)})

    async def approve(self, request: Request) -> Response:
        """Let somebody in, and tell them. The code is used up."""
        wish = await body(request, Approval)
        async with self._approving:
            stranger = await self._by_code(wish.code)
            user_id = check_user_id(wish.user) if wish.user is not None else await self._free_id(stranger)
            known = await self._store.people.get(user_id)
            if wish.under is not None:
                if stranger.kind == "group":
                    raise InvalidError("SUBUSER_GROUP", "approving a group: only a person can be somebody's sub-user")
                await check_owner(self._store.people, wish.under)
            if known is not None and wish.under not in (None, known.parent):
                raise ConflictError(
                    "USER_EXISTS",
                    f"adding {user_id} under {wish.under}: there is one",
                    hint="choose another id",
                )
            owner = await self._store.people.get(self._services.owner)
            new = User(
                id=user_id,
                name=wish.name.strip() or stranger.name.strip() or user_id,
                zone=owner.zone if owner else "UTC",
                parent=wish.under,
            )
            origin = Origin.GROUP if stranger.kind == "group" else Origin.PERSON
            stranger, user = await self._store.strangers.approve(code_hash(wish.code), new, origin)
        path, welcomed = await self._welcome(stranger, user, origin)
        return answer({"user": user, "key": stranger.key, "path": path, "created": known is None, "welcomed": welcomed})

    async def deny(self, request: Request) -> Response:
        """Show somebody no more codes; they are counted on."""
        wish = await body(request, Denial)
        if bool(wish.code) == bool(wish.key):
            raise InvalidError("BODY_INVALID", "denying: expected either a code or a key", hint="doc/api.md")
        key = wish.key or (await self._by_code(wish.code)).key
        return answer(self._view(await self._store.strangers.deny(key)))

    async def _by_code(self, code: str) -> Stranger:
        return await self._store.strangers.by_code(code_hash(code))

    def _view(self, stranger: Stranger) -> dict[str, Any]:
        now_ms = self._services.clock.now_ms()
        view: dict[str, Any] = msgspec.to_builtins(stranger)
        is_valid = not stranger.denied and is_out(stranger.code_until, stranger.tries, now_ms)
        view["code_valid_s"] = max((stranger.code_until - now_ms) // 1000, 1) if is_valid else 0
        return view

    async def _free_id(self, stranger: Stranger) -> str:
        """Return an id that nobody has had: one who was removed left conversations behind, and they are theirs."""
        for wanted in suggested_ids(stranger.name, stranger.key, group=stranger.kind == "group"):
            taken = await self._store.people.get(wanted) is not None
            if not taken and not await self._store.agents.find(user=wanted, include_dead=True, limit=1):
                return wanted
        raise AssertionError("there is no end of them")

    async def _welcome(self, stranger: Stranger, user: User, origin: Origin) -> tuple[str, bool]:
        """Greet the newcomer through an agent of their own. Not being able to does not undo the approval."""
        path = conversation(user, stranger.connector)
        who = "This group is" if stranger.kind == "group" else "You are"
        reply = Reply(
            connector=stranger.connector,
            text=f"{who} connected as {user.id}. Write to me whenever you like; /help shows what else can be said.",
            target=stranger.key.removeprefix(f"{stranger.connector}:"),
        )
        try:
            agent = await self._services.directory.create(path, origin=origin)
            await self._store.outbox.add(agent, reply, new_trace_id())
        except DaycareError:
            return str(path), False
        return str(path), True
