"""The builder: makes and changes permanent agents by talking, with one yes to all of it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from daycare.feature import Feature

if TYPE_CHECKING:
    import trio
    from starlette.routing import Route

    from daycare.agent.commands import Commands
    from daycare.agent.sections import Prompts
    from daycare.features.approvals.gate import ApprovalGate
    from daycare.features.builder.checking import ProposalChecks
    from daycare.plugin import StructTool
    from daycare.store.records import Agent
    from daycare.store.sqlite.store import Store


class BuilderFeature(Feature):
    """All of it. `gate` asks people; `owner` is the operator."""

    name = "builder"

    def __init__(
        self, store: "Store", checks: "ProposalChecks", prompts: "Prompts", gate: "ApprovalGate", owner: str
    ) -> None:
        from daycare.features.builder.service import Builder

        self.builder = Builder(store, checks)
        self._prompts = prompts
        self._gate = gate
        self._owner = owner

    def tools(self) -> "Sequence[StructTool[Any]]":
        """Return the tools of a builder."""
        from daycare.features.builder.tools import BuilderTools
        from daycare.features.builder.trial import Trials

        checks = self.builder.checks
        trials = Trials(self._prompts, checks.pool, checks.catalogue, checks.cron.clock)
        return BuilderTools(self.builder, trials, self._gate).tools()

    def offers(self, agent: "Agent", tool: str) -> bool:
        """Return whether an agent was given it by name: nobody else builds."""
        return agent.config.tools is not None and tool in agent.config.tools

    def add_to(self, commands: "Commands") -> None:
        """Register the chat command."""
        from daycare.features.builder.commands import BuilderCommands

        BuilderCommands(self.builder).add_to(commands)

    def routes(self, closing: "trio.Event") -> "Sequence[Route]":
        """Return `/v1/builder`."""
        from daycare.features.builder.faces import BuilderRoutes

        return BuilderRoutes(self.builder, self._owner).routes()
