"""Who decides what: people what concerns themselves, the operator what concerns everybody, and for groups."""

from dataclasses import dataclass

from daycare.base.documents import Layer
from daycare.base.errors import ForbiddenError
from daycare.base.scope import scope_of
from daycare.features.approvals.records import Action
from daycare.store.records import Agent
from daycare.store.sqlite.store import Store

IDENTITY = "IDENTITY.md"


@dataclass(frozen=True)
class Approvers:
    """Knows it. `owner` is the operator."""

    _store: Store
    owner: str

    async def of(self, agent: Agent, action: Action | None = None) -> str:
        """Return the user who decides what an agent asks for, or, without an action, what is granted to it."""
        place = action.place if action is not None else None
        if place is not None and (place.layer is Layer.GLOBAL or place.name == IDENTITY):
            return self.owner
        user = await self._store.people.get(agent.user)
        return self.owner if user is None or user.kind == "group" else user.id

    async def check_place(self, agent: Agent, action: Action) -> None:
        """Raise `ForbiddenError` OTHER_USER where an agent asks for a change of what is another user's."""
        place = action.place
        if place is None:
            return
        if place.layer is Layer.AGENT and place.owner != agent.id:
            other = await self._store.agents.get(place.owner)
            allowed = other is not None and other.user == agent.user
        else:
            allowed = place.layer in (Layer.AGENT, Layer.GLOBAL) or place.owner == scope_of(agent.path)
        if not allowed:
            raise ForbiddenError("OTHER_USER", f"asking for a change of {place}: it belongs to another user")

    async def check(self, decider: str, user: str, doing: str) -> None:
        """Raise `ForbiddenError` APPROVAL_OTHERS unless a user is the one who decides."""
        if user != decider:
            found = await self._store.people.get(decider)
            name = found.name if found else decider
            raise ForbiddenError("APPROVAL_OTHERS", f"{doing}: only {name} can decide this")
