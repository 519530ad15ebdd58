"""Budgets: what agents may use, which is reserved before each call of a model, and what was spent."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from daycare.feature import Feature

if TYPE_CHECKING:
    import trio
    from starlette.routing import Route

    from daycare.actors.directory import Directory
    from daycare.agent.commands import Commands
    from daycare.base.clock import Clock
    from daycare.features.budgets.commands import BudgetCommands as BudgetCommands
    from daycare.features.budgets.controls import BudgetControls as BudgetControls
    from daycare.features.budgets.service import Budgets
    from daycare.store.sqlite.store import Store


class Budgeting(Feature):
    """All of it."""

    name = "budgets"

    def __init__(self, store: "Store", directory: "Directory", budgets: "Budgets", clock: "Clock", owner: str) -> None:
        from daycare.features.budgets.controls import BudgetControls

        self._people = store.people
        self._owner = owner
        self.controls = BudgetControls(store, directory, budgets, clock, owner)

    def add_to(self, commands: "Commands") -> None:
        """Register the chat commands."""
        from daycare.features.budgets.commands import BudgetCommands

        BudgetCommands(self.controls, self._people).add_to(commands)

    def routes(self, closing: "trio.Event") -> "Sequence[Route]":
        """Return `/v1/budgets`, `/v1/budget` and `/v1/spend`."""
        from daycare.features.budgets.routes import BudgetRoutes

        return BudgetRoutes(self.controls, self._owner).routes()
