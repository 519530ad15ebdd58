"""Tasks as the open transaction sees them: begun with a turn, ended with the message that is their work."""

from collections.abc import Sequence
from typing import Any

import msgspec

from daycare.base.cron import is_silence
from daycare.base.messages import Origin
from daycare.store.records_tasks import Task, TaskProgress
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


def begun(tx: Tx, seqs: Sequence[int]) -> None:
    """A turn starts on these messages."""
    for seq in seqs:
        no = tx.memory.tasks.get(seq)
        if no is not None:
            tx.run(
                "UPDATE tasks SET state = 'running', started_at = coalesce(started_at, ?) WHERE no = ?", (tx.now, no)
            )
            note(tx, no)


def ended(tx: Tx, seq: int, turn: int | None, result: str, *, dead: bool) -> None:
    """The message of a task is done, or was given up."""
    no = tx.memory.tasks.pop(seq, None)
    if no is None:
        return
    reason = result if dead else "nothing to tell" if is_silence(result) else ""
    _end(tx, no, "failed" if dead else "done", reason, turn)


def open_among(tx: Tx, seqs: Sequence[int]) -> list[int]:
    """Return the tasks whose messages are among these rows and have not ended."""
    return [tx.memory.tasks[seq] for seq in seqs if seq in tx.memory.tasks] if tx.memory.tasks else []


def answered(tx: Tx, tasks: Sequence[int], sent: Sequence[int], *, stopped: bool) -> None:
    """The turn that ended tasks is complete: note what they have cost, and which reply carries the answer."""
    for no in tasks:
        if sent:
            tx.run("UPDATE tasks SET outbox = ? WHERE no = ?", (sent[0], no))
        it = must_get(tx, no)
        _end(tx, no, "failed" if stopped else it.state, "stopped" if stopped else it.reason, it.turn)


def note(tx: Tx, no: int) -> None:
    """Let observers know of a task: each state it comes into, and its end as it is at last."""
    it = must_get(tx, no)
    before = [each for each in tx.commit.tasks if each.no != no or (each.state != it.state and each.ended_at is None)]
    tx.commit.tasks = [*before, it]


def must_get(tx: Tx, no: int) -> Task:
    """Return a task that there is."""
    row = tx.one(f"SELECT {COLUMNS} FROM tasks t WHERE t.no = ?", (no,))  # noqa: S608
    assert row is not None, f"no task {no}"
    return task_of(row)


def task_of(row: tuple[Any, ...]) -> Task:
    """Return the struct of a row of `COLUMNS`."""
    values = dict(zip(_NAMES, row, strict=True))
    values["origin"] = Origin(values["origin"])
    values["waits"] = bool(values["waits"])
    values["parameters"] = _decode_values(values["parameters"])
    values["progress"] = _decode_progress(values["progress"])
    return Task(**values)


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
