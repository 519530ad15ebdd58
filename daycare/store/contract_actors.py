"""What every store promises of agents, their mailboxes and their turns; see `contract` for what holds for all of it."""

from collections.abc import Sequence
from typing import Literal, Protocol

from daycare.base.messages import Envelope, Lane, Message
from daycare.store.records import (
    Agent,
    AgentConfig,
    InboxRow,
    NewAgent,
    Receipt,
    Reply,
    Step,
    Turn,
    TurnEnd,
)


class AgentStore(Protocol):
    """Agents: at most one living (or parked) on a path; kind, user, role and parent never change."""

    async def create(self, new: NewAgent) -> Agent:
        """Create an agent, or return the living one on that path; so a repeat is harmless.

        After a death the path gets a new incarnation. Raises `ConflictError` when another user's agent lives there.
        """

    async def create_lasting(self, new: NewAgent, at_most: int) -> Agent:
        """Create an agent for another one, once for each `new.born`.

        Raises `ConflictError` AGENT_EXISTS where one lives, `BusyError` LASTING_AGENTS_MAX where its user has `at_most`
        of its kind.
        """
        ...

    async def create_child(self, parent_id: str, kind: Literal["sub", "search"], new: NewAgent) -> Agent:
        """Create `<new.path>/<kind>/<n>`, where `new.path` is the parent's path and n its next index of that kind.

        Not idempotent: each call makes another child. Concurrent calls get distinct, consecutive indexes; an index
        at which an agent still lives is skipped. Raises `NotFoundError` when the parent is dead, `BusyError` at
        `CHILDREN_MAX`, for helpers also where `SUBAGENTS_LIVING_MAX` live below the parent's root or
        `SUBAGENTS_DAILY_MAX` were made there within a day.
        """

    async def spawn(self, parent: Agent, kind: Literal["sub", "search"], new: NewAgent, first: Envelope) -> Agent:
        """Make a child as `create_child` does and post its first message, together; `first.to` is the child's path.

        Idempotent on `new.born`: a repeat returns the first child, dead or not, and posts nothing. Raises `BusyError`
        at `HELPERS_MAX`, for searches at `SEARCHES_MAX`.
        """

    async def children(self, path: str, *, busy: bool = False) -> list[Agent]:
        """Return the living helpers and searches right below a path, in order of path; `busy`: those with work."""

    async def at(self, path: str) -> Agent | None:
        """Return the living or parked agent on a path."""

    async def get(self, agent_id: str) -> Agent | None:
        """Return one incarnation, dead ones included."""

    async def find(
        self,
        *,
        user: str | None = None,
        kinds: Sequence[str] = (),
        include_dead: bool = False,
        after: str = "",
        limit: int = 100,
    ) -> list[Agent]:
        """Return agents in the order of path and incarnation, beginning after the path `after`."""

    async def recency(self, user: str, kind: str) -> list[tuple[Agent, int]]:
        """Return a user's living agents of a kind, each with the number of its last turn (0: none yet)."""

    async def idle_children(self, before_ms: int, now_ms: int, limit: int) -> list[tuple[str, int]]:
        """Return (id, last turn) of living helpers and searches, idle since `before_ms`, for whom nothing waits.

        Of one whose turn ended later than now, by a clock that was ahead, nobody knows since when: it counts as idle.
        """

    async def configure(self, agent_id: str, config: AgentConfig) -> Agent:
        """Replace an agent's configuration; the last one wins. Raises `InvalidError` when it is too large."""

    async def revive(self, path: str, since_ms: int) -> Agent:
        """Let the last incarnation of a path live again, with its history, settings and documents.

        What waited for it has become dead letters and stays there; its helpers have ended. A dismissal that has the key
        of one of its earlier lives is no repeat. Raises `ConflictError` when somebody lives at the path or it ended
        before `since_ms`, `NotFoundError` when nobody ever lived there.
        """

    async def set_state(
        self, agent_id: str, state: Literal["living", "parked", "dead"], reason: str = "", *, untold: str | None = None
    ) -> Agent:
        """Park, unpark or bury an agent.

        Burying frees the path, ends its turns, deletes the timers, moves waiting messages to the dead letters, tells
        those agents that asked (but the one with the id `untold`), and dismisses its children, together. Raises
        `ConflictError` for one who is dead already.
        """

    async def new_session(self, agent_id: str, reason: str) -> int:
        """End the session and return the next one's number. Not idempotent: each call starts one."""

    async def count(self) -> dict[str, int]:
        """Return how many agents there are in each stored state, the daemon's own left out; states may be missing."""


class InboxStore(Protocol):
    """Messages on their way to agents: once per (agent, key), in order, bounded."""

    async def post(self, envelope: Envelope, create: NewAgent | None = None) -> Receipt:
        """Commit one message; `create` brings its agent into being with it if nobody lives at the path.

        Idempotent on (agent, key): a repeat returns the first row's receipt as `duplicate`, with its result once it
        is done, also when the inbox is full. Raises `BusyError` (`INBOX_FULL`) when `INBOX_MAX_MESSAGES` wait, on the
        control lane when `CONTROL_MAX_MESSAGES` more do; `NotFoundError` when nobody lives at the path
        (`AGENT_UNKNOWN`), or not the incarnation that `envelope.agent_id` pins (`AGENT_DEAD`).
        """

    async def post_all(self, batch: Sequence[tuple[Envelope, NewAgent | None]]) -> list[Receipt]:
        """Commit several messages in this order, all or none; each as `post` would, receipts in the same order."""

    async def waiting(
        self, agent_id: str, lane: Lane | None = None, *, after: int = 0, limit: int = 64
    ) -> list[InboxRow]:
        """Return waiting rows of one agent, of one lane or both, in order of seq, beginning after seq `after`."""

    async def rows(self, seqs: Sequence[int]) -> list[InboxRow]:
        """Return those of the rows that still wait, in order of seq."""

    async def receipt(self, seq: int) -> Receipt | None:
        """Return what became of a row, or None if its number is unknown or expired."""

    async def agents_with_work(self, *, after: str = "", limit: int = 256) -> list[str]:
        """Return ids of agents that have waiting rows, in order of id, beginning after the id `after`."""

    async def conclude(
        self, agent: Agent, row: InboxRow, result: str, *, replies: Sequence[Reply] = (), new_session: str = ""
    ) -> None:
        """Finish a message that needs no turn, with its replies; `new_session` is the reason to start one.

        All or nothing, and idempotent: for a row that no longer waits nothing happens.
        """

    async def counts(self) -> dict[str, int]:
        """Return how many rows wait (`waiting`), in all agents together."""


class TurnStore(Protocol):
    """Turns and their journal: begun before they work, resumed after a crash, ended once.

    A turn is open until `finish`, `split`, `park` or its agent's burial ends it. Whatever would change an ended one
    raises `ConflictError` (`TURN_GONE`), or does nothing where that is said.
    """

    async def begin(self, agent: Agent, rows: Sequence[InboxRow]) -> Turn:
        """Journal that a turn starts on these rows (at least one), in the agent's current session.

        Its attempt is one more than the most tried of them. Raises `ConflictError` (`AGENT_DEAD`) after a burial.
        """

    async def open_turn(self, agent_id: str) -> Turn | None:
        """Return the turn that this agent has not finished, if any."""

    async def recover(self) -> list[str]:
        """Look after a start, before any turn is tried, which open turns were at work when the process before died.

        That costs a turn no attempt, unless it ran alone: then two. Returns the agents whose turn was found so twice,
        the least suspicious first: one of them may be what the process dies of.
        """

    async def resume(self, turn: int, *, alone: bool = False) -> tuple[Turn, list[InboxRow], list[Step]]:
        """Count a new attempt unless the last was interrupted, then `load`. An ended turn is returned as it is.

        `alone` says that no other turn runs meanwhile. Not idempotent.
        """

    async def load(self, turn: int, *, unread: bool = False) -> tuple[Turn, list[InboxRow], list[Step]]:
        """Return a turn, those of its rows (steered ones included) that wait, and its steps in order.

        With `unread` also the answers to its calls that have come and were not read: a turn that ends before it can
        read them takes them along. It takes its place among the writes: all that were asked for before are seen.
        """

    async def journal(self, steps: Sequence[Step]) -> None:
        """Record steps, together, replacing those with the same number.

        A step that is done makes the running attempt the first again: attempts are counted since the last progress.
        """

    async def finish(self, agent: Agent, turn: Turn, end: TurnEnd, following: Sequence[InboxRow] = ()) -> Turn | None:
        """Commit everything a turn changes, all or nothing; a second call raises `ConflictError`.

        Posts that are refused become dead letters with the refusal as their reason; the turn still commits. With
        `following` the agent's next turn begins on these rows in the same transaction and is returned.
        """

    async def set_aside(
        self, agent: Agent, turn: Turn, steps: Sequence[Step], following: Sequence[InboxRow] = ()
    ) -> Turn | None:
        """Let an open turn wait for the answers to these steps, without being the agent's open turn meanwhile.

        Its rows are held. `begin` with a RESULT that names one of the steps' `wait` makes it go on: the new turn takes
        over rows and steps. Past `wait_until` such a RESULT comes from a timer. `following` as for `finish`. Raises
        `ConflictError` if the turn has ended.
        """

    async def aside(self, agent_id: str) -> list[tuple[Turn, list[InboxRow], list[Step]]]:
        """Return an agent's turns that were set aside, as `load` with `unread`; `finish` as `stopped` ends one."""

    async def suspend(self, turn: int) -> None:
        """Take back one attempt of an open turn, for an orderly stop; never below zero."""

    async def retry(self, turn: int, error: str, retry_at: int, *, uncounted: bool = False) -> None:
        """Record why a try of an open turn failed and when (wall ms) the next may start.

        `uncounted` takes the attempt back: what failed had nothing to do with the turn.
        """

    async def split(self, turn: Turn) -> None:
        """Give up a turn so that each of its messages is tried alone; they inherit its attempts."""

    async def park(
        self,
        agent: Agent,
        turn: Turn,
        *,
        code: str,
        reason: str,
        history: Sequence[Message] = (),
        replies: Sequence[Reply] = (),
        posts: Sequence[Envelope] = (),
        answers: Sequence[int] = (),
    ) -> None:
        """Give up a turn: its messages become dead letters, and `replies` and `posts` tell their senders, together.

        `answers` are the rows that `load` with `unread` has added, which are in its `history`: they are done.
        """

    async def history(self, agent_id: str, session: int, limit: int) -> list[Message]:
        """Return the newest messages of the current session, oldest first: whole turns, until there are `limit`."""
