"""Tasks as the open transaction sees them: begun with a turn, ended with the message that is their work."""

from collections.abc import Mapping
from typing import Any, Final

import apsw
import msgspec

from daycare.base.cron import is_silence
from daycare.base.messages import Origin
from daycare.store.records_tasks import Task, TaskNews, TaskProgress
from daycare.store.sqlite.facts import Follower, Heed, MessageEnded, TurnAnswered, TurnBegan, UserLeft
from daycare.store.sqlite.sql import Select
from daycare.store.sqlite.writer import Tx

DEADLINE_KEY = "task:deadline"  # of the message that a task's deadline posts
COLUMNS = (
    "t.no, t.path, t.user, t.origin, t.asker, t.prompt, t.parameters, t.deliver, t.connector, t.target, t.waits,"
    " t.state, t.reason, t.progress, t.agent_id, t.seq, t.trace, t.turn, t.created_at, t.deadline_at, t.started_at,"
    " t.ended_at, t.tokens, t.cost_micros, t.outbox"
)
_NAMES = tuple(name.strip().removeprefix("t.") for name in COLUMNS.split(","))
_decode_values = msgspec.json.Decoder(dict[str, Any]).decode
_decode_progress = msgspec.json.Decoder(tuple[TaskProgress, ...]).decode


class OpenTasks(Follower):
    """The tasks whose message has not ended: `no` by the message's number."""

    def __init__(self) -> None:
        self.no: dict[int, int] = {}

    def load(self, db: apsw.Connection) -> None:
        """Read them."""
        rows = db.execute("SELECT seq, no FROM tasks WHERE ended_at IS NULL")
        self.no = {int(str(seq)): int(str(no)) for seq, no in rows}

    def heeds(self) -> Mapping[type, Heed]:
        """Follow turns and messages."""
        return {TurnBegan: self._begun, MessageEnded: self._ended, TurnAnswered: _answered, UserLeft: _left}

    def _begun(self, tx: Tx, it: TurnBegan) -> None:
        """A turn starts on these messages."""
        for no in (self.no[seq] for seq in it.seqs if seq in self.no):
            tx.run(
                "UPDATE tasks SET state = 'running', started_at = coalesce(started_at, ?) WHERE no = ?", (tx.now, no)
            )
            note(tx, no)

    def _ended(self, tx: Tx, it: MessageEnded) -> None:
        """The message of a task is done, or was given up."""
        no = self.no.pop(it.seq, None)
        if no is None:
            return
        reason = it.result if it.dead else "nothing to tell" if is_silence(it.result) else ""
        _end(tx, no, "failed" if it.dead else "done", reason, it.turn)
        tx.commit.add(TaskNews).ended[it.seq] = no


def _answered(tx: Tx, it: TurnAnswered) -> None:
    """The turn that ended tasks is complete: note what they have cost, and which reply carries the answer."""
    news = tx.commit.news_of(TaskNews)
    for no in () if news is None else [news.ended.pop(seq) for seq in it.seqs if seq in news.ended]:
        if it.sent:
            tx.run("UPDATE tasks SET outbox = ? WHERE no = ?", (it.sent[0], no))
        task = must_get(tx, no)
        _end(tx, no, "failed" if it.stopped else task.state, "stopped" if it.stopped else task.reason, task.turn)


def _left(tx: Tx, it: UserLeft) -> None:
    tx.run("UPDATE tasks SET settled = 1 WHERE user = ? AND settled = 0", (it.user,))  # nobody is left to be told


def note(tx: Tx, no: int) -> None:
    """Let observers know of a task: each state it comes into, and its end as it is at last."""
    it = must_get(tx, no)
    news = tx.commit.add(TaskNews)
    before = [each for each in news.tasks if each.no != no or (each.state != it.state and each.ended_at is None)]
    news.tasks = [*before, it]


def must_get(tx: Tx, no: int) -> Task:
    """Return a task that there is."""
    it = _TASKS.one(tx.db, "t.no = ?", (no,))
    assert it is not None, f"no task {no}"
    return it


def task_of(row: tuple[Any, ...]) -> Task:
    """Return the struct of a row of `COLUMNS`."""
    values = dict(zip(_NAMES, row, strict=True))
    values["origin"] = Origin(values["origin"])
    values["waits"] = bool(values["waits"])
    values["parameters"] = _decode_values(values["parameters"])
    values["progress"] = _decode_progress(values["progress"])
    return Task(**values)


_TASKS: Final = Select(COLUMNS, "tasks t", task_of)


def _end(tx: Tx, no: int, state: str, reason: str, turn: int | None) -> None:
    if state != "done" and (stop := _stopped_by(tx, no)) is not None:
        state, reason = stop
    tx.run(
        "UPDATE tasks SET state = ?, reason = ?, turn = ?, ended_at = ?, (tokens, cost_micros) ="
        " (SELECT coalesce(sum(s.input_tokens + s.output_tokens), 0), coalesce(sum(s.cost_micros), 0)"
        " FROM turns u JOIN agents a ON a.id = u.agent_id JOIN spend s ON s.turn = u.turn"
        " WHERE u.turn > tasks.after_turn AND u.trace = tasks.trace"  # its asker's have the same trace
        " AND (a.path = tasks.path OR (a.path > tasks.path || '/' AND a.path < tasks.path || '0'))) WHERE no = ?",
        (state, reason, turn, tx.now, no),
    )
    note(tx, no)


def _stopped_by(tx: Tx, no: int) -> tuple[str, str] | None:
    """Return how and why a task's agent was told to stop; its words are where they are kept once it has obeyed."""
    row = tx.one(
        "SELECT i.key, coalesce(i.text, i.result, '') FROM tasks t JOIN inbox i ON i.agent_id = t.agent_id"
        " WHERE t.no = ? AND i.kind = 'dismiss' ORDER BY i.seq LIMIT 1",
        (no,),
    )
    return None if row is None else ("expired" if row[0] == DEADLINE_KEY else "cancelled", str(row[1]))
