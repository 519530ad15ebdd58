"""Which agent a panel is about, and who looks at it.

An agent is named by its id, or by its path with dots in place of slashes (`ann.agent.scribe`), which stand in no name.
"""

from datetime import UTC
from typing import TYPE_CHECKING, Final

from starlette.requests import Request

from daycare.agent.kinds import conversation
from daycare.api.callers import Caller, May, caller_of
from daycare.base.connector import DIRECT
from daycare.base.documents import Attribution
from daycare.base.errors import ForbiddenError, NotFoundError
from daycare.base.messages import Origin
from daycare.base.scope import is_subusers
from daycare.base.times import local_time
from daycare.store.records import Agent

if TYPE_CHECKING:
    from starlette.responses import Response

    from daycare.features.memory.service import MemoryFeature

IF_MATCH: Final = {"If-Match": "The `ETag` of what is to be changed: else, by another text meanwhile, 409."}
_SHOWN_CHARS: Final = 200  # of a name that names nothing


class Subjects:
    """Finds agents for callers: a person's own only, and an operator's all but those of whom a user has let in."""

    def __init__(self, memory: "MemoryFeature") -> None:
        self._directory = memory.directory
        self._people = memory.store.people
        self._owner = memory.owner

    async def named(self, request: Request, segment: str) -> Agent:
        """Return the living agent that a segment of the route names.

        Raises `NotFoundError` AGENT_UNKNOWN, the same for what is another person's, `ForbiddenError` OTHER_USER.
        """
        name, caller = request.path_params[segment], caller_of(request)
        agent = await self._find(name)
        if agent is None or (caller.own_only and agent.user != caller.user) or not caller.within(agent.path):
            raise _unknown(name)
        if not caller.own_only and is_subusers(agent.path):
            raise ForbiddenError("OTHER_USER", f"using the memory of {agent.path}: it is theirs alone")
        return agent

    async def own(self, request: Request) -> Agent:
        """Return the agent that a caller talks with where none is named; it comes into being with this.

        For who may change nothing it is one that could be there, of which nothing is stored.

        Raises `NotFoundError` AGENT_UNKNOWN where a token is for other agents.
        """
        name = self.user(request)
        user = await self._people.get(name)
        if user is None:
            raise NotFoundError("USER_UNKNOWN", f"looking up {name}: no user has this id", hint="daycare users")
        path = conversation(user, DIRECT)
        if not caller_of(request).within(str(path)):
            raise _unknown(str(path))
        found = await self._directory.find(str(path))
        if found is not None:
            return found
        if changes(caller_of(request)):
            return await self._directory.create(path, origin=Origin.PERSON)
        new = self._directory.new(path, origin=Origin.PERSON)
        return Agent(
            id=new.id,
            path=new.path,
            kind=new.kind,
            role=new.role,
            user=new.user,
            origin=new.origin,
            parent=None,
            state="living",
            config=new.config,
            incarnation=0,
            session=0,
            created_at=0,
        )

    def user(self, request: Request) -> str:
        """Return who calls."""
        return caller_of(request).user or self._owner

    def by(self, request: Request, reason: str = "") -> Attribution:
        """Return who stands behind a change that is asked for."""
        author = f"{DIRECT}:{self.user(request)}"
        return Attribution(origin=Origin.PERSON, author=author, approver=author, reason=reason)

    async def _find(self, name: str) -> Agent | None:
        if "." in name:
            return await self._directory.find("/" + name.replace(".", "/"))
        try:
            agent = await self._directory.get(name)
        except NotFoundError:
            return None
        return None if agent.state == "dead" else agent


def _unknown(name: str) -> NotFoundError:
    what = f"looking up {name[:_SHOWN_CHARS]}: no such agent"
    return NotFoundError("AGENT_UNKNOWN", what, hint="GET /v1/agents")


def changes(caller: Caller) -> bool:
    """Return whether a caller may change anything."""
    return caller.may is not May.READ


def iso(at_ms: int) -> str | None:
    """Return a wall time as ISO 8601 in UTC, to the millisecond; None for no time."""
    return local_time(at_ms, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z") if at_ms else None


def tagged(response: "Response", hash_: str) -> "Response":
    """Return an answer with the hash of the document that it shows as its ETag, for `If-Match`."""
    response.headers["ETag"] = f'"{hash_}"'
    return response


def seen(request: Request) -> str | None:
    """Return the hash of what a caller says to have seen by `If-Match`, None for whatever is there."""
    header = request.headers.get("if-match", "*").strip()
    return None if header == "*" else header.removeprefix("W/").strip('"')
