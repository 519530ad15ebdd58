"""Turns that are code: of apps, whose behaviour a plugin supplies, and of the daemon's own agents.

A behaviour is called in an agent's turn as a model would be: over the turn's messages, and again after a crash. What it
wants done (messages, reminders, the reply, what it keeps) is committed with the end of the turn, all together.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec
from msgspec.structs import replace

from daycare.agent.kinds import chains_of, messages_of
from daycare.agent.steps import Thought
from daycare.base.behaviour import BehaviourContext, BehaviourMessage, Sort
from daycare.base.causes import Signalled
from daycare.base.clock import Clock
from daycare.base.error_boundary import error_boundary
from daycare.base.errors import AwayError, InvalidError, NotFoundError
from daycare.base.limits import BEHAVIOUR_STATE_MAX_BYTES, REPLY_MAX_CHARS
from daycare.base.messages import EnvelopeKind, Message, Origin, Text
from daycare.base.path import Kind, Path
from daycare.store.records import Agent, AgentConfig, InboxRow, Turn, User
from daycare.store.sqlite.store import Store
from daycare.tools.context import Call, Reach, ToolCallContext

FAILED: Final = "BEHAVIOUR_FAILED"
_NOTICES: Final = (EnvelopeKind.NOTICE, EnvelopeKind.RESULT, EnvelopeKind.NOTE)
_encode = msgspec.json.Encoder().encode


class BehaviourPart(Protocol):
    """A behaviour as it is called here: `plugin` is whose it is; what it raises names the one to blame."""

    name: str
    description: str
    plugin: str

    def problem(self) -> str:
        """Return why it cannot act now, "" if it can."""
        ...

    async def act(self, context: BehaviourContext, messages: Sequence[BehaviourMessage]) -> str | None:
        """Take a turn."""
        ...


class BehaviourStanding(msgspec.Struct, frozen=True):
    """What `agents show` tells of an agent's behaviour. `problem` says why it does nothing, "" if it works."""

    name: str
    plugin: str
    description: str
    problem: str


class BehaviourStage(ToolCallContext):
    """A `BehaviourContext`."""

    state: object = None


@dataclass(frozen=True)
class Behaviours:
    """All that there are: `parts` by PLUGIN/NAME, and the daemon's own by the paths of their agents."""

    store: Store
    clock: Clock
    reach: Reach
    parts: dict[str, BehaviourPart]

    def named(self, name: str) -> str:
        """Return PLUGIN/NAME for a behaviour, given either way. Raises `NotFoundError`."""
        known = [key for key in self.parts if not key.startswith("/")]
        found = [key for key in known if name in (key, key.partition("/")[2])]
        if not found:
            raise NotFoundError(
                "BEHAVIOUR_UNKNOWN",
                f"there is no behaviour {name}; there are: {', '.join(sorted(known)) or 'none'}",
                hint="plugins bring them: daycare plugins list",
            )
        return found[0]

    def settings(self, path: Path, config: AgentConfig) -> AgentConfig:
        """Return the settings of an agent that is to be created, with what its behaviour adds.

        Raises `InvalidError` for an app without one, and for one of anything else.
        """
        if path.kind is not Kind.APP:
            if config.behaviour:
                what = f"creating {path}: only apps have a behaviour"
                raise InvalidError("AGENT_BEHAVIOUR", what, hint=f"/{path.user}/app/{path.name}")
            return config
        if not config.behaviour:
            known = ", ".join(sorted(key for key in self.parts if not key.startswith("/"))) or "no plugin brings one"
            what = f"creating {path}: an app is made of a behaviour ({known})"
            raise InvalidError("AGENT_BEHAVIOUR", what, hint=f"daycare agents create {path} --behaviour NAME")
        key = self.named(config.behaviour)
        return replace(config, behaviour=key, description=config.description or self.parts[key].description)

    def standing(self, agent: Agent) -> BehaviourStanding | None:
        """Return how an agent's behaviour is, None for one that has none."""
        if not has_behaviour(agent):
            return None
        plugin, _, name = agent.config.behaviour.partition("/")
        part = self.parts.get(_key(agent))
        if part is not None:
            return BehaviourStanding(part.name, part.plugin, part.description, part.problem())
        if agent.kind == Kind.SYSTEM:
            return BehaviourStanding(agent.path, "", "", "this version of daycare has no such agent")
        missing = f"it is made by the behaviour {name} of the plugin {plugin}, which is not installed or was left out"
        return BehaviourStanding(name, plugin, "", missing)

    async def take(self, agent: Agent, user: User, turn: Turn, rows: Sequence[InboxRow]) -> Thought:
        """Take a turn of an agent that has a behaviour. Raises `AwayError` as long as nobody can act for it."""
        part = self.parts.get(_key(agent))
        if part is None:
            standing = self.standing(agent)
            reason = standing.problem if standing else "it has no behaviour"
            raise AwayError("BEHAVIOUR_AWAY", f"{agent.path} cannot work: {reason}", hint="daycare plugins list")
        kept = await self.store.behaviours.kept(agent.id)
        now_ms = self.clock.now_ms()
        chains = chains_of(rows)
        call = Call(agent, user, turn, 0, "behaviour")
        stage = BehaviourStage(self.reach, call, now_ms, chains, (), lambda _: None)
        stage.state = kept.value() if kept is not None else None
        reply = await part.act(stage, [_heard(row) for row in rows])
        reply = (reply or "").replace("\x00", "").strip()[:REPLY_MAX_CHARS]
        said = [Message("assistant", (Text(reply),), self.clock.now_ms(), Origin.AGENT, agent.path)] if reply else []
        state = _kept(part, stage.state)
        changed = state != (kept.text if kept is not None else "null")
        return Thought(
            rows=tuple(rows),
            history=(*messages_of(rows), *said),
            reply=reply,
            effects=replace(await stage.effects(), state=state if changed else None),
        )


def has_behaviour(agent: Agent) -> bool:
    """Return whether an agent's turns are code."""
    return agent.kind == Kind.SYSTEM or (agent.kind == Kind.APP and agent.config.behaviour != "")


def _key(agent: Agent) -> str:
    return agent.path if agent.kind == Kind.SYSTEM else agent.config.behaviour


def _kept(part: BehaviourPart, state: object) -> str:
    """Return what is to be kept as JSON."""
    with error_boundary(
        FAILED, f"keeping what the behaviour {part.name} of the plugin {part.plugin} leaves in its state"
    ):
        text = _encode(state).decode()
    if len(text) > BEHAVIOUR_STATE_MAX_BYTES:
        raise InvalidError(
            "BEHAVIOUR_STATE",
            f"keeping what the behaviour {part.name} of the plugin {part.plugin} leaves in its state: {len(text)}"
            f" bytes of JSON, at most {BEHAVIOUR_STATE_MAX_BYTES}",
        )
    return text


def _heard(row: InboxRow) -> BehaviourMessage:
    envelope = row.envelope
    sort: Sort = "message"
    if envelope.origin is Origin.TIMER:
        sort = "reminder"
    elif envelope.kind in _NOTICES:
        sort = "notice"
    return BehaviourMessage(
        number=row.seq,
        sort=sort,
        signal=envelope.cause.signal if isinstance(envelope.cause, Signalled) else "",
        text=envelope.text,
        sender=envelope.sender,
        origin=envelope.origin,
        at_ms=row.created_at,
        files=envelope.files,
    )
