"""What a turn begins with: the list of skills in its prompt, and the skill that a person asks for by `/NAME`.

That one is read before the model says anything: by the call of the tool that the model would have made, so that it is
journaled, and seen, as one. An agent that was not given the tool has no list either.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from daycare.actors.directory import Directory
from daycare.agent.prompt import PromptEntry
from daycare.base.messages import EnvelopeKind, Origin, ToolCall
from daycare.features.skills.service import Skills
from daycare.features.skills.tools import SKILL
from daycare.store.records import Agent, InboxRow, Turn

ASKED_MAX: Final = 3  # skills of one turn

_asked: Final = re.compile(r"/([^\s/@]{1,64})(?:@\w{1,64})?(?=\s|$)").match


@dataclass(frozen=True)
class AskedSkills:
    """Knows them. `may_use` tells whether an agent has a tool, `is_command` what is a command already."""

    skills: Skills
    directory: Directory
    may_use: Callable[[Agent, str], bool]
    is_command: Callable[[str], bool]

    def stamp(self, agent: Agent) -> object:
        """Return what changes when the list of an agent's skills may have."""
        return self._may_read(agent) and self.skills.stamp(agent)

    async def entries(self, agent: Agent) -> Sequence[PromptEntry]:
        """Return the list of skills for a prompt."""
        return await self.skills.entries(agent) if self._may_read(agent) else ()

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
        return self._may_read(agent) and any(each.name == name for each in await self.skills.offered(agent))

    def _may_read(self, agent: Agent) -> bool:
        return self.may_use(agent, SKILL)


def _name(text: str) -> str:
    found = _asked(text)
    return found[1] if found else ""
