"""Newcomers: strangers who wrote become users, or are turned away. For API, terminal and chat alike."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import trio

from daycare.actors.directory import Directory
from daycare.agent.kinds import conversation
from daycare.base.errors import ConflictError, DaycareError, InvalidError
from daycare.base.ids import new_trace_id
from daycare.base.messages import Origin
from daycare.base.pairing import code_hash, suggested_ids
from daycare.base.path import check_user_id
from daycare.features.people.subusers import check_owner
from daycare.store.records import Reply, Stranger, User
from daycare.store.sqlite.store import Store


class Welcomed(NamedTuple):
    """Who was let in: their account's key, whom they talk to, whether they are new here, and whether they were told."""

    user: User
    key: str
    path: str
    created: bool
    welcomed: bool


class _Wish(NamedTuple):
    stranger: Stranger
    user: str | None = None
    under: str | None = None
    name: str = ""


@dataclass(frozen=True)
class Newcomers:
    """Lets strangers in and turns them away. `owner` is the operator whose time zone a newcomer is given."""

    store: Store
    directory: Directory
    owner: str
    _approving: trio.Lock = field(default_factory=trio.Lock)  # a free id is found before it is taken

    async def by_code(self, code: str) -> Stranger:
        """Return who was shown a code. Raises `ForbiddenError` PAIR_CODE."""
        return await self.store.strangers.by_code(code_hash(code))

    async def approve_code(self, code: str, user: str | None, under: str | None, name: str) -> Welcomed:
        """Let in who was shown a code, as `user`, and tell them. The code is used up."""
        async with self._approving:
            wish = _Wish(await self.by_code(code), user, under, name)
            return await self._approve(wish, lambda *of: self.store.strangers.approve(code_hash(code), *of))

    async def approve_key(self, key: str) -> Welcomed:
        """Let in the account of this key, as somebody new, and tell them. Raises `NotFoundError` STRANGER_UNKNOWN."""
        async with self._approving:
            wish = _Wish(await self.store.strangers.get(key))
            return await self._approve(wish, lambda *of: self.store.strangers.admit(key, *of))

    async def deny(self, key: str) -> Stranger:
        """Show somebody no more codes; they are counted on."""
        return await self.store.strangers.deny(key)

    async def free_id(self, stranger: Stranger) -> str:
        """Return an id that nobody has had: one who was removed left conversations behind, and they are theirs."""
        for wanted in suggested_ids(stranger.name, stranger.key, group=stranger.kind == "group"):
            taken = await self.store.people.get(wanted) is not None
            if not taken and not await self.store.agents.find(user=wanted, include_dead=True, limit=1):
                return wanted
        raise AssertionError("there is no end of them")

    async def _approve(
        self, wish: _Wish, admit: Callable[[User, Origin], Awaitable[tuple[Stranger, User]]]
    ) -> Welcomed:
        stranger = wish.stranger
        user_id = check_user_id(wish.user) if wish.user is not None else await self.free_id(stranger)
        known = await self.store.people.get(user_id)
        if wish.under is not None:
            if stranger.kind == "group":
                raise InvalidError("SUBUSER_GROUP", "approving a group: only a person can be somebody's sub-user")
            await check_owner(self.store.people, wish.under)
        if known is not None and wish.under not in (None, known.parent):
            raise ConflictError(
                "USER_EXISTS", f"adding {user_id} under {wish.under}: there is one", hint="choose another id"
            )
        owner = await self.store.people.get(self.owner)
        new = User(
            id=user_id,
            name=wish.name.strip() or stranger.name.strip() or user_id,
            zone=owner.zone if owner else "UTC",
            parent=wish.under,
        )
        origin = Origin.GROUP if stranger.kind == "group" else Origin.PERSON
        stranger, user = await admit(new, origin)
        path, welcomed = await self._welcome(stranger, user, origin)
        return Welcomed(user, stranger.key, path, known is None, welcomed)

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
            agent = await self.directory.create(path, origin=origin)
            await self.store.outbox.add(agent, reply, new_trace_id())
        except DaycareError:
            return str(path), False
        return str(path), True
