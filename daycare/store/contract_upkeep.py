"""What every store promises of agents whose turns are code, and of its own upkeep."""

from typing import Protocol

from daycare.store.records_measures import Measures
from daycare.store.records_upkeep import Kept, Space, Unread, Vitals


class BehaviourStore(Protocol):
    """What agents with a behaviour keep; written by `TurnStore.finish`, with the turn."""

    async def kept(self, agent_id: str) -> Kept | None:
        """Return what an agent keeps, None before it has kept anything."""
        ...


class GaugeStore(Protocol):
    """How much of everything there is."""

    async def measures(self) -> Measures:
        """Count, within a bound of time. Raises `UnavailableError` STORE_LATE."""
        ...


class UpkeepStore(Protocol):
    """Deletion of what belonged to the dead, the size of the store, and how things in it are."""

    async def expire_agents(self, before_ms: int) -> int:
        """Delete a bounded number of rows of agents that died before `before_ms`; return how many (0: all done).

        All that was an agent's own goes: history, journal, summaries, documents with what was kept of them in memory,
        its log of what was said, undelivered replies, dead letters, rights, state, and at last its own row. What was
        learned from its log is its person's and stays; so does what has a time of its own, such as money spent. An
        agent with a child that lives stays, and so does the newest row of each kind until there is a newer one.
        """
        ...

    async def expire_system(self, before_ms: int) -> int:
        """Delete a bounded number of turns of the daemon's own agents that ended before `before_ms`; return how many.

        Nobody reads on in their conversations.
        """
        ...

    def newest_ms(self) -> int:
        """Return when the newest row was committed before the store was opened (wall ms), 0 for an empty one."""
        ...

    async def space(self) -> Space:
        """Return how large the store is."""
        ...

    async def shrink(self, max_bytes: int) -> int:
        """Give back some of the space that is free, where the store can; return how many bytes."""
        ...

    async def rewrite(self) -> None:
        """Write the store anew without what is free; nothing else is written meanwhile.

        Raises `UnavailableError` VACUUM_NO_ROOM where the disk has not enough room for a second copy.
        """
        ...

    async def vitals(self, since_ms: int) -> Vitals:
        """Return how things are, of what happened only that since `since_ms`."""
        ...

    async def oldest_unread(self) -> Unread | None:
        """Return the message that has waited longest for a living agent."""
        ...
