"""The beginning of a turn: what waits is claimed and journaled, or an open turn is taken up again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import trio

from daycare.actors.lifecycle import Activation
from daycare.agent.kinds import is_background, route
from daycare.base.clock import Clock
from daycare.base.connector import Connector
from daycare.base.errors import UnavailableError
from daycare.base.events import TurnStarted
from daycare.base.limits import ATTEMPTS_MAX
from daycare.observe.about import about
from daycare.observe.bus import Bus
from daycare.store.records import Agent, InboxRow, Step, Turn, User
from daycare.store.retry import with_retry
from daycare.store.sqlite.store import Store


@dataclass(frozen=True)
class TurnJournal:
    """Begins turns; how they end is in `agent/endings.py`."""

    store: Store
    bus: Bus
    clock: Clock
    connectors: Mapping[str, Connector]

    async def begin(self, agent: Agent, lane: Activation) -> tuple[Turn, list[InboxRow], list[Step]]:
        """Return the lane's next turn, or the open one, with its messages and the steps that it has taken.

        No messages: the open turn was split, and they come one by one. Raises `UnavailableError` TURN_POISON.
        """
        if lane.begun and lane.turn is not None:
            rows, lane.begun = lane.begun, []
            return await self._journaled(lane, lane.turn, rows)
        if lane.turn is None:
            rows = lane.claim()
            try:
                with trio.CancelScope(shield=True):  # a cancelled caller would not know whether the turn exists
                    lane.turn = await self.store.turns.begin(agent, rows)
            finally:
                if lane.turn is None:
                    lane.unclaim(rows)
            assert lane.turn is not None
            return await self._journaled(lane, lane.turn, rows)
        with trio.CancelScope(shield=True):
            turn, rows, steps = await self.store.turns.resume(lane.turn.turn, alone=lane.alone)
        lane.drop({row.seq for row in rows})
        if turn.state != "open":
            lane.turn = None
            return turn, [], []
        lane.turn = turn
        if turn.attempt > ATTEMPTS_MAX:
            raise UnavailableError(
                "TURN_POISON", f"the daemon died each time that turn {turn.turn} of {agent.path} alone was at work"
            )
        if turn.attempt > 2 and len(rows) > 1 and not steps:
            await with_retry(lambda: self.store.turns.split(turn))  # perhaps only one of them is bad
            lane.turn = None
            lane.reread()
            return turn, [], []
        return turn, rows, steps

    async def _journaled(
        self, lane: Activation, turn: Turn, rows: list[InboxRow]
    ) -> tuple[Turn, list[InboxRow], list[Step]]:
        """A turn that was set aside brings its rows and its journal along."""
        if not turn.goes_on:
            return turn, rows, []
        turn, rows, steps = await with_retry(lambda: self.store.turns.load(turn.turn))
        lane.drop({row.seq for row in rows})
        return turn, rows, steps

    def announce(self, agent: Agent, turn: Turn, rows: Sequence[InboxRow]) -> None:
        """Let observers know that a turn is thought about."""
        # What nobody asked for just now is not shown before it is whole: perhaps there is nothing to tell.
        asked = [row for row in rows if not is_background(row)]
        addresses = [route(agent, row.envelope, self.connectors) for row in asked]
        self.bus.publish(
            TurnStarted(
                **about(self.clock, agent, turn.trace),
                turn=turn.turn,
                attempt=turn.attempt,
                messages=len(rows),
                seqs=tuple(row.seq for row in rows),
                traces=tuple(row.envelope.trace for row in rows),
                waits_ms=tuple(self.clock.now_ms() - row.created_at for row in rows),
                answers=tuple(dict.fromkeys(address[0] for address in addresses if address is not None)),
            )
        )

    async def person(self, agent: Agent) -> User:
        """Return whose agent it is."""
        return await self.store.people.get(agent.user) or User(id=agent.user, name=agent.user)
