"""All rows of a trace: its messages, turns with their steps and calls of models, failures, replies, dead letters.

It reads whole tables: call it in a thread of its own.
"""

from typing import Any, Final, NamedTuple

import msgspec

from daycare.store.records import Step
from daycare.store.sqlite.rows import Rows
from daycare.store.sqlite.sql import fetch, those

TRACE_ROWS_MAX: Final = 500  # of each kind; more nobody reads

_MESSAGES: Final = (
    "SELECT seq, created_at, sender, path, state, turn, done_at FROM inbox WHERE trace = ? ORDER BY seq LIMIT ?"
)
_TURNS: Final = (
    "SELECT t.turn, t.agent_id, a.path, t.attempt, t.started_at, h.ended_at, h.state,"
    " coalesce(h.error, iif(h.turn IS NULL, t.error, NULL), ''), t.seqs"
    " FROM turns t JOIN agents a ON a.id = t.agent_id LEFT JOIN history h ON h.turn = t.turn"
    " WHERE t.trace = ? OR t.turn IN (SELECT value FROM carray(?)) ORDER BY t.turn LIMIT ?"
)
_STEPS: Final = "SELECT at, body FROM steps WHERE turn IN (SELECT value FROM carray(?)) ORDER BY turn, step LIMIT ?"
_CALLS: Final = (
    "SELECT turn, at, provider || '/' || model, input_tokens, cached_tokens, output_tokens, cost_micros FROM spend"
    " WHERE turn IN (SELECT value FROM carray(?)) ORDER BY turn, step LIMIT ?"
)
_REPLIES: Final = (
    "SELECT seq, created_at, path, connector, state, turn, sent_at, coalesce(error, '') FROM outbox WHERE trace = ?"
    " ORDER BY seq LIMIT ?"
)
_LETTERS: Final = (
    "SELECT no, created_at, path, source, seq, code, reason FROM dead_letters WHERE trace = ? ORDER BY no LIMIT ?"
)
_FAILURES: Final = (
    "SELECT CAST(event ->> '$.turn' AS BIGINT), at, path, CAST(event ->> '$.attempt' AS BIGINT), event ->> '$.code',"
    " event ->> '$.reason', CAST(event ->> '$.retry_in_s' AS DOUBLE PRECISION) FROM events"
    " WHERE trace = ? AND event ->> '$.event' = 'turn.failed'"
    " ORDER BY no LIMIT ?"
)

_step = msgspec.json.Decoder(Step).decode
_seqs = msgspec.json.Decoder(tuple[int, ...]).decode


class TracedMessage(NamedTuple):
    """An inbox row. `state`: 0 waiting, 1 done, 2 dead, 3 held."""

    seq: int
    at_ms: int
    sender: str
    path: str
    state: int
    turn: int | None
    ended_at: int | None


class TracedTurn(NamedTuple):
    """A turn; `state` None: it is open. `seqs` are its messages, `error` is why it, or its last try, failed."""

    turn: int
    agent_id: str
    path: str
    attempt: int
    started_at: int
    ended_at: int | None
    state: str | None
    error: str
    seqs: tuple[int, ...]


class TracedStep(NamedTuple):
    """A step of a turn, as it was last written at `at_ms`."""

    at_ms: int
    step: Step


class TracedCall(NamedTuple):
    """What a call of a model in a turn took."""

    turn: int
    at_ms: int
    model: str
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    cost_micros: int


class TracedReply(NamedTuple):
    """An outbox row."""

    seq: int
    at_ms: int
    path: str
    connector: str
    state: int
    turn: int | None
    ended_at: int | None
    error: str


class TracedLetter(NamedTuple):
    """A dead letter; `seq` is the number of the message or reply, by its `source`."""

    no: int
    at_ms: int
    path: str
    source: str
    seq: int
    code: str
    reason: str


class TracedFailure(NamedTuple):
    """A try of a turn that failed; `retry_in_s` None: it was the last."""

    turn: int
    at_ms: int
    path: str
    attempt: int
    code: str
    reason: str
    retry_in_s: float | None


class TraceRows(NamedTuple):
    """All of a trace, each kind in order; `cut`: of one kind there were more than `TRACE_ROWS_MAX`."""

    messages: list[TracedMessage]
    turns: list[TracedTurn]
    steps: list[TracedStep]
    calls: list[TracedCall]
    replies: list[TracedReply]
    letters: list[TracedLetter]
    failures: list[TracedFailure]
    cut: bool


class TracedRows(Rows):
    """Reads what belongs to one trace."""

    def of_trace(self, trace: str) -> TraceRows:
        """Return all rows of a trace; a turn that answered it among others' messages counts, too."""
        of_it: tuple[Any, ...] = (trace, TRACE_ROWS_MAX)
        with self._readers.lent() as db:
            messages = [TracedMessage(*row) for row in fetch(db, _MESSAGES, of_it)]
            answered = those(each.turn for each in messages if each.turn is not None)
            turns = [
                TracedTurn._make((*row[:-1], _seqs(row[-1])))
                for row in fetch(db, _TURNS, (trace, answered, TRACE_ROWS_MAX))
            ]
            numbers = [turn.turn for turn in turns]
            steps = [
                TracedStep(at_ms, _step(body)) for at_ms, body in fetch(db, _STEPS, (those(numbers), TRACE_ROWS_MAX))
            ]
            calls = [TracedCall(*row) for row in fetch(db, _CALLS, (those(numbers), TRACE_ROWS_MAX))]
            replies = [TracedReply(*row) for row in fetch(db, _REPLIES, of_it)]
            letters = [TracedLetter(*row) for row in fetch(db, _LETTERS, of_it)]
            failures = [TracedFailure(*row) for row in fetch(db, _FAILURES, of_it)]
        lists = (messages, turns, steps, calls, replies, letters, failures)
        return TraceRows(*lists, cut=any(len(each) == TRACE_ROWS_MAX for each in lists))
