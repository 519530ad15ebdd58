"""What every store promises: the same words hold for SQLite and for any other database behind it.

- A write is durable when its call returns, and other calls see it from then on. The writes of one store take effect
  in the order they were asked for; `seq`, `turn` and `no` are numbers that grow in the order of commit and are never
  given out twice.
- A cancelled write may still be carried out, never in part. Whoever needs to know repeats it under the same key.
- A write that raises has changed nothing, and nothing of what was written beside it.
- Any write may raise `BusyError` (too many writes wait; nothing was queued) or `UnavailableError` (the disk or the
  server refuses; nothing was acknowledged, and the same call works again once the trouble is over). Stored data that
  cannot be read raises `BrokenError`.
- Reads change nothing, are bounded by their `limit` and return structs of `records`; numbers of rows are opaque.

One process at a time owns a store's agents: the store does not arbitrate between two owners of one turn.
"""

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from daycare.base.errors import DaycareError
from daycare.base.messages import Envelope, File, Message, Origin
from daycare.store.records import (
    Agent,
    AgentConfig,
    Commit,
    DeadLetter,
    InboxRow,
    NewAgent,
    NewTimer,
    OutboxRow,
    Past,
    Receipt,
    Reply,
    Spend,
    Step,
    Summary,
    Timer,
    TraceEntry,
    Turn,
    TurnEnd,
    User,
)


class PeopleStore(Protocol):
    """Users and the connector keys that lead to them."""

    async def add(self, user: User, origin: Origin = ...) -> User:
        """Create a user with its keys, or bring back one who was removed.

        Not idempotent: raises `ConflictError` when the id or a key is taken, `NotFoundError` for an unknown parent.
        """

    async def get(self, user_id: str) -> User | None:
        """Return a user who was not removed."""

    async def by_key(self, connector_key: str) -> User | None:
        """Return the user a connector key leads to, who was not removed."""

    async def find(self) -> list[User]:
        """Return every user who was not removed, by id."""

    async def link(self, connector_key: str, user_id: str, origin: Origin = ...) -> User:
        """Let a key lead to a user; idempotent. Raises `ConflictError` when it leads to another one."""

    async def unlink(self, connector_key: str) -> None:
        """Forget a key. Raises `NotFoundError` when nobody has it, so also on a repeat."""

    async def remove(self, user_id: str) -> None:
        """Remove a user and forget the keys; the rows stay. Raises `ConflictError` for the last operator."""


class SecretStore(Protocol):
    """Tokens as the vault encrypted them; the store never sees a plain one."""

    async def put(self, name: str, user: str, token: bytes) -> None:
        """Store a token or replace it; idempotent."""

    def get(self, name: str) -> bytes | None:
        """Return a token. Not async: providers read theirs at each call; it must not take a round trip."""

    async def find(self) -> list[tuple[str, int]]:
        """Return (name, wall time in ms it was stored) of every token, by name."""

    async def remove(self, name: str) -> bool:
        """Delete a token; idempotent, returns whether there was one."""


class AgentStore(Protocol):
    """Agents: at most one living (or parked) on a path; kind, user, role and parent never change."""

    async def create(self, new: NewAgent) -> Agent:
        """Create an agent, or return the living one on that path; so a repeat is harmless.

        After a death the path gets a new incarnation. Raises `ConflictError` when another user's agent lives there.
        """

    async def create_child(self, parent_id: str, kind: Literal["sub", "search"], new: NewAgent) -> Agent:
        """Create `<new.path>/<kind>/<n>`, where `new.path` is the parent's path and n its next index of that kind.

        Not idempotent: each call makes another child. Concurrent calls get distinct, consecutive indexes; an index
        at which an agent still lives is skipped. Raises `NotFoundError` when the parent is dead, `BusyError` at
        `CHILDREN_MAX`.
        """

    async def spawn(self, parent: Agent, kind: Literal["sub", "search"], new: NewAgent, first: Envelope) -> Agent:
        """Make a child as `create_child` does and post its first message, together; `first.to` is the child's path.

        Idempotent on `new.born`: a repeat returns the first child, dead or not, and posts nothing. Raises `BusyError`
        at `HELPERS_MAX`.
        """

    async def children(self, path: str) -> list[Agent]:
        """Return the living helpers and searches right below a path, in order of path."""

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

    async def idle_children(self, before_ms: int, limit: int) -> list[tuple[str, int]]:
        """Return (id, last turn) of living helpers and searches idle since `before_ms` (wall), for whom nothing waits."""

    async def configure(self, agent_id: str, config: AgentConfig) -> Agent:
        """Replace an agent's configuration; the last one wins. Raises `InvalidError` when it is too large."""

    async def set_state(
        self, agent_id: str, state: Literal["living", "parked", "dead"], reason: str = "", *, answer: bool = True
    ) -> Agent:
        """Park, unpark or bury an agent.

        Burying frees the path, ends its turns, deletes the timers, moves waiting messages to the dead letters, tells
        with `answer` those agents that asked, and dismisses its children, together. Raises `ConflictError` for one who
        is dead already.
        """

    async def new_session(self, agent_id: str, reason: str) -> int:
        """End the session and return the next one's number. Not idempotent: each call starts one."""

    async def count(self) -> dict[str, int]:
        """Return how many agents there are in each stored state; states without any may be missing."""


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

    async def waiting(self, agent_id: str, *, after: int = 0, limit: int = 64) -> list[InboxRow]:
        """Return waiting rows of one agent, of both lanes, in order of seq, beginning after seq `after`."""

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

    async def resume(self, turn: int) -> tuple[Turn, list[InboxRow], list[Step]]:
        """Count a new attempt, then `load`. Not idempotent; an ended turn is returned as it is."""

    async def load(self, turn: int) -> tuple[Turn, list[InboxRow], list[Step]]:
        """Return a turn, those of its rows (steered ones included) that wait, and its steps in order.

        It takes its place among the writes: all that were asked for before are seen.
        """

    async def journal(self, steps: Sequence[Step], spend: Spend | None = None) -> None:
        """Record steps, together, replacing those with the same number; `spend` is charged once per (turn, step).

        A step that is done makes the running attempt the first again: attempts are counted since the last progress.
        """

    async def finish(
        self, agent: Agent, turn: Turn, end: TurnEnd, spend: Spend | None = None, following: Sequence[InboxRow] = ()
    ) -> Turn | None:
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
        """Return an agent's turns that were set aside, as `load` would; `finish` as `stopped` ends one."""

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
    ) -> None:
        """Give up a turn: its messages become dead letters, and `replies` and `posts` tell their senders, together."""

    async def history(self, agent_id: str, session: int, limit: int) -> list[Message]:
        """Return the newest messages of the current session, oldest first: whole turns, until there are `limit`."""


class SummaryStore(Protocol):
    """Summaries of the older turns of a session, and the bounded reads that a prompt is made of."""

    async def add(self, summary: Summary | None, step: Step | None, spend: Spend) -> None:
        """Record what a call for a summary came to, together: the summary (None: it was no use), its step, its price.

        Idempotent: of summaries that reach as far the first counts, `spend` is charged once per (turn, step). Raises
        `ConflictError` if the step's turn has ended.
        """

    async def latest(self, agent_id: str, session: int) -> Summary | None:
        """Return the summary that reaches furthest in a session."""

    async def find(self, agent_id: str, session: int, limit: int = 100) -> list[Summary]:
        """Return the summaries of a session, the one that reaches furthest first."""

    async def newest(self, agent_id: str, session: int, *, after: int, before: int, max_chars: int) -> Past:
        """Return the newest ended turns between two numbers, oldest first: as many as have `max_chars`, at least one.

        Turns without messages are left out.
        """

    async def oldest(self, agent_id: str, session: int, *, after: int, before: int, max_chars: int) -> Past:
        """Return the oldest ended turns between two numbers, as `newest` does."""

    async def spent(self, agent_id: str, session: int, limit: int) -> int:
        """Return what the newest `limit` turns of a session have cost, in millionths of a US dollar."""


class FileStore(Protocol):
    """Bytes beside the conversations; whose they are decides who reads them."""

    async def put(self, key: str, user: str, origin: Origin, name: str, media_type: str, data: bytes) -> File:
        """Keep a file; idempotent on (user, key): a repeat returns the first. Raises `InvalidError` FILE_TOO_LARGE."""

    async def get(self, file_id: int, user: str) -> File | None:
        """Return what is known of a user's file, None for another's, an unknown or an expired one."""

    async def read(self, file_id: int, user: str) -> bytes | None:
        """Return the bytes of a user's file, None as `get`."""


class OutboxStore(Protocol):
    """Replies on their way out: in order per connector, until a receipt comes or they are given up on."""

    async def waiting(self, connector: str, *, after: int = 0, limit: int = 64) -> list[OutboxRow]:
        """Return undelivered rows of one connector in order of seq, beginning after seq `after`.

        A row in the state `sending` was tried and may have arrived: the next try may be a duplicate.
        """

    async def unread(self, path: str, *, after: int = 0, limit: int = 64) -> list[OutboxRow]:
        """Return undelivered rows of one agent's path in order of seq, beginning after seq `after`."""

    async def get(self, seq: int) -> OutboxRow | None:
        """Return one row, whatever its state."""

    async def add(self, agent: Agent, reply: Reply, trace: str) -> int:
        """Queue words of an agent that belong to no turn; return their number. Not idempotent."""
        ...

    async def start(self, seq: int) -> int:
        """Journal that a delivery is about to be tried; return which try it is. 0: nothing is left to deliver."""

    async def sent(self, seqs: list[int], receipt: str) -> int:
        """Record that rows were delivered; idempotent, returns how many of them were undelivered until now."""

    async def retry(self, seq: int, error: str, retry_at: int, *, untouched: bool = False) -> None:
        """Record a failed try of an undelivered row. `untouched`: surely not taken, no duplicate can arise."""

    async def give_up(self, seq: int, code: str, reason: str) -> None:
        """Move an undelivered row to the dead letters; idempotent."""

    async def count(self) -> int:
        """Return how many rows are undelivered."""


class TimerStore(Protocol):
    """Envelopes that are posted at a wall time, once."""

    async def add(self, timer: NewTimer) -> int:
        """Set a timer and return its number; idempotent on (agent, key) while it has not fired.

        Raises `BusyError` at `TIMERS_MAX_PER_AGENT`.
        """

    async def next_due(self) -> int | None:
        """Return the wall time in ms of the earliest timer."""

    async def fire(self, now_ms: int, limit: int) -> int:
        """Post what is due by `now_ms`, soonest first, and delete it, together; return how many fired.

        What its inbox refuses becomes a dead letter; so a timer never stands in the way of the next.
        """

    async def find(self, agent_id: str | None = None, limit: int = 100) -> list[Timer]:
        """Return timers that have not fired, soonest first."""


class DeadLetterStore(Protocol):
    """What was given up on, until it is replayed or pruned; at most `DEAD_LETTERS_MAX`, the oldest make room."""

    async def find(self, *, path: str | None = None, before: int | None = None, limit: int = 100) -> list[DeadLetter]:
        """Return the newest dead letters first, beginning below number `before`."""

    async def get(self, no: int) -> DeadLetter | None:
        """Return one dead letter."""

    async def replay(self, no: int) -> int:
        """Queue it again, behind what waits now, and return its new inbox or outbox number.

        Happens once: a repeat raises `ConflictError`. A refused one (`NotFoundError`, `BusyError`) may be tried again.
        """

    async def prune(self, *, before_ms: int) -> int:
        """Delete dead letters older than `before_ms`; return how many."""

    async def count(self) -> int:
        """Return how many dead letters wait for a decision."""


class LedgerStore(Protocol):
    """What is kept for people to look at, and when it expires."""

    async def record(self, events: list[tuple[int, str, str, str, str]]) -> None:
        """Append events in order: (wall ms, user, path, trace, JSON). The newest `EVENTS_MAX_ROWS` are kept."""

    async def events(self, *, path: str | None = None, before: int | None = None, limit: int = 100) -> list[str]:
        """Return recorded events as JSON texts, newest first."""

    def trace(self, trace: str) -> list[TraceEntry]:
        """Return what happened under a trace id, in order of time. Blocks for long: call it in a thread."""

    async def spent(self, user: str | None = None) -> dict[str, int]:
        """Return `input_tokens`, `output_tokens`, `cost_micros` spent so far, of one user or of all."""

    async def expire(self, before_ms: int) -> int:
        """Delete a bounded number of finished rows that ended before `before_ms`; return how many (0: all done).

        What waits, conversations and the newest row of each kind stay.
        """

    async def size_bytes(self) -> int:
        """Return the size of the database."""


class Store(Protocol):
    """Everything durable, in groups."""

    @property
    def location(self) -> str:
        """What names it in errors; it holds no password."""

    @property
    def people(self) -> PeopleStore:
        """See `PeopleStore`."""

    @property
    def secrets(self) -> SecretStore:
        """See `SecretStore`."""

    @property
    def agents(self) -> AgentStore:
        """See `AgentStore`."""

    @property
    def inbox(self) -> InboxStore:
        """See `InboxStore`."""

    @property
    def turns(self) -> TurnStore:
        """See `TurnStore`."""

    @property
    def summaries(self) -> SummaryStore:
        """See `SummaryStore`."""

    @property
    def outbox(self) -> OutboxStore:
        """See `OutboxStore`."""

    @property
    def files(self) -> FileStore:
        """See `FileStore`."""

    @property
    def timers(self) -> TimerStore:
        """See `TimerStore`."""

    @property
    def dead(self) -> DeadLetterStore:
        """See `DeadLetterStore`."""

    @property
    def ledger(self) -> LedgerStore:
        """See `LedgerStore`."""

    def subscribe(
        self, listener: Callable[[Commit], None], trouble: Callable[[DaycareError | None], None] | None = None
    ) -> None:
        """Have `listener` called in the loop's thread after each commit, in order, before its writers continue.

        A commit whose writers were all cancelled is announced, too. `trouble` is called with an error when a commit
        fails and with None when one succeeds again. One subscriber; a second replaces the first.
        """
