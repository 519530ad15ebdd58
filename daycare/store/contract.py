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

from collections.abc import Callable
from typing import Protocol, TypeVar

from daycare.base.errors import DaycareError
from daycare.base.limits import FILE_MAX_BYTES
from daycare.base.messages import File, Origin
from daycare.store.contract_actors import AgentStore, InboxStore, TurnStore
from daycare.store.contract_approvals import ApprovalStore
from daycare.store.contract_budgets import BudgetStore
from daycare.store.contract_documents import DocumentStore
from daycare.store.contract_exports import ExportStore
from daycare.store.contract_intake import IntakeStore, StrangerStore
from daycare.store.contract_memories import MemoryStore
from daycare.store.contract_upkeep import BehaviourStore, GaugeStore, UpkeepStore
from daycare.store.records import (
    Agent,
    Commit,
    DeadLetter,
    NewTimer,
    OutboxRow,
    Reply,
    Step,
    Summary,
    Timer,
    TraceEntry,
    User,
)
from daycare.store.records_conversations import Past
from daycare.store.records_upkeep import DroppedLetters

T = TypeVar("T")


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

    async def find(self, *, after: str = "", limit: int = 1_000) -> list[User]:
        """Return users who were not removed, in order of id, from behind `after` on."""

    async def count_below(self, user_id: str) -> int:
        """Return how many users are right below one: topics of a group, sub-users of a person."""
        ...

    async def operators(self) -> list[User]:
        """Return those who own the installation, by id."""

    async def change(self, user_id: str, *, name: str, zone: str) -> User:
        """Let a user have another name and zone; idempotent. Raises `NotFoundError` for an unknown one."""

    async def link(self, connector_key: str, user_id: str, origin: Origin = ...) -> User:
        """Let a key lead to a user; idempotent. Raises `ConflictError` when it leads to another one."""

    async def unlink(self, connector_key: str) -> None:
        """Forget a key, with the keys below it (`key:topic`): the doors of a chat close together.

        Raises `NotFoundError` when nobody has it, so also on a repeat.
        """

    async def move(self, connector: str, old: str, new: str) -> bool:
        """Let a chat's key be another one, with the keys below it (`old:topic`) and its waiting replies; idempotent.

        Keys are whole, `telegram:-42`. Where the new key leads to somebody already, that stays and the old one is
        forgotten. Returns whether anything changed.
        """

    async def remove(self, user_id: str) -> list[str]:
        """Remove a user and everybody below, all or nothing; return their ids, the user's first. The rows stay.

        With them end their keys, agents, turns, jobs, tasks, timers, subscriptions, open requests (also those they were
        to decide), undelivered replies, reservations and what was set as their budgets. Waiting messages become dead
        letters; an agent of somebody else that asked one of theirs is answered. No agent of theirs comes into being
        until they are let in again (`ForbiddenError` USER_REMOVED). Raises `ConflictError` for the last operator.
        """


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

    async def reseal(self, seal: Callable[[bytes], bytes]) -> None:
        """Replace every token by what `seal` makes of it, all of them or, if it raises, none."""


class SummaryStore(Protocol):
    """Summaries of the older turns of a session, and the bounded reads that a prompt is made of."""

    async def add(self, summary: Summary | None, step: Step | None) -> None:
        """Record what a call for a summary came to, together: the summary (None: it was no use), and its step.

        Idempotent: of summaries that reach as far the first counts. Raises `ConflictError` if the step's turn has
        ended.
        """

    async def latest(self, agent_id: str, session: int) -> Summary | None:
        """Return the summary that reaches furthest in a session."""

    async def find(self, agent_id: str, session: int, limit: int = 100) -> list[Summary]:
        """Return the summaries of a session, the one that reaches furthest first."""

    async def newest(
        self, agent_id: str, session: int, *, after: int, before: int, max_chars: int, max_messages: int = ...
    ) -> Past:
        """Return the newest ended turns between two numbers, oldest first: as many as have `max_chars`, at least one.

        None follows once there are `max_messages`. Turns without messages are left out.
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

    async def read(self, file_id: int, user: str, offset: int = 0, length: int = FILE_MAX_BYTES) -> bytes | None:
        """Return bytes of a user's file, of which no others are read; None as `get`, and for one still elsewhere."""

    async def announce(
        self, key: str, user: str, origin: Origin, name: str, media_type: str, size: int, remote: str
    ) -> File:
        """Note a file that stays with its platform for now; idempotent on (user, key). `remote` says where it is."""
        ...

    async def remote(self, file_id: int, user: str) -> str | None:
        """Return where a user's file is as long as its bytes are not here, else None."""

    async def fill(self, file_id: int, user: str, data: bytes) -> None:
        """Keep the bytes of an announced file; idempotent. Raises `InvalidError` FILE_TOO_LARGE."""


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

    async def part_sent(self, seq: int, parts: int, receipt: str) -> None:
        """Record that so many parts of an undelivered row arrived; the next one has all its tries. Idempotent."""

    async def retry(
        self, seq: int, error: str, retry_at: int, *, untouched: bool = False, uncounted: bool = False
    ) -> None:
        """Record a failed try of an undelivered row. `untouched`: surely not taken, no duplicate can arise.

        `uncounted` takes the try back: nobody is to blame.
        """

    async def give_up(self, seq: int, code: str, reason: str, *, untouched: bool = False) -> None:
        """Move an undelivered row to the dead letters, and leave its agent a note of it; idempotent.

        `untouched`: surely not taken, in no try; a replay of another one that was tried goes on as "sending".
        """

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

    async def rewind(self, now_ms: int) -> int:
        """Let what was set later than now, by a clock that was ahead, have been set now; return how many timers.

        That is about deadlines, such as of an answer or a task, which wait for as long again. A message that somebody
        wants at a time, such as a reminder, stays at that time.
        """

    async def find(self, agent_id: str | None = None, limit: int = 100) -> list[Timer]:
        """Return timers that have not fired, soonest first."""


class DeadLetterStore(Protocol):
    """What was given up on, until it is replayed or pruned; at most `DEAD_LETTERS_MAX` in all.

    Past that the oldest make room of whoever has most, a person or group with everybody below: nobody pushes out those
    of others who have less.
    """

    async def find(self, *, path: str | None = None, before: int | None = None, limit: int = 100) -> list[DeadLetter]:
        """Return the newest dead letters first, beginning below number `before`."""

    async def get(self, no: int) -> DeadLetter | None:
        """Return one dead letter."""

    async def replay(self, no: int) -> int:
        """Queue it again, behind what waits now, and return its new inbox or outbox number.

        Happens once: a repeat raises `ConflictError`. A refused one (`NotFoundError`, `BusyError`) may be tried again.
        """

    async def replay_turn(self, agent_id: str, turn: int) -> int:
        """Queue again, in order, what an agent's turn was given up with and nobody has replayed; return how many.

        All or nothing; raises as `replay` does. A repeat finds nothing more.
        """

    async def prune(self, *, before_ms: int) -> int:
        """Delete dead letters older than `before_ms`, and what is known of those dropped before; return how many."""

    async def dropped(self) -> list[DroppedLetters]:
        """Return whose dead letters made room, and how many since they were last pruned; those with most first."""
        ...

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

    def last(self, agent_id: str, sender: str) -> str:
        """Return the trace id of the last message that somebody wrote to an agent, empty if none. Blocks, too."""

    async def spent(self, user: str | None = None) -> dict[str, int]:
        """Return `input_tokens`, `output_tokens`, `cost_micros` spent so far, of one user or of all."""

    async def expire(self, before_ms: int, now_ms: int | None = None) -> int:
        """Delete a bounded number of finished rows that ended before `before_ms`; return how many (0: all done).

        Reservations of budgets and sums of days are as old as they are at `now_ms`, if that is given. What waits,
        conversations and the newest row of each kind stay.
        """

    async def size_bytes(self) -> int:
        """Return the size of the database."""


class Store(Protocol):
    """Everything durable, in groups."""

    @property
    def location(self) -> str:
        """What names it in errors; it holds no password."""

    @property
    def gauges(self) -> GaugeStore:
        """See `GaugeStore`."""

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
    def documents(self) -> DocumentStore:
        """See `DocumentStore`."""

    @property
    def memories(self) -> MemoryStore:
        """See `MemoryStore`."""

    @property
    def approvals(self) -> ApprovalStore:
        """See `ApprovalStore`."""

    @property
    def budgets(self) -> BudgetStore:
        """See `BudgetStore`."""

    @property
    def timers(self) -> TimerStore:
        """See `TimerStore`."""

    @property
    def exports(self) -> ExportStore:
        """See `ExportStore`."""

    def of(self, kind: type[T]) -> T:
        """Return what reads and writes the tables of a capability, by its class."""
        ...

    @property
    def behaviours(self) -> BehaviourStore:
        """See `BehaviourStore`."""

    @property
    def upkeep(self) -> UpkeepStore:
        """See `UpkeepStore`."""

    @property
    def dead(self) -> DeadLetterStore:
        """See `DeadLetterStore`."""

    @property
    def ledger(self) -> LedgerStore:
        """See `LedgerStore`."""

    @property
    def intake(self) -> IntakeStore:
        """See `IntakeStore`."""

    @property
    def strangers(self) -> StrangerStore:
        """See `StrangerStore`."""

    def trusted(self) -> None:
        """Raise `StoreAwayError` STORE_GONE or STORE_CORRUPT where nothing is written any more, and nothing to copy."""

    def doubt(self, damage: str) -> None:
        """Hear of damage that was found in a copy's original: nothing is written any more."""

    def subscribe(
        self, listener: Callable[[Commit], None], trouble: Callable[[DaycareError | None], None] | None = None
    ) -> None:
        """Have `listener` called in the loop's thread after each commit, in order, before its writers continue.

        A commit whose writers were all cancelled is announced, too. `trouble` is called with an error when a commit
        fails and with None when one succeeds again. One subscriber; a second replaces the first.
        """
