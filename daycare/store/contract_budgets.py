"""What every store promises of budgets: a call that may cost something is a committed row before it is made."""

from collections.abc import Sequence
from typing import Protocol

from daycare.store.records import Spend
from daycare.store.records_budgets import BudgetRow, Ceiling, NewReservation, Reserved, Spent, Standing


class BudgetStore(Protocol):
    """Limits, reservations, and sums by day and by month.

    A reservation counts in full until `settle` charges the call. One that no call stands behind any more is *stranded*:
    it goes on counting in full, as unsettled.
    Opening a store strands all that it finds, as their calls died with whoever made them;
    `LedgerStore.expire` strands what is older than any turn. A path counts what it spends
    itself, what all below it spend, and what tasks do that these asked for; a user's path also what users below that
    user do. A user below another one and their address `/ann/subuser/bob` are one.
    """

    async def find(self) -> list[BudgetRow]:
        """Return what was set, by path."""

    async def put(self, row: BudgetRow) -> None:
        """Set what a path may use; the last one wins."""

    async def remove(self, path: str) -> bool:
        """Forget what was set for a path; idempotent, returns whether there was anything."""

    async def reserve(self, new: NewReservation, ceilings: Sequence[Ceiling]) -> Reserved:
        """Reserve unless one of the ceilings is reached. The look and the reservation are one transaction.

        So calls side by side use at most one reservation more than a ceiling. Not idempotent.
        """
        ...

    async def release(self, no: int) -> None:
        """Give back the reservation of a call that surely cost nothing; idempotent."""

    async def strand(self, no: int) -> None:
        """Let the reservation of a call whose end nobody knows count in full; idempotent."""

    async def payer_of(self, path: str) -> str:
        """Return for which other path a call at `path` counts, too: that of whoever asked for a task; "" for none."""
        ...

    async def settle(self, spend: Spend) -> None:
        """Charge a call, once for its reservation; without one it is charged each time."""

    async def standings(self, ceilings: Sequence[Ceiling]) -> list[Standing]:
        """Return how ceilings stand."""

    async def mark(self, ceiling: Ceiling, share: int) -> bool:
        """Remember that `share` percent of a ceiling were reached; False if that was known."""
        ...

    async def spent(self, first: str, last: str, *, path: str = "/", limit: int = 10_000) -> list[Spent]:
        """Return what was spent at or below a path from one day or month to another, newest first.

        Of days `2026-11-21`, of months `2026-11`: both ends have the same form.
        """
