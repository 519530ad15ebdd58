"""The life of an agent: which moves are legal, and what an awake one keeps in memory."""

from enum import StrEnum
from typing import Final

import trio

from daycare.actors.taken_back import taken_back
from daycare.base.limits import MAILBOX_MAX_ROWS, MERGE_MAX_MESSAGES
from daycare.base.messages import EnvelopeKind, Lane, Origin
from daycare.store.records import InboxRow, Policy, Turn

MERGE_MAX_BYTES: Final = 64 * 1024


class Life(StrEnum):
    """Where an agent is in its life. Asleep is only a row."""

    ASLEEP = "asleep"
    WAKING = "waking"
    IDLE = "idle"
    IN_TURN = "in_turn"
    DRAINING = "draining"
    DEAD = "dead"


MOVES: dict[Life, frozenset[Life]] = {
    Life.ASLEEP: frozenset({Life.WAKING}),
    Life.WAKING: frozenset({Life.IDLE, Life.IN_TURN, Life.ASLEEP, Life.DEAD}),
    Life.IDLE: frozenset({Life.IN_TURN, Life.ASLEEP, Life.DRAINING, Life.DEAD}),
    Life.IN_TURN: frozenset({Life.IDLE, Life.ASLEEP, Life.DRAINING, Life.DEAD}),
    Life.DRAINING: frozenset({Life.ASLEEP, Life.DEAD}),
    Life.DEAD: frozenset(),
}

_PEOPLE = (Origin.PERSON, Origin.GROUP, Origin.FORWARD, Origin.FILE)

# A member that is looked up in its class takes eight times as long, and these are asked for with each message.
CONTROL: Final = Lane.CONTROL
IN_TURN: Final = Life.IN_TURN
IDLE: Final = Life.IDLE
COLLECT: Final = Policy.COLLECT
VOICE: Final = EnvelopeKind.VOICE


class Activation:
    """The one living form of an awake agent: its mailbox in memory and where its lane stands.

    Rows reach it twice: by `load` and `hear` from the store, and by `deliver` right after their commit. Each lane has a
    cursor of its own, so that a row that is in both is taken once, and no message stands before a command: `loaded` is
    the highest seq taken of the messages, `heard` that of the control lane. When more waits than memory holds, `behind`
    (of messages) or `deaf` (of the control lane) is set and the rest is read later, in order. `missed` says that rows
    were delivered then, and `reworded` that some got their words, which a read that is on its way may not have. `begun`
    are the rows of `turn` when it was journaled with the end of the one before and has not been tried yet. `trying`
    says that a try runs, which `cancel` ends; `alone`, that no other lane tries a turn meanwhile. `beside` is the
    control message that is obeyed beside the running turn. `retry_at` is the turn that failed last, and when by trio's
    clock it may be tried again. `user` is whose agent it is, once that is known; `whole` ends the activation on a node
    of several, which sets `gone`.
    """

    __slots__ = (
        "agent_id",
        "alone",
        "aside",
        "begun",
        "behind",
        "beside",
        "cancelled",
        "control",
        "deaf",
        "gone",
        "heard",
        "idle_since",
        "late_at",
        "life",
        "loaded",
        "missed",
        "policy",
        "retiring",
        "retry_at",
        "reworded",
        "rows",
        "scope",
        "sleeper",
        "stop_reason",
        "stopped_at",
        "trying",
        "turn",
        "user",
        "whole",
    )  # fmt: skip

    def __init__(self, agent_id: str) -> None:
        self.agent_id = agent_id
        self.life = Life.ASLEEP
        self.alone = False
        self.rows: list[InboxRow] = []
        self.begun: list[InboxRow] = []
        self.control: list[InboxRow] = []
        self.beside: InboxRow | None = None
        self.behind = self.deaf = True
        self.missed = self.reworded = False
        self.loaded = self.heard = 0
        self.sleeper: trio.lowlevel.Task | None = None
        self.scope: trio.CancelScope | None = None
        self.cancelled = False
        self.trying = False
        self.stop_reason = ""
        self.policy = Policy.STEER
        self.stopped_at = 0
        self.turn: Turn | None = None
        self.aside = 0  # how many turns were set aside or helpers at work, as of the last command that needed to know
        self.retry_at = 0, 0.0
        self.retiring = False
        self.idle_since = 0.0
        self.late_at = 0.0
        self.user = ""
        self.whole: trio.CancelScope | None = None
        self.gone: trio.Event | None = None

    def move(self, to: Life) -> None:
        """Go to another state of life; a move that the table does not know is a defect."""
        assert to in MOVES[self.life], f"{self.agent_id}: no way from {self.life} to {to}"
        self.life = to

    def deliver(self, row: InboxRow) -> None:
        """Take a row that was committed just now."""
        if row.envelope.lane is CONTROL:
            if row.seq <= self.heard:
                return
            self.deaf = self.deaf or len(self.control) >= MAILBOX_MAX_ROWS
            if not self.deaf:
                self.heard = row.seq
                self._jump(row)
            self.missed |= self.deaf
        else:
            if row.seq <= self.loaded:
                return
            self.behind = self.behind or len(self.rows) >= MAILBOX_MAX_ROWS
            if not self.behind:
                self.loaded = row.seq
                self.rows.append(row)
            self.missed |= self.behind
        self.retiring = False
        self.nudge()

    def load(self, rows: list[InboxRow], more: bool) -> None:
        """Take messages that were read from the store after seq `loaded`; `more` says that it holds further ones."""
        self.rows += rows
        self.loaded = rows[-1].seq if rows else self.loaded
        self.behind = more

    def hear(self, rows: list[InboxRow], more: bool) -> None:
        """Take what was read of the control lane after seq `heard`; `more` says that the store holds further ones."""
        for row in rows:
            self.heard = row.seq
            if not self._has(row):
                self._jump(row)
        self.deaf = more

    def _jump(self, row: InboxRow) -> None:
        """Take a row of the control lane: an answer is the next turn's, all else is obeyed at once."""
        if row.envelope.kind is EnvelopeKind.RESULT:
            answers = sum(known.envelope.kind is EnvelopeKind.RESULT for known in self.rows)  # they stand first
            self.rows.insert(answers, row)
        else:
            self.control.append(row)

    def _has(self, row: InboxRow) -> bool:
        if self.beside is not None and self.beside.seq == row.seq:
            return True
        return any(row.seq == known.seq for rows in (self.control, self.rows, self.begun) for known in rows)

    def means_another(self, rest: str) -> bool:
        """Return whether `/stop NUMBER`, which is what a button says, is about another turn than the one in work."""
        return rest.isdecimal() and self.turn is not None and rest != str(self.turn.turn)

    def nudge(self) -> None:
        """Wake the lane if it waits."""
        if self.sleeper is not None:
            trio.lowlevel.reschedule(self.sleeper)
            self.sleeper = None

    def cut_off(self) -> None:
        """End whatever the lane is at: its agent has died. One that is only waking finds out by itself."""
        if self.scope is not None:
            self.stop_reason = "cut off"
            self.cancel()

    def cancel(self) -> None:
        """Cancel what the lane is at, which `scope` holds."""
        assert self.scope is not None
        self.cancelled = True  # a scope that is asked looks at the clock
        self.scope.cancel()

    async def rest(self) -> None:
        """Wait for the next nudge. Half the size of an `Event`, which counts when many agents are awake and idle."""

        def wake(_: object) -> trio.lowlevel.Abort:
            self.sleeper = None
            return trio.lowlevel.Abort.SUCCEEDED

        self.sleeper = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(wake)

    def claim_ahead(self) -> list[InboxRow]:
        """Take the rows of the turn after the one that ends now, if it can begin in the same commit."""
        if not self.rows or self.control or self.policy is COLLECT:
            return []
        if self.rows[0].envelope.kind is VOICE:
            return []
        return self.claim()

    def claim(self) -> list[InboxRow]:
        """Take the rows of the next turn: the first, and what the same person said right after it."""
        first = self.rows.pop(0)
        if not self.rows:
            return [first]
        taken = [first, *self._mergeable([first])]
        taken += self._edits_of(taken)
        return [*taken, *self._deletions_of(taken)]

    def unclaim(self, rows: list[InboxRow]) -> None:
        """Put claimed rows back: their turn could not be journaled."""
        self.rows[:0] = rows

    def drop(self, seqs: set[int]) -> None:
        """Forget rows that an open turn works on already, or that somebody drops."""
        self.rows = [row for row in self.rows if row.seq not in seqs]

    @property
    def listening(self) -> bool:
        """Whether the next message is one that has yet to be heard: those after it wait for that."""
        return bool(self.rows) and self.turn is None and self.rows[0].envelope.kind is VOICE

    def reword(self, row: InboxRow) -> None:
        """Take the words of a row that were heard. It keeps its place, unless it turned out to be a command."""
        self.reworded = True
        at = next((at for at, known in enumerate(self.rows) if known.seq == row.seq), None)
        if row.envelope.lane is CONTROL:
            if at is not None:
                del self.rows[at]
            if not self._has(row):
                self._jump(row)
        elif at is not None:
            self.rows[at] = row
        self.nudge()

    def reread(self) -> None:
        """Forget the rows in memory and load them again: the store alone knows what an interrupted turn has taken."""
        self.rows, self.begun = [], []
        self.loaded = self.heard = 0
        self.behind = self.deaf = True

    def steering(self, turn_rows: list[InboxRow]) -> list[InboxRow]:
        """Take what the person of a running turn has added meanwhile, if nobody else's message stands before it."""
        taken = self._mergeable(turn_rows)
        taken += self._edits_of([*turn_rows, *taken])
        return [*taken, *self._deletions_of(taken)]

    def _edits_of(self, rows: list[InboxRow]) -> list[InboxRow]:
        """Take what corrects these rows, whoever wrote in between: they are to be read in their last words."""
        keys = {row.envelope.key for row in rows}
        found = [
            row for row in self.rows if row.envelope.person.edits in keys and row.envelope.kind is EnvelopeKind.TEXT
        ]
        if found:
            self.drop({row.seq for row in found})
        return found

    def _deletions_of(self, rows: list[InboxRow]) -> list[InboxRow]:
        """Take what takes these rows back, whoever wrote in between: nobody is to read them."""
        found = [row for row in self.rows if row.envelope.person.deletes and taken_back([*rows, row])]
        if found:
            self.drop({row.seq for row in found})
        return found

    def _mergeable(self, taken: list[InboxRow]) -> list[InboxRow]:
        first = taken[0]
        if not self.rows or not _merges(first, self.rows[0]):
            return []
        count, size = len(taken), sum(len(row.envelope.text) for row in taken)
        found: list[InboxRow] = []
        while self.rows and _merges(first, self.rows[0]):
            size += len(self.rows[0].envelope.text)
            count += 1
            if count > MERGE_MAX_MESSAGES or size > MERGE_MAX_BYTES:
                break
            found.append(self.rows.pop(0))
        return found


def _merges(first: InboxRow, row: InboxRow) -> bool:
    """Only one person's words are merged, and nothing that failed before: a bad message takes no others along.

    What a program adds to a message is for the turn of that message alone.
    """
    a, b = first.envelope, row.envelope
    return (
        a.origin in _PEOPLE
        and b.origin in _PEOPLE
        and a.kind is EnvelopeKind.TEXT
        and not a.chain
        and a.person.client is None is b.person.client
        and not b.person.instead
        and first.attempts == 0 == row.attempts
        and (a.sender, a.user, a.kind, a.chain, a.reply_target) == (b.sender, b.user, b.kind, b.chain, b.reply_target)
    )
