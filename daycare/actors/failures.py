"""What follows when a try of a turn fails. The class of the error decides.

    BudgetError                    the turn ends, and its messages are kept
    SetupError                     it waits until somebody has set right what is missing; its sender is told how, once
    AwayError, StoreAwayError      it waits until the service is back
    InvalidError, NotFoundError    it is given up at once: the same again would fail the same way
    any other                      it is tried again with backoff, ATTEMPTS_MAX times

What waits costs a turn no attempt. It is bounded: after SETUP_MAX_S or OUTAGE_MAX_S the turn is given up.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Final

import msgspec
import trio

from daycare.actors.lifecycle import Activation
from daycare.actors.ports import EndingsPort
from daycare.base.clock import Clock, TimeLimit, wait_s
from daycare.base.errors import (
    AwayError,
    BudgetError,
    DaycareError,
    InvalidError,
    NotFoundError,
    SetupError,
    StoreAwayError,
    UnavailableError,
)
from daycare.base.events import TurnFailed
from daycare.base.limits import (
    ATTEMPTS_MAX,
    CRASH_WINDOW_S,
    OUTAGE_MAX_S,
    RETRY_BASE_S,
    RETRY_FACTOR,
    RETRY_MAX_S,
    STORE_RETRY_S,
)
from daycare.observe.about import about
from daycare.observe.bus import Bus
from daycare.store.records import Agent, Turn
from daycare.store.retry import with_retry
from daycare.store.sqlite.store import Store

CRASHES_MAX: Final = 5  # parked turns of one agent within CRASH_WINDOW_S before the agent itself is parked

SETUP_LOOK_S: Final = 300.0  # between two tries of what needs a person, who may act where we do not see it: add credit
SETUP_MAX_S: Final = 7 * 86_400.0  # that it waits: a key that nobody adds within a week is not missed


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """Why a turn is not done yet: how its last try failed, and when (wall ms) the next begins.

    `attempt` 0: no try is counted. `code` is empty for what failed before this start. `setup`: it waits for a person.
    """

    turn: int
    attempt: int
    code: str = ""
    reason: str
    hint: str = ""
    next_at: int
    setup: bool = False


class Failures:
    """Decides on another try of a turn, a wait, or its end. `awake` are the lanes, by agent."""

    def __init__(
        self, store: Store, endings: EndingsPort, bus: Bus, clock: Clock, awake: Mapping[str, Activation]
    ) -> None:
        self._store = store
        self._endings = endings
        self._bus, self._clock = bus, clock
        self._awake = awake
        self._outage = TimeLimit(clock, OUTAGE_MAX_S)
        self._setup = TimeLimit(clock, SETUP_MAX_S)
        self._troubles: dict[str, Trouble] = {}  # by agent; one counts as long as its turn is the lane's
        self.changes = 0  # how often something was set up
        self.elsewhere: Callable[[str], Trouble | None] = lambda agent_id: None  # what other nodes say of their agents
        self._crashes: dict[str, list[float]] = {}  # when turns were given up lately, by agent; outlives its sleep

    async def failed(self, agent: Agent, lane: Activation, error: DaycareError, changes: int | None = None) -> None:
        """Decide what follows a try of the lane's turn that failed; `changes` is as it was when the try began."""
        if lane.turn is not None:  # the store knows the attempt: progress has set it back
            lane.turn = await with_retry(lambda: self._store.turns.open_turn(agent.id))
            if lane.turn is None:
                return  # it ended meanwhile
        turn = lane.turn
        if turn is None:  # it could not be journaled
            if not isinstance(error, UnavailableError):
                raise error  # the store does not refuse for now: this will not pass by itself
            await trio.sleep(STORE_RETRY_S)
            return
        match error:
            case BudgetError():
                await self._endings.unaffordable(agent, lane, error)
            case SetupError() if not self._setup.is_over(turn.turn, turn.started_at):
                await self._await_setup(agent, lane, turn, error)
                if changes not in (None, self.changes):  # what was missing may be there since the try began
                    self.changed({agent.id})
            case AwayError() if not self._outage.is_over(turn.turn, turn.started_at):
                retry_in_s = min(max(error.retry_after_s or RETRY_MAX_S, RETRY_BASE_S), RETRY_MAX_S)
                self._publish(agent, turn, error, retry_in_s)
                await self._try_again(lane, turn, error, retry_in_s, uncounted=True)
                if turn.error is None:
                    await self._endings.postponed(agent, turn, error)
            case StoreAwayError() if not self._outage.is_over(turn.turn, turn.started_at):
                if turn.error != error.message:  # it is tried as often as by all others that need it: said once
                    self._publish(agent, turn, error, STORE_RETRY_S)
                await self._try_again(lane, turn, error, STORE_RETRY_S, uncounted=True)
            case SetupError() | InvalidError() | NotFoundError():
                await self._give_up(agent, lane, turn, error)
            case _ if turn.attempt >= ATTEMPTS_MAX:
                await self._give_up(agent, lane, turn, error)
            case _:
                retry_in_s = min(RETRY_BASE_S * RETRY_FACTOR ** (turn.attempt - 1), RETRY_MAX_S)
                retry_in_s = max(retry_in_s, error.retry_after_s or 0.0)
                self._publish(agent, turn, error, retry_in_s)
                await self._try_again(lane, turn, error, retry_in_s)

    async def backing_off(self, lane: Activation) -> bool:
        """Wait until the open turn may be tried again; True if a control message came first."""
        assert lane.turn is not None
        if lane.retry_at[0] != lane.turn.turn:  # it failed before this activation
            # What waited for a person or a service is looked at right after a start.
            turn = lane.turn
            left_s = wait_s(self._clock, turn.retry_at, RETRY_MAX_S) if turn.attempt else 0.0
            lane.retry_at = turn.turn, trio.current_time() + left_s
            if turn.error is not None:
                self._troubles[lane.agent_id] = Trouble(
                    turn=turn.turn, attempt=turn.attempt, reason=turn.error, next_at=turn.retry_at
                )
        while not lane.control and (left_s := lane.retry_at[1] - trio.current_time()) > 0:
            with trio.move_on_after(left_s):
                await lane.rest()
        return bool(lane.control)

    def changed(self, agents: Collection[str] | None = None) -> None:
        """Something was set up: try again at once what waits for a person, of these agents or of all."""
        self.changes += 1
        for agent_id in self._troubles if agents is None else self._troubles.keys() & agents:
            lane, trouble = self._awake.get(agent_id), self.trouble_of(agent_id)
            if lane is not None and trouble is not None and trouble.setup:
                lane.retry_at = trouble.turn, trio.current_time()
                lane.nudge()

    def trouble_of(self, agent_id: str) -> Trouble | None:
        """Return why an agent's open turn is not done yet, None if nothing of it has failed."""
        trouble, lane = self._troubles.get(agent_id), self._awake.get(agent_id)
        if lane is None:
            return self.elsewhere(agent_id)
        open_turn = lane.turn.turn if lane.turn is not None else None
        return trouble if trouble is not None and trouble.turn == open_turn else None

    def forget_old(self) -> None:
        """Forget crashes that no longer count, and troubles that are over."""
        since = trio.current_time() - CRASH_WINDOW_S
        self._crashes = {who: at for who, at in self._crashes.items() if at[-1] > since}
        self._troubles = {who: it for who, it in self._troubles.items() if self.trouble_of(who) is not None}

    async def _await_setup(self, agent: Agent, lane: Activation, turn: Turn, error: SetupError) -> None:
        """Let a turn wait for a person, who is told at the first look, and when something else is missing then."""
        before = self.trouble_of(agent.id)
        told = turn.error is not None if before is None else before.code in ("", error.code)
        if not told:
            self._publish(agent, turn, error, SETUP_LOOK_S)
            await self._endings.postponed(agent, turn, error)  # before the write below: rather twice than never
        await self._try_again(lane, turn, error, SETUP_LOOK_S, uncounted=True)

    async def _try_again(
        self, lane: Activation, turn: Turn, error: DaycareError, in_s: float, *, uncounted: bool = False
    ) -> None:
        """Let a turn wait for so long; `uncounted` at no cost to it."""
        lane.retry_at = turn.turn, trio.current_time() + in_s
        retry_at, retry = self._clock.now_ms() + int(in_s * 1000), self._store.turns.retry
        self._troubles[lane.agent_id] = Trouble(
            turn=turn.turn,
            attempt=0 if uncounted else turn.attempt,
            code=error.code,
            reason=error.message,
            hint=error.hint,
            next_at=retry_at,
            setup=isinstance(error, SetupError),
        )
        await with_retry(lambda: retry(turn.turn, error.message, retry_at, uncounted=uncounted))

    async def _give_up(self, agent: Agent, lane: Activation, turn: Turn, error: DaycareError) -> None:
        self._publish(agent, turn, error, None)
        await self._endings.give_up(agent, lane, error)
        await self._count_crash(agent, error)

    def _publish(self, agent: Agent, turn: Turn, error: DaycareError, retry_in_s: float | None) -> None:
        failed = TurnFailed(
            **about(self._clock, agent, turn.trace),
            turn=turn.turn,
            attempt=turn.attempt,
            code=error.code,
            reason=error.message,
            hint=error.hint,
            retry_in_s=retry_in_s,
        )
        self._bus.publish(failed)

    async def _count_crash(self, agent: Agent, error: DaycareError) -> None:
        """Park an agent whose turns are given up again and again, and tell whoever is responsible for it."""
        now = trio.current_time()
        crashes = [at for at in self._crashes.get(agent.id, ()) if at > now - CRASH_WINDOW_S] + [now]
        self._crashes[agent.id] = crashes
        if len(crashes) < CRASHES_MAX:
            return
        del self._crashes[agent.id]
        reason = f"{len(crashes)} turns given up within {CRASH_WINDOW_S:g} s, the last: {error.message}"
        await with_retry(lambda: self._store.agents.set_state(agent.id, "parked", reason))
        await self._endings.parked(agent, reason)
