"""What became true is told: to the parts of the daemon that keep it in memory, and to whoever watches."""

from collections.abc import Sequence
from functools import partial
from typing import Protocol

from daycare.base.clock import Clock
from daycare.base.events import DeadLettered
from daycare.observe.about import about_row
from daycare.observe.bus import Bus
from daycare.observe.keeper import Keeper
from daycare.store.records import Commit


class CommitHook(Protocol):
    """Hears what a commit made true. It may not wait."""

    def committed(self, commit: Commit) -> None:
        """Hear of a commit."""
        ...


class CommitHooks:
    """Tells everyone what a commit made true: the one place where durable facts enter memory.

    `first` are those who wait for it and would not look by themselves, `later` those who do.
    """

    def __init__(
        self, keeper: Keeper, bus: Bus, clock: Clock, first: Sequence[CommitHook], later: Sequence[CommitHook]
    ) -> None:
        self._keeper = keeper
        self._bus = bus
        self._clock = clock
        self._first = tuple(first)
        self._later = tuple(later)

    def committed(self, commit: Commit) -> None:
        """Tell of a commit."""
        # The writer calls this: what is raised here would end the store.
        self._keeper.guard("waking agents", partial(_tell, self._first, commit))
        self._keeper.guard("announcing commits", partial(_tell, self._later, commit))
        self._keeper.guard("announcing commits", partial(self._publish, commit))

    def _publish(self, commit: Commit) -> None:
        for event in commit.events:
            self._bus.publish(event)
        for letter in commit.dead:
            about = about_row(self._clock, letter)
            self._bus.publish(
                DeadLettered(**about, no=letter.no, source=letter.source, code=letter.code, reason=letter.reason)
            )


def _tell(those: Sequence[CommitHook], commit: Commit) -> None:
    for each in those:
        each.committed(commit)
