"""What becomes true inside a transaction, told there to the capabilities that keep rows of their own about it.

The core writes messages, turns, agents and users, and knows nobody who cares. A capability that does brings a
`Follower`: in the transaction that makes a fact true it is told, in the order in which the followers were given to the
store, and what it writes then becomes true with it, or not at all. What it lets the daemon know after the commit is
news of its own in `Commit.news`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import apsw
import msgspec

from daycare.store.records import Agent, Commit, InboxRow, Shows, Spend
from daycare.store.records_prompts import ShownPrompt

if TYPE_CHECKING:
    from daycare.store.sqlite.writer import Tx


class TurnBegan(msgspec.Struct, frozen=True):
    """A turn begins with these messages; `goes_on`: it continues one that was set aside."""

    agent: Agent
    turn: int
    trace: str
    seqs: tuple[int, ...]
    rows: Sequence[InboxRow]
    goes_on: bool


class TurnCommitted(msgspec.Struct, frozen=True):
    """A turn has ended, its messages wait for the last time."""

    turn: int


class MessageEnded(msgspec.Struct, frozen=True):
    """A message is done with, or `dead`: `result` is what came of it, or why it was given up."""

    seq: int
    turn: int | None
    result: str
    dead: bool


class TurnAnswered(msgspec.Struct, frozen=True):
    """A turn that finished, or was stopped, has ended its messages and queued what it says: the replies `sent`."""

    seqs: Sequence[int]
    sent: Sequence[int]
    stopped: bool
    result: str


class PromptShown(msgspec.Struct, frozen=True):
    """A model was asked in a turn, and was shown this."""

    shown: ShownPrompt


class ReplyQueued(msgspec.Struct, frozen=True):
    """A reply is queued for its user, in an agent's conversation; `shows` is what else it is about."""

    seq: int
    user: str
    origin: str
    shows: Shows | None


class CallPaid(msgspec.Struct, frozen=True):
    """A call of a model was answered, and what came of it is kept in this transaction: it is charged with it."""

    spend: Spend


class ReplyMoved(msgspec.Struct, frozen=True):
    """A reply that had been given up waits again, under another number."""

    seq: int
    to: int


class TimersMoved(msgspec.Struct, frozen=True):
    """The clock was set back to this: deadlines that were set in what is the future now end sooner."""

    now_ms: int


class MessageForgotten(msgspec.Struct, frozen=True):
    """The words of a message are forgotten; what stands there `instead` stands wherever they were copied to."""

    seq: int
    instead: str


class TracesForgotten(msgspec.Struct, frozen=True):
    """What happened under these traces since they `began` (wall ms) is forgotten, `instead` stands for it.

    Whoever forgets some of it adds what was there to `shreds`, for the file to be searched for it afterwards: texts,
    and what was stored packed as it was stored.
    """

    began: Mapping[str, int]
    instead: str
    shreds: list[str | bytes]


class VersionForgotten(msgspec.Struct, frozen=True):
    """The words of a version of a document that was written under this key are forgotten; see `TracesForgotten`."""

    key: str
    instead: str
    shreds: list[str | bytes]


class ScopeForgot(msgspec.Struct, frozen=True):
    """Something was forgotten in a scope: what quotes its words, its documents or its prompts is to go."""

    scope: str


class RowsExpired(msgspec.Struct, frozen=True):
    """What ended before `before_ms` is kept no longer, and it is `now_ms`: `limit` rows of each table are deleted.

    Whoever deletes some adds to `deleted` how many.
    """

    before_ms: int
    now_ms: int
    limit: int
    deleted: list[int]


class UserPlaced(msgspec.Struct, frozen=True):
    """A user is written, new or back again, below `parent`, None for nobody: told before the row says so."""

    user: str
    parent: str | None


class UserLeaving(msgspec.Struct, frozen=True):
    """A user is removed: nothing that comes by itself is to come any more. Their agents live still."""

    user: str
    reason: str


class UserLeft(msgspec.Struct, frozen=True):
    """A user is removed: their agents have ended, and what was still to be said to them is given up."""

    user: str
    reason: str


class AgentCutOff(msgspec.Struct, frozen=True):
    """An agent has ended with its user: nobody works on for it."""

    agent_id: str


class UsersTaken(msgspec.Struct, frozen=True):
    """Users that `owns` names are this node's from now on: what they had at work on another has ended with that."""

    owns: Callable[[str], bool]


class AgentBuried(msgspec.Struct, frozen=True):
    """An agent has died, for whatever reason: nothing that it has begun goes on."""

    agent_id: str
    reason: str


class Bite:
    """How much one transaction has deleted of an agent: `rows`, some `limit` at most. `more` may be left of a kind."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.rows = 0
        self.more = False


class TurnsExpire(msgspec.Struct, frozen=True):
    """Turns of an agent that died long ago are deleted next: what was kept of their words goes before them."""

    agent_id: str
    bite: Bite


class AgentExpires(msgspec.Struct, frozen=True):
    """An agent that died long ago is deleted next: what is its own goes before it."""

    agent_id: str
    bite: Bite


class PersonPurged(msgspec.Struct, frozen=True):
    """Every row of a person is removed, who is in `temp.purged_users`, `purged_roots` and `purged_agents`.

    Told before all else goes. `gone` counts rows by table.
    """

    users: Sequence[str]
    roots: Sequence[str]
    gone: dict[str, int]


F = TypeVar("F", bound="Follower")
Heed = Callable[["Tx", Any], None]


class Follower:
    """What a capability does inside the transactions of the core, in the thread of one store's writer."""

    def recover(self, db: apsw.Connection) -> None:
        """End what an earlier owner of the file left open: once, before `load`, in a transaction that this begins.

        Called as a store is opened, before anybody else uses it.
        """

    def load(self, db: apsw.Connection) -> None:
        """Read again what is remembered of all rows: at the start, after an undone transaction, or others' commits."""

    def distrust(self, heard: Commit | None) -> None:
        """Forget what is remembered of some rows and may be otherwise: all, or what others changed as was `heard`.

        Only what a statement has answered is remembered so, and not what a write goes on with as a rule.
        """

    def heeds(self) -> Mapping[type, Heed]:
        """Return what is done about facts, by their class."""
        return {}


class Followers:
    """All of a store, in the order in which they are told; `heeds` is what they do about facts, by their class."""

    def __init__(self, followers: Sequence[Follower]) -> None:
        self._all = {kind: follower for follower in followers for kind in reversed(type(follower).__mro__)}
        self._each = tuple(followers)
        self.heeds: dict[type, list[Heed]] = {}
        for follower in followers:
            for fact, heed in follower.heeds().items():
                self.heeds.setdefault(fact, []).append(heed)

    def recover(self, db: apsw.Connection) -> None:
        """Have each end what an earlier owner of the file left open."""
        for follower in self._each:
            follower.recover(db)

    @property
    def loads(self) -> Sequence[Callable[[apsw.Connection], None]]:
        """What has each read what it remembers."""
        return tuple(follower.load for follower in self._each)

    def distrust(self, heard: Commit | None) -> None:
        """Have each forget what may be otherwise."""
        for follower in self._each:
            follower.distrust(heard)

    def of(self, kind: type[F]) -> F:
        """Return one of them, by its class or by the port that it stands for."""
        follower = self._all[kind]
        assert isinstance(follower, kind)
        return follower
