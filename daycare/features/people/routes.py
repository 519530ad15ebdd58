"""People with their addresses, and the installation's secrets."""

from collections.abc import Callable
from typing import Annotated

import msgspec
import trio
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daycare.api.described import described
from daycare.api.documents import Limit, RequestDocument, answer, body, query
from daycare.base.errors import InvalidError, NotFoundError
from daycare.base.limits import KEY_MAX_CHARS, SECRET_MAX_CHARS
from daycare.base.messages import Origin
from daycare.base.path import check_user_id
from daycare.base.secrecy import hide
from daycare.base.zones import zone_of
from daycare.features.people.subusers import check_owner
from daycare.store.records import User
from daycare.store.rotation import Keyring
from daycare.store.sqlite.people import PeopleStore
from daycare.store.vault import check_key_name


class UsersQuery(RequestDocument, frozen=True, kw_only=True):
    """A page of users, in the order of their ids: of those that have `find` in their id, name or an address."""

    find: Annotated[str, msgspec.Meta(max_length=KEY_MAX_CHARS)] = ""
    after: str = ""
    limit: Limit = 100


class NewUser(RequestDocument, frozen=True, kw_only=True):
    """A person to add. `zone` is an IANA time zone; `under` makes them a sub-user of that person."""

    id: str
    name: Annotated[str, msgspec.Meta(max_length=KEY_MAX_CHARS)] = ""
    zone: str = "UTC"
    operator: bool = False
    under: str | None = None


class PersonChange(RequestDocument, frozen=True, kw_only=True):
    """What is to be another for a person; what is left out stays."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=KEY_MAX_CHARS)] | None = None
    zone: str | None = None


class Link(RequestDocument, frozen=True, kw_only=True):
    """A connector key, `telegram:42`."""

    key: Annotated[str, msgspec.Meta(max_length=KEY_MAX_CHARS, pattern=r"^[a-z0-9][a-z0-9_-]*:\S+$")]


Secret = Annotated[str, msgspec.Meta(min_length=1, max_length=SECRET_MAX_CHARS)]


class NewSecret(RequestDocument, frozen=True, kw_only=True):
    """A secret to store. With `test` it is tried first, and one that does not work is not stored."""

    value: Secret
    test: bool = False


class KeyTrial(RequestDocument, frozen=True, kw_only=True):
    """A secret to try; without a value the one that is stored."""

    value: Secret | None = None


class PeopleRoutes:
    """`/v1/users` and `/v1/links`."""

    def __init__(self, people: PeopleStore) -> None:
        self._people = people

    def routes(self) -> list[Route]:
        """Return the routes of people."""
        return [
            Route("/v1/users", self.find),
            Route("/v1/users", self.add, methods=["POST"]),
            Route("/v1/users/{id}", self.change, methods=["PATCH"]),
            Route("/v1/users/{id}", self.remove, methods=["DELETE"]),
            Route("/v1/users/{id}/links", self.link, methods=["POST"]),
            Route("/v1/links/{key:path}", self.unlink, methods=["DELETE"]),
        ]

    @described({200: {"users": list[User]}}, query=UsersQuery)
    async def find(self, request: Request) -> Response:
        """List people and groups."""
        wish = query(request, UsersQuery)
        return answer({"users": await self._people.find(text=wish.find, after=wish.after, limit=wish.limit)})

    @described({201: User}, body=NewUser, refuses=(409,))
    async def add(self, request: Request) -> Response:
        """Add a person, who can be spoken for in a terminal from now on."""
        wish = await body(request, NewUser)
        if wish.under is not None:
            if wish.operator:
                raise InvalidError("SUBUSER_OPERATOR", f"adding {wish.id}: a sub-user does not operate anything")
            await check_owner(self._people, wish.under)
        user = User(
            id=check_user_id(wish.id),
            name=wish.name or wish.id,
            zone=_known_zone(wish.zone),
            operator=wish.operator,
            parent=wish.under,
            keys=(f"direct:{wish.id}",),
        )
        return answer(await self._people.add(user, Origin.PERSON), 201)

    @described({200: User}, body=PersonChange)
    async def change(self, request: Request) -> Response:
        """Give a person another name or time zone."""
        wish = await body(request, PersonChange)
        id_ = request.path_params["id"]
        known = await self._people.get(id_)
        if known is None:
            raise NotFoundError("USER_UNKNOWN", f"changing {id_}: no user has this id", hint="daycare users list")
        zone = known.zone if wish.zone is None else _known_zone(wish.zone)
        return answer(await self._people.change(id_, name=wish.name or known.name, zone=zone))

    @described({200: {"removed": str, "below": list[str]}}, refuses=(409,))
    async def remove(self, request: Request) -> Response:
        """Remove a person with everybody below, and end all that is theirs; what was said and told stays."""
        user, *below = await self._people.remove(request.path_params["id"])
        return answer({"removed": user, "below": below})

    @described({200: User}, body=Link, refuses=(409,))
    async def link(self, request: Request) -> Response:
        """Say that an address is a person's."""
        key = (await body(request, Link)).key
        return answer(await self._people.link(key, request.path_params["id"], Origin.PERSON))

    @described({200: {"unlinked": str}}, refuses=(409,))
    async def unlink(self, request: Request) -> Response:
        """Make an address a stranger's again."""
        key = request.path_params["key"]
        await self._people.unlink(key)
        return answer({"unlinked": key})


class Keys:
    """`/v1/keys`: values go in and never come out. `try_key` takes a name and perhaps a value, in a thread."""

    def __init__(self, keyring: Keyring, try_key: Callable[[str, str | None], str]) -> None:
        self._keyring = keyring
        self._try_key = try_key

    def routes(self) -> list[Route]:
        """Return the routes of secrets."""
        return [
            Route("/v1/keys", self.find),
            Route("/v1/keys/rotate", self.rotate, methods=["POST"]),
            Route("/v1/keys/{name}", self.put, methods=["PUT"]),
            Route("/v1/keys/{name}", self.remove, methods=["DELETE"]),
            Route("/v1/keys/{name}/test", self.test, methods=["POST"]),
        ]

    @described({200: {"keys": [{"name": str, "created_at": int}]}})
    async def find(self, request: Request) -> Response:
        """List names and when each was stored."""
        found = await self._keyring.find()
        own = [{"name": name, "created_at": at_ms} for name, at_ms in found if ":" not in name]  # else a capability's
        return answer({"keys": own})

    @described({200: {"stored": str, "tried": str}}, body=NewSecret)
    async def put(self, request: Request) -> Response:
        """Store a secret, or replace it; `tried` is what works with it, if that was asked for."""
        name = check_key_name(request.path_params["name"])
        wish = await body(request, NewSecret)
        value = wish.value.strip() if wish.test else wish.value  # what is pasted brings its line's end
        hide(value)
        tried = await self._tried(name, value) if wish.test else ""
        await self._keyring.put(name, value)
        return answer({"stored": name, "tried": tried})

    @described({200: {"tried": str}}, body=KeyTrial)
    async def test(self, request: Request) -> Response:
        """Try a secret with one cheap call of what uses it; `tried` is that, empty if nothing in use has it."""
        name = check_key_name(request.path_params["name"])
        value = (await body(request, KeyTrial)).value
        if value is None and not self._keyring.has(name):
            raise NotFoundError("SECRET_UNKNOWN", f"trying the key {name}: there is none", hint="daycare keys list")
        if value is not None:
            hide(value)
        return answer({"tried": await self._tried(name, value)})

    async def _tried(self, name: str, value: str | None) -> str:
        return await trio.to_thread.run_sync(self._try_key, name, value, abandon_on_cancel=True)

    @described({200: {"resealed": int}}, refuses=(409,))
    async def rotate(self, request: Request) -> Response:
        """Seal every secret with a new key, and forget the older ones."""
        return answer({"resealed": await self._keyring.rotate()})

    @described({200: {"removed": str}})
    async def remove(self, request: Request) -> Response:
        """Delete a secret."""
        name = request.path_params["name"]
        if ":" in name or not await self._keyring.remove(name):
            raise NotFoundError("SECRET_UNKNOWN", f"removing the key {name}: there is none", hint="daycare keys list")
        return answer({"removed": name})


def _known_zone(name: str) -> str:
    return zone_of(name).key
