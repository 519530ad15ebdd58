"""The newest turns of agents, as the commits of this process have made them: nobody reads what was just written.

A tail begins with a turn that begins here. Turns have rising numbers, and one process at a time has those of an agent:
so what came since is all there is. Whatever else changes turns says so in its commit, and what is known is dropped.
"""

from typing import Any, Final

from daycare.base.bounded import Bounded
from daycare.store.records import Commit
from daycare.store.records_conversations import APART, TurnResult, TurnStart

TAILS_MAX: Final = 256  # agents, those that began a turn last
_TURNS_MAX: Final = 4  # of one agent: who follows a conversation lacks its last one or two
_CHARS_MAX: Final = 32_768  # of what was said in one, as JSON: 32 MB for all, if all were as long


class _Tail:
    """All turns of an agent after `after`, in order, with their session and what was said, None for an open one."""

    __slots__ = ("after", "turns")

    def __init__(self, after: int) -> None:
        self.after = after
        self.turns: dict[int, tuple[int, str | None]] = {}


class Tails:
    """What is known of the newest turns; `committed` is to be called for each commit, before its writers go on."""

    def __init__(self) -> None:
        self._tails: Bounded[str, _Tail] = Bounded(TAILS_MAX)

    def committed(self, commit: Commit) -> None:
        """Follow a commit."""
        for start in commit.started:
            self._start(start)
        for result in commit.ended:
            self._end(result)
        if commit.forgotten or commit.people or commit.shards:
            self._tails.clear()
        for agent_id in commit.agents:
            self._tails.pop(agent_id, None)

    def newest(self, agent_id: str, after: int, before: int) -> list[tuple[Any, ...]] | None:
        """Return number, session and messages of all turns between two numbers, the newest first; None: it is unknown.

        Those apart from the sessions are left out.
        """
        tail = self._tails.get(agent_id)
        if tail is None or tail.after > after:
            return None
        return [row for row in self.lately(agent_id) if after < row[0] < before]

    def lately(self, agent_id: str) -> list[tuple[Any, ...]]:
        """Return the same of all turns that are known, which are the newest."""
        tail = self._tails.get(agent_id)
        return [] if tail is None else [(turn, *tail.turns[turn]) for turn in reversed(tail.turns)]

    def _start(self, it: TurnStart) -> None:
        tail = self._tails.get(it.agent_id)
        if tail is None:
            tail = self._tails[it.agent_id] = _Tail(it.turn - 1)
        else:
            self._tails.move_to_end(it.agent_id)
        if it.session <= APART:
            return
        tail.turns[it.turn] = it.session, None
        if len(tail.turns) > _TURNS_MAX:
            tail.after = next(iter(tail.turns))
            del tail.turns[tail.after]

    def _end(self, it: TurnResult) -> None:
        tail = self._tails.get(it.agent_id)
        if tail is None or (known := tail.turns.get(it.turn)) is None:
            return
        tail.turns[it.turn] = known[0], it.messages
        if len(it.messages) > _CHARS_MAX:
            tail.after = it.turn
            tail.turns = {turn: known for turn, known in tail.turns.items() if turn > it.turn}
