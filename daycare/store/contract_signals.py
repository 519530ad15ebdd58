"""What every store promises of signals: sent once, fired once with all their messages; and of heartbeats."""

from collections.abc import Sequence
from typing import Protocol

from daycare.base.messages import Envelope, Origin
from daycare.store.records import Agent, Receipt
from daycare.store.records_signals import Heartbeat, NewSignal, PlannedDelivery, Signal, Subscription


class SignalStore(Protocol):
    """Signals and subscriptions.

    As long as somebody of a user subscribes to it, the transactions that begin and end turns of that user's agents also
    write `agent:PATH:wake` and, to be fired after `SIGNAL_IDLE_S`, `agent:PATH:idle`, of which a new turn takes the
    latter back. Turns that only handle signals or heartbeats, and turns of helpers, memory workers and searches, write
    none.
    """

    async def send(self, new: NewSignal) -> Signal:
        """Add a signal that waits, once for each `call`; the one that it replaces ends.

        Raises `BusyError` SIGNALS_MAX at `SIGNALS_WAITING_MAX` of its user, SIGNALS_RATE at `SIGNALS_PER_MINUTE` of the
        agent that sends it.
        """
        ...

    async def due(self, now_ms: int, limit: int) -> list[Signal]:
        """Return waiting signals whose time has come, the earliest first."""
        ...

    async def next_due(self) -> int | None:
        """Return when the earliest waiting signal is due."""
        ...

    async def fire(self, no: int, planned: Sequence[PlannedDelivery]) -> tuple[Signal, list[tuple[Envelope, Receipt]]]:
        """End a signal together with all its messages, once: a repeat returns it as it is, and no message.

        What an inbox refuses keeps no other message back: why stands in the signal's deliveries. A subscription that is
        gone meanwhile gets nothing. `agent:PATH:idle` waits again if the agent works after all, and is forgotten if it
        is dead; what the daemon tells and nobody wants any more is forgotten, too.
        """
        ...

    async def get(self, no: int) -> Signal | None:
        """Return a signal."""
        ...

    async def find(
        self,
        *,
        user: str | None = None,
        waiting: bool = False,
        before: int | None = None,
        limit: int = 100,
    ) -> list[Signal]:
        """Return signals, newest first, beginning below number `before`; `waiting`: only those not fired yet."""
        ...

    async def subscribe(self, agent: Agent, pattern: str, *, silent: bool, origin: Origin) -> Subscription:
        """Let an agent have signals; a repeat may change `silent`.

        Raises `BusyError` SUBSCRIPTIONS_MAX at so many of the agent or of its user.
        """
        ...

    async def unsubscribe(self, agent_id: str, pattern: str) -> bool:
        """Let an agent have no more of them; idempotent, returns whether it had."""
        ...

    async def subscriptions(self, *, user: str | None = None, agent_id: str | None = None) -> list[Subscription]:
        """Return subscriptions, oldest first, also of agents that are dead: one that is restored has its own again."""
        ...

    async def expire(self, before_ms: int) -> int:
        """Delete a bounded number of signals that ended before then, and subscriptions of agents that died before."""
        ...


class HeartbeatStore(Protocol):
    """Heartbeats: since when an agent has one, and its last beat. How often it beats is among the agent's settings."""

    async def look(self, now_ms: int, limit: int) -> list[tuple[Agent, Heartbeat]]:
        """Return living agents with a heartbeat. What is new begins now, what was switched off is forgotten.

        What lies ahead of a clock that was set back becomes now.
        """
        ...

    async def of(self, agent: Agent) -> Heartbeat | None:
        """Return how the heartbeat of one agent stands; None if it has none, or it was not seen yet."""
        ...

    async def beat(self, agent_id: str, envelope: Envelope) -> Receipt | None:
        """Post a beat and record it, together, if it is due and its agent is not busy; else None."""
        ...
