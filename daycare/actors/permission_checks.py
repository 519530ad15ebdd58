"""Permissions at the moment of use: who acts and its ancestors looked up, the rules asked, each refusal told."""

from typing import Any, Final

from daycare.actors.directory import Directory
from daycare.base.clock import Clock
from daycare.base.consent import PROPOSING
from daycare.base.errors import ForbiddenError
from daycare.base.events import PermissionRefused
from daycare.base.path import Kind, Path
from daycare.base.permission import (
    KILL,
    MESSAGE,
    READ_HISTORY,
    READ_MEMORY,
    SCHEDULE,
    SPAWN,
    TOOL,
    WRITE_MEMORY,
    Decision,
    PersonsSay,
    check_action,
    what_person_says,
)
from daycare.observe.bus import Bus
from daycare.plugin import ToolSpec
from daycare.rules.permissions import Party, Rules, Verdict
from daycare.settings import Live
from daycare.store.records import Agent, User

_DOING: Final = {
    MESSAGE: "writing to {}",
    SPAWN: "making a helper of {}",
    READ_MEMORY: "reading the memory of {}",
    WRITE_MEMORY: "changing the memory of {}",
    READ_HISTORY: "reading the conversation of {}",
    KILL: "ending {}",
    SCHEDULE: "scheduling something for {}",
}


class PermissionChecks:
    """Asks the rules about what agents do. What people do themselves is not asked here."""

    def __init__(self, directory: Directory, live: Live, bus: Bus, clock: Clock) -> None:
        self._directory = directory
        self._rules = live.made(lambda settings: Rules(settings.rules, settings.tools.by_role()))
        self._bus = bus
        self._clock = clock

    @property
    def rules(self) -> Rules:
        """Those of config.toml that are in force."""
        return self._rules()

    async def may(self, subject: str, action: str, target: str) -> Verdict:
        """Return whether the agent at `subject` may do `action` to the one at `target`, and why; nobody is told.

        Neither has to exist. Raises `InvalidError` for what is no path or no action.
        """
        check_action(action)
        return self.rules.decide(await self._line(subject), action, await self._path(target))

    async def check(self, subject: str, action: str, target: str, *, can_ask: bool = False) -> Decision:
        """Return what was decided where that lets the action go on; otherwise record the refusal and raise it.

        Raises `ForbiddenError` PERMISSION_DENIED that names the rule; PERMISSION_ASK where a person has to say yes and
        has not: who runs a call of a tool asks them then. With `can_ask` whoever checks does so itself.
        """
        verdict = await self.may(subject, action, target)
        say = what_person_says()
        asks = verdict.decision is Decision.ASK
        if verdict.decision is Decision.ALLOW or (asks and (can_ask or say is PersonsSay.YES)):
            return verdict.decision
        if asks and say is PersonsSay.LATER:
            raise ForbiddenError("PERMISSION_ASK", verdict.reason)
        agent = await self._directory.find(subject)
        self._bus.publish(
            PermissionRefused(
                at_ms=self._clock.now_ms(),
                path=subject,
                user=agent.user if agent else "",
                agent_id=agent.id if agent else "",
                action=action,
                object=verdict.object,
                decision=verdict.decision,
                reason=verdict.reason,
            )
        )
        what = _DOING.get(action, f"using {action.removeprefix(TOOL)}").format(verdict.object)
        command = f"`daycare can {subject} {action} {verdict.object}`"
        if asks:
            raise ForbiddenError(
                "PERMISSION_ASK",
                f"{what}: a person would have to allow it ({verdict.reason}), and cannot be asked for this",
                hint=f"tell the user what you wanted to do; {command} explains it",
            )
        raise ForbiddenError(
            "PERMISSION_DENIED",
            f"{what}: it is not permitted ({verdict.reason})",
            hint=f"do without it, and do not try other ways; {command} explains it",
        )

    async def tool(self, agent: Agent, user: User, tool: ToolSpec, arguments: Any) -> None:
        """Raise `ForbiddenError` as `check` where an agent may not use a tool: for the runner."""
        await self.check(agent.path, f"{TOOL}{tool.name}", agent.path, can_ask=tool.name in PROPOSING)

    def unlike(self, maker: Path, made: Path) -> str:
        """Return a rule of config.toml that gives `made` rights that `maker` has not, or binds `maker` alone; or ""."""
        return self.rules.unlike(maker, made)

    async def _line(self, subject: str) -> list[Party]:
        """Return who acts and its ancestors. Those it was born of count, also after they have died."""
        path: Path | None = await self._path(subject)
        agent = await self._directory.find(subject)
        bounded = path is not None and path.kind not in (Kind.SEARCH, Kind.MEMORY)  # these have tools of their own
        line: list[Party] = []
        while path is not None:
            line.append(_party(path, agent, bounded=bounded or not line))
            path = path.parent
            if path is not None:
                agent = await self._above(agent, str(path))
        return line

    async def _above(self, agent: Agent | None, path: str) -> Agent | None:
        if agent is not None and agent.parent is not None:
            return await self._directory.get(agent.parent)
        return await self._directory.find(path)

    async def _path(self, text: str) -> Path:
        agent = await self._directory.find(text)  # before parsing: it may be a connector's that is gone
        return self._directory.parse(text) if agent is None else Path.stored(agent.path, Kind(agent.kind))


def _party(path: Path, agent: Agent | None, *, bounded: bool) -> Party:
    if agent is None:
        return Party(path)
    return Party(path, agent.config.permissions, agent.config.tools if bounded else None)
