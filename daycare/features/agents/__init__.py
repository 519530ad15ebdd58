"""Permanent agents: what they are made of, the tools by which agents make them, and the chat command."""

from collections.abc import Callable, Container, Sequence
from typing import TYPE_CHECKING, Any

from daycare.feature import Core, Feature

if TYPE_CHECKING:
    import trio
    from starlette.routing import Route

    from daycare.actors.supervisor import Supervisor
    from daycare.agent.commands import Commands
    from daycare.features.agents.commands import PermanentAgentCommands as PermanentAgentCommands
    from daycare.features.agents.controls import PermanentAgents as PermanentAgents
    from daycare.features.agents.rights import AgentGranting
    from daycare.features.agents.tools import PermanentAgentTools as PermanentAgentTools
    from daycare.plugin import StructTool
    from daycare.store.records import Agent


class PermanentAgentsFeature(Feature):
    """All of it. Those that have ended can be taken back for `[store] keep_days`; `tools` are those that one has."""

    name = "agents made by agents"

    def __init__(
        self,
        core: Core,
        granting: "AgentGranting",
        supervisor: "Supervisor",
        tools: "Callable[[Agent], Container[str]]",
    ) -> None:
        from daycare.features.agents.controls import PermanentAgents

        self._life_of = supervisor.life_of
        self._owner = core.owner
        self.controls = PermanentAgents(core, granting, supervisor.may_work, tools)

    def tools(self) -> "Sequence[StructTool[Any]]":
        """Return the tools by which agents make and change permanent ones."""
        from daycare.features.agents.tools import PermanentAgentTools

        return PermanentAgentTools(self.controls).tools()

    def add_to(self, commands: "Commands") -> None:
        """Register the chat command."""
        from daycare.features.agents.commands import PermanentAgentCommands

        PermanentAgentCommands(self.controls, self._life_of).add_to(commands)

    def routes(self, closing: "trio.Event") -> "Sequence[Route]":
        """Return `/v1/templates`."""
        from daycare.features.agents.routes import TemplateRoutes

        return TemplateRoutes(self.controls, self._owner).routes()
