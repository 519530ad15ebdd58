"""What an agent does with others beyond writing to them, as tools: it reads what was said there, and ends helpers."""

from dataclasses import dataclass
from typing import Annotated, Final
from zoneinfo import ZoneInfo

import msgspec

from daycare.actors.directory import Directory
from daycare.actors.helpers import Helpers
from daycare.actors.permission_checks import PermissionChecks
from daycare.actors.router import Router
from daycare.agent.blocks import block
from daycare.base.errors import ForbiddenError
from daycare.base.messages import dismissal
from daycare.base.path import Kind
from daycare.base.permission import READ_HISTORY
from daycare.base.times import local_time
from daycare.base.tool import ACTS, Sourced
from daycare.plugin import StructTool, ToolContext
from daycare.rules.taint import sources_in, spoken_in
from daycare.store.sqlite.store import Store

HISTORY_READ_MAX: Final = 50  # messages of another agent's conversation that a tool shows

_ENDED_BY_AGENTS = (Kind.SUB, Kind.SEARCH)  # what lasts is for people to end
Address = Annotated[str, msgspec.Meta(description="The agent's address, such as /ann/telegram/sub/0")]


class EndAgent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """End a helper that is not needed any more, with the helpers below it. What it was doing is lost."""

    agent: Address
    reason: Annotated[str, msgspec.Meta(max_length=200, description="Why, in a few words")] = ""


class ReadHistory(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Read what was said last in another agent's conversation, such as a helper's."""

    agent: Address
    messages: Annotated[int, msgspec.Meta(ge=1, le=HISTORY_READ_MAX, description="How many, the newest")] = 10


@dataclass(frozen=True)
class Neighbours:
    """Makes these tools."""

    store: Store
    directory: Directory
    router: Router
    permissions: PermissionChecks
    helpers: Helpers

    def tools(self) -> list[StructTool[EndAgent] | StructTool[ReadHistory]]:
        """Return the tools."""
        return [
            StructTool("end_agent", EndAgent, self._end, idempotent=True, group="agents", **ACTS),
            StructTool(
                "read_history",
                ReadHistory,
                self._read,
                idempotent=True,
                group="agents",
                reads_private=True,
                reads_outside=True,
                changes_outside=False,
            ),
        ]

    async def _end(self, context: ToolContext, it: EndAgent) -> str:
        agent = await self.helpers.to_end(context.path, it.agent)
        if agent.kind not in _ENDED_BY_AGENTS:
            raise ForbiddenError(
                "AGENT_LASTING", f"ending {agent.path}: only helpers are ended by agents", hint="tell the user"
            )
        message = dismissal(
            agent.path,
            agent.id,
            agent.user,
            key=f"end:{context.turn}:{context.step}",
            reason=it.reason or f"ended by {context.path}",
            trace=context.trace,
            quiet=True,
        )  # not by its parent, so that a call of that which waits for it hears that nothing comes
        await self.router.post(message)
        return f"{agent.path} is told to end"

    async def _read(self, context: ToolContext, it: ReadHistory) -> Sourced:
        await self.permissions.check(context.path, READ_HISTORY, it.agent)
        agent = await self.directory.at(it.agent)
        said = await self.store.turns.history(agent.id, agent.session, it.messages)
        zone = ZoneInfo(context.zone)
        lines = [
            f"{local_time(each.at_ms, zone):%a %H:%M} {each.role}: {each.text}"
            for each in said[-it.messages :]
            if each.text
        ]
        text = block("history", "\n".join(lines)) if lines else "nothing was said there yet"
        said = [each for each in said if each.role != "tool"]  # what tools brought is in the words that followed
        spoken, heard = spoken_in(said), sources_in(said, ()).others
        return Sourced(text, None if spoken is None else tuple(dict.fromkeys((*spoken, *heard))))
