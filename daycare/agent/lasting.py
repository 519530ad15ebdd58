"""Lasting agents, wired: the tools by which agents make them, and the chat command."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from daycare.actors.directory import Directory
from daycare.actors.lifecycle import Activation
from daycare.actors.permits import Permits
from daycare.actors.router import Router
from daycare.agent.budgets import Budgets
from daycare.agent.commands import Commands
from daycare.agent.lasting_commands import LastingCommands
from daycare.agent.lasting_controls import LastingAgents
from daycare.agent.lasting_tools import LastingTools
from daycare.base.clock import Clock
from daycare.inference.pool import Pool
from daycare.observe.bus import Bus
from daycare.plugin import StructTool
from daycare.settings import Live
from daycare.store.contract import Store
from daycare.store.records import Agent, AgentConfig


class Lives(Protocol):
    """Who knows which agents are awake, by id, and where one is in its life: the supervisor."""

    @property
    def awake(self) -> Mapping[str, Activation]: ...  # noqa: D102

    def life_of(self, agent: Agent) -> str: ...  # noqa: D102


class Lasting:
    """All of it. Those that have ended can be taken back for `[store] keep_days`."""

    def __init__(
        self,
        store: Store,
        directory: Directory,
        router: Router,
        permits: Permits,
        budgets: Budgets,
        pool: Pool,
        bus: Bus,
        clock: Clock,
        live: Live,
    ) -> None:
        self.controls = LastingAgents(store, directory, router, permits, budgets, pool, bus, clock, live)

    def tools(self) -> Sequence[StructTool[Any]]:
        """Return the tools by which agents make and change lasting ones."""
        return LastingTools(self.controls).tools()

    def add_to(self, commands: Commands, lives: Lives, check: Callable[[AgentConfig], None]) -> None:
        """Register the chat command, and learn who knows what an agent is doing and which settings there are."""
        self.controls.awake = lambda: lives.awake
        self.controls.check = check
        LastingCommands(self.controls, lives.life_of).add_to(commands)
