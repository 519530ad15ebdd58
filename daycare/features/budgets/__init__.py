"""Budgets: what people see, set and raise of what agents may use. They are held by the kernel, at each call."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from daycare.actors.directory import Directory
from daycare.agent.budget_commands import BudgetCommands
from daycare.agent.budget_controls import BudgetControls
from daycare.agent.budgets import Budgets
from daycare.agent.commands import Commands
from daycare.base.clock import Clock
from daycare.feature import Feature
from daycare.store.contract import Store

if TYPE_CHECKING:
    import trio
    from starlette.routing import Route


class Budgeting(Feature):
    """All of it."""

    name = "budgets"

    def __init__(self, store: Store, directory: Directory, budgets: Budgets, clock: Clock, owner: str) -> None:
        self._people = store.people
        self._owner = owner
        self.controls = BudgetControls(store, directory, budgets, clock, owner)

    def add_to(self, commands: Commands) -> None:
        """Register the chat commands."""
        BudgetCommands(self.controls, self._people).add_to(commands)

    def routes(self, closing: "trio.Event") -> "Sequence[Route]":
        """Return `/v1/budgets`, `/v1/budget` and `/v1/spend`."""
        from daycare.api.routes_budgets import BudgetRoutes

        return BudgetRoutes(self.controls, self._owner).routes()
