"""What agents of other nodes do, as far as it is heard: for people who look at them here. Nothing is decided by it."""

from typing import Final, NamedTuple

from daycare.actors.failures import Trouble
from daycare.actors.lifecycle import Life
from daycare.base.bounded import Bounded
from daycare.base.events import (
    AgentDied,
    AgentSlept,
    AgentWoke,
    Event,
    TurnFailed,
    TurnFinished,
    TurnStarted,
    TurnWaiting,
)

ELSEWHERE_MAX_AGENTS: Final = 20_000  # that are awake on other nodes, about 10 MB


class WorkingTurn(NamedTuple):
    """A turn that is worked on, since when (wall ms), and its messages."""

    agent_id: str
    turn: int
    since: int
    seqs: tuple[int, ...]


class LivesElsewhere:
    """Agents that are awake on other nodes, by their ids."""

    def __init__(self) -> None:
        self._lives: Bounded[str, WorkingTurn | None] = Bounded(ELSEWHERE_MAX_AGENTS)
        self._troubles: Bounded[str, Trouble] = Bounded(ELSEWHERE_MAX_AGENTS)

    def heard(self, event: Event) -> None:
        """Learn from an event of another node."""
        it = event.agent_id
        match event:
            case AgentWoke() | TurnWaiting() | TurnFinished():
                self._lives[it] = None
            case TurnStarted():
                self._lives[it] = WorkingTurn(it, event.turn, event.at_ms, event.seqs)
            case TurnFailed() if event.retry_in_s is not None:
                self._lives[it] = None
                self._troubles[it] = Trouble(
                    turn=event.turn,
                    attempt=event.attempt,
                    code=event.code,
                    reason=event.reason,
                    hint=event.hint,
                    next_at=event.at_ms + round(1000 * event.retry_in_s),
                )
                return
            case AgentSlept() | AgentDied():
                self._lives.pop(it, None)
            case TurnFailed():
                self._lives[it] = None
            case _:
                return
        self._troubles.pop(it, None)

    def clear(self) -> None:
        """Know nothing any more: something was missed, or other agents are this node's."""
        self._lives.clear()
        self._troubles.clear()

    def life_of(self, agent_id: str) -> Life:
        """Return where an agent is in its life."""
        if agent_id not in self._lives:
            return Life.ASLEEP
        return Life.IDLE if self._lives[agent_id] is None else Life.IN_TURN

    def trouble_of(self, agent_id: str) -> Trouble | None:
        """Return why an agent's turn is not done yet."""
        return self._troubles.get(agent_id)

    def turns(self) -> list[WorkingTurn]:
        """Return what other nodes work on, the newest last."""
        return [turn for turn in self._lives.values() if turn is not None]
