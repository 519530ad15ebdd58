"""Writes of one batch side by side, so that a batch takes few round trips, whatever its size.

Each write runs in a greenlet until it needs an answer of the server. Then the next statements of all of them go out
together, and each goes on with its own answer. What a statement changes is asked for only where it is looked at: until
then the write goes on without it. Where a write says what a statement comes to as a rule it goes on with that: the
server refuses the statement where it is not so, and the batch is done again without guesses.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import apsw
import greenlet

from daycare.base.errors import DaycareError, StoreAwayError
from daycare.store.postgres.connection import BoundStatement, PostgresConnection, StatementAnswer
from daycare.store.postgres.cursor import Blob, Cursor, Row
from daycare.store.postgres.dialect import ADDS, CHANGES, FINDS_NONE, WRONG
from daycare.store.postgres.errors import StatementError
from daycare.store.postgres.next_numbers import NextNumbers

UNSENT_MAX: Final = 2_000  # statements of one lane that nobody looked at yet


class _Asked(Cursor):
    """The rows of a statement, which is sent at the latest when somebody looks at them."""

    __slots__ = ("_lane", "answer", "call", "guess", "owner")

    def __init__(self, lane: "WriteLane", call: BoundStatement, guess: StatementAnswer | None) -> None:
        super().__init__([])
        self._lane = lane
        self.call = call
        self.guess = guess
        self.owner = lane.owner
        self.answer: StatementAnswer | None = None

    def __next__(self) -> Row:
        if self.answer is None:
            self._lane.wait()
        return super().__next__()

    def fetchall(self) -> list[Row]:
        """Return the rows that are left."""
        if self.answer is None:
            self._lane.wait()
        return super().fetchall()

    def is_answered(self, answer: StatementAnswer) -> None:
        """Take the answer, which is the guess where there was one."""
        self.answer = answer = self.guess or answer
        self._rows = answer.rows
        self._lane.note(answer, self.owner)


class SpoiledError(Exception):
    """The write that is the `owner` failed, and the transaction cannot be committed as it is."""

    def __init__(self, owner: Any, error: BaseException) -> None:
        super().__init__(str(error))
        self.owner = owner
        self.error = error


class GuessError(Exception):
    """A statement came to something else than what its write went on with: nothing of the batch can be committed."""


class OpeningError(Exception):
    """A statement that opens the transaction was refused: nothing of what came behind it has happened."""

    def __init__(self, error: DaycareError) -> None:
        super().__init__(str(error))
        self.error = error


class WriteLane:
    """The connection as the writes of one user see it, which run one after another; `owner` is the one that runs now.

    Changes and numbers are those of its own statements.
    """

    filename = ""
    open_vfs = ""

    def __init__(self, lockstep: "Lockstep", work: Callable[["WriteLane"], None]) -> None:
        self._lockstep = lockstep
        self._server = lockstep.server
        self.owner: Any = None
        self._unanswered = 0
        self._changes = self._total = self._own = self._last = 0
        self.greenlet = greenlet.greenlet(lambda: work(self))

    def execute(self, sql: str, bindings: Any = ()) -> Cursor:
        """Send a statement with the next ones; a script of several has no values."""
        found = Cursor([])
        for part in self._server.parts(sql):
            found = self._ask(part, bindings)
        return found

    def executemany(self, sql: str, many: Iterable[Sequence[Any]]) -> Cursor:
        """Send a statement with each of these values."""
        for bindings in many:
            self.execute(sql, bindings)
        return Cursor([])

    def insert(self, sql: str, bindings: tuple[Any, ...]) -> int | None:
        """Send a statement that adds a row, and go on with the number that this will have."""
        table = self._server.dialect.translate(sql).changes
        number = self._lockstep.numbers.get(table) if self._lockstep.guesses else None
        if number is None:
            self.execute(sql, bindings)
            return self.last_insert_rowid() if self.changes() else None
        self._ask(ADDS + sql, (*bindings, number), StatementAnswer(1, number, []))
        self._lockstep.numbers.given(table, number)
        return number

    def changes_one(self, sql: str, bindings: tuple[Any, ...]) -> bool:
        """Send a statement, and go on as one that has changed a row."""
        if not self._lockstep.guesses:
            self.execute(sql, bindings)
            return self.changes() > 0
        self._ask(CHANGES + sql, bindings, StatementAnswer(1, None, []))
        return True

    def rare(self, sql: str, bindings: tuple[Any, ...]) -> Row | None:
        """Send a query, and go on as if it has found nothing."""
        if not self._lockstep.guesses:
            return self.execute(sql, bindings).fetchone()
        self._ask(FINDS_NONE + sql, bindings, StatementAnswer(None, None, []))
        return None

    def _ask(self, sql: str, bindings: Any, guess: StatementAnswer | None = None) -> _Asked:
        if self._unanswered and not self._server.knows(sql):
            self.wait()  # it may be about what these make
        try:
            call = self._server.bind(sql, bindings)
        except DaycareError as error:
            if self._server.failed:  # as it cannot be prepared
                raise SpoiledError(self.owner, error) from error
            raise
        if call.prepared.statement.numbered:
            self._lockstep.numbers.unsure(call.prepared.statement.changes)
        asked = _Asked(self, call, guess)
        self._lockstep.unsent.append(asked)
        self._unanswered += 1
        if self._unanswered >= UNSENT_MAX:
            self.wait()
        return asked

    def wait(self) -> None:
        """Let the others go on until what was asked is answered."""
        if self._unanswered:
            self._lockstep.hub.switch()

    def begin(self, owner: Any) -> None:
        """Let statements be those of another write from now on."""
        self.owner, self._own = owner, 0

    def leave(self) -> None:
        """Ask nothing more: what was asked keeps its lane, and would be kept by it for a look for garbage to find."""
        del self._lockstep

    def has_changed(self) -> bool:
        """Whether the write that runs now has changed anything."""
        self.wait()
        return self._own > 0

    def note(self, answer: StatementAnswer, owner: Any) -> None:
        """Take note of an answer to one of its statements."""
        self._unanswered -= 1
        if answer.changes is not None:
            self._changes = answer.changes
            self._total += answer.changes
            self._own += answer.changes if owner is self.owner else 0
        if answer.number is not None:
            self._last = answer.number

    def changes(self) -> int:
        """Return how many rows its last statement changed that could change some."""
        self.wait()
        return self._changes

    def total_changes(self) -> int:
        """Return how many rows it has changed."""
        self.wait()
        return self._total

    def last_insert_rowid(self) -> int:
        """Return the number of the row that it added last."""
        self.wait()
        return self._last

    def blob_open(self, schema: str, table: str, column: str, number: int, writable: bool) -> Blob:
        """Return the bytes of one value, to be read a part at a time."""
        self.wait()
        return self._server.blob_open(schema, table, column, number, writable)

    def txn_state(self, schema: str) -> int:
        """Return that no query is open: its rows were all read."""
        return apsw.SQLITE_TXN_NONE

    def fts5_tokenizer(self, name: str, args: list[str]) -> apsw.FTS5Tokenizer:
        """Return what makes words of a text."""
        return self._server.fts5_tokenizer(name, args)


class Lockstep:
    """Runs lanes over one connection, in its thread, in a transaction: an open one, or what the `opening` opens.

    That goes out with the first statements; where one of it is refused the server runs none of those. `opened` is what
    it was answered.
    """

    def __init__(
        self, server: PostgresConnection, opening: Sequence[BoundStatement], numbers: NextNumbers, *, guesses: bool
    ) -> None:
        self.server = server
        self.numbers = numbers
        self.guesses = guesses
        self._opening = opening
        self.opened: list[StatementAnswer] = []
        self.hub = greenlet.getcurrent()
        self.unsent: list[_Asked] = []
        self._sent: list[_Asked] = []

    def run(self, works: Sequence[Callable[[WriteLane], None]]) -> None:
        """Run each in a lane of its own, until all have ended; some of their last statements may be unsent.

        Raises `SpoiledError`, `GuessError`, `StoreAwayError`, or what one of the works raises: the others have not
        ended then.
        """
        lanes = [WriteLane(self, work) for work in works]
        running = lanes
        try:
            while running:
                for lane in running:
                    lane.greenlet.switch()
                running = [lane for lane in running if not lane.greenlet.dead]
                if running:
                    self.send()
        finally:
            for lane in lanes:
                if lane.greenlet:  # it has begun, and not ended
                    lane.greenlet.throw(greenlet.GreenletExit)
                lane.leave()

    @property
    def tables(self) -> frozenset[str]:
        """Which tables the statements may change, or have changed, whose answers are not there."""
        asked = (*self._sent, *self.unsent)
        return frozenset(each.call.prepared.statement.changes for each in asked if each.answer is None)

    def send(self, last: Sequence[BoundStatement] = ()) -> None:
        """Send what is unsent, with the `last` behind it if all of that is taken.

        Raises `SpoiledError` for what is a write's fault, `GuessError`, `OpeningError`, else what is the server's.
        """
        asked, self.unsent = self.unsent, []
        self._sent = asked
        opening, self._opening = self._opening, ()
        calls = [*opening, *(each.call for each in asked), *last]
        answers = self.server.execute_all(calls) if calls else []
        for _ in opening[: len(answers)]:
            answer = answers.pop(0)
            if isinstance(answer, DaycareError):
                raise OpeningError(answer)
            self.opened.append(answer)
        for each, found in zip(asked, answers, strict=False):
            if isinstance(found, StoreAwayError):
                raise found
            if each.guess is not None and isinstance(found, StatementError) and found.state == WRONG:
                raise GuessError
            if isinstance(found, DaycareError):
                raise SpoiledError(each.owner, found)
            each.is_answered(found)
            if found.number is not None:
                self.numbers.given(each.call.prepared.statement.changes, found.number)
        for found in answers[len(asked) :]:
            if isinstance(found, DaycareError):
                raise found
