"""Whose memory a caller of the API means, and what of it they may see and change.

Operators use that of all, but not what people keep whom a user has let in (`/ann/subuser/bob`). A person uses their
own. What everybody reads they read as it is now: its versions and its changes are for operators.
"""

from typing import TYPE_CHECKING

from msgspec.structs import replace

from daycare.agent.kinds import conversation
from daycare.api.callers import Caller
from daycare.api.routes_agents import agent_at
from daycare.base.connector import DIRECT
from daycare.base.documents import Attribution, DocumentVersion, Layer
from daycare.base.errors import ForbiddenError, NotFoundError
from daycare.base.messages import Origin
from daycare.base.scope import is_subusers
from daycare.features.memory.documents.records import LayerState
from daycare.rules.document_paths import parse
from daycare.store.records import Agent

if TYPE_CHECKING:
    from daycare.features.memory.service import MemoryFeature


async def agent_of(memory: "MemoryFeature", at: str | None, caller: Caller, *, whole: bool = False) -> Agent:
    """Return the agent whose memory is meant; without a path the one that the caller talks with by the API.

    `whole`: all that its person's agents remember is meant, which a token for some of them does not open. Raises
    `NotFoundError` AGENT_UNKNOWN, also for what is another person's, `ForbiddenError` OTHER_USER and TOKEN_PATHS.
    """
    if caller.own_only:
        agent = await _own(memory, at, caller)
        if whole and caller.paths:
            what = "all agents of a person share what is remembered, and this token is for some of them"
            raise ForbiddenError("TOKEN_PATHS", f"using the memory of {agent.path}: {what}", hint="daycare tokens add")
        return agent
    if at is None:  # before the first word was said there is nobody whose documents could be written
        return await _talking(memory, memory.owner)
    agent = await agent_at(memory, at)
    if is_subusers(agent.path):
        raise ForbiddenError("OTHER_USER", f"using the memory of {agent.path}: it is theirs alone")
    return agent


def by(memory: "MemoryFeature", caller: Caller, reason: str = "") -> Attribution:
    """Return who stands behind a change: operators approve what they write, and persons what concerns them alone."""
    author = f"{DIRECT}:{caller.user if caller.own_only else memory.owner}"
    return Attribution(origin=Origin.PERSON, author=author, approver=author, reason=reason)


def check_change(caller: Caller, path: str) -> None:
    """Raise `ForbiddenError` DOCUMENT_SHARED where a change concerns more than a caller may change."""
    layers = parse(path).layers
    if layers and not _is_theirs(caller, layers[0]):
        raise ForbiddenError("DOCUMENT_SHARED", f"changing {path}: others read it, too", hint="ask an operator")


async def check_versions(memory: "MemoryFeature", agent: Agent, path: str, caller: Caller) -> None:
    """Raise `ForbiddenError` DOCUMENT_SHARED where the versions of a document are not for a caller to see."""
    if not caller.own_only:
        return
    states = await memory.documents.explain(agent, path)
    line = next((each for each in states if each.wins), next((each for each in states if each.newest), None))
    if line is not None and not _is_theirs(caller, Layer(line.layer)):
        what = f"looking at versions of {path}: others read it, too"
        raise ForbiddenError("DOCUMENT_SHARED", what, hint="ask an operator")


def explained(caller: Caller, states: list[LayerState]) -> list[LayerState]:
    """Return the layers of a document, without who has written what is not the caller's and why."""
    return [replace(each, newest=_unsigned(caller, each.newest)) if each.newest else each for each in states]


def _is_theirs(caller: Caller, layer: Layer) -> bool:
    """Whether what is in a layer concerns nobody but the agents that a caller may see."""
    return not caller.own_only or layer is Layer.AGENT or not (caller.paths or layer is Layer.GLOBAL)


async def _own(memory: "MemoryFeature", at: str | None, caller: Caller) -> Agent:
    agent = await (_talking(memory, caller.user) if at is None else memory.directory.find(at))
    if agent is None or agent.user != caller.user or not caller.within(agent.path):
        raise NotFoundError("AGENT_UNKNOWN", f"looking up {at}: no such agent", hint="daycare agents")
    return agent


async def _talking(memory: "MemoryFeature", name: str) -> Agent:
    user = await memory.store.people.get(name)
    if user is None:
        raise NotFoundError("USER_UNKNOWN", f"looking up {name}: no user has this id", hint="daycare users")
    path = conversation(user, DIRECT)
    return await memory.directory.find(str(path)) or await memory.directory.create(path, origin=Origin.PERSON)


def _unsigned(caller: Caller, it: DocumentVersion) -> DocumentVersion:
    if _is_theirs(caller, it.place.layer):
        return it
    return replace(it, user="", by=Attribution(origin=it.by.origin, author=""))
