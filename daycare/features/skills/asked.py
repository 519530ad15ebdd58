"""Skills that a person asks for: a message `/NAME` reads that skill before the model says anything.

The turn begins with the call of the tool that the model would have made, so that it is journaled, and seen, as one.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from daycare.actors.directory import Directory
from daycare.agent.prompt import is_helper
from daycare.base.messages import EnvelopeKind, Origin, ToolCall
from daycare.features.skills.service import Skills
from daycare.features.skills.tools import SKILL
from daycare.plugin import ToolSpec
from daycare.store.records import Agent, InboxRow, Turn

ASKED_MAX: Final = 3  # skills of one turn

_asked: Final = re.compile(r"/([^\s/@]{1,64})(?:@\w{1,64})?(?=\s|$)").match


@dataclass(frozen=True)
class AskedSkills:
    """Knows them. `specs` are the tools an agent may use, `is_command` tells what is a command already."""

    skills: Skills
    directory: Directory
    specs: Callable[[Agent], Sequence[ToolSpec]]
    is_command: Callable[[str], bool]

    async def are_meant(self, path: str, text: str) -> bool:
        """Return whether a message with a slash in front names a skill of the agent at a path, and no command."""
        name = _name(text)
        if not name or self.is_command(name):
            return False
        agent = await self.directory.find(path)
        return agent is not None and await self._has(agent, name)

    async def calls(self, agent: Agent, turn: Turn, rows: Sequence[InboxRow]) -> list[ToolCall]:
        """Return the calls with which a turn begins."""
        found: dict[str, ToolCall] = {}
        for row in rows:
            it = row.envelope
            name = _name(it.text) if it.kind is EnvelopeKind.TEXT and it.origin in (Origin.PERSON, Origin.GROUP) else ""
            if name and name not in found and await self._has(agent, name):
                found[name] = ToolCall(f"asked-{row.seq}", SKILL, {"name": name})
        return list(found.values())[:ASKED_MAX]

    async def _has(self, agent: Agent, name: str) -> bool:
        if is_helper(agent) or not any(spec.name == SKILL for spec in self.specs(agent)):
            return False
        return any(each.name == name for each in await self.skills.offered(agent))


def _name(text: str) -> str:
    found = _asked(text)
    return found[1] if found else ""
