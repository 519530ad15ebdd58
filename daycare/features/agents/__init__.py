"""Permanent agents: the tools by which agents make them, and the chat command."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from daycare.feature import Feature

if TYPE_CHECKING:
    from daycare.actors.directory import Directory
    from daycare.actors.router import Router
    from daycare.actors.supervisor import Supervisor
    from daycare.agent.commands import Commands
    from daycare.base.clock import Clock
    from daycare.features.agents.commands import PermanentAgentCommands as PermanentAgentCommands
    from daycare.features.agents.controls import PermanentAgents as PermanentAgents
    from daycare.features.agents.rights import AgentGranting
    from daycare.features.agents.tools import PermanentAgentTools as PermanentAgentTools
    from daycare.plugin import StructTool
    from daycare.settings import Live
    from daycare.store.sqlite.store import Store


class PermanentAgentsFeature(Feature):
    """All of it. Those that have ended can be taken back for `[store] keep_days`."""

    name = "agents made by agents"

    def __init__(
        self,
        store: "Store",
        directory: "Directory",
        router: "Router",
        granting: "AgentGranting",
        supervisor: "Supervisor",
        clock: "Clock",
        live: "Live",
    ) -> None:
        from daycare.features.agents.controls import PermanentAgents

        self._life_of = supervisor.life_of
        self.controls = PermanentAgents(store, directory, router, granting, supervisor.awake, clock, live)

    def tools(self) -> "Sequence[StructTool[Any]]":
        """Return the tools by which agents make and change permanent ones."""
        from daycare.features.agents.tools import PermanentAgentTools

        return PermanentAgentTools(self.controls).tools()

    def add_to(self, commands: "Commands") -> None:
        """Register the chat command."""
        from daycare.features.agents.commands import PermanentAgentCommands

        PermanentAgentCommands(self.controls, self._life_of).add_to(commands)
