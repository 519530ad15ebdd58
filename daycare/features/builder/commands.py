"""The chat command `/build`: lets the builder answer in a conversation."""

from msgspec.structs import replace

from daycare.actors.lifecycle import Activation
from daycare.agent.commands import Command, CommandAnswer, Commands, check_manager
from daycare.agent.kinds import conversation
from daycare.base.errors import DaycareError
from daycare.base.messages import Choice
from daycare.base.path import Kind
from daycare.features.agents.templates import EMPTY, names
from daycare.features.builder.records import BUILDER
from daycare.features.builder.service import Builder
from daycare.store.records import Agent, InboxRow


class BuilderCommands:
    """Answers it."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder

    def add_to(self, commands: Commands) -> None:
        """Register it."""
        commands.add("build", Command("make or change an agent by talking", self._build))

    async def _build(self, agent: Agent, lane: Activation, row: InboxRow, rest: str) -> CommandAnswer:
        await check_manager(self._builder.store.people, row, agent, "whose agents these are can do that")
        if why := await self._builder.lacking(agent.user):
            made = tuple(Choice(f"Make {name}", f"/agents new {name}") for name in names() if name != EMPTY)
            return CommandAnswer(why, choices=made)
        try:
            opened = await self._builder.open(agent.user)
        except DaycareError as error:
            return CommandAnswer(error.message)
        user = await self._builder.person(agent.user)
        path = str(conversation(user, row.envelope.sender.partition(":")[0]))
        here = await self._builder.checks.directory.find(path)
        if here is None or here.kind != Kind.CONNECTOR:
            return CommandAnswer(f"{opened.path} builds agents: write to it.")
        await self._builder.store.agents.configure(here.id, replace(here.config, answers=BUILDER))
        return CommandAnswer(
            "What is the agent for? From your next message on the builder answers here; /use default goes back.",
            choices=(Choice("Go back", "/use default"),),
        )
