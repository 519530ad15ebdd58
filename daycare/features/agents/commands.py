"""The chat command `/agents`: which there are; make a permanent one of a template, end it, and take it back."""

from collections.abc import Callable
from typing import Final

from daycare.actors.lifecycle import Activation
from daycare.agent.commands import Command, CommandAnswer, Commands, check_manager
from daycare.agent.status_commands import LIVES
from daycare.base.errors import DaycareError, NotFoundError
from daycare.base.likeness import nearest_name
from daycare.base.messages import Choice
from daycare.base.path import Path
from daycare.features.agents.controls import PermanentAgents
from daycare.features.agents.rights import WantedSettings
from daycare.features.agents.templates import names, template
from daycare.store.records import Agent, InboxRow

_LINES_MAX: Final = 40  # of a list in a chat: two screens of a phone
_LINE_MAX_CHARS: Final = 300
_WAITING_COUNTED: Final = 100
_HELP: Final = (
    "/agents shows all, /agents new TEMPLATE [NAME] makes a permanent one, /agents rm NAME ends it,"
    f" /agents restore NAME takes it back. Templates: {', '.join(names())}."
)


class PermanentAgentCommands:
    """Answers it. `life_of` tells where an agent is in its life."""

    def __init__(self, agents: PermanentAgents, life_of: Callable[[Agent], str]) -> None:
        self._agents = agents
        self._life_of = life_of

    def add_to(self, commands: Commands) -> None:
        """Register it."""
        commands.add("agents", Command("list your agents [new TEMPLATE | rm NAME | restore NAME]", self._run))

    async def _run(self, agent: Agent, lane: Activation, row: InboxRow, rest: str) -> CommandAnswer:
        verb, _, named = rest.partition(" ")
        name, _, sure = named.strip().partition(" ")
        if not rest or rest == "list":
            return await self._list(agent)
        if verb not in ("new", "rm", "restore") or not name or (verb != "new" and sure.strip() not in ("", "yes")):
            return CommandAnswer(_HELP)
        await check_manager(self._agents.store.people, row, agent, "whose agents these are can do that")
        try:
            if verb == "new":
                return await self._make(agent, name, sure.strip() or name)
            if verb == "restore":
                back = await self._agents.restore(str(Path.agent(agent.user, name)))
                return CommandAnswer(f"{back.path} lives again. /use {name} lets it answer here.")
            return await self._end(await self._agents.at(agent.user, name), name, sure=bool(sure.strip()))
        except NotFoundError as error:
            if error.code == "TEMPLATE_UNKNOWN":
                return CommandAnswer(f"{error.message}. There are: {', '.join(names())}.")
            near = nearest_name(name, await self._names(agent.user))
            return CommandAnswer(f"Did you mean /agents {verb} {near[0]}?" if near else error.message)
        except DaycareError as error:
            return CommandAnswer(error.message)

    async def _make(self, agent: Agent, template_name: str, name: str) -> CommandAnswer:
        of = template(template_name)
        made = await self._agents.make(str(Path.agent(agent.user, name)), of, WantedSettings(), by=agent.user)
        lacks = self._agents.lacks(made, of)
        missing = f" It counts on what it does not have here: {', '.join(lacks)}." if lacks else ""
        text = f"{made.path} is there.{missing} /use {name} lets it answer here. Say for example: {of.first}"
        return CommandAnswer(text, choices=(Choice(f"Talk with {name}", f"/use {name}"),))

    async def _end(self, agent: Agent, name: str, *, sure: bool) -> CommandAnswer:
        if sure:
            await self._agents.end(agent, "ended by its person")
            return CommandAnswer(f"{agent.path} has ended. For a while it can be taken back: /agents restore {name}")
        waiting = len(await self._agents.store.inbox.waiting(agent.id, limit=_WAITING_COUNTED))
        lost = f", and {waiting} message{'s' if waiting > 1 else ''} that wait for it are given up" if waiting else ""
        text = f"This ends {agent.path}{lost}. /agents rm {name} yes does it; it can be taken back for a while."
        return CommandAnswer(text, choices=(Choice(f"End {name}", f"/agents rm {name} yes"),))

    async def _list(self, agent: Agent) -> CommandAnswer:
        agents = await self._agents.directory.all_of(agent.user)
        lines = []
        for each in agents[:_LINES_MAX]:
            life = self._life_of(each)
            here = ", this one" if each.id == agent.id else ""
            about = f": {each.config.description}" if each.config.description else ""
            lines.append(f"{each.path} ({LIVES.get(life, life)}{here}){about}"[:_LINE_MAX_CHARS])
        if len(agents) > _LINES_MAX:
            lines.append(f"... and {len(agents) - _LINES_MAX} more: daycare agents")
        return CommandAnswer("\n".join(lines))

    async def _names(self, user: str) -> list[str]:
        return [each.path.rpartition("/")[2] for each in await self._agents.find(user)]
